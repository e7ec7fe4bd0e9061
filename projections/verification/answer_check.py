"""The check of a recorded answer against the stream events that the environment sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from reenact.domain.marks import equal_except_marks
from reenact.domain.messages import Block, OpaqueBlock, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.plain import is_mapping
from reenact.domain.session.agent import AnswerRecorded, Failure, TurnCompleted, UnrecordedUsage
from reenact.domain.session.turns import ANSWER_REFUSED
from reenact.domain.stream.events import (
    DeltasCompacted,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    StreamData,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
    ToolResult,
)

Entry: TypeAlias = tuple[str, object]
"""The type of a stream event, and its data."""

DELTAS = frozenset(kind.event_type for kind in (TextDelta, ThinkingDelta, InputJsonDelta))
SAID = DELTAS | frozenset(
    kind.event_type
    for kind in (MessageStart, MessageDelta, MessageStop, ThinkingStart, ThinkingEnd, ToolCall, ToolResult, StreamError)
)
"""The types of events that an environment may send during an answer."""
COMPACTED = DeltasCompacted.event_type
STARTS = MessageStart.event_type

_TEXT = TextDelta.event_type
_THOUGHT = ThinkingDelta.event_type
_JSON = InputJsonDelta.event_type
_KINDS: Final[dict[str, type[StreamData]]] = {
    kind.event_type: kind for kind in (MessageStart, MessageDelta, MessageStop, ThinkingEnd, ToolCall, StreamError)
}

_Pieces: TypeAlias = list[str | None]
"""Consecutive texts; None is a gap whose text is unknown."""


class StreamedAnswer:
    """The last attempt at an answer, as far as its stream events are kept."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Read the stream events.

        Raises:
            msgspec.MsgspecError: an event cannot be decoded.
        """
        self.start: MessageStart | None = None
        self.stop: MessageStop | None = None
        self.error: StreamError | None = None
        self._usage: Mapping[str, object] = {}
        self._texts: _Pieces = []
        self._thoughts: _Pieces = []
        self._signatures: list[str] = []
        self._calls: list[ToolCall] = []
        for kind, run in groupby(entries, itemgetter(0)):
            if kind == _TEXT:
                self._texts.append(_joined_text(run))
            elif kind == _THOUGHT:
                self._thoughts.append(_joined_text(run))
            elif kind != _JSON:
                for _, data in run:
                    self._take(kind, data)

    def unlike(self, answer: AnswerRecorded, known: Collection[str], *, is_redacted: bool, is_cut: bool) -> str | None:
        """Return how the recorded answer differs from the streamed one, None if it does not.

        `known` are the ids of earlier calls, which the recorded answer replaces by new ones. In a redacted answer,
        removed parts match anything. If it `is_cut`, the log failed meanwhile, and the recorded answer may have more at
        its end.
        """
        if self.start is None:
            return None if is_cut else "nobody has said the answer"
        if is_cut:
            self._leave_gap()
        equal = equal_except_marks if is_redacted else same
        stop = self.stop
        wrong: list[str] = []
        if not equal(self.start.message_id, answer.message_id):
            wrong.append("the message's id")
        if not equal(self.start.model, answer.model):
            wrong.append("the model")
        if not is_cut and not equal(self._usage, answer.usage):
            wrong.append("what was used")
        if not answer.partial and not is_cut and (stop is None or not _is_end(stop, answer, equal)):
            wrong.append("why it has ended")
        if not is_redacted:
            wrong += self._wrong_texts(answer.content)
        if not self._same_calls(answer.content, known, is_redacted=is_redacted, is_cut=is_cut):
            wrong.append("the calls of tools")
        return f"{', '.join(wrong)} of what was said is not that of the answer" if wrong else None

    def unlike_end(self, completed: TurnCompleted, *, is_redacted: bool, is_answered: bool) -> str | None:
        """Return how the end of the turn differs from the streamed events, None if it does not."""
        equal, error, unsaid = equal_except_marks if is_redacted else same, self.error, completed.unsaid
        if error is not None:
            failed = completed.failure or Failure("", "")
            if not equal([error.type, error.message, error.retryable], [failed.type, failed.message, failed.retryable]):
                return "the error that was said is not the failure of the turn"
        if is_answered:
            return None
        if unsaid is not None and not self._has_used(unsaid, completed, equal):
            return "the model, or what was used, is not that of the turn"
        if self.stop is not None and completed.outcome == "completed" and not _is_end(self.stop, completed, equal):
            return "why the answer has ended is not that of the turn"
        if completed.stop_reason == ANSWER_REFUSED:
            return None  # a guard refused the answer
        if self.stop is not None and (self._calls or any((one or "").strip() for one in self._texts)):
            return "there is an answer, and none was recorded"
        return None

    def _has_used(
        self, unsaid: UnrecordedUsage, completed: TurnCompleted, equal: Callable[[object, object], bool]
    ) -> bool:
        """Return whether this answer's usage was recorded; an answer held back by guards has no stream events."""
        if self.start is None:
            return completed.outcome != "completed"
        return equal(self.start.model, unsaid.model) and equal(self._usage, unsaid.usage)

    def _take(self, kind: str, data: object) -> None:
        if kind == COMPACTED:
            self._leave_gap()
        match msgspec.convert(data, _KINDS[kind]) if kind in _KINDS else None:
            case MessageStart() as said:
                self.start = said
            case MessageStop() as said:
                self.stop = said
            case StreamError() as said:
                self.error = said
            case MessageDelta() as said:
                self._usage = said.usage
            case ThinkingEnd(signature=str(signature)):
                self._signatures.append(signature)
            case ToolCall() as said:
                self._calls.append(said)
            case _:
                pass

    def _leave_gap(self) -> None:
        self._texts.append(None)
        self._thoughts.append(None)

    def _wrong_texts(self, content: Sequence[Block]) -> Iterator[str]:
        texts = [block.text for block in content if isinstance(block, TextBlock)]
        thoughts = [block for block in content if isinstance(block, ThinkingBlock)]
        if not _matches_blocks(self._texts, texts, content):
            yield "the text"
        if not _matches_blocks(self._thoughts, [block.thinking for block in thoughts], content):
            yield "the thoughts"
        if not {block.signature for block in thoughts}.issuperset(self._signatures):
            yield "the signature of a thought"

    def _same_calls(self, content: Sequence[Block], known: Collection[str], *, is_redacted: bool, is_cut: bool) -> bool:
        recorded = [block for block in content if isinstance(block, ToolUseBlock)]
        if len(recorded) != len(self._calls) and not (is_cut and len(recorded) > len(self._calls)):
            return False
        given = Counter(call.id or "" for call in self._calls)

        def is_same(call: ToolCall, block: ToolUseBlock) -> bool:
            id_, equal = call.id or "", equal_except_marks if is_redacted else same
            is_renamed = not id_.strip() or id_ in known or given[id_] > 1
            return (
                (id_ == block.id or is_renamed) and call.name == block.name and equal(_object(call.input), block.input)
            )

        if all(map(is_same, self._calls, recorded)):
            return True
        # Calls are streamed in the order in which they end, and recorded in the order in which they began.
        return all(any(is_same(call, block) for block in recorded) for call in self._calls) and all(
            any(is_same(call, block) for call in self._calls) for block in recorded
        )


def _is_end(
    stop: MessageStop, recorded: AnswerRecorded | TurnCompleted, equal: Callable[[object, object], bool]
) -> bool:
    """Return whether the end of the stream agrees with the recorded one."""
    return (stop.stop_reason or "end_turn") == recorded.stop_reason and equal(
        msgspec.to_builtins([stop.stop_sequence, stop.stop_details]),
        msgspec.to_builtins([recorded.stop_sequence, recorded.stop_details]),
    )


def _joined_text(deltas: Iterable[Entry]) -> str:
    """Return the text of consecutive deltas, which are decoded together because there are many."""
    return "".join([delta.text for delta in msgspec.convert([data for _, data in deltas], list[TextDelta])])


def _matches_blocks(pieces: Sequence[str | None], blocks: Sequence[str], content: Sequence[Block]) -> bool:
    """Return whether the pieces are these texts, or thoughts, of the content."""
    if any(isinstance(block, OpaqueBlock) and isinstance(block.data.get("content"), str) for block in content):
        # The deltas of a block that is not interpreted are inside of it, after its beginning.
        return None in pieces or _occur_in_order("".join(piece or "" for piece in pieces), blocks)
    return _matches_with_gaps(pieces, "".join(blocks))


def _occur_in_order(text: str, parts: Iterable[str]) -> bool:
    """Return whether the parts occur in the text, one after the other."""
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _matches_with_gaps(pieces: Sequence[str | None], text: str) -> bool:
    """Return whether the text consists of these pieces, with any text in place of the gaps."""
    runs = [""]
    for piece in pieces:
        if piece is None:
            runs.append("")
        else:
            runs[-1] += piece
    first, *rest = runs
    if not rest or not text.startswith(first):
        return text == first
    *middle, last = rest
    end = len(text) - len(last)
    return len(first) <= end and text.endswith(last) and _occur_in_order(text[len(first) : end], middle)


def _object(value: object) -> object:
    """Return the input of a call in its recorded form."""
    return {str(name): one for name, one in value.items()} if is_mapping(value) else {"input": value}


_encode = msgspec.msgpack.Encoder(enc_hook=repr).encode


def same(one: object, other: object) -> bool:
    """Return whether plain values are equal; NaN equals itself."""
    return one == other or _encode(one) == _encode(other)
