"""A session goes on from a snapshot and its newest events; what was said before is read when the model asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from reenact import Audit, Runtime
from reenact.actors.environment.api import OnEvent
from reenact.actors.session.actor import SessionActor
from reenact.domain.conversation import Conversation
from reenact.domain.messages import Said
from reenact.domain.session.state import SNAPSHOT_VERSION
from reenact.events import MessageStop, TextDelta
from reenact.testing import wait_until
from tests.logs import execute
from tests.runtime.conftest import furnish


class Model:
    """Says how many messages it was given, and looks at nothing else."""

    name = "counting"

    def __init__(self) -> None:
        self.given: Sequence[Said] = ()

    def provide(self) -> Model:
        return self

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> None:
        self.given = messages
        on_event(TextDelta(text=str(len(messages))))
        on_event(MessageStop())

    def interrupt(self) -> None: ...


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are taken after so many events that the newest one lies behind the end."""
    monkeypatch.setattr(SessionActor, "snapshot_every", 7)


def talk(runtime: Runtime, session: str, times: int) -> None:
    agent = runtime.sessions.run(session)
    ended: list[object] = []
    with runtime.events.on("turn_completed", ended.append):
        for number in range(times):
            ended.clear()
            runtime.agents.receive(agent, f"Hello {number}")
            wait_until(lambda: ended, what="the answer")


def texts(said: Sequence[Said]) -> list[str]:
    return [one.text for one in said]


def test_what_was_said_before_is_read_when_the_model_looks_at_it(log: str, model: Model) -> None:
    with Runtime.open(log, llm_provider=model) as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "i", session_id="s")
        talk(runtime, "s", 5)
        before = texts(model.given)

    with Runtime.open(log, llm_provider=model) as runtime:
        talk(runtime, "s", 2)
        given = model.given
        assert isinstance(given, Conversation)
        assert (len(given), given.is_read) == (13, False)
        assert texts(given) == [*before, "9", "Hello 0", "11", "Hello 1"]
        assert given.is_read
        branch = runtime.sessions.branch("s").id
        talk(runtime, branch, 3)

    with Runtime.open(log, llm_provider=model) as runtime:
        talk(runtime, branch, 1)
        assert len(model.given) == 21
        assert texts(model.given) == [message.text for message in runtime.sessions.messages(branch)][:-1]

    with Audit.open(log) as audit:
        assert not audit.verify().findings


def nothing_of(_state: bytes) -> bytes:
    return b"\0"


def with_other_ids(state: bytes) -> bytes:
    return state.replace(b"msg_", b"xyz_")


@pytest.mark.parametrize(
    ("topic", "made_of", "problem"),
    [
        (f"session:{SNAPSHOT_VERSION}", nothing_of, "it cannot be decoded"),
        (f"session:{SNAPSHOT_VERSION}", with_other_ids, "it says Session("),
        ("session:99", bytes, "it is of the unknown form 'session:99'"),
    ],
)
def test_a_snapshot_that_says_something_else_is_found(
    log: str, model: Model, topic: str, made_of: Callable[[bytes], bytes], problem: str
) -> None:
    with Runtime.open(log, llm_provider=model) as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "i", session_id="s")
        talk(runtime, "s", 5)
    ((state,),) = execute(log, "SELECT state FROM stored_snapshots")
    execute(log, "UPDATE stored_snapshots SET topic = ?, state = ?", topic, made_of(state))

    with Audit.open(log) as audit:
        (finding,) = audit.verify().findings

    assert (finding.kind, finding.name) == ("snapshot", "session/s")
    assert finding.problem.startswith(problem)
