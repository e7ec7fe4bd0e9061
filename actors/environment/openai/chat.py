"""Chat Completions in the dialects of various servers: requests, and the parsing of answers.

Ollama gives all calls of an answer the index 0, or none, and sends them whole; others send a call in pieces, several
calls at a time, with the name in each piece, without an id, or with the arguments as an object. Some send the finish
reason `stop` although there are calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reenact.actors.environment.failures import Fault
from reenact.actors.environment.openai.answer import (
    FILTERED,
    MessageBuilder,
    arguments_text,
    fault_in,
    fault_of,
    json_object,
    usage_of,
)
from reenact.actors.environment.openai.content import (
    Part,
    joined_text,
    messages_for,
    question_parts,
    result_parts,
    text_of,
)
from reenact.actors.environment.received_json import is_json_object, lenient_json, object_in, objects_in, text_in
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import ApiBlock
from reenact.actors.environment.wire.stream import ERROR
from reenact.domain.loop.calls import json_text
from reenact.domain.messages import Said
from reenact.domain.plain import Json, JsonDict

DONE = b"[DONE]"
THOUGHTS = ("reasoning_content", "reasoning")
"""The fields in which servers send thoughts, and take them back; some send both, with the same text."""
DETAILS = "reasoning_details"
"""The field in which OpenRouter sends the signature data of a thought, and takes it back."""
SIGNATURE = "data"
EXTRA = "extra_content"
"""The field of a call in which Gemini sends the signature of the thought that led to it, and takes it back."""
_TEXT_KEYS = frozenset({"text", "summary"})
_REASONS = {"length": "max_tokens", "model_length": "max_tokens", "content_filter": "refusal"}
_BROKEN_OFF = frozenset({"error", "abort", "insufficient_system_resource"})


class _Call:
    """A call that is being received."""

    def __init__(self, index: object, given: object, call_id: str) -> None:
        self.index = index
        self.given = given
        self.id = call_id
        self.name = ""
        self.arguments = ""
        self.extra: JsonDict = {}

    @property
    def is_whole(self) -> bool:
        try:
            lenient_json(self.arguments)
        except ValueError:
            return False
        return True


class ChatReader:
    """Parses the chunks of one answer and reports it as a message. `has_ended` is whether the rest may be missing."""

    def __init__(self, message: MessageDecoder, conversation: Iterable[Said]) -> None:
        self.builder = MessageBuilder(message, conversation)
        self._calls: list[_Call] = []
        self._details: list[JsonDict] = []
        self._has_answered = False
        self._is_whole = False
        self._reason: str | None = None
        self.is_complete = False

    @property
    def has_ended(self) -> bool:
        """Whether the finish reason has arrived; only the usage may follow."""
        return self._reason is not None

    def take(self, name: str, data: bytes) -> None:
        """Take in the next event.

        Raises:
            Fault: it reports an error.
            MalformedEventError: it cannot be read.
        """
        if data.strip() == DONE:
            self._end_whole()
        elif not self.is_complete:
            if name == ERROR:
                raise fault_in(data)
            self._take(json_object(data))

    def whole(self, body: bytes) -> None:
        """Take in an answer that was not streamed; raises as `take` does."""
        self._is_whole = True
        answer = json_object(body)
        self._take(answer)
        if not self._has_answered:
            raise Fault("api_error", f"the server answered with {answer!r:.200}, which is not a completion")
        self._end_whole()

    def end(self) -> None:
        """Report the calls and the end of the message, at the end of the stream.

        Raises:
            Fault: the stream ended before the end of the answer.
        """
        if self.is_complete:
            return
        if self._reason is None:
            raise Fault("incomplete_stream", "the stream ended before the answer was complete")
        if self._reason in _BROKEN_OFF:
            raise Fault("api_error", f"the server broke off its answer: {self._reason}")
        reason = _REASONS.get(self._reason)
        if any(SIGNATURE in one or one.get("signature") for one in self._details):
            self.builder.add_block(f"chat:{DETAILS}", {DETAILS: [*self._details]})
        for call in self._calls[:-1] if reason else self._calls:  # if cut, the last call may be partial
            self.builder.add_call(call.id, call.name, call.arguments, {"chat": call.extra} if call.extra else None)
        self.is_complete = True
        reason = reason or ("tool_use" if self.builder.has_calls else "end_turn")
        self.builder.end(reason, category=FILTERED if reason == "refusal" else None)

    def _end_whole(self) -> None:
        """End an answer that the server has marked as complete; some servers send no finish reason then."""
        if self._has_answered and self._reason is None:
            self._reason = "stop"
        self.end()

    def _take(self, chunk: JsonDict) -> None:
        usage = object_in(chunk, "usage")
        if usage:
            self.builder.usage = usage_of(usage)
        choices = objects_in(chunk, "choices")
        errors = [chunk.get(ERROR), *(choice.get(ERROR) for choice in choices)]
        for error in filter(None, [*errors, chunk if chunk.get("object") == ERROR else None]):
            raise fault_of(error)
        self.builder.begin(chunk.get("model"))
        for choice in choices:
            if not choice.get("index"):  # only one answer was requested
                self._has_answered = True
                whole, piece = object_in(choice, "message"), object_in(choice, "delta")
                self._report_delta(whole or piece if self._is_whole else piece or whole)
                reason = choice.get("finish_reason")
                self._reason = reason if isinstance(reason, str) and reason else self._reason

    def _report_delta(self, delta: JsonDict) -> None:
        field = next((name for name in THOUGHTS if delta.get(name)), None)
        if field is not None:
            self.builder.add_thought(delta[field], f"chat:{field}")
        self._report_content(delta.get("content"))
        if delta.get("refusal"):
            self.builder.is_refused = True
            self.builder.add_text(delta["refusal"])
        for detail in objects_in(delta, DETAILS):
            self._add_detail(detail)
        for entry in objects_in(delta, "tool_calls") or _single_call(delta):
            self._add_call_piece(entry)

    def _report_content(self, content: Json) -> None:
        """Report the text of the content, which some servers split into parts; Mistral also sends thoughts as parts."""
        for part in content if isinstance(content, list) else (content,):
            if not is_json_object(part):
                self.builder.add_text(part)
            elif part.get("type") == "thinking":
                thought = part.get("thinking")
                texts = [one.get("text") for one in objects_in(part, "thinking")]
                for text in texts if isinstance(thought, list) else (thought,):
                    self.builder.add_thought(text)
            else:
                self.builder.add_text(part.get("text"))

    def _add_detail(self, detail: JsonDict) -> None:
        """Keep OpenRouter's details of a thought: text comes in pieces, signature data with the last one or alone."""
        last = self._details[-1] if self._details else {}
        if SIGNATURE in detail or any(last.get(name) != detail.get(name) for name in ("type", "index")):
            self._details.append({**detail})
            return
        for name, value in detail.items():
            before = last.get(name)
            if name in _TEXT_KEYS and isinstance(before, str) and isinstance(value, str):
                last[name] = before + value
            elif value is not None:
                last[name] = value

    def _add_call_piece(self, entry: JsonDict) -> None:
        function = object_in(entry, "function")
        name, piece = function.get("name"), arguments_text(function.get("arguments"))
        index, given = entry.get("index"), entry.get("id")
        begun = () if self._is_whole else reversed(self._calls)
        call = next((one for one in begun if one.index == index), None)
        if call is None or (name and _begins_another_call(call, name, given, piece)):
            call = _Call(index, given, self.builder.new_call_id(given))
            self._calls.append(call)
        if isinstance(name, str):
            call.name = call.name or name
        if extra := object_in(entry, EXTRA):
            call.extra = {EXTRA: extra}
        call.arguments += piece
        self.builder.add_arguments(call.id, piece)


def _single_call(delta: JsonDict) -> list[JsonDict]:
    """Return the call in the field that OpenAI had before `tool_calls`; some servers fill both."""
    function = object_in(delta, "function_call")
    return [{"function": function}] if function else []


def _begins_another_call(call: _Call, name: Json, given: Json, piece: str) -> bool:
    """Return whether a named piece under a call's index begins another call; in some dialects every piece has the name.

    A different id means another call, and so does a different name after arguments. Complete arguments are not
    continued.
    """
    if given and call.given and given != call.given:
        return True
    return bool(call.arguments) and (name != call.name or (call.is_whole and bool(piece.strip())))


def chat_messages(question: Question, *, thoughts: bool) -> list[dict[str, object]]:
    """Return the `messages` of a request.

    Raises:
        Fault: something in the question cannot be sent.
    """
    told: list[dict[str, object]] = []
    if (question.system or "").strip():
        told.append({"role": "system", "content": question.system})
    messages = messages_for("chat", question.messages, thoughts=thoughts)
    for message in messages:
        if message["role"] == "assistant":
            answer = _assistant_message(message["content"])
            told += [answer] if answer["content"] or "tool_calls" in answer else []
        else:
            told += _user_messages(message["content"])
    return told


def chat_tool(tool: Mapping[str, object]) -> dict[str, object]:
    """Return the definition of a tool."""
    function = {"name": tool.get("name"), "description": text_in(tool, "description")}
    return {"type": "function", "function": {**function, "parameters": tool.get("input_schema")}}


def _assistant_message(blocks: Sequence[ApiBlock]) -> dict[str, object]:
    """Return a message of the model; its thoughts are sent back in the field in which they came."""
    message: dict[str, object] = {"role": "assistant", "content": joined_text(blocks) or None}
    for block in blocks:
        field = text_in(block, "signature")
        if field in THOUGHTS:
            message[field] = text_in(message, field) + text_in(block, "thinking")
    details = [one for block in blocks if block.get("type") == DETAILS for one in objects_in(block, DETAILS)]
    if details:
        message[DETAILS] = details
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json_text(block["input"])},
            **({EXTRA: block[EXTRA]} if EXTRA in block else {}),
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return {**message, "tool_calls": calls} if calls else message


def _user_messages(blocks: Sequence[ApiBlock]) -> Iterator[dict[str, object]]:
    """Yield tool results, which must be text, and then the user's message, with the images that tools returned."""
    shown: list[Part] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            parts = result_parts("chat", block)
            pictures = [part for part in parts if part.kind != "text"]
            if pictures:
                shown += [Part("text", f"What {block['tool_use_id']} has returned:"), *pictures]
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(parts)}
    parts = [*shown, *question_parts("chat", blocks)]
    if parts:
        texts = all(part.kind == "text" for part in parts)
        yield {"role": "user", "content": text_of(parts) if texts else [_part(part) for part in parts]}


def _part(part: Part) -> dict[str, object]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": part.url}}
    file = {"file_id": part.file_id} if part.file_id else {"filename": part.name, "file_data": part.url}
    return {"type": "file", "file": file}
