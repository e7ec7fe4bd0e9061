"""Builds a message of the Messages API from the events of its stream."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable
from functools import cached_property

from reenact.actors.environment.api import OnEvent
from reenact.actors.environment.received_json import is_json_object, objects_in, text_in
from reenact.actors.environment.wire.stream import DELTAS, Delta, Ending, MalformedEventError, Started, WireEvent
from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.calls import input_of, is_unreadable
from reenact.domain.loop.ledger import REQUEST
from reenact.domain.messages import Block, OpaqueBlock, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from reenact.domain.plain import Json, JsonDict, plain
from reenact.domain.stream.answer import CUT, Complete
from reenact.domain.stream.events import (
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    StreamData,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
)

PAUSED = "pause_turn"
PAUSES = frozenset({PAUSED, "compaction"})
"""Stop reasons of a message that is to be sent back, for the API to continue it."""
_TEXT_EVENTS = {"text": TextDelta, "thinking": ThinkingDelta}
"""The types of blocks that consist of text, with the events by which that is reported."""
_REPORTED_TYPES = frozenset({*_TEXT_EVENTS, "tool_use"})
"""The types of blocks that are reported as they arrive; others are only part of the whole message."""
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})
_log = logging.getLogger(__name__)


class _OpenBlock:
    """A content block that is being received. `fields` are as they came; the content of deltas is kept apart."""

    def __init__(self, index: int | None, fields: JsonDict) -> None:
        self.index = index
        self.fields = fields
        self.type = str(fields.get("type", ""))
        self.ended = False
        self.is_partial = False
        """Whether a part of the block has an unknown type."""
        self.text: list[str] = []
        self.json: list[str] = []
        self.signature = _optional_text(fields.get("signature"))
        self.citations = objects_in(fields, "citations")

    def finished(self) -> Block | None:
        """Return the block, or None if it is not complete."""
        match self.type:
            case "text":
                return TextBlock("".join(self.text), tuple(self.citations) or None)
            case "thinking":
                return ThinkingBlock("".join(self.text), self.signature)
            case "tool_use":
                if not self.ended:
                    return None
                extra = {name: value for name, value in self.fields.items() if name not in _CALL_FIELDS}
                return ToolUseBlock(text_in(self.fields, "id"), text_in(self.fields, "name"), self.input, extra or None)
            case _:
                return self._opaque()

    @property
    def is_call(self) -> bool:
        """Whether the block is a call of a tool, either of ours or of the API's own."""
        return self.type.endswith("tool_use")

    @property
    def is_known(self) -> bool:
        """Whether the block's type is one whose deltas are known."""
        return self.type in {*_TEXT_EVENTS, "compaction"} or self.is_call

    @property
    def is_reported(self) -> bool:
        """Whether everything in the block is reported as it arrives."""
        return self.type in _REPORTED_TYPES and not self.citations

    @cached_property
    def input(self) -> JsonDict:
        """The input of a call that has ended; the deltas' content replaces the initial input."""
        return input_of("".join(self.json) or json.dumps(self.fields.get("input") or {}))

    def _opaque(self) -> OpaqueBlock | None:
        fields = dict(self.fields)
        if self.is_partial or (self.is_call and not self.ended):
            return None
        if self.json:
            fields["input"] = self.input
            if is_unreadable(self.input):
                return None
        if self.text:
            fields["content"] = text_in(fields, "content") + "".join(self.text)
        return OpaqueBlock(fields)


class MessageDecoder:
    """Reports a message as its events come in, and holds the message so far.

    A message that is paused and continued by another request is one message; `begin_continuation` begins the next one.
    `announced` is whether any of it has been reported; `container` is the container in which the API ran code for it.

    One block is open at a time, the last one that began, whatever its index. So the blocks stay in the order in which
    they are reported, even if a stream uses an index twice or has none, and what is published agrees with what is
    recorded.
    """

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._blocks: list[_OpenBlock] = []
        self._earlier_blocks: list[Block] = []
        self._earlier_usage: Usage = {}
        self._usage: Usage = {}
        self._reported_usage: Usage = {}
        self._started: Started | None = None
        self.announced = False
        self._unreported_call: _OpenBlock | None = None
        self.published = False
        """Whether anything of the current request has been reported."""
        self.container: JsonDict | None = None
        self.stop_reason: str | None = None
        self._stop_sequence: str | None = None
        self._stop_details: StopDetails | None = None
        self.complete = False
        self._logged_types: set[str] = set()
        """The types that have been logged as left out."""
        self._handlers: dict[str, Callable[[WireEvent], None]] = {
            "message_start": self._begin_message,
            "content_block_start": self._begin_block,
            "content_block_delta": self._add_delta,
            "content_block_stop": self._end_block,
            "message_delta": self._add_message_delta,
            "message_stop": self._stop,
        }

    @property
    def content(self) -> tuple[Block, ...]:
        """The blocks so far, in the order in which they began."""
        blocks = (block.finished() for block in self._blocks)
        return (*self._earlier_blocks, *(block for block in blocks if block is not None))

    @property
    def usage(self) -> Usage:
        """The usage so far, over all requests of the message; `iterations` lists that of each."""
        before, now = self._earlier_usage, self._usage
        if not before or not now:
            return now or before
        return {**_sum(before, now), "iterations": _iterations(before) + _iterations(now)}

    def take(self, event: WireEvent) -> None:
        """Take in the next event of the stream, and report its content.

        Raises:
            MalformedEventError: it contradicts an earlier event.
        """
        handle = self._handlers.get(event.type)
        if handle is not None and not self.complete:
            handle(event)

    def start_over(self) -> None:
        """Forget the current request, of which nothing has been reported: it is sent again."""
        self._blocks.clear()
        self._usage, self._unreported_call = {}, None
        self._started = self.stop_reason = self._stop_sequence = self._stop_details = None

    def begin_continuation(self) -> None:
        """Keep the answer so far, and take in the answer of the next request as its continuation."""
        self._earlier_blocks, self._earlier_usage = list(self.content), self.usage
        self.start_over()
        self.complete = self.published = False

    def report(self, event: StreamData) -> None:
        """Report an event, after a `message_start` if it is the first; the request cannot be sent again after that."""
        if not self.published:
            self.published = True
            if not self.announced:
                self.announced = True
                started = self._started or Started()
                self._on_event(MessageStart(message_id=started.id, model=started.model))
        self._on_event(event)

    def break_off(self) -> None:
        """Report the usage of a message that will not be complete, if any of it was reported."""
        if self.published:
            self._report_usage()

    def end(self, stop_reason: str) -> None:
        """Report that the message is complete."""
        content = self.content
        if content and self.container is not None:
            content = (*content, OpaqueBlock({**self.container, "type": "container"}))
        self.report(
            Complete(
                stop_reason=stop_reason,
                content=content,
                stop_sequence=self._stop_sequence,
                stop_details=self._stop_details,
            )
        )

    def _begin_message(self, event: WireEvent) -> None:
        if event.message is None:
            return
        if self._started is not None:
            if event.message.id != self._started.id:
                raise MalformedEventError(f"message {event.message.id!r} begins within message {self._started.id!r}")
            return  # the same message, started twice
        self._started = event.message
        self._usage = _merged({}, event.message.usage)
        self._store_stop_reason(event.message)
        for index, fields in enumerate(event.message.content or ()):
            if index:
                self._end()
            self._open(index, fields)
        if self.stop_reason not in CUT:  # otherwise it is unknown whether the last block is complete
            self._end()

    def _begin_block(self, event: WireEvent) -> None:
        self._open(event.index, event.content_block or {})

    def _open(self, index: int | None, fields: JsonDict) -> _OpenBlock:
        before = self._open_block
        if before is not None and before.is_call:
            raise MalformedEventError(f"a block begins before the call at index {before.index} has ended")
        self._end()
        self._report_call()
        if fields.get("type") == "tool_use" and not text_in(fields, "id").strip():
            fields = {**fields, "id": fresh_call_id()}
        block = _OpenBlock(index, fields)
        _check_block(index, {**fields, "input": None} if block.type == "tool_use" else fields)
        self._blocks.append(block)
        if block.type == "thinking":
            self.report(ThinkingStart())
        if block.type in _TEXT_EVENTS:
            self._add_text(block, block.type, text_in(fields, block.type))
        return block

    def _add_delta(self, event: WireEvent) -> None:
        delta = event.delta or Delta()
        block = self._open_at(event.index)
        if delta.type and delta.type not in DELTAS:
            self._ignore_delta(block, delta.type)
            return
        if block is None and delta.text is not None:
            block = self._open(event.index, {"type": "text"})
        if block is None:
            if delta.partial_json:
                raise MalformedEventError(f"the input of a call goes on at index {event.index}, where none is open")
            return
        if delta.text is not None:
            self._add_text(block, "text", delta.text)
        elif delta.thinking is not None:
            self._add_text(block, "thinking", delta.thinking)
        elif delta.partial_json is not None:
            self._add_json(block, delta.partial_json)
        elif delta.signature is not None:
            block.signature = delta.signature
        elif delta.citation is not None:
            _check_storable("a citation", delta.citation)
            block.citations.append(delta.citation)
        elif delta.content is not None:
            block.text.append(delta.content)
        if delta.encrypted_content is not None:
            block.fields["encrypted_content"] = delta.encrypted_content

    def _ignore_delta(self, block: _OpenBlock | None, delta: str) -> None:
        """Ignore a delta of an unknown type, as the API asks clients to, and unknown blocks that have deltas."""
        what = f"a delta of type {delta!r}"
        if block is not None and not block.is_known:
            block.is_partial = True
            what = f"a block of type {block.type!r}"
        if what not in self._logged_types:
            self._logged_types.add(what)
            _log.warning("left out of the answer, because the type is not known: %s", what)

    def _add_text(self, block: _OpenBlock, kind: str, text: str) -> None:
        if block.type != kind and not block.is_known:
            self._ignore_delta(block, kind)
        elif block.type != kind:
            raise _mismatch(block, kind)
        elif text:
            block.text.append(text)
            self.report(_TEXT_EVENTS[kind](text=text))

    def _add_json(self, block: _OpenBlock, text: str) -> None:
        if text:
            if block.type in _TEXT_EVENTS:
                raise _mismatch(block, "tool_use")
            block.json.append(text)
            if block.type == "tool_use":
                self.report(InputJsonDelta(id=_optional_text(block.fields.get("id")), partial_json=text))

    def _end_block(self, event: WireEvent) -> None:
        if self._open_at(event.index) is not None:
            self._end()

    @property
    def _open_block(self) -> _OpenBlock | None:
        return self._blocks[-1] if self._blocks and not self._blocks[-1].ended else None

    def _open_at(self, index: int | None) -> _OpenBlock | None:
        block = self._open_block
        return block if block is not None and block.index == index else None

    def _end(self) -> None:
        """End the open block, if there is one."""
        block = self._open_block
        if block is None:
            return
        block.ended = True
        if block.type == "thinking":
            self.report(ThinkingEnd(signature=block.signature if self._is_reported_before_last else None))
        elif block.type == "tool_use":
            self._unreported_call = block
            if (block.json or block.fields.get("input")) and not is_unreadable(block.input):
                self._report_call()

    @property
    def _is_reported_before_last(self) -> bool:
        """Whether all blocks before the last one have been reported.

        A thought's signature is valid only after exactly the same content. If the message is cut short and rebuilt from
        the reported events, the thought must not follow other content.
        """
        opaque = any(isinstance(one, OpaqueBlock) for one in self._earlier_blocks)
        return not opaque and all(block.is_reported for block in self._blocks[:-1])

    def _report_call(self) -> None:
        """Report the call that has ended; if its input is not readable, only once it is certain that it is complete."""
        block, self._unreported_call = self._unreported_call, None
        call = block.finished() if block is not None else None
        if isinstance(call, ToolUseBlock):
            self.report(ToolCall(id=call.id, name=call.name, input=call.input))

    def _add_message_delta(self, event: WireEvent) -> None:
        if event.delta is not None:
            self._store_stop_reason(event.delta)
            if event.delta.stop_reason is not None:
                self._close_unfinished()
        self._usage = _merged(self._usage, event.usage)
        if self.published or self.stop_reason is not None:
            self._report_usage()

    def _store_stop_reason(self, told: Ending) -> None:
        """Store the reason for the end of the message, as far as this event holds it."""
        if told.container:
            _check_storable("the container", told.container)
            self.container = told.container
        self.stop_reason = told.stop_reason or self.stop_reason
        self._stop_sequence = told.stop_sequence or self._stop_sequence
        self._stop_details = told.stop_details or self._stop_details

    def _report_usage(self) -> None:
        usage = self.usage
        if usage and usage != self._reported_usage:
            self._reported_usage = usage
            self.report(MessageDelta(usage=usage))

    def _close_unfinished(self) -> None:
        """End a block that the API left open when it stopped; drop a call left open, or cut off before its input."""
        if self.stop_reason in CUT and self._unreported_call is not None:
            self._unreported_call.ended = False
            self._unreported_call = None
        self._report_call()
        block = self._open_block
        if block is not None and block.type == "thinking":
            self._end()

    def _stop(self, _event: WireEvent) -> None:
        if self.stop_reason is None:
            return
        self.complete = True
        self._close_unfinished()
        self._report_usage()
        if self.stop_reason not in PAUSES:
            self.end(self.stop_reason)


def fresh_call_id() -> str:
    """Return an id for a call that came without one."""
    return f"call_{secrets.token_hex(12)}"


def _check_block(index: int | None, fields: JsonDict) -> None:
    if not isinstance(fields.get("type", ""), str):
        raise MalformedEventError(f"the type of the block at index {index} is not text")
    _check_storable(f"the block at index {index}", fields)


def _check_storable(what: str, fields: JsonDict) -> None:
    try:
        plain("it", fields)
    except InvalidInputError as broken:
        raise MalformedEventError(f"{what} cannot be kept: {broken}") from None


def _mismatch(block: _OpenBlock, kind: str) -> MalformedEventError:
    return MalformedEventError(
        f"a delta of type {kind!r} continues a block of type {block.type!r}, at index {block.index}"
    )


def _merged(usage: Usage, news: Usage | None) -> Usage:
    """Return the usage updated with the news; the API omits, or sends as null, values that have not changed."""
    return {**usage, **{name: value for name, value in (news or {}).items() if value is not None}}


def _iterations(usage: Usage) -> list[Json]:
    iterations = usage.get("iterations")
    return iterations if isinstance(iterations, list) and iterations else [{**usage, "type": REQUEST}]


def _sum(before: Usage, after: Usage) -> Usage:
    """Return the sum of the usage of two requests; values that are not counts are those of the later one."""
    total = {**before, **after}
    for name in before.keys() & after.keys():
        first, second = before[name], after[name]
        if is_json_object(first) and is_json_object(second):
            total[name] = _sum(first, second)
        elif isinstance(first, int) and isinstance(second, int):
            total[name] = first + second
    return total


def _optional_text(value: object) -> str | None:
    return value if isinstance(value, str) else None
