"""Real histories: what `decide` makes of any sequence of commands, in a log that is a list."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from hypothesis import strategies as st

from reenact.domain import container, image
from reenact.domain.agent import Failure, SoFar
from reenact.domain.errors import ReenactError
from reenact.domain.messages import TextBlock, ThinkingBlock, ToolUseBlock, Usage
from reenact.domain.session import (
    CreateSession,
    Delete,
    Finish,
    Interrupt,
    Receive,
    Run,
    Session,
    SessionCommand,
    Stop,
    decide,
    evolve,
)

START = 1_700_000_000_000_000


class Recorded(msgspec.Struct, frozen=True):
    """A row of the log."""

    stream: str
    version: int
    position: int
    recorded_at: int
    event: object


class ListLog:
    """A log in memory; `first` is when its first event was recorded."""

    def __init__(self, first: int = START) -> None:
        self.rows: list[Recorded] = []
        self.first = first
        self._versions: dict[str, int] = {}

    def append(self, stream: str, *events: object) -> int:
        """Add the events to the stream, and return the position of the last of them."""
        for event in events:
            version = self._versions[stream] = self._versions.get(stream, 0) + 1
            position = len(self.rows) + 1
            self.rows.append(Recorded(stream, version, position, self.first + 1000 * position, event))
        return len(self.rows)

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        """Return up to `limit` events behind the position."""
        return self.rows[after : after + limit]

    def head(self) -> int:
        """Return the position of the last event."""
        return len(self.rows)

    def until(self, position: int) -> ListLog:
        """Return the log as it was at the position."""
        earlier = ListLog(self.first)
        for row in self.rows[:position]:
            earlier.append(row.stream, row.event)
        return earlier


class World:
    """Sessions that take commands, and the log that their events go to."""

    def __init__(self, log: ListLog | None = None) -> None:
        self.log = log if log is not None else ListLog()
        self.sessions: dict[str, Session] = {}
        self._containers: dict[str, container.Container] = {}
        self._images: dict[str, image.Images] = {}
        self._ids = itertools.count(1)

    def create_container(self, container_id: str, name: str | None = None) -> None:
        """Create the container, unless it exists."""
        known = self._containers.get(container_id, container.Container())
        try:
            events = container.decide(known, container.CreateContainer(container_id, name))
        except ReenactError:
            return
        self._containers[container_id] = container.evolve(known, events[0])
        self.log.append(f"container-{container_id}", *events)

    def register_image(self, image_id: str, definition: image.Definition) -> None:
        """Register the image, which may come to nothing."""
        known = self._images.get(image_id, image.Images())
        events = image.decide(known, image.RegisterImage(image_id, definition))
        for event in events:
            known = image.evolve(known, event)
        self._images[image_id] = known
        self.log.append(f"image-{image_id}", *events)

    def tell(self, session_id: str, command: SessionCommand) -> int:
        """Give the session a command, and return the log's head; what is refused changes nothing."""
        session = self.sessions.get(session_id, Session())
        try:
            events = decide(session, command)
        except ReenactError:
            return self.log.head()
        for event in events:
            session = evolve(session, event)
        self.sessions[session_id] = session
        return self.log.append(f"session-{session_id}", *events)

    def create(self, session_id: str, container_id: str = "c", image_id: str = "i") -> int:
        """Create the session."""
        command = CreateSession(session_id=session_id, container_id=container_id, image_id=image_id, image_revision=1)
        return self.tell(session_id, command)

    def run(self, session_id: str) -> int:
        """Run the session."""
        return self.tell(session_id, Run(session_id=session_id, agent_id=f"agt_{self._next()}", at=self._now()))

    def say(self, session_id: str, text: str = "Hello", agent_id: str | None = None) -> int:
        """Give the session's agent a message."""
        number = self._next()
        live = self.sessions.get(session_id, Session()).agent
        receive = Receive(
            agent_id=agent_id or (live.id if live is not None else "nobody"),
            turn_id=f"trn_{number}",
            message_id=f"msg_{number}",
            content=(TextBlock(text),),
            at=self._now(),
        )
        return self.tell(session_id, receive)

    def answer(self, session_id: str, so_far: SoFar) -> int:
        """End the session's turn, if one is under way."""
        turn = self.sessions.get(session_id, Session()).turn
        finish = Finish(turn_id=turn.id if turn is not None else "none", so_far=so_far, at=self._now())
        return self.tell(session_id, finish)

    def interrupt(self, session_id: str, so_far: SoFar) -> int:
        """Interrupt the session's agent."""
        agent = self.sessions.get(session_id, Session()).agent
        agent_id = agent.id if agent is not None else "nobody"
        return self.tell(session_id, Interrupt(agent_id=agent_id, reason="user", at=self._now(), so_far=so_far))

    def stop(self, session_id: str, so_far: SoFar) -> int:
        """Stop the session's agent."""
        return self.tell(session_id, Stop(agent_id=None, reason="destroyed", at=self._now(), so_far=so_far))

    def delete(self, session_id: str, so_far: SoFar | None = None) -> int:
        """Delete the session."""
        return self.tell(session_id, Delete(session_id=session_id, at=self._now(), so_far=so_far or SoFar()))

    def _next(self) -> int:
        return next(self._ids)

    def _now(self) -> int:
        return self.log.first + 1000 * self.log.head() + 7


Step: TypeAlias = tuple[str, str, str, SoFar]
"""What is done, to which session, in or with which other thing, and what had come in by then."""

_COUNTED: Usage = {"output_tokens": 3, "service_tier": "standard", "cache_creation": {"ephemeral": 1}}
_UNKNOWN: Usage = {}
_usage: st.SearchStrategy[Usage] = st.one_of(
    st.sampled_from([_UNKNOWN, _COUNTED]),
    st.fixed_dictionaries({"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)}),
)
_content = st.sampled_from(
    [
        (),
        (TextBlock("Hi"),),
        (TextBlock(" "),),
        (ThinkingBlock("Hm", "signed"), TextBlock("Grüße")),
        (ToolUseBlock("t1", "search", {"q": [1, 2.5, None]}),),
    ]
)
so_fars = st.builds(
    SoFar,
    message_id=st.sampled_from([None, "same", "other"]),
    content=_content,
    stop_reason=st.sampled_from([None, "end_turn", "max_tokens"]),
    usage=_usage,
    model=st.sampled_from([None, "small", "large"]),
    failure=st.sampled_from([None, None, Failure("overloaded_error", "busy", retryable=True)]),
)
_commands = ["create", "run", "run", "say", "say", "say", "answer", "answer", "answer", "interrupt", "stop", "delete"]
_doings = st.sampled_from([*_commands, "container", "image", "foreign"])
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(_doings, st.sampled_from("abc"), st.sampled_from("xy"), so_fars), max_size=60
)


class Foreign(msgspec.Struct, frozen=True):
    """An event of an actor that users wrote themselves."""

    amount: int


def play(chosen: Sequence[Step], world: World | None = None) -> World:
    """Return the world after the steps; the sessions a and b are there from the beginning, and a is running."""
    if world is None:
        world = World()
        world.create("a", "x")
        world.create("b", "y")
        world.run("a")
    for doing, session_id, other, so_far in chosen:
        match doing:
            case "create":
                world.create(session_id, other)
            case "run":
                world.run(session_id)
            case "say":
                world.say(session_id, f"Hello {other}")
            case "answer":
                world.answer(session_id, so_far)
            case "interrupt":
                world.interrupt(session_id, so_far)
            case "stop":
                world.stop(session_id, so_far)
            case "delete":
                world.delete(session_id, so_far)
            case "container":
                world.create_container(other, session_id if other == "x" else None)
            case "image":
                world.register_image(other, image.Definition(session_id, system_prompt="Be kind"))
            case _:
                world.log.append("counter", Foreign(1))
    return world
