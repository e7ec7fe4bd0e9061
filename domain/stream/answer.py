"""Normalises the stream events of a turn, and assembles the answer from them.

Drivers, mocks and users' environments differ in which events they leave out. All their events pass through one
`Answer`, which inserts a missing `message_start`, treats text between `thinking_start` and `thinking_end` as thinking,
gives each call an id, joins the input of a call that arrives in pieces, and drops events that do not fit. The events it
returns are published; its content at any moment is the answer so far. The log holds the published events, so that the
partial answer of a crashed turn is rebuilt by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reenact.domain.loop.calls import input_of, is_unreadable
from reenact.domain.messages import Block, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from reenact.domain.plain import Json, JsonObject
from reenact.domain.stream.events import (
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

CUT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
"""Stop reasons that can cut a message anywhere, even before the first byte of a tool's input."""


class Complete(MessageStop, kw_only=True):
    """A `message_stop` of a driver that knows the whole message, with blocks that no delta carries, such as citations.

    Subscribers get a plain `message_stop`; the message is recorded with this content.
    """

    content: tuple[Block, ...]


class Answer:
    """The answer of one turn as it arrives. Not thread-safe."""

    message_id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    error: StreamError | None = None
    _call: ToolCall | None = None
    """A call without input, which is published once its input is complete."""
    _complete_content: tuple[Block, ...] | None = None
    _last_was_text = False
    """Whether the last event was text: more text then needs no checks."""
    _thinking = False
    _thinking_is_implied = False
    """Whether thinking began without a `thinking_start`: it then ends with the first text."""

    def __init__(self, new_message_id: Callable[[], str]) -> None:
        self._new_message_id = new_message_id
        self._blocks: list[Block] = []
        self._text: list[str] = []
        self._thought: list[str] = []
        self._input_pieces: list[str] = []
        self.usage: Usage = {}

    @property
    def finished(self) -> bool:
        """Whether the answer has ended: it is complete, or has failed."""
        return self.stop_reason is not None or self.error is not None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The content blocks so far, in order."""
        if self._complete_content is not None:
            return self._complete_content
        blocks = list(self._blocks)
        if self._thought:
            blocks.append(ThinkingBlock("".join(self._thought)))
        if text := "".join(self._text):
            blocks.append(TextBlock(text))
        return tuple(blocks)

    def accept_all(self, events: Iterable[StreamData]) -> list[StreamData]:
        """Process events of the environment; return the events to publish, in order."""
        published: list[StreamData] = []
        for event in events:
            if self._last_was_text and type(event) is TextDelta:  # fast path for most events
                self._text.append(event.text)
                published.append(event)
            else:
                published += self.accept(event)
        return published

    def accept(self, event: StreamData) -> tuple[StreamData, ...]:
        """Process one event; return the events to publish."""
        if self.finished:
            return ()
        self._last_was_text = False
        if self._call is not None and not isinstance(event, InputJsonDelta):
            return (*self._finish_call(event), *self.accept(event))
        match event:
            case TextDelta() if not self._thinking or self._thinking_is_implied:
                return (*self._start_if_needed(), *self._close_thought(), *self._add_text(event))
            case TextDelta() | ThinkingDelta():
                return self._add_thought(event)
            case MessageStart():
                return () if self.message_id is not None else (self._start_message(event),)
            case MessageStop():
                return self._stop(event)
            case StreamError():
                self.error = event
                return (event,)
            case ThinkingStart():
                return () if self._thinking else (*self._start_if_needed(), *self._open_thought())
            case ThinkingEnd():
                return (*self._start_if_needed(), *self._close_thought(event)) if self._thinking else ()
            case MessageDelta():
                self.usage = event.usage
                return (*self._start_if_needed(), event)
            case ToolCall() | InputJsonDelta() | ToolResult():
                return (*self._start_if_needed(), *self._close_thought(), *self._add_tool_event(event))
            case _:
                return ()

    def _start_message(self, event: MessageStart) -> MessageStart:
        self.message_id = event.message_id or self._new_message_id()
        self.model = event.model
        return MessageStart(message_id=self.message_id, model=event.model)

    def _start_if_needed(self) -> tuple[StreamData, ...]:
        return () if self.message_id is not None else (self._start_message(MessageStart()),)

    def _add_text(self, event: TextDelta) -> tuple[StreamData, ...]:
        self._text.append(event.text)
        self._last_was_text = True
        return (event,)

    def _add_thought(self, event: TextDelta | ThinkingDelta) -> tuple[StreamData, ...]:
        before: tuple[StreamData, ...] = ()
        if not self._thinking:
            before = (*self._start_if_needed(), *self._open_thought())
            self._thinking_is_implied = True
        self._thought.append(event.text)
        return (*before, ThinkingDelta(text=event.text))

    def _open_thought(self) -> tuple[StreamData, ...]:
        self._flush_text()
        self._thinking, self._thinking_is_implied = True, False
        return (ThinkingStart(),)

    def _close_thought(self, event: ThinkingEnd | None = None) -> tuple[StreamData, ...]:
        if not self._thinking:
            return ()
        self._thinking = False
        end = event or ThinkingEnd()
        thought, self._thought = "".join(self._thought), []
        if thought or end.signature:
            self._blocks.append(ThinkingBlock(thought, end.signature))
        return (end,)

    def _add_tool_event(self, event: ToolCall | InputJsonDelta | ToolResult) -> tuple[StreamData, ...]:
        match event:
            case ToolCall(input=None):
                self._call = event
                return ()
            case ToolCall():
                return (self._add_call(event, _as_object(event.input)),)
            case InputJsonDelta() if self._call is not None and event.id in (None, self._call.id):
                self._input_pieces.append(event.partial_json)
            case _:
                pass
        return (event,)

    def _finish_call(self, then: StreamData) -> tuple[StreamData, ...]:
        """Return the call whose input arrived in pieces; nothing if a cut message left it unreadable."""
        call, self._call = self._call, None
        arguments, self._input_pieces = input_of("".join(self._input_pieces)), []
        is_cut = isinstance(then, StreamError) or (isinstance(then, MessageStop) and then.stop_reason in CUT)
        return () if call is None or (is_cut and is_unreadable(arguments)) else (self._add_call(call, arguments),)

    def _add_call(self, call: ToolCall, arguments: JsonObject) -> ToolCall:
        self._flush_text()
        id_ = call.id if call.id and call.id.strip() else f"{self.message_id}_{len(self._blocks)}"
        self._blocks.append(ToolUseBlock(id_, call.name, arguments))
        given = arguments if call.input is None else call.input
        return call if call.id == id_ and call.input is given else ToolCall(id=id_, name=call.name, input=given)

    def _stop(self, event: MessageStop) -> tuple[StreamData, ...]:
        before = (*self._start_if_needed(), *self._close_thought())
        self.stop_reason = event.stop_reason
        self.stop_sequence, self.stop_details = event.stop_sequence, event.stop_details
        if isinstance(event, Complete):
            self._complete_content = event.content
            event = MessageStop(
                stop_reason=event.stop_reason, stop_sequence=event.stop_sequence, stop_details=event.stop_details
            )
        return (*before, event)

    def _flush_text(self) -> None:
        if text := "".join(self._text):
            self._blocks.append(TextBlock(text))
        self._text = []


def gather(events: Iterable[StreamData]) -> Answer:
    """Return the answer of the last attempt, assembled from published stream events."""
    answer = Answer(lambda: "")
    for event in events:
        if isinstance(event, MessageStart):
            answer = Answer(lambda: "")
        answer.accept(event)
    return answer


def _as_object(value: Json) -> JsonObject:
    return {str(name): one for name, one in value.items()} if isinstance(value, dict) else {"input": value}
