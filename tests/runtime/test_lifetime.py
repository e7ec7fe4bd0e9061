"""Opening, closing, and what is kept over both."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Never

import pytest

from reenact import (
    ConfigurationError,
    Image,
    LogLockedError,
    ReadModelBehindError,
    Runtime,
    RuntimeClosedError,
)
from reenact.actors.api.operations import RuntimeOperations
from reenact.actors.journal.requests import Request, Step
from reenact.domain.session.agent import TurnCompleted
from reenact.domain.session.commands import Interrupt, Stop
from reenact.testing import MockEnvironmentFactory, MockLLMProvider
from tests.logs import copy_log, is_begun, log_of, read_log
from tests.runtime.conftest import Open, furnish
from tests.runtime.gated import GatedFactory, closed_while_starting
from tests.runtime.witness import PATIENCE, Ears, check, heard_of, journal_of


def begin(runtime: Runtime, mock: GatedFactory, scenario: str = "held") -> tuple[str, str, Ears]:
    """Run the session `s` into a turn that is held; return agent, turn and who heard it."""
    mock.set_scenario(scenario)
    ears = Ears(runtime)
    agent_id = runtime.sessions.run("s")
    turn_id = runtime.agents.receive(agent_id, "Hello")
    ears.wait("text_delta", turn_id=turn_id)
    return agent_id, turn_id, ears


class Disposing(MockEnvironmentFactory):
    """Closes the runtime when it is disposed of, as the handler of a signal may while the runtime is closed."""

    runtime: Runtime
    closed = False

    def dispose(self) -> None:
        self.runtime.close()
        self.closed = True


def test_a_runtime_can_be_closed_by_what_runs_while_it_is_closed() -> None:
    factory = Disposing(delays=False)
    factory.runtime = runtime = Runtime.in_memory(environment=factory)
    closing = threading.Thread(target=runtime.close, daemon=True)

    closing.start()
    closing.join(PATIENCE)

    assert factory.closed
    assert not closing.is_alive()


class Ids(str, Enum):  # noqa: UP042 - a StrEnum is formatted as its value, this is not
    CONTAINER = "c"
    IMAGE = "i"
    SESSION = "s"
    OTHER = "t"


class Marked(str):
    """Text that is shown as something else, as Markup is."""

    __slots__ = ()

    def __str__(self) -> str:
        return "marked"

    def __format__(self, spec: str) -> str:
        return "marked"

    def __radd__(self, before: str) -> Marked:
        return Marked(before + "marked")


@pytest.mark.parametrize("kind", [Ids, Marked])
def test_ids_may_be_texts_of_subclasses_such_as_members_of_an_enum(kind: Callable[[str], str]) -> None:
    with Runtime.in_memory(environment=MockEnvironmentFactory(delays=False)) as runtime:
        runtime.containers.create(container_id=kind("c"))
        runtime.images.register(Image(id=kind("i")))
        runtime.sessions.create(kind("c"), kind("i"), session_id=kind("s"))
        agent_id = runtime.sessions.run("s")
        data = {"agent_id": agent_id, "content": "Hello"}
        sent = [runtime.request("message_send_request", {**data, "request_id": id_}) for id_ in (kind("t"), "t")]
        answers = [runtime.ask("Hello", session=session, timeout=PATIENCE) for session in (kind("s"), "s", "s")]

        assert [answer.session_id for answer in answers] == ["s"] * len(answers)
        assert sent[0].data == sent[1].data
        assert runtime.events.subscribe(kind("s"), kind("c")).take(1)[0].context.session_id == "s"
        family = runtime.events.stream(kind("s"), {kind("s"): 0}, children=True)
        assert family.take(1)[0].context.session_id == "s"
        assert runtime.events.stream(kind("s")).take(1)[0].context.session_id == "s"
        assert [recorded.stream for recorded in journal_of(runtime).read_all(limit=3)] == [
            "container/c",
            "image/i",
            "session/s",
        ]
        check(runtime)


class Field(str, Enum):  # noqa: UP042 - likewise
    IMAGE = "image_id"
    CONTENT = "content"
    ID = "request_id"


@pytest.mark.parametrize("kind", [Field, Marked])
def test_the_fields_of_a_request_may_be_texts_of_subclasses(runtime: Runtime, kind: Callable[[str], str]) -> None:
    runtime.images.register(Image(id="i"))
    plain = {"image_id": "i", "content": "Hello", "request_id": "r"}

    sent = runtime.request("message_send_request", {kind(name): value for name, value in plain.items()})

    assert sent.data == runtime.request("message_send_request", plain).data


def test_the_texts_of_an_image_may_be_what_a_template_engine_returns() -> None:
    with Runtime.in_memory(environment=MockEnvironmentFactory(delays=False)) as runtime:
        image = Image(id="i", name=Marked("n"), model=Marked("m"), system_prompt=Marked("Be <brief>."))
        info = runtime.images.register(image)

    assert (info.name, info.model, info.system_prompt) == ("n", "m", "Be <brief>.")


def test_closing_ends_the_turn_that_streams_and_everybody_hears_it_first(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open
) -> None:
    _, turn_id, ears = begin(runtime, mock)

    runtime.close()

    assert ears.types[-7:] == [
        "text_delta",
        "interrupted",
        "assistant_message",
        "agent_state_changed",
        "turn_completed",
        "agent_state_changed",
        "agent_stopped",
    ]
    assert [ears.of(type_)[0].data["reason"] for type_ in ("interrupted", "agent_stopped")] == ["shutdown", "shutdown"]
    again = opened()
    assert again.agents.list() == []
    question, answer = again.sessions.messages("s")
    assert (question.turn_id, answer.turn_id) == (turn_id, turn_id)
    assert (answer.text, answer.partial, answer.stop_reason) == ("Once", True, "interrupted")


def test_closing_twice_is_closing_once(runtime: Runtime, agent: str) -> None:
    runtime.close()
    runtime.close()


USES: list[Callable[[Runtime], object]] = [
    lambda runtime: runtime.containers.create(),
    lambda runtime: runtime.containers.get("c"),
    lambda runtime: runtime.containers.list(),
    lambda runtime: runtime.images.register(Image(id="i")),
    lambda runtime: runtime.images.get("i"),
    lambda runtime: runtime.images.list(),
    lambda runtime: runtime.sessions.create("c", "i"),
    lambda runtime: runtime.sessions.get("s"),
    lambda runtime: runtime.sessions.list_by_container("c"),
    lambda runtime: runtime.sessions.delete("s"),
    lambda runtime: runtime.sessions.run("s"),
    lambda runtime: runtime.sessions.messages("s"),
    lambda runtime: runtime.agents.get("a"),
    lambda runtime: runtime.agents.list(),
    lambda runtime: runtime.agents.receive("a", "Hello"),
    lambda runtime: runtime.agents.interrupt("a"),
    lambda runtime: runtime.agents.destroy("a"),
    lambda runtime: runtime.events.on_all(print),
    lambda runtime: runtime.request("container_list_request", {}),
]


def test_a_closed_runtime_says_so_whatever_it_is_asked(runtime: Runtime, agent: str) -> None:
    runtime.close()

    for use in USES:
        with pytest.raises(RuntimeClosedError):
            use(runtime)


def test_what_waits_outlives_destruction_and_restart(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open
) -> None:
    _, first, _ = begin(runtime, mock)
    second, third = runtime.agents.receive(agent, "two"), runtime.agents.receive(agent, "three")
    runtime.agents.destroy(agent)
    runtime.close()
    mock.set_scenario("default")

    again = opened()
    assert [message.turn_id for message in again.sessions.messages("s")] == [first, first, second, third]
    ears = Ears(again)
    again.sessions.run("s")

    assert [event.data["turn_id"] for event in ears.wait("turn_completed", count=2)] == [second, third]
    assert check(again)["s"].completed == [first, second, third]


def test_a_turn_that_begins_while_the_runtime_is_closed_is_interrupted(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first, _ = begin(runtime, mock)
    second = runtime.agents.receive(agent, "two")
    runtime.agents.destroy(agent)

    with closed_while_starting(runtime, monkeypatch, "s"):
        runtime.sessions.run("s")

    again = opened()
    answer = again.turns.wait(second, PATIENCE)
    assert (answer.outcome, answer.failure) == ("interrupted", None)
    assert check(again)["s"].completed == [first, second]


def test_a_session_goes_on_where_it_stopped(runtime: Runtime, agent: str, opened: Open) -> None:
    before = (runtime.containers.list(), runtime.images.list(), runtime.sessions.list_by_container("c"))
    runtime.close()

    again = opened()

    assert (again.containers.list(), again.images.list(), again.sessions.list_by_container("c")) == before
    assert again.sessions.run("s") != agent


def test_after_a_crash_the_turn_is_closed_before_open_returns(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open, log: str
) -> None:
    _, turn_id, _ = begin(runtime, mock)

    again = opened(copy_log(log, "crashed"))

    assert again.agents.list() == []
    _, answer = again.sessions.messages("s")
    assert (answer.turn_id, answer.text, answer.partial) == (turn_id, "Once", True)
    assert check(again)["s"].completed == [turn_id]


def test_after_a_crash_the_same_turn_can_be_resumed(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open, log: str
) -> None:
    _, turn_id, _ = begin(runtime, mock)
    mock.set_scenario("default")
    crashed = copy_log(log, "crashed")

    again = opened(crashed, recovery="resume")
    ears = Ears(again)
    while len(again.sessions.messages("s")) < 2:
        ears.next(timeout=0.02)

    assert [info.id for info in again.agents.list()] == [agent]
    _, answer = again.sessions.messages("s")
    assert (answer.turn_id, answer.text, answer.partial) == (turn_id, "Hello from mock!", False)
    assert check(again, resumed=[turn_id])["s"].completed == [turn_id]


def test_a_turn_that_crashes_twice_keeps_the_last_part_of_its_answer(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open, log: str
) -> None:
    _, turn_id, _ = begin(runtime, mock)
    once = copy_log(log, "once")
    resumed = opened(once, recovery="resume")
    ears = Ears(resumed)
    while len([heard for heard in _feed(once) if heard == "text_delta"]) < 2:
        ears.next(timeout=0.02)

    again = opened(copy_log(once, "twice"))

    _, answer = again.sessions.messages("s")
    assert (answer.turn_id, answer.text, answer.partial) == (turn_id, "Once", True)


@pytest.mark.parametrize("recovery", ["close", "resume"])
def test_an_answer_that_was_complete_when_the_process_crashed_is_not_asked_for_again(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open, recovery: str
) -> None:
    ears = Ears(runtime)
    with turns_stay_open(runtime):
        turn_id = runtime.agents.receive(agent, "Hello")
        ears.wait("message_stop")
        crashed = copy_log(log_of(journal_of(runtime)), "crashed")
    mock.set_scenario("breaking-off")

    again = opened(crashed, recovery=recovery)

    _, answer = again.sessions.messages("s")
    assert (answer.turn_id, answer.text, answer.partial) == (turn_id, "Hello from mock!", False)
    again.close()
    assert _feed(crashed).count("message_start") == 1


@contextmanager
def turns_stay_open(runtime: Runtime) -> Generator[None]:
    """Keep back from the log that turns have ended, until the block has."""
    kept_back: list[Request] = []
    writer = journal_of(runtime).writer
    submit = writer.submit

    def submit_later(request: Request) -> None:
        ends = isinstance(request, Step) and any(isinstance(event, TurnCompleted) for event in request.append.events)
        (kept_back.append if ends else submit)(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "submit", submit_later)
        yield
    for request in kept_back:
        submit(request)


def test_whoever_means_an_agent_that_is_gone_leaves_the_next_one_alone(
    runtime: Runtime, agent: str, mock: GatedFactory
) -> None:
    runtime.agents.destroy(agent)
    _, turn_id, ears = begin(runtime, mock)

    session = runtime._do.actor_of("s")
    session.ask(Interrupt(agent_id=agent, reason="user", at=0))  # as when it was sent just before the agent ended
    session.ask(Stop(agent_id=agent, reason="destroyed", at=0))
    mock.gate.open()

    (completed,) = ears.wait("turn_completed")
    assert (completed.data["turn_id"], completed.data["outcome"]) == (turn_id, "completed")
    assert runtime.sessions.messages("s")[-1].text == "Once upon"


def _feed(log: str) -> list[str]:
    with read_log(log) as journal:
        return [heard.type for heard in heard_of(journal, "s")]


@pytest.mark.sqlite_only("in PostgreSQL a log has as many nodes as one likes")
def test_a_log_has_one_writer_in_a_process(runtime: Runtime, log: str) -> None:
    with pytest.raises(LogLockedError) as refusal:
        Runtime.open(log, environment=MockEnvironmentFactory())

    assert refusal.value.pid == os.getpid()
    assert runtime.containers.get("c") is not None


@pytest.mark.sqlite_only("in PostgreSQL a log has as many nodes as one likes")
def test_a_log_has_one_writer_among_processes(runtime: Runtime, log: str) -> None:
    program = (
        "import sys, reenact\ntry: reenact.Runtime.open(sys.argv[1])\nexcept reenact.LogLockedError as e: print(e.pid)"
    )

    said = subprocess.run([sys.executable, "-c", program, log], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == str(os.getpid())


def test_a_log_can_be_written_again_once_it_is_closed(opened: Open) -> None:
    opened().close()
    opened().containers.create()


def test_readers_are_welcome_beside_the_writer(runtime: Runtime, agent: str, mock: GatedFactory, log: str) -> None:
    with read_log(log) as reader:
        begin(runtime, mock)
        seen = [heard.type for heard in heard_of(reader, "s")]

    assert seen[-1] == "text_delta"


def test_a_runtime_in_memory_forgets() -> None:
    with Runtime.in_memory(environment=MockEnvironmentFactory(delays=False)) as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "i", session_id="s")
        ears = Ears(runtime)
        runtime.agents.receive(runtime.sessions.run("s"), "Hello")
        ears.wait("turn_completed")
        assert [message.text for message in runtime.sessions.messages("s")] == ["Hello", "Hello from mock!"]
        check(runtime)
    with Runtime.in_memory() as runtime:
        assert runtime.containers.list() == []


def test_two_runtimes_in_memory_know_nothing_of_each_other() -> None:
    with Runtime.in_memory() as first, Runtime.in_memory() as second:
        first.containers.create(container_id="c")
        assert second.containers.list() == []


def test_a_url_names_the_file(tmp_path: Path) -> None:
    with Runtime.open(f"sqlite:///{tmp_path}/url.db", synchronous="OFF") as runtime:
        runtime.containers.create()
    assert (tmp_path / "url.db").exists()


@pytest.mark.parametrize("path", ["", "sqlite://", "sqlite:///", ":memory:", "mysql://x"])
def test_a_path_that_names_no_file_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError):
        Runtime.open(path)


def test_settings_that_cannot_work_are_refused(log: str) -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        Runtime.open(log, environment=MockEnvironmentFactory(), llm_provider=MockLLMProvider())
    with pytest.raises(ConfigurationError, match="recovery"):
        Runtime.open(log, recovery="maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what is refused
    with pytest.raises(ConfigurationError, match="synchronous"):
        Runtime.open(log, synchronous="EXTRA")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what is refused
    assert not is_begun(log)


def test_without_a_model_everything_works_but_running(log: str) -> None:
    with Runtime.open(log, synchronous="OFF") as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "i", session_id="s")
        with pytest.raises(ConfigurationError):
            runtime.sessions.run("s")
        assert runtime.agents.list() == []
        assert runtime.sessions.messages("s") == []


def test_an_agent_starts_in_a_session_that_is_in_memory_without_a_look_at_the_tables(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = opened()
    furnish(runtime)
    runtime.sessions.run(runtime.sessions.create("c", "i").id)  # from now on, the image is known
    session = runtime.sessions.create("c", "i").id

    def behind(self: RuntimeOperations) -> Never:
        raise ReadModelBehindError(1, 0)

    with monkeypatch.context() as patch:
        patch.setattr(RuntimeOperations, "read", behind)
        agent = runtime.sessions.run(session)

        with pytest.raises(ReadModelBehindError):
            runtime.sessions.run("nobody's")

    assert runtime.agents.get(agent) is not None
