"""The Responses API: requests, and the parsing of answers, which consist of items that arrive in pieces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from reenact.actors.environment.failures import Fault
from reenact.actors.environment.openai.answer import (
    MessageBuilder,
    arguments_text,
    fault_in,
    fault_of,
    json_object,
    usage_of,
)
from reenact.actors.environment.openai.chat import DONE
from reenact.actors.environment.openai.content import (
    Part,
    messages_for,
    question_parts,
    result_parts,
    text_of,
)
from reenact.actors.environment.received_json import object_in, objects_in, text_in
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import ApiBlock
from reenact.actors.environment.wire.stream import ERROR
from reenact.domain.loop.calls import json_text
from reenact.domain.messages import Said
from reenact.domain.plain import JsonDict

_Place: TypeAlias = int | str | None
PHASE = "phase"
_PARAGRAPH = "\n\n"
_UNFINISHED = frozenset({"queued", "in_progress"})
_NO_ANSWER_YET = "the server has only begun to answer; `background` is not supported: leave it out of `extra`"
_CUT = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
_log = logging.getLogger(__name__)


class ResponsesReader:
    """Parses the events of one answer and reports it as a message."""

    has_ended = False
    """False: nothing may be missing after the reason for the end, because it arrives together with the usage."""

    def __init__(self, message: MessageDecoder, conversation: Iterable[Said]) -> None:
        self.builder = MessageBuilder(message, conversation)
        self._calls: dict[_Place, str] = {}
        self._reported: set[_Place] = set()
        """The items of which pieces have arrived."""
        self._done: set[_Place] = set()
        self._phased: set[_Place] = set()
        self._left_out: set[str] = set()
        """The types of items that have been logged as left out."""
        self.is_complete = False
        self._table: dict[str, Callable[[JsonDict], None]] = {
            "response.created": lambda event: self.builder.begin(object_in(event, "response").get("model")),
            "response.output_item.added": self._begin_item,
            "response.output_text.delta": self._report_text,
            "response.refusal.delta": self._report_refusal,
            "response.reasoning_summary_part.added": self._begin_part,
            "response.reasoning_summary_text.delta": self._report_thought,
            "response.reasoning_text.delta": self._report_thought,
            "response.function_call_arguments.delta": self._report_arguments,
            "response.output_item.done": lambda event: self._end_item(_place(event), object_in(event, "item")),
            "response.completed": self._end,
            "response.incomplete": self._end,
            "response.failed": self._end,
            "error": self._fail,
        }

    def take(self, name: str, data: bytes) -> None:
        """Take in the next event.

        Raises:
            Fault: it reports an error.
            MalformedEventError: it cannot be read.
        """
        if data.strip() == DONE or self.is_complete:
            return
        if name == ERROR:
            raise fault_in(data)
        event = json_object(data)
        kind = event.get("type") or name or ("error" if "error" in event else "")
        handle = self._table.get(str(kind))
        if handle is not None:
            handle(event)

    def whole(self, body: bytes) -> None:
        """Take in an answer that was not streamed; raises as `take` does."""
        answer = json_object(body)
        self._end({"response": answer} if answer.get("object") == "response" else answer)

    def end(self) -> None:
        """Raise `Fault` if the stream ended before the end of the answer."""
        if not self.is_complete:
            raise Fault("incomplete_stream", "the stream ended before the answer was complete")

    def _begin_item(self, event: JsonDict) -> None:
        item = object_in(event, "item")
        if item.get("type") == "function_call":
            self._calls[_place(event)] = self.builder.new_call_id(item.get("call_id"))
        elif item.get("type") == "message":
            self._begin_message(_place(event), item)

    def _report_text(self, event: JsonDict) -> None:
        self._reported.add(_place(event))
        self.builder.add_text(event.get("delta"))

    def _report_refusal(self, event: JsonDict) -> None:
        self.builder.is_refused = True
        self._report_text(event)

    def _begin_part(self, event: JsonDict) -> None:
        if _place(event) in self._reported:
            self.builder.add_thought(_PARAGRAPH)

    def _report_thought(self, event: JsonDict) -> None:
        self._reported.add(_place(event))
        self.builder.add_thought(event.get("delta"))

    def _report_arguments(self, event: JsonDict) -> None:
        call_id = self._calls.get(_place(event))
        if call_id is not None:
            self._reported.add(_place(event))
            self.builder.add_arguments(call_id, arguments_text(event.get("delta")))

    def _end_item(self, place: _Place, item: JsonDict) -> None:
        """End an item, which is complete in this event; report what has not been reported in pieces."""
        self._done |= {place, text_in(item, "id") or place}
        match item.get("type"):
            case "message":
                self._end_message(place, item)
            case "reasoning":
                self._end_thought(place, item)
            case "function_call":
                self._end_call(place, item)
            case kind:
                self._leave_out(str(kind))

    def _end_call(self, place: _Place, item: JsonDict) -> None:
        if item.get("status") != "incomplete":
            call_id = self._calls.get(place) or self.builder.new_call_id(item.get("call_id"))
            self.builder.add_call(call_id, str(item.get("name", "")), arguments_text(item.get("arguments")))

    def _leave_out(self, kind: str) -> None:
        if kind not in self._left_out:
            self._left_out.add(kind)
            _log.warning("left out of the answer, because the type is not supported: an item of type %r", kind)

    def _begin_message(self, place: _Place, item: JsonDict) -> None:
        """Keep the phase of a message, such as `commentary`, before its text."""
        phase = item.get(PHASE)
        if phase and place not in self._phased:
            self._phased.add(place)
            self.builder.add_block(f"responses:{PHASE}", {PHASE: phase})

    def _end_message(self, place: _Place, item: JsonDict) -> None:
        if place not in self._reported:
            self._begin_message(place, item)
        for part in objects_in(item, "content"):
            if part.get("type") == "refusal":
                self.builder.is_refused = True
            if place not in self._reported:
                self.builder.add_text(part.get("text") or part.get("refusal"))
        self.builder.end_block()

    def _end_thought(self, place: _Place, item: JsonDict) -> None:
        parts = objects_in(item, "summary") or objects_in(item, "content")
        if place not in self._reported:
            self.builder.add_thought(_PARAGRAPH.join(str(part.get("text", "")) for part in parts))
        sealed = item.get("encrypted_content")
        if isinstance(sealed, str) and sealed:
            self.builder.end_thought(f"responses:{item.get('id', '')}:{sealed}")
        else:
            self.builder.end_block()

    def _end(self, event: JsonDict) -> None:
        response = object_in(event, "response")
        self.builder.usage = usage_of(object_in(response, "usage"))
        error = response.get("error") or event.get("error")
        if error or text_in(response, "status") in {"failed", "cancelled"}:
            raise fault_of(error or "the server gave up its answer")
        if text_in(response, "status") in _UNFINISHED and not response.get("output"):
            raise Fault("api_error", _NO_ANSWER_YET, retryable=False)
        if not response:
            raise Fault("api_error", f"the server answered with {event!r:.200}, which is not a response")
        self.builder.begin(response.get("model"))
        for place, item in enumerate(objects_in(response, "output")):
            places = {place, str(item.get("id")), None}
            is_told = self._reported & places and item.get("type") != "function_call"
            if not is_told and not self._done & places:  # some servers never end the items that they send
                self._end_item(place, item)
        self.is_complete = True
        why = str(object_in(response, "incomplete_details").get("reason"))
        cut = (_CUT.get(why) or "max_tokens") if response.get("status") == "incomplete" else None
        reason = cut or ("tool_use" if self.builder.has_calls else "end_turn")
        self.builder.end(reason, category=why if reason == "refusal" else None)

    def _fail(self, event: JsonDict) -> None:
        raise fault_of(event.get("error") or event)


def _place(event: JsonDict) -> _Place:
    """Return the place of an event's item in the answer: its index, or else its id."""
    index, item_id = event.get("output_index"), event.get("item_id") or object_in(event, "item").get("id")
    return index if isinstance(index, int) else item_id if isinstance(item_id, str) else None


_DATA = "data:"


def input_items(question: Question, *, thoughts: bool) -> list[dict[str, object]]:
    """Return the `input` of a request.

    Raises:
        Fault: something in the question cannot be sent.
    """
    messages = messages_for("responses", question.messages, thoughts=thoughts)
    items: list[dict[str, object]] = []
    for message in messages:
        if message["role"] == "assistant":
            items += _answer_items(message["content"])
        else:
            items += _question_items(message["content"])
    return items


def function_tool(tool: Mapping[str, object]) -> dict[str, object]:
    """Return the definition of a tool. It is not made strict, since a strict schema has no optional arguments."""
    told = {"name": tool.get("name"), "description": text_in(tool, "description"), "strict": False}
    return {"type": "function", **told, "parameters": tool.get("input_schema")}


def _answer_items(blocks: Sequence[ApiBlock]) -> Iterator[dict[str, object]]:
    """Yield the items of an answer; thoughts with the item that follows them, as the API refuses them otherwise."""
    phase: dict[str, object] = {}
    thoughts: list[dict[str, object]] = []
    for block in blocks:
        match block.get("type"):
            case "phase":
                phase = {PHASE: block[PHASE]}
            case "thinking":
                item_id, _, sealed = text_in(block, "signature").partition(":")
                thought = text_in(block, "thinking")
                summary = [{"type": "summary_text", "text": thought}] if thought else []
                thoughts.append({"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": sealed})
            case "tool_use":
                call = {"call_id": block["id"], "name": block["name"], "arguments": json_text(block["input"])}
                yield from (*thoughts, {"type": "function_call", **call})
                thoughts = []
            case _:
                said = {"type": "message", "role": "assistant", "content": text_in(block, "text"), **phase}
                yield from (*thoughts, said)
                phase, thoughts = {}, []


def _question_items(blocks: Sequence[ApiBlock]) -> Iterator[dict[str, object]]:
    for block in blocks:
        if block.get("type") == "tool_result":
            parts = result_parts("responses", block)
            texts = all(part.kind == "text" for part in parts)
            output = text_of(parts) if texts else [_part(part) for part in parts]
            yield {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}
    parts = question_parts("responses", blocks)
    if parts:
        yield {"type": "message", "role": "user", "content": [_part(part) for part in parts]}


def _part(part: Part) -> dict[str, object]:
    if part.kind == "text":
        return {"type": "input_text", "text": part.text}
    if part.kind == "image":
        where = {"file_id": part.file_id} if part.file_id else {"image_url": part.url}
        return {"type": "input_image", "detail": "auto", **where}
    if part.file_id:
        return {"type": "input_file", "file_id": part.file_id}
    if (part.url or "").startswith(_DATA):
        return {"type": "input_file", "filename": part.name, "file_data": part.url}
    return {"type": "input_file", "file_url": part.url}
