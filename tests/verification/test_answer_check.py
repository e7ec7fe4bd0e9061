"""What an environment has said while an answer came in is the answer that was recorded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.marks import equal_except_marks
from reenact.domain.messages import OpaqueBlock, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    Failure,
    MessageAccepted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UnrecordedUsage,
)
from reenact.domain.session.state import SessionCreated
from reenact.domain.stream.events import DeltasCompacted, StreamError
from reenact.projections.verification.answer_check import same
from reenact.projections.verification.feed_check import Deviation
from tests.examples import examples
from tests.projections.histories import ListLog
from tests.verification.test_feed_check import Announced, Packed, Told, deviations, feed_of, packed

DELTAS = ("text_delta", "thinking_delta")
ANSWER = AnswerRecorded(
    "t",
    "m",
    (ThinkingBlock("I think", "signed"), TextBlock("Hello"), ToolUseBlock("call", "pay", {"amount": 3})),
    "end_turn",
    False,  # noqa: FBT003 - a field of an event
    {"input_tokens": 7},
    "model",
    1,
)
COMPLETED = TurnCompleted("t", "completed", "end_turn", {"input_tokens": 7}, 0.0, "responding")


def one_turn(*events: object) -> ListLog:
    log = ListLog()
    content = (TextBlock("?"),)
    begin = (SessionCreated("s", "c", "i", 1), AgentStarted("a"), MessageAccepted("t", "q", content, 1))
    log.append("session/s", *begin, TurnStarted("t", 1), *events)
    return log


def told_of(log: ListLog) -> list[Told]:
    return [told for told, _ in feed_of(log, "s")]


def changed(told: Sequence[Told], kind: str, **fields: Any) -> list[Told]:  # noqa: ANN401 - of any field
    """Return the same, with other fields in the last entry of this type."""
    at = max(number for number, (_, entry) in enumerate(told) if entry[0] == kind)
    context, (_, when, data) = told[at]
    return [*told[:at], (context, (kind, when, {**msgspec.to_builtins(data), **fields})), *told[at + 1 :]]


def compacted(told: Sequence[Told]) -> list[Packed]:
    """Return rows without deltas."""
    left: list[Told] = []
    cursor = 0
    for context, (kind, when, data) in told:
        cursor += data.count if isinstance(data, Announced) else 1
        if kind not in DELTAS:
            left.append((context, (kind, when, data)))
        elif left and left[-1][1][0] == "deltas_compacted":
            gap = DeltasCompacted(first_cursor=left.pop()[1][2].first_cursor, last_cursor=cursor)
            left.append((context, ("deltas_compacted", when, gap)))
        else:
            left.append((context, ("deltas_compacted", when, DeltasCompacted(first_cursor=cursor, last_cursor=cursor))))
    return packed(left, is_sealed=True)


def problems(log: ListLog, rows: Sequence[Packed]) -> list[str]:
    found: list[Deviation] = deviations(log, "s", rows)
    return [problem for _, _, problem, _ in found]


def test_an_answer_comes_in_behind_a_warning() -> None:
    warning = LimitWarning(reason="cost_limit_exceeded", message="much")
    log = one_turn(warning, ANSWER, COMPLETED)

    assert problems(log, packed(told_of(log), [])) == []


CHANGES = [
    ("text_delta", {"text": "ELLO"}, "the text"),
    ("thinking_delta", {"text": "I know"}, "the thoughts"),
    ("thinking_end", {"signature": "forged"}, "the signature"),
    ("tool_call", {"input": {"amount": 4}}, "the calls"),
    ("tool_call", {"name": "order"}, "the calls"),
    ("tool_call", {"id": "another"}, "the calls"),
    ("message_start", {"model": "another"}, "the model"),
    ("message_start", {"message_id": "another"}, "the message's id"),
    ("message_delta", {"usage": {"input_tokens": 8}}, "what was used"),
    ("message_stop", {"stop_reason": "max_tokens"}, "why it has ended"),
]


@pytest.mark.parametrize(("kind", "fields", "problem"), CHANGES)
def test_what_was_said_otherwise_than_it_was_recorded_is_found(
    kind: str, fields: dict[str, object], problem: str
) -> None:
    log = one_turn(ANSWER, COMPLETED)
    told = told_of(log)

    (found,) = problems(log, packed(changed(told, kind, **fields), []))
    in_compacted = problems(log, compacted(changed(told, kind, **fields)))

    assert problem in found
    assert kind in DELTAS or problem in in_compacted[0]


def test_what_is_left_without_deltas_agrees() -> None:
    log = one_turn(ANSWER, COMPLETED)

    assert problems(log, compacted(told_of(log))) == []


def test_a_row_in_the_place_of_others_holds_no_deltas() -> None:
    log = one_turn(ANSWER, COMPLETED)

    (found,) = problems(log, packed(told_of(log), is_sealed=True))

    assert found == "text_delta follows from no event"


def test_an_answer_that_nobody_has_said_is_found() -> None:
    log = one_turn(ANSWER, COMPLETED)
    told = [one for one, follows in feed_of(log, "s") if follows]

    assert problems(log, packed(told, []))[0] == "nobody has said the answer"


def test_an_agent_begins_to_respond_once_and_with_text() -> None:
    log = one_turn(ANSWER, COMPLETED)
    told = told_of(log)
    at = next(n for n, (_, entry) in enumerate(told) if getattr(entry[2], "current", "") == "responding")

    twice = problems(log, packed([*told[:at], told[at], *told[at:]], []))
    late = problems(log, [*packed([*told[: at - 1], told[at], told[at - 1], *told[at + 1 :]], [])])

    assert twice
    assert late


def test_how_a_turn_ends_without_an_answer_is_what_was_said() -> None:
    failed = msgspec.structs.replace(COMPLETED, outcome="failed", failure=Failure("overloaded_error", "busy"))
    unsaid = msgspec.structs.replace(COMPLETED, unsaid=UnrecordedUsage("model", {"input_tokens": 7}, None))
    error = StreamError(type="overloaded_error", message="busy")
    of_failed, of_unsaid, unanswered = one_turn(failed), one_turn(unsaid), one_turn(COMPLETED)

    begun = told_of(one_turn())

    def with_(log: ListLog, *said: Any) -> list[str]:  # noqa: ANN401 - anything that is heard
        told, (context, (_, when, _)) = told_of(log), told_of(one_turn(ANSWER, COMPLETED))[6]
        at = next((number for number, (_, entry) in enumerate(told) if entry[0] == "message_start"), len(begun))
        new: list[Told] = [(context, (one.event_type, when, one)) for one in said]
        return problems(log, packed([*told[:at], *new, *told[at:]], []))

    whole = [one for one in told_of(one_turn(ANSWER, COMPLETED)) if one[1][0] in {"message_start", "text_delta"}]
    said = [entry[2] for _, entry in whole]
    stop = next(e[2] for _, e in told_of(one_turn(ANSWER, COMPLETED)) if e[0] == "message_stop")

    assert with_(of_failed, error) == []
    assert with_(of_failed, StreamError(message="other")) == ["the error that was said is not the failure of the turn"]
    assert with_(of_unsaid) == []
    assert problems(of_unsaid, packed(changed(told_of(of_unsaid), "message_start", model="x"), [])) != []
    assert with_(unanswered, *said) == []  # another attempt may have been cut short before it said anything
    assert with_(unanswered, *said, stop) == ["there is an answer, and none was recorded"]


def test_what_the_log_could_not_take_any_more_may_stand_in_the_answer_alone() -> None:
    partial = msgspec.structs.replace(ANSWER, partial=True, stop_reason="error")
    failed = TurnFailed("t", Failure("storage_error", "full"))
    less = msgspec.structs.replace(partial, content=(ThinkingBlock("I"),), usage={})
    of_less = [one for one in told_of(one_turn(less, COMPLETED)) if one[1][0] in {"message_start", "thinking_delta"}]

    def cut(log: ListLog) -> list[str]:
        told = [one for one, follows in feed_of(log, "s") if follows]
        at = next(number for number, (_, entry) in enumerate(told) if entry[0] in {"error", "assistant_message"})
        return problems(log, packed([*told[:at], *of_less[2:], *told[at:]], []))

    assert cut(one_turn(failed, partial, COMPLETED)) == []
    assert cut(one_turn(partial, COMPLETED)) != []


def test_the_calls_of_an_answer_may_have_got_other_ids_and_another_order() -> None:
    blocks = (ToolUseBlock("m_0", "pay", {"amount": 3}), ToolUseBlock("call", "pay", {"amount": 4}))
    log = one_turn(msgspec.structs.replace(ANSWER, content=blocks), COMPLETED)
    told = told_of(log)
    first, second = (number for number, (_, entry) in enumerate(told) if entry[0] == "tool_call")
    blank = changed(told[: first + 1], "tool_call", id=None) + told[first + 1 :]
    exchanged = [*told]
    exchanged[first], exchanged[second] = told[second], told[first]

    assert problems(log, packed(blank, [])) == []
    assert problems(log, packed(exchanged, [])) == []


def test_text_of_blocks_that_nobody_interprets_stands_in_them() -> None:
    content = (TextBlock("Hel"), OpaqueBlock({"type": "new", "content": "lo, you"}))
    log = one_turn(msgspec.structs.replace(ANSWER, content=content), COMPLETED)
    told = told_of(log)

    assert problems(log, packed(changed(told, "text_delta", text="ello, you"), [])) == []
    assert problems(log, packed(changed(told, "text_delta", text="allo, you"), [])) != []


def test_a_redacted_event_may_say_less_than_its_copies() -> None:
    log, redacted = one_turn(ANSWER, COMPLETED), one_turn(ANSWER, COMPLETED)
    content = (
        ThinkingBlock("[redacted: x]"),
        TextBlock("[redacted: x]"),
        ToolUseBlock("call", "pay", {"amount": "[redacted: x]"}),
    )
    answer = msgspec.structs.replace(ANSWER, content=content)
    redacted.rows[4] = msgspec.structs.replace(redacted.rows[4], event=answer, is_redacted=True)

    assert problems(redacted, compacted(told_of(log))) == []
    assert problems(redacted, compacted(changed(told_of(log), "tool_call", name="order"))) != []
    redacted.rows[4] = msgspec.structs.replace(redacted.rows[4], is_redacted=False)
    assert problems(redacted, compacted(told_of(log))) != []


def pieces(text: str, cuts: Sequence[int]) -> Iterator[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return (text[begin:end] for begin, end in itertools.pairwise(places))


@given(st.text("ab", max_size=9), st.lists(st.integers(0, 9), max_size=4), st.data())
@settings(max_examples=examples(50))
def test_what_is_left_of_a_text_is_found_in_it(text: str, cuts: list[int], data: st.DataObject) -> None:
    parts = list(pieces(text, cuts))
    gaps = {number for number in range(len(parts)) if data.draw(st.booleans())}
    log = one_turn(msgspec.structs.replace(ANSWER, content=(TextBlock(text),)), COMPLETED)
    whole = told_of(log)
    begin = 1 + max(number for number, (_, entry) in enumerate(whole) if entry[0] == "message_start")
    context, (_, when, _) = whole[begin - 1]
    end = next(number for number, (_, entry) in enumerate(whole) if entry[0] == "message_delta")
    told = whole[:begin]
    for number, part in enumerate(parts):
        first = 1 + sum(entry[2].count if isinstance(entry[2], Announced) else 1 for _, entry in told)
        gap = {"first_cursor": first, "last_cursor": first}
        is_gap = number in gaps
        told.append((context, ("deltas_compacted", when, gap) if is_gap else ("text_delta", when, {"text": part})))
    rows = packed([*told, *whole[end:]], [1] * len(told))
    rows = [msgspec.structs.replace(row, is_sealed=b"deltas_compacted" in row.feed) for row in rows]

    assert problems(log, rows) == []
    if not gaps:
        more = [*told, (context, ("text_delta", when, {"text": "a"})), *whole[end:]]
        assert "the text" in problems(log, packed(more))[0]


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab", max_size=2) | st.just(float("nan")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=5,
)


@given(values, values)
@settings(max_examples=examples(50))
def test_values_agree_with_themselves_and_with_marks(one: object, other: object) -> None:
    mark = "[redacted: x]"

    assert same(one, one)
    assert equal_except_marks(one, one)
    assert equal_except_marks([mark, {"redacted": mark}, {mark: 1, "a": 2}], [one, [other], {"a": 2, "b": other}])
    assert equal_except_marks({"a": 1, "b": one}, {"a": 2, "b": one}) is False
    assert equal_except_marks({"a": 1}, {"b": 1}) is False
    assert equal_except_marks([1], [1, 2]) is False
