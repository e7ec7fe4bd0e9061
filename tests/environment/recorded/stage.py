"""Conversations that a test makes up, played on any environment, and told so that runs can be compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reenact import EnvironmentFactory, Image, Runtime, Said
from reenact.actors.environment.recorded.file import read
from reenact.actors.environment.recorded.format import Cut, Entry
from reenact.domain.plain import is_mapping, is_sequence
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until
from tests.runtime.witness import PATIENCE, Ears

HOUR = 3_600_000
"""The delay of an event that no test lives to see, in milliseconds."""
HOLD = "and then"
"""The last words of an answer before it waits for its interrupt."""
OF_ONE_RUN = {
    "id", "ids", "tool_use_id", "message_id", "turn_id", "session_id", "agent_id", "created_at", "duration", "digest",
    "session", "turn", "at", "seconds",
}  # fmt: skip


class Step(msgspec.Struct, frozen=True):
    """What the model says to one request: pieces, and how it ends."""

    pieces: tuple[MockEvent, ...] = ()
    ending: str = "end_turn"

    @property
    def script(self) -> tuple[MockEvent, ...]:
        match self.ending:
            case "error":
                last = [MockEvent("error", data={"type": "overloaded_error", "message": "The line broke"})]
            case "hold":
                last = [MockEvent("text_delta", data={"text": HOLD}), MockEvent("message_stop", HOUR)]
            case "hang":
                call: dict[str, object] = {"id": None, "name": "hang", "input": {}}
                last = [MockEvent("tool_call", data=call), MockEvent("message_stop", data={"stop_reason": "tool_use"})]
            case reason:
                last = [MockEvent("message_stop", data={"stop_reason": reason})]
        return (*self.pieces, *last)


class Turn(msgspec.Struct, frozen=True):
    """A question in one of the sessions, and what the model says to it, step by step."""

    session: int
    question: str
    steps: tuple[Step, ...]

    @property
    def ending(self) -> str:
        return self.steps[-1].ending


def text(words: str) -> MockEvent:
    return MockEvent("text_delta", data={"text": words})


def call(name: str, **arguments: object) -> MockEvent:
    return MockEvent("tool_call", data={"name": name, "input": arguments})


def echo(text: str) -> dict[str, object]:
    """Say it again."""
    return {"said": text}


async def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


async def hang() -> None:
    """Never end."""
    await asyncio.get_running_loop().create_future()


IMAGE = Image(id="i", system_prompt="Be brief.", model="mock-1", tools=(echo, fail, hang))


def mock_of(turns: Sequence[Turn]) -> MockEnvironmentFactory:
    """Return a mock that says what the turns say, one request after the other."""
    steps = iter([step for turn in turns for step in turn.steps])

    def script(_: Sequence[Said]) -> Iterator[MockEvent]:
        yield from next(steps).script

    return MockEnvironmentFactory("planned", {"planned": script})


def play(environment: EnvironmentFactory, turns: Sequence[Turn], image: Image = IMAGE) -> list[list[tuple[str, Any]]]:
    """Have the conversations; return what was heard of each session, without what differs from run to run."""
    with Runtime.in_memory(environment=environment) as runtime:
        ears = Ears(runtime)
        runtime.containers.create(container_id="c")
        runtime.images.register(image)
        agents: dict[int, str] = {}
        for turn in turns:
            if turn.session not in agents:
                session = runtime.sessions.create("c", "i", session_id=f"s{turn.session}")
                agents[turn.session] = runtime.sessions.run(session.id)
            have(runtime, ears, agents[turn.session], turn)
    return [heard_of(ears, f"s{session}") for session in sorted(agents)]


def have(runtime: Runtime, ears: Ears, agent: str, turn: Turn) -> None:
    """Ask the question, interrupt the answer where it is to be interrupted, and wait for its end."""
    turn_id = runtime.agents.receive(agent, turn.question)
    if turn.ending == "hold":
        wait_for(ears, turn_id, lambda event: event.type == "text_delta" and event.data["text"] == HOLD)
    elif turn.ending == "hang":
        wait_for(ears, turn_id, lambda event: event.type == "tool_started" and event.data["name"] == "hang")
    if turn.ending in {"hold", "hang"}:
        runtime.agents.interrupt(agent)
    ears.wait("turn_completed", turn_id=turn_id)


def wait_for(ears: Ears, turn_id: str, fits: Callable[[Envelope], bool]) -> None:
    """Return when such an event of the turn has been heard."""
    wait_until(lambda: any(fits(event) for event in ears.heard if event.context.turn_id == turn_id), PATIENCE)


def heard_of(ears: Ears, session_id: str) -> list[tuple[str, Any]]:
    """Return what was heard of the session, but for ids and times."""
    heard = (event for event in ears.heard if event.context.session_id == session_id and event.category != "command")
    return [(event.type, anonymous(msgspec.to_builtins(event.data))) for event in heard]


def entries_of(path: Path) -> list[Any]:
    """Return what the recording holds, but for ids and times."""
    return [anonymous(msgspec.to_builtins(entry)) for entry in read(str(path))]


def cuts(entries: Sequence[Entry]) -> list[Cut]:
    return [entry for entry in entries if isinstance(entry, Cut)]


def anonymous(value: Any) -> Any:  # noqa: ANN401 - plain values
    """Return the plain value without ids and times."""
    if is_mapping(value):
        return {name: "*" if name in OF_ONE_RUN else anonymous(one) for name, one in value.items()}
    if is_sequence(value):
        return [anonymous(one) for one in value]
    return value
