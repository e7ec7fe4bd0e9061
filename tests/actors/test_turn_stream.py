"""The turn_stream: what may come in from an environment, and until when."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from reenact.actors.journal.api import Append, Done
from reenact.actors.session.turn_stream import TurnStream
from reenact.domain.errors import InvalidInputError, StorageFullError
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import ReceivedAnswer
from reenact.domain.stream.events import (
    ContextCompressed,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    StreamData,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ToolCall,
)
from tests.kernel.memory import MemoryJournal

CONTEXT = {"session_id": "s", "turn_id": "t"}


class Session:
    """Hears of the ends of turns."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, ReceivedAnswer]] = []

    def finish(self, turn_id: str, so_far: ReceivedAnswer) -> None:
        self.ended.append((turn_id, so_far))


@pytest.fixture
def journal() -> Iterator[MemoryJournal]:
    opened = MemoryJournal(stepwise=True)
    yield opened
    opened.close()


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def turn_stream(journal: MemoryJournal, session: Session) -> TurnStream:
    numbers = itertools.count(1)
    made = TurnStream(
        "session/s", journal.append, lambda: 7, lambda prefix: f"{prefix}_{next(numbers)}", finish=session.finish
    )
    made.open("t", CONTEXT)
    return made


def settle(journal: MemoryJournal) -> None:
    while journal.commit():
        pass


def kept(journal: MemoryJournal) -> list[str]:
    return [entry.type for row in journal.read_feed("session/s") for one in row.segments for entry in one.entries]


@pytest.mark.parametrize(
    "nonsense",
    [
        TextDelta(text="\ud800"),
        MessageDelta(usage={"tokens": 2**64}),
        msgspec.structs.replace(TextDelta(text=""), text=7),
        {"type": "text_delta", "data": {"text": 7}},
        {"type": "turn_completed", "data": {}},
        {"type": 7},
        {},
    ],
)
def test_what_cannot_be_recorded_is_refused_and_spoils_nothing(
    turn_stream: TurnStream, journal: MemoryJournal, session: Session, nonsense: StreamData | dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError):
        turn_stream.emit(nonsense)

    turn_stream.emit({"type": "text_delta", "data": {"text": "sense"}})
    turn_stream.emit(MessageStop())
    settle(journal)

    assert kept(journal) == ["message_start", "agent_state_changed", "text_delta", "message_stop"]
    assert [turn_id for turn_id, _ in session.ended] == ["t"]
    assert session.ended[0][1].content == (TextBlock("sense"),)


def test_what_is_said_in_another_turn_is_dropped(turn_stream: TurnStream, journal: MemoryJournal) -> None:
    turn_stream.emit(TextDelta(text="late"), turn_id="the one before")
    settle(journal)

    assert kept(journal) == []


@pytest.mark.parametrize(
    "first",
    [
        TextDelta(text="so"),
        ThinkingDelta(text="hm"),
        ToolCall(id="c", name="add", input={}),
        InputJsonDelta(id="c", partial_json="{"),
    ],
)
def test_the_time_to_the_first_delta_is_that_from_the_request_to_the_first_content(
    journal: MemoryJournal, session: Session, first: StreamData
) -> None:
    now = iter([1_000_000, 1_100_000, 1_250_000, 3_000_000, 3_000_000])
    turn_stream = TurnStream("session/s", journal.append, lambda: next(now), str, finish=session.finish)
    turn_stream.open("t", CONTEXT)

    for said in (MessageStart(), first, TextDelta(text=" far"), MessageStop()):
        turn_stream.emit(said)

    assert [so_far.first_delta for _, so_far in session.ended] == [0.25]


@pytest.mark.parametrize("end", [MessageStop(), StreamError(type="overloaded_error", message="busy", retryable=True)])
def test_what_an_answer_ends_with_is_appended_with_what_follows_from_it(
    journal: MemoryJournal, session: Session, end: StreamData
) -> None:
    rounds: list[int] = []
    last: list[int] = []

    def count(into: list[int]) -> Callable[[Append, Done], None]:
        return lambda step, _: into.append(sum(len(segment.entries) for segment in step.kept))

    turn_stream = TurnStream("session/s", count(rounds), lambda: 7, str, finish=session.finish, append_last=count(last))
    turn_stream.open("t", CONTEXT)

    turn_stream.emit_all([MessageStart(), TextDelta(text="so")])
    turn_stream.emit_all([TextDelta(text=" far"), end])

    assert (rounds, last) == ([3], [2])
    assert [turn_id for turn_id, _ in session.ended] == ["t"]


def test_each_answer_of_a_turn_has_a_first_delta_of_its_own(journal: MemoryJournal, session: Session) -> None:
    now = iter([1_000_000, 2_000_000, 5_000_000, 4_000_000])  # at last it was set back
    turn_stream = TurnStream("session/s", journal.append, lambda: next(now), str, finish=session.finish)

    turn_stream.open("t", CONTEXT)
    turn_stream.emit(MessageStop())
    turn_stream.open("t", CONTEXT)
    turn_stream.emit_all([TextDelta(text="so"), MessageStop()])

    assert [so_far.first_delta for _, so_far in session.ended] == [None, 0.0]


def test_nothing_comes_in_once_it_is_closed_and_what_had_come_is_told_each_time(
    turn_stream: TurnStream, journal: MemoryJournal, session: Session
) -> None:
    turn_stream.emit(TextDelta(text="so"))
    first = turn_stream.close("t")
    turn_stream.emit(TextDelta(text=" far"))
    settle(journal)

    assert first.content == turn_stream.close("t").content == (TextBlock("so"),)
    assert kept(journal)[-1] == "text_delta"
    assert turn_stream.close("another") == ReceivedAnswer()
    assert session.ended == []


def test_the_agent_responds_once_its_first_words_are_durable(turn_stream: TurnStream, journal: MemoryJournal) -> None:
    turn_stream.emit(TextDelta(text="so"))
    before = turn_stream.responding
    settle(journal)

    assert (before, turn_stream.responding) == (None, "t")


def test_a_delta_that_cannot_be_kept_ends_the_turn_with_what_was_handed_over(
    turn_stream: TurnStream, journal: MemoryJournal, session: Session
) -> None:
    journal.fail_next(StorageFullError("no space"))
    turn_stream.emit(TextDelta(text="so"))
    turn_stream.emit(TextDelta(text=" far"))
    settle(journal)
    turn_stream.emit(TextDelta(text=" and no further"))
    settle(journal)

    (turn_id, so_far), *others = session.ended
    assert (turn_id, others) == ("t", [])
    assert so_far.failure is not None
    assert so_far.failure.type == "storage_error"


def test_an_environment_is_told_whether_its_turn_still_hears(turn_stream: TurnStream) -> None:
    assert turn_stream.emit(TextDelta(text="One")) is True
    assert turn_stream.emit(TextDelta(text="Two"), turn_id="another") is False

    turn_stream.close("t")

    assert turn_stream.emit(TextDelta(text="Three")) is False


@pytest.mark.parametrize("ends", ["recorded", "closed"])
def test_what_follows_a_summary_is_let_in_when_that_is_recorded(
    journal: MemoryJournal, session: Session, ends: str
) -> None:
    recorded: list[Callable[[], None]] = []
    turn_stream = TurnStream(
        "session/s",
        journal.append,
        lambda: 7,
        lambda prefix: f"{prefix}_1",
        finish=session.finish,
        compress=lambda _turn, _event, then: recorded.append(then),
    )
    turn_stream.open("t", CONTEXT)

    turn_stream.emit_all(
        (TextDelta(text="Before"), ContextCompressed(summary="So far", kept=1), TextDelta(text="After"))
    )
    turn_stream.emit(MessageStop())
    settle(journal)
    before = kept(journal)
    so_far = turn_stream.close("t") if ends == "closed" else None
    for then in recorded * 2:
        then()
    settle(journal)

    assert before == ["message_start", "agent_state_changed", "text_delta"]
    assert kept(journal) == [*before, "text_delta", "message_stop"]
    if so_far is None:
        ((turn_id, so_far),) = session.ended
        assert turn_id == "t"
    else:
        assert session.ended == []
    assert (so_far.content, so_far.stop_reason) == ((TextBlock("BeforeAfter"),), "end_turn")


@pytest.fixture
def holding(journal: MemoryJournal, session: Session) -> TurnStream:
    """One that withholds what it hears."""
    made = TurnStream("session/s", journal.append, lambda: 7, lambda _: "m", finish=session.finish, hold=True)
    made.open("t", CONTEXT)
    return made


ANSWER = (MessageStart(model="small"), TextDelta(text="Hi"), MessageDelta(usage={"input_tokens": 1}), MessageStop())


def test_what_is_withheld_is_kept_by_nobody_until_it_is_published(
    holding: TurnStream, session: Session, journal: MemoryJournal
) -> None:
    holding.emit_all(ANSWER)
    settle(journal)
    ((_, so_far),) = session.ended
    assert (kept(journal), holding.withholds("t"), holding.withholds("t0"), holding.responding) == (
        [],
        True,
        False,
        None,
    )
    assert (so_far.content, so_far.stop_reason) == ((TextBlock("Hi"),), "end_turn")

    assert holding.publish("t0") is None
    assert holding.publish("t") == so_far
    settle(journal)

    assert kept(journal) == ["message_start", "agent_state_changed", "text_delta", "message_delta", "message_stop"]
    assert (holding.publish("t"), holding.withholds("t"), holding.responding) == (None, False, "t")
    assert holding.close("t") == so_far


def test_of_what_is_withheld_when_a_turn_is_closed_nothing_is_told_but_what_it_used(
    holding: TurnStream, journal: MemoryJournal
) -> None:
    holding.emit_all(ANSWER)

    closed = holding.close("t")

    assert closed == ReceivedAnswer(message_id="m", usage={"input_tokens": 1}, model="small")
    assert holding.close("t") == closed
    assert holding.publish("t") is None
    settle(journal)
    assert kept(journal) == []


def test_an_answer_that_fails_while_it_is_withheld_says_nothing_but_why(holding: TurnStream, session: Session) -> None:
    holding.emit_all((TextDelta(text="Half an"), StreamError(message="The line broke")))

    ((_, so_far),) = session.ended
    assert (so_far.content, so_far.untold, so_far.responding) == ((), True, False)
    assert so_far.failure is not None
    assert so_far.failure.message == "The line broke"


def test_the_next_answer_of_a_turn_knows_nothing_of_what_was_withheld(
    holding: TurnStream, session: Session, journal: MemoryJournal
) -> None:
    holding.emit_all(ANSWER)
    holding.close("t")
    holding.open("t", CONTEXT)

    holding.emit_all((TextDelta(text="Again"), MessageStop()))
    holding.publish("t")
    settle(journal)

    assert kept(journal) == ["message_start", "agent_state_changed", "text_delta", "message_stop"]
    assert session.ended[-1][1].content == (TextBlock("Again"),)
