"""Messages that are due where nobody can answer, and in a chat beside others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reenact import Audit, Runtime
from reenact._runtime import SharedRuntime
from reenact.domain.messages import instant, text_of
from reenact.domain.session.agent import MessageAccepted, ScheduleFired
from reenact.testing import ManualClock, MockEnvironmentFactory, wait_until
from tests.logs import execute, read_log
from tests.runtime.conftest import furnish
from tests.runtime.witness import journal_of


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def planned(log: str, clock: ManualClock) -> str:
    """A log in which a message comes to the session `s` in a minute."""
    with Runtime.open(log, environment=MockEnvironmentFactory(delays=False), clock=clock) as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "i", session_id="s")
        runtime.agents.schedule("s", "Hello", at=instant(clock()) + timedelta(minutes=1))
    return log


def kinds(runtime: Runtime) -> list[str]:
    return [type(row.event).__name__ for row in journal_of(runtime).read("session/s")]


def test_where_no_agent_can_be_started_the_message_waits_for_one(planned: str, clock: ManualClock) -> None:
    with Runtime.open(planned, clock=clock) as runtime:
        runtime.agents.schedule("s", "At once", at=instant(clock()))
        wait_until(lambda: "MessageAccepted" in kinds(runtime), what="it has come")
        assert "AgentStarted" not in kinds(runtime)

    with Runtime.open(planned, environment=MockEnvironmentFactory(delays=False), clock=clock) as runtime:
        runtime.sessions.run("s")
        wait_until(lambda: "TurnCompleted" in kinds(runtime), what="it is answered")


def test_a_runtime_without_a_model_lets_schedules_be(planned: str, clock: ManualClock) -> None:
    with Runtime.open(planned, clock=clock) as runtime:
        clock.advance(3600)

        assert runtime.agents.schedules("s")
        assert "ScheduleFired" not in kinds(runtime)


def test_a_chat_beside_others_wakes_no_session_but_hears_what_its_own_has_missed(
    planned: str, clock: ManualClock
) -> None:
    clock.advance(3600)
    with SharedRuntime.open(planned, environment=MockEnvironmentFactory(delays=False), clock=clock) as runtime:
        assert runtime.agents.schedules("s")
        assert "ScheduleFired" not in kinds(runtime)

        runtime.sessions.run("s")

        wait_until(lambda: "TurnCompleted" in kinds(runtime), what="it is answered")
        events = [row.event for row in journal_of(runtime).read("session/s")]
        assert [event.late for event in events if isinstance(event, ScheduleFired)] == [True]
        assert sum(isinstance(event, MessageAccepted) for event in events) == 1


def test_a_message_that_is_due_while_the_runtime_closes_comes_when_it_is_open_again(
    planned: str, clock: ManualClock
) -> None:
    with Runtime.open(planned, environment=MockEnvironmentFactory(delays=False), clock=clock) as runtime:
        runtime.events.on("agent_stopped", lambda event: clock.advance(3600))
        runtime.sessions.run("s")
    with read_log(planned) as journal:
        assert not any(isinstance(row.event, ScheduleFired) for row in journal.read("session/s"))

    with Runtime.open(planned, environment=MockEnvironmentFactory(delays=False), clock=clock) as runtime:
        wait_until(lambda: "TurnCompleted" in kinds(runtime), what="it is answered")
        assert [message.text for message in runtime.sessions.messages("s")] == ["Hello", "Hello from mock!"]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE timers SET due = due + 1", "a message is to come at"),
        ("DELETE FROM timers", "a message is to come at"),
    ],
)
def test_a_log_that_would_wake_a_session_at_another_time_is_found_out(
    planned: str, statement: str, problem: str
) -> None:
    with Audit.open(planned) as audit:
        assert audit.verify().findings == ()
    execute(planned, statement)

    with Audit.open(planned) as audit:
        (finding,) = audit.verify().findings

    assert finding.kind == "timer"
    assert problem in finding.problem


@pytest.mark.parametrize("is_missed", [False, True])
def test_many_messages_that_are_due_at_once_all_come_in_order_of_their_times(
    log: str, clock: ManualClock, *, is_missed: bool
) -> None:
    seconds = [one % 50 for one in range(7, 7 * 51, 7)]
    with Runtime.open(log, environment=MockEnvironmentFactory(delays=False), clock=clock) as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "i", session_id="s")
        for second in seconds:
            runtime.agents.schedule("s", f"After {second} s", at=instant(clock()) + timedelta(seconds=60 + second))
        if not is_missed:
            clock.advance(3600)
            wait_until(lambda: not runtime.agents.schedules("s"), what="all have come")
    if is_missed:
        clock.advance(3600)

    with Runtime.open(log, environment=MockEnvironmentFactory(delays=False), clock=clock) as runtime:
        wait_until(lambda: not runtime.agents.schedules("s"), what="all have come")
        accepted = [
            row.event for row in journal_of(runtime).read("session/s") if isinstance(row.event, MessageAccepted)
        ]

    assert [text_of(event.content) for event in accepted] == [f"After {second} s" for second in sorted(seconds)]
