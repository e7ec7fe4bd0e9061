"""Several processes with one log: who has which session, who is kept out, and what each sees of the others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from reenact import Audit, Image, LogLockedError, Runtime
from reenact._runtime import SharedRuntime
from reenact.domain.errors import SessionLockedError
from reenact.testing import CrashTest, MockEnvironmentFactory, Reporter, wait_until
from tests.logs import copy_log, read_log
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import PATIENCE, Ears, check, heard_of, journal_of


def hold(reporter: Reporter, log: str) -> None:
    """Begin an answer in the session `theirs` that goes no further."""
    with SharedRuntime.open(log, environment=GatedFactory("held")) as runtime:
        ears = Ears(runtime)
        agents: list[str] = []

        def is_run() -> bool:
            with suppress(SessionLockedError):  # whoever had it a moment ago is still leaving
                agents.append(runtime.sessions.run("theirs"))
            return bool(agents)

        wait_until(is_run)
        turn_id = runtime.agents.receive(agents[0], "Hello")
        ears.wait("text_delta", turn_id=turn_id)
        reporter.say("holds", os.getpid())
        ears.wait("turn_completed", turn_id=turn_id)


def look(reporter: Reporter, log: str) -> None:
    """Open the log, and say who is live in it."""
    with SharedRuntime.open(log, environment=MockEnvironmentFactory()) as runtime:
        reporter.say("live", [agent.session_id for agent in runtime.agents.list()])


def see_all_ended(reporter: Reporter, log: str) -> None:
    """Open the log, and see that nobody is live in it once whoever came first has ended what was left."""
    with SharedRuntime.open(log, environment=MockEnvironmentFactory()) as runtime:
        wait_until(lambda: not runtime.agents.list(), PATIENCE)
        reporter.say("nobody is live")


def try_to_open(reporter: Reporter, log: str, kind: type[Runtime]) -> None:
    """Open the log, or say who has it."""
    try:
        kind.open(log).close()
    except LogLockedError as locked:
        reporter.say("locked", locked.pid)
    else:
        reporter.say("open")


@pytest.fixture(scope="module")
def others() -> Iterator[list[CrashTest]]:
    """What runs two other processes at once."""
    with CrashTest() as first, CrashTest() as second:
        yield [first, second]


@pytest.fixture
def shared(log: str) -> Iterator[SharedRuntime]:
    """A runtime with the sessions `mine` and `theirs`, of which it has neither."""
    with SharedRuntime.open(log, environment=MockEnvironmentFactory(delays=False)) as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        for session_id in ("mine", "theirs"):
            runtime.sessions.create("c", "i", session_id=session_id)
    with SharedRuntime.open(log, environment=MockEnvironmentFactory(delays=False)) as runtime:
        yield runtime


def ask(runtime: Runtime, session_id: str) -> None:
    """Ask in the session, and wait for the answer."""
    ears = Ears()
    with runtime.events.on_all(ears):
        agent = runtime.sessions.run(session_id)
        ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, "Hello"))


def test_a_session_belongs_to_one_process_until_that_has_ended(
    shared: SharedRuntime, log: str, others: list[CrashTest]
) -> None:
    ask(shared, "mine")

    def meanwhile(said: Sequence[list[Any]]) -> bool:
        """While the other process answers in its session: it is refused to this one, and nothing else is."""
        ((_, pid),) = said
        with pytest.raises(SessionLockedError) as refused:
            shared.sessions.run("theirs")
        assert (refused.value.session_id, refused.value.pid) == ("theirs", pid)
        with pytest.raises(SessionLockedError):
            shared.sessions.delete("theirs")
        assert shared.is_open_elsewhere("theirs")
        assert not shared.is_open_elsewhere("mine")
        assert {agent.session_id for agent in shared.agents.list()} == {"mine", "theirs"}
        (turn,) = shared.sessions.turns("theirs")
        assert turn.outcome is None
        ask(shared, "mine")
        ((live,),) = others[1].run(look, log).told("live")
        assert sorted(live) == ["mine", "theirs"], "what others have is not ended"
        shared.sessions.branch("theirs", new_session_id="branch")
        ask(shared, "branch")
        return True

    others[0].run_until_killed(hold, log, until=meanwhile)

    wait_until(lambda: not shared.is_open_elsewhere("theirs"), PATIENCE)  # a server hears of the end a moment later
    ask(shared, "theirs")
    ask(shared, "mine")
    outcomes = [turn.outcome for turn in shared.sessions.turns("theirs")]
    assert outcomes == ["interrupted", "completed"]
    check(shared)


@pytest.mark.parametrize("reads_besides", [False, True])
def test_what_is_written_after_another_process_has_closed_the_log_outlives_a_kill(
    shared: SharedRuntime,
    log: str,
    others: list[CrashTest],
    reads_besides: bool,  # noqa: FBT001 - a parameter
) -> None:
    if reads_besides:
        Audit.open(log).close()
    others[0].run(look, log)

    ask(shared, "mine")

    with read_log(copy_log(log, "killed")) as left:
        assert left.head() == shared.position


def test_what_a_killed_process_has_left_is_ended_once_whoever_comes_first(
    shared: SharedRuntime, log: str, others: list[CrashTest]
) -> None:
    others[0].run_until_killed(hold, log, until=bool)

    with ThreadPoolExecutor(2) as pool:
        opened = [pool.submit(each.run, see_all_ended, log) for each in others]
        reports = [each.result() for each in opened]

    assert [report.told("nobody is live") for report in reports] == [[[]], [[]]]
    heard = heard_of(journal_of(shared), "theirs")
    assert [event.cursor for event in heard] == list(range(1, len(heard) + 1))
    assert [event.data["outcome"] for event in heard if event.type == "turn_completed"] == ["interrupted"]
    assert [event.data["reason"] for event in heard if event.type == "agent_stopped"] == ["crash"]
    check(shared)


def test_a_session_is_free_once_its_agent_has_stopped(shared: SharedRuntime, log: str, others: list[CrashTest]) -> None:
    for _ in range(2):
        ask(shared, "theirs")
        (agent,) = shared.agents.list()
        shared.agents.destroy(agent.id)
        others[0].run_until_killed(hold, log, until=bool)


@pytest.mark.sqlite_only("on a server, a process may share a log with itself")
def test_whoever_wants_a_log_for_itself_is_kept_out_by_those_who_share_it_and_keeps_them_out(
    log: str, others: list[CrashTest]
) -> None:
    kinds = (Runtime, SharedRuntime)
    found: dict[tuple[str, str], object] = {}
    for kind in kinds:
        with kind.open(log):
            for other in kinds:
                with pytest.raises(LogLockedError) as refused:  # a process has one runtime on it
                    other.open(log)
                assert refused.value.pid == os.getpid()
                report = others[0].run(try_to_open, log, other)
                found[kind.__name__, other.__name__] = [*report.told("locked"), *report.told("open")]

    us = [[os.getpid()]]
    assert found == {
        ("Runtime", "Runtime"): us,
        ("Runtime", "SharedRuntime"): us,
        ("SharedRuntime", "Runtime"): us,
        ("SharedRuntime", "SharedRuntime"): [[]],
    }
