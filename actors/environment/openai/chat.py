"""Chat Completions, in the dialects that servers speak: requests, and the reading of answers.

Ollama gives all calls of an answer the index 0, or none, and whole; others send a call in pieces, several at a time,
with the name in each piece, without an id, or with the arguments as an object. Some say `stop` where there are calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reenact.actors.environment.openai.answer import (
    Telling,
    fault_of,
    json_object,
    object_in,
    objects_in,
    usage_of,
    written,
)
from reenact.actors.environment.openai.content import (
    Part,
    arguments_in,
    joined,
    messages_for,
    question_parts,
    result_parts,
    text_at,
    text_in,
)
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.faults import Fault
from reenact.actors.environment.wire.messages import ApiBlock
from reenact.actors.environment.wire.stream import is_json_object, lenient_json
from reenact.domain.messages import Said, Usage
from reenact.domain.plain import Json, JsonDict

DONE = b"[DONE]"
THOUGHTS = ("reasoning_content", "reasoning")
"""The fields in which servers send thoughts, and take them back; some send both, with the same text."""
_REASONS = {"length": "max_tokens", "model_length": "max_tokens", "content_filter": "refusal"}
_BROKEN = frozenset({"error", "insufficient_system_resource"})


class _Call:
    """A call on its way."""

    def __init__(self, index: object, given: object, call_id: str) -> None:
        self.index = index
        self.given = given
        self.id = call_id
        self.name = ""
        self.written = ""

    @property
    def is_whole(self) -> bool:
        try:
            return is_json_object(lenient_json(self.written))
        except ValueError:
            return False


class ChatReader:
    """Reads the chunks of one answer, and tells it to the message. `has_ended` is whether the rest may be missing."""

    def __init__(self, message: MessageDecoder, conversation: Iterable[Said]) -> None:
        self._telling = Telling(message, conversation)
        self._calls: list[_Call] = []
        self._usage: Usage = {}
        self._reason: str | None = None
        self.is_complete = False

    @property
    def has_ended(self) -> bool:
        """Whether it is known why the answer ends; what follows is what was used for it."""
        return self._reason is not None

    def take(self, _name: str, data: bytes) -> None:
        """Take in the next event.

        Raises:
            Fault: it says that something went wrong.
            MalformedEventError: it cannot be read.
        """
        if data.strip() == DONE:
            self.end()
        elif not self.is_complete:
            self._take(json_object(data))

    def whole(self, body: bytes) -> None:
        """Take in an answer that was not streamed; raises as `take` does."""
        self._take(json_object(body))
        self.end()

    def end(self) -> None:
        """Say the calls, and that the message is complete: the stream is over.

        Raises:
            Fault: it broke off before the end of the answer.
        """
        if self.is_complete:
            return
        if self._reason is None:
            raise Fault("incomplete_stream", "the stream ended before the answer was complete", again=True)
        if self._reason in _BROKEN:
            raise Fault("api_error", f"the server broke off its answer: {self._reason}", again=True)
        reason = _REASONS.get(self._reason)
        for call in self._calls[:-1] if reason else self._calls:  # what is cut, is cut at its end
            self._telling.call(call.id, call.name, call.written)
        self.is_complete = True
        reason = reason or ("tool_use" if self._telling.has_calls else "end_turn")
        self._telling.end(reason, self._usage, category="content_filter" if reason == "refusal" else None)

    def _take(self, chunk: JsonDict) -> None:
        if chunk.get("error"):
            raise fault_of(chunk["error"])
        self._telling.begin(chunk.get("model"))
        usage = object_in(chunk, "usage")
        if usage:
            self._usage = usage_of(usage)
        for choice in objects_in(chunk, "choices"):
            if not choice.get("index"):  # one answer is asked for
                self._go_on(object_in(choice, "delta") or object_in(choice, "message"))
                reason = choice.get("finish_reason")
                self._reason = reason if isinstance(reason, str) and reason else self._reason

    def _go_on(self, delta: JsonDict) -> None:
        field = next((name for name in THOUGHTS if delta.get(name)), None)
        if field is not None:
            self._telling.think(delta[field], f"chat:{field}")
        self._say(delta.get("content"))
        if delta.get("refusal"):
            self._telling.is_refused = True
            self._telling.say(delta["refusal"])
        for entry in objects_in(delta, "tool_calls"):
            self._call(entry)

    def _say(self, content: Json) -> None:
        """Say what is text in the content, which some servers cut into parts."""
        for part in content if isinstance(content, list) else (content,):
            self._telling.say(part.get("text") if is_json_object(part) else part)

    def _call(self, entry: JsonDict) -> None:
        function = object_in(entry, "function")
        name, piece = function.get("name"), written(function.get("arguments"))
        index, given = entry.get("index"), entry.get("id")
        call = next((one for one in reversed(self._calls) if one.index == index), None)
        if call is None or (name and _is_another(call, given, piece)):
            call = _Call(index, given, self._telling.call_id(given))
            self._calls.append(call)
        if isinstance(name, str):
            call.name = call.name or name
        call.written += piece
        self._telling.write(call.id, piece)


def _is_another(call: _Call, given: Json, written: str) -> bool:
    """Return whether a named piece under the index of a call begins another one; all have the name in some dialects.

    Arguments that are whole are never continued, and those that are not, always.
    """
    if not call.written:
        return bool(given and call.given and given != call.given)
    return call.is_whole and bool(written.strip() or (given and given != call.given))


def chat_messages(question: Question, *, thoughts: bool) -> list[dict[str, object]]:
    """Return the `messages` of a request.

    Raises:
        Fault: something in the question cannot be sent.
    """
    told: list[dict[str, object]] = []
    if (question.system or "").strip():
        told.append({"role": "system", "content": question.system})
    messages = messages_for("chat", question.messages, thoughts=thoughts)
    for number, message in enumerate(messages, 1):
        if message["role"] == "assistant":
            told.append(_answer(message["content"]))
        else:
            told += _asked(message["content"], is_last=number == len(messages))
    return told


def chat_tool(tool: Mapping[str, object]) -> dict[str, object]:
    """Return the definition of a tool."""
    function = {"name": tool.get("name"), "description": text_at(tool, "description")}
    return {"type": "function", "function": {**function, "parameters": tool.get("input_schema")}}


def _answer(blocks: Sequence[ApiBlock]) -> dict[str, object]:
    """Return a message of the model; its thoughts go back in the field that they came in."""
    message: dict[str, object] = {"role": "assistant", "content": text_in(blocks) or None}
    for block in blocks:
        field = text_at(block, "signature")
        if field in THOUGHTS:
            message[field] = text_at(message, field) + text_at(block, "thinking")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": arguments_in(block)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return {**message, "tool_calls": calls} if calls else message


def _asked(blocks: Sequence[ApiBlock], *, is_last: bool) -> Iterator[dict[str, object]]:
    """Yield the results of tools, which are texts, and after them what the user says, and what tools have shown."""
    shown: list[Part] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            parts = result_parts("chat", block)
            pictures = [part for part in parts if part.kind != "text"]
            if pictures:
                shown += [Part("text", f"What {block['tool_use_id']} has returned:"), *pictures]
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": joined(parts)}
    parts = [*shown, *question_parts("chat", blocks, is_last=is_last)]
    if parts:
        texts = all(part.kind == "text" for part in parts)
        yield {"role": "user", "content": joined(parts) if texts else [_part(part) for part in parts]}


def _part(part: Part) -> dict[str, object]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url}}
    file = {"file_id": part.file_id} if part.file_id else {"filename": part.name, "file_data": part.url}
    return {"type": "file", "file": file}
