"""Reports an answer of either API as the Messages API would stream it; repairs what servers omit or get wrong."""

from __future__ import annotations

from collections.abc import Iterable

from reenact.actors.environment.failures import Fault, error_in, error_text_in, type_of_refusal
from reenact.actors.environment.received_json import first_element, is_json_object, lenient_json, object_in
from reenact.actors.environment.wire.decode import MessageDecoder, fresh_call_id
from reenact.actors.environment.wire.messages import FOREIGN
from reenact.actors.environment.wire.stream import IMPOSSIBLE_COUNT, Delta, MalformedEventError, Started, WireEvent
from reenact.domain.loop.calls import UNREADABLE, json_text
from reenact.domain.messages import Said, StopDetails, ToolUseBlock, Usage
from reenact.domain.plain import Json, JsonDict, check_depth
from reenact.domain.stream.events import InputJsonDelta

FILTERED = "content_filter"
"""The error code with which Azure, and others after it, mark an answer or a question that a content filter refused."""
_TYPES = {
    FILTERED: FILTERED,
    "server_error": "api_error",
    "insufficient_quota": "billing_error",
    "rate_limit_exceeded": "rate_limit_error",
}
"""Error codes in an answer's fields, with the error types by which the Messages API reports them."""


class MessageBuilder:
    """Builds a message block by block. Ids of calls that are missing, or were used before, are replaced by new ones."""

    def __init__(self, message: MessageDecoder, conversation: Iterable[Said]) -> None:
        self._message = message
        self._begun = False
        self._open: str | None = None
        self._blocks = 0
        self._ids = {block.id for said in conversation for block in said.content if isinstance(block, ToolUseBlock)}
        self.has_calls = False
        self.is_refused = False
        self.usage: Usage = {}
        """The usage of the answer, as far as it has arrived."""

    def begin(self, model: object) -> None:
        """Begin the message with the model's name. Message ids are dropped: some servers choose from a few hundred."""
        if not self._begun:
            self._begun = True
            self._take(WireEvent("message_start", message=Started(model=model if isinstance(model, str) else None)))

    def add_text(self, text: object) -> None:
        """Add text to the answer."""
        if isinstance(text, str) and text:
            self._open_block("text", {"type": "text"})
            self._take(WireEvent("content_block_delta", index=self._blocks, delta=Delta(text=text)))

    def add_thought(self, text: object, origin: str | None = None) -> None:
        """Add text to a thought; `origin` says how it is sent back to the API, if that is known already."""
        if isinstance(text, str) and text:
            self._open_block("thinking", _thinking_fields(origin))
            self._take(WireEvent("content_block_delta", index=self._blocks, delta=Delta(thinking=text)))

    def end_thought(self, origin: str) -> None:
        """End a thought, even one whose text was not sent, and note how it is sent back to the API."""
        self._open_block("thinking", _thinking_fields(None))
        self._take(WireEvent("content_block_delta", index=self._blocks, delta=Delta(signature=f"{FOREIGN}{origin}")))
        self.end_block()

    def end_block(self) -> None:
        """End the open text or thought, if there is one."""
        if self._open is not None:
            self._take(WireEvent("content_block_stop", index=self._blocks))
            self._open = None

    def new_call_id(self, given: object) -> str:
        """Return the id of a call that begins: the given one, or a new one if that is missing or taken."""
        call_id = given.strip() if isinstance(given, str) else ""
        while not call_id or call_id in self._ids:
            call_id = fresh_call_id()
        self._ids.add(call_id)
        return call_id

    def add_arguments(self, call_id: str, piece: str) -> None:
        """Add a piece of the arguments of a call; several calls may be open at the same time."""
        if piece:
            self.end_block()
            self._message.report(InputJsonDelta(id=call_id, partial_json=piece))

    def add_block(self, kind: str, fields: JsonDict) -> None:
        """Keep a block that only this API understands, and takes back, in the whole message."""
        self.end_block()
        self._blocks += 1
        block: JsonDict = {**fields, "type": f"{FOREIGN}{kind}"}
        self._take(WireEvent("content_block_start", index=self._blocks, content_block=block))
        self._take(WireEvent("content_block_stop", index=self._blocks))

    def add_call(self, call_id: str, name: str, arguments: str, kept: JsonDict | None = None) -> None:
        """Add a complete call; `kept` holds fields that only an API understands and takes back, by the API's name."""
        self.end_block()
        self.has_calls = True
        self._blocks += 1
        fields: JsonDict = {"type": "tool_use", "id": call_id, "name": name, "input": arguments_of(arguments)}
        fields |= {f"{FOREIGN}{api}": value for api, value in (kept or {}).items()}
        self._take(WireEvent("content_block_start", index=self._blocks, content_block=fields))
        self._take(WireEvent("content_block_stop", index=self._blocks))

    def break_off(self) -> None:
        """Report the usage of an answer that will not be complete."""
        self._take(WireEvent("message_delta", usage=dict(self.usage)))

    def refuse(self, explanation: str) -> None:
        """End the message as refused: the server has refused to answer, or to go on."""
        self.begin(None)
        self.end("refusal", category=FILTERED, explanation=explanation)

    def end(self, stop_reason: str, *, category: str | None = None, explanation: str | None = None) -> None:
        """End the message; `category` says why the API cut it off, and `explanation` describes that."""
        self.end_block()
        if self.is_refused:
            stop_reason = "refusal"
        details = StopDetails(category=category, explanation=explanation) if stop_reason == "refusal" else None
        ending = Delta(stop_reason=stop_reason, stop_details=details)
        self._take(WireEvent("message_delta", delta=ending, usage=dict(self.usage)))
        self._take(WireEvent("message_stop"))

    def _open_block(self, kind: str, fields: JsonDict) -> None:
        if self._open != kind:
            self.end_block()
            self._open = kind
            self._blocks += 1
            self._take(WireEvent("content_block_start", index=self._blocks, content_block=fields))

    def _take(self, event: WireEvent) -> None:
        self._message.take(event)


def _thinking_fields(origin: str | None) -> JsonDict:
    return {"type": "thinking"} if origin is None else {"type": "thinking", "signature": f"{FOREIGN}{origin}"}


def arguments_of(text: str) -> JsonDict:
    """Return the arguments of a call. Some models write line ends within strings, or encode the JSON twice."""
    if text.strip() in {"", "null"}:
        return {}
    try:
        value = lenient_json(text)
        if isinstance(value, str):
            value = lenient_json(value)
        check_depth("it", value)
    except ValueError:
        value = None
    return value if is_json_object(value) else {UNREADABLE: text}


def arguments_text(arguments: Json) -> str:
    """Return arguments, or a piece of them, as JSON text; some servers send them as an object."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json_text(arguments)


def json_object(data: bytes) -> JsonDict:
    """Return the JSON object of an event.

    Raises:
        MalformedEventError: it is not a JSON object.
    """
    try:
        value = first_element(lenient_json(data))
    except ValueError as broken:
        raise MalformedEventError(f"an event of the stream cannot be read: {broken}") from None
    if not is_json_object(value):
        raise MalformedEventError(f"an event of the stream is not an object: {value!r:.200}")
    return value


def usage_of(told: JsonDict) -> Usage:
    """Return the usage under the names of the Messages API, which counts tokens from the cache separately.

    Both APIs include them in the input tokens, and differ in the names. Values that are not counts are left out.
    Servers that count cached tokens separately, or count them as both read and written, do not inflate the total.
    """
    asked = _count(told, "prompt_tokens", "input_tokens")
    of_asked = object_in(told, "prompt_tokens_details") or object_in(told, "input_tokens_details")
    of_answered = object_in(told, "completion_tokens_details") or object_in(told, "output_tokens_details")
    read = _count(of_asked, "cached_tokens") or _count(told, "cached_tokens", "num_cached_tokens") or 0
    written = _count(of_asked, "cache_write_tokens") or 0
    thought = _count(of_answered, "reasoning_tokens")
    answered = _answered(told, asked or 0, thought or 0)
    usage: JsonDict = {}
    if asked is not None:
        if read <= asked:  # otherwise they are not included in the input tokens
            written = min(written, asked - read)
            asked -= read + written
        usage["input_tokens"] = asked
    if answered is not None:
        usage["output_tokens"] = answered
    if read:
        usage["cache_read_input_tokens"] = read
    if written:
        usage["cache_creation_input_tokens"] = written
    if thought:
        usage["output_tokens_details"] = {"thinking_tokens": thought}
    return usage


def _answered(told: JsonDict, asked: int, thought: int) -> int | None:
    """Return the output tokens with those of thoughts, which xAI counts separately, as its total shows."""
    answered = _count(told, "completion_tokens", "output_tokens")
    if answered is not None and _count(told, "total_tokens") == asked + answered + thought:
        return answered + thought
    return answered


def _count(told: JsonDict, *names: str) -> int | None:
    counts = (told.get(name) for name in names)
    return next((one for one in counts if isinstance(one, int) and 0 <= one < IMPOSSIBLE_COUNT), None)


def fault_in(data: bytes) -> Fault:
    """Return the fault of an event named `error`: an object, an object within another, or plain text."""
    try:
        value = lenient_json(data)
    except ValueError:
        value = data.decode(errors="replace")
    return fault_of(error_in(value))


def fault_of(error: object) -> Fault:
    """Return the fault that was sent instead of an answer: an object with a message, or plain text."""
    told = error if is_json_object(error) else {}
    code, kind = told.get("code"), told.get("type")
    names = [name for name in (code, kind) if isinstance(name, str)]
    error_type = next((_TYPES[name] for name in names if name in _TYPES), "api_error")
    if isinstance(code, int):
        error_type = type_of_refusal(None, code)
    elif error_type == "api_error" and any("invalid" in name for name in names):
        error_type = "invalid_request_error"
    return Fault(error_type, error_text_in(error) or str(code or error_type))
