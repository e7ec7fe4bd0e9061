"""Makes what stands for a version of `announce` for ever: `python -m tests.feed.announcements` writes today's file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, Final

import msgspec
from hypothesis import given, settings

from reenact._runtime import codec
from reenact.actors.envelopes import flat
from reenact.domain.children import ChildrenInterrupted
from reenact.domain.guards import GuardChecked
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    HandoverRequested,
    ImageChanged,
    MessageScheduled,
    OutputAccepted,
    OutputRejected,
    ReceivedAnswer,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.session.announce import TODAY, Announced, announce, needed
from reenact.domain.session.state import Session, SessionForgotten, evolve
from reenact.domain.stream.events import Context, EventData
from tests.domain.session.examples import CREATED, accepted
from tests.domain.test_children import BORN, CALLING, ended
from tests.projections.histories import Step, lineage, play, steps, steps_of

DATA: Final = Path(__file__).parent / "data"
PLANNED: Final = MessageScheduled("q", (TextBlock("Hello"),), 1_000_000, 60_000_000, 120_000_000)
FIRED: Final = ScheduleFired("q", "t1", 1_000_000, late=True, then=61_000_000)
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class Golden(msgspec.Struct, frozen=True):
    """A step as a log holds it, and what is heard of it: the events by their stored names, in hexadecimal digits."""

    session: str
    needs: str
    events: list[tuple[str, str]]
    heard: list[tuple[dict[str, str], str, Any]]


def file_of(version: int) -> Path:
    """Return where the steps of a version are."""
    return DATA / f"announce-{version}.jsonl"


def told(announced: Announced) -> tuple[dict[str, str], str, Any]:
    """Return what is heard as the file says it."""
    context, data = announced
    return flat(context), data.event_type, msgspec.json.decode(_encode(data))


def goldens(chosen: list[Step]) -> Iterator[tuple[set[str], Golden]]:
    """Yield the steps of a history, each with what it is an example of."""
    forms, rows = codec(), play([_untold(*step) for step in chosen]).log.rows
    for session in "abcd":
        state = Session()
        for step in steps_of(lineage(rows, session)):
            events: list[Any] = [row.event for row in step]
            if step[0].stream == f"session/{session}":
                needs = needed(state, events)
                heard: list[tuple[Context, EventData]] = list(announce(session, needs, events))
                stored = [(topic, blob.hex()) for topic, blob in (forms.encode(event, 0) for event in events)]
                examples = {
                    *(f"event {type(event).__name__}" for event in events),
                    *(f"heard {data.event_type}" for _, data in heard),
                    *(f"need {name}" for name in needs.__struct_fields__ if getattr(needs, name)),
                    f"need activity {needs.activity}",
                }
                yield examples, Golden(session, needs.stored().hex(), stored, list(map(told, heard)))
            state = reduce(evolve, events, state)


def by_hand() -> Iterator[Golden]:
    """Yield steps of child sessions, of answers that must be something, of guards, hand-overs and schedules."""
    forms, turn = codec(), (CREATED, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))
    answer = AnswerRecorded("t1", "m1", (TextBlock('{"a": 1}'),), "end_turn", False, {}, None, 2)  # noqa: FBT003
    over = TurnCompleted("t1", "completed", "end_turn", {}, 0.0, "responding")
    again, last = (OutputRejected("t1", "m1", 1, ("`a` is a text",), more, "responding", 2) for more in (True, False))
    for before, events in (
        (turn, (answer, OutputAccepted("t1", "m1"), over)),
        (turn, (answer, again, StepStarted("t1", 2, 2))),
        (turn, (answer, last, over)),
        ((), (BORN, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))),
        (CALLING[:4], CALLING[4:]),
        (CALLING, (ended("waiting"), TurnCompleted("t1", "waiting", "waiting", {}, 0.0, "tool_executing"))),
        (CALLING, (ChildrenInterrupted("user", 3),)),
        ((*CALLING, ChildrenInterrupted("user", 3)), (ended("unknown", cost=0.5),)),
        (turn[:2], (GuardChecked("message", "short", "passed", "", "t1", "m-t1"), *turn[2:])),
        (turn[:2], (GuardChecked("message", "short", "refused", "too long", "t1", "m-t1"),)),
        (turn, (GuardChecked("answer", "true", "passed", "", "t1", "m1"),)),
        (turn, (HandoverRequested("j", 2, "none"),)),
        ((*turn, HandoverRequested("j", 2, "none")), (answer, over, ImageChanged("j", 2, "none"))),
        ((CREATED, AgentStarted("a")), (PLANNED,)),
        ((CREATED, PLANNED), (FIRED, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))),
        ((CREATED, AgentStarted("a"), PLANNED), (ScheduleCancelled("q"),)),
        ((), (SessionForgotten("s", "c", "i", 1, 2, "ada", "asked to"),)),
    ):
        needs = needed(reduce(evolve, before, Session()), events)
        stored = [(topic, blob.hex()) for topic, blob in (forms.encode(event, 0) for event in events)]
        yield Golden("s", needs.stored().hex(), stored, list(map(told, announce("s", needs, events))))


def _untold(doing: str, session: str, other: str, so_far: ReceivedAnswer) -> Step:
    """Return the step; in every second one, nobody has heard of the failure."""
    return doing, session, other, msgspec.structs.replace(so_far, untold=other == "x")


def write() -> None:
    """Write steps that are, together, an example of everything."""
    seen: set[str] = set()
    lines: list[bytes] = []

    @given(steps)
    @settings(max_examples=1000, derandomize=True, database=None, deadline=None)
    def collect(chosen: list[Step]) -> None:
        for examples, golden in goldens(chosen):
            if not examples <= seen:
                seen.update(examples)
                lines.append(_encode(golden))

    collect()
    lines += map(_encode, by_hand())
    DATA.mkdir(exist_ok=True)
    file_of(TODAY).write_bytes(b"\n".join(lines) + b"\n")


if __name__ == "__main__":
    write()
