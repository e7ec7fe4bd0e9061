"""The rules by which OpenAI's API refuses a request, from its public documentation and its own words.

They cover keys, the fields of a request and the combinations that are not allowed, tools and schemas; and that each
call of the conversation is answered right after it. They include a rule of other servers with the same dialect:
arguments of calls must be a JSON object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from reenact.domain.plain import is_mapping, is_sequence
from reenact.domain.tools import is_array, is_object
from reenact.testing.fake_rules import is_base64
from reenact.testing.fake_server import FakeError, Json

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,(.+)", re.DOTALL)
_REASONS = re.compile(r"(o\d|gpt-[5-9])")
"""The prefixes of the names of models that think first, and take neither `max_tokens` nor a temperature."""
_OF_ALL = frozenset(
    {
        "model",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    }
)
_OF_CHAT = _OF_ALL | {
    "audio",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "modalities",
    "n",
    "prediction",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "verbosity",
    "web_search_options",
}
_OF_RESPONSES = _OF_ALL | {
    "background",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "reasoning",
    "text",
    "truncation",
}


def refusal(path: str, headers: Mapping[str, str], body: Json, api_key: str | None) -> FakeError | None:
    """Return the refusal of a request, or None if the API would answer it. Without an `api_key` none is needed."""
    given = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if api_key is not None and given != api_key:
        return FakeError(401, message="Incorrect API key provided." if given else "You didn't provide an API key.")
    body = {field: value for field, value in body.items() if value is not None}
    wrong = next(_wrong_chat(body) if path == CHAT else _wrong_responses(body), None)
    return FakeError(400, message=wrong) if wrong is not None else None


def _wrong_chat(body: Json) -> Iterator[str]:
    yield from _wrong_fields(body, _OF_CHAT, ("model", "messages"))
    if "stream_options" in body and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    if "max_tokens" in body and "max_completion_tokens" in body:
        yield "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    if "max_tokens" in body and _REASONS.match(body["model"]):
        yield "Unsupported parameter: 'max_tokens' is not supported with this model."
    messages: object = body["messages"]
    if not is_sequence(messages) or not messages:
        yield "[] is too short - 'messages'"
        return
    said: list[Json] = body["messages"]
    for place, message in enumerate(said):
        for complaint in _wrong_message(message):
            yield f"messages[{place}]: {complaint}"
    yield from _wrong_calls(said)
    functions = [tool.get("function") for tool in body.get("tools", ())]
    yield from _wrong_tools(body, functions)
    form: Json = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        yield from _wrong_schema("response_format", form.get("json_schema"), "schema")


def _wrong_responses(body: Json) -> Iterator[str]:
    yield from _wrong_fields(body, _OF_RESPONSES, ("model", "input"))
    if "previous_response_id" in body:
        yield f"Previous response with id '{body['previous_response_id']}' not found."
    items: str | list[Json] = body["input"]
    if not items:
        yield "Invalid 'input': empty."
    if not isinstance(items, str):
        for place, item in enumerate(items):
            for complaint in _wrong_item(item):
                yield f"input[{place}]: {complaint}"
        yield from _wrong_items(items)
    yield from _wrong_tools(body, body.get("tools", ()))
    text: Json = body.get("text") or {}
    form: Json = text.get("format") or {}
    if form.get("type") == "json_schema":
        yield from _wrong_schema("text.format", form, "schema")


def _wrong_fields(body: Json, known: frozenset[str], required: Sequence[str]) -> Iterator[str]:
    for field in required:
        if field not in body:
            yield f"Missing required parameter: '{field}'."
    for field in sorted(body.keys() - known):
        yield f"Unknown parameter: '{field}'."
    if not isinstance(body["model"], str) or not body["model"]:
        yield "you must provide a model parameter"
    for field in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        limit: object = body.get(field, 1)
        if not isinstance(limit, int) or limit < 1:
            yield f"Invalid '{field}': integer below minimum value."
    if _REASONS.match(body["model"]) and body.get("temperature", 1) != 1:
        yield "Unsupported value: 'temperature' does not support this value with this model."


def _wrong_tools(body: Json, functions: Sequence[object]) -> Iterator[str]:
    for field in ("tool_choice", "parallel_tool_calls"):
        if field in body and not body.get("tools"):
            yield f"'{field}' is only allowed when 'tools' are specified."
    if "tools" in body and not body["tools"]:
        yield "[] is too short - 'tools'"
    for place, function in enumerate(functions):
        kind = body["tools"][place].get("type")
        if kind != "function":
            yield f"Invalid value: '{kind}' - 'tools.{place}.type'"
        yield from _wrong_schema(f"tools[{place}]", function, "parameters")


def _wrong_schema(where: str, named: object, field: str) -> Iterator[str]:
    """Yield what is wrong with a schema, or with the name beside it."""
    if not is_mapping(named) or not _NAME.fullmatch(str(named.get("name", ""))):
        yield f"Invalid '{where}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        return
    schema: object = named.get(field, {"type": "object"})
    if not is_mapping(schema):
        yield f"Invalid '{where}.{field}': expected an object."
    elif schema.get("type") != "object":
        yield f"Invalid schema for '{named['name']}': schema must be a JSON Schema of 'type: \"object\"'."
    elif named.get("strict") and not _is_strict(schema):
        yield (
            f"Invalid schema for '{named['name']}': 'required' must have every key of properties, "
            "and 'additionalProperties' must be false."
        )


def _is_strict(schema: object) -> bool:
    """Return whether every object in the schema lists all of its properties, and allows no other."""
    if is_sequence(schema):
        return all(map(_is_strict, schema))
    if not is_mapping(schema):
        return True
    if schema.get("type") == "object":
        properties, required = schema.get("properties", {}), schema.get("required", ())
        if not is_mapping(properties) or not is_sequence(required) or schema.get("additionalProperties") is not False:
            return False
        if set(required) != set(properties):
            return False
    return all(map(_is_strict, schema.values()))


def _wrong_message(message: object) -> Iterator[str]:
    if not is_object(message):
        yield "expected an object."
        return
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role not in _PARTS:
        yield f"Invalid value: '{role}'. Supported values are: {', '.join(map(repr, _PARTS))}."
        return
    if content is None and not (role == "assistant" and (message.get("tool_calls") or message.get("refusal"))):
        yield "Invalid value for 'content': expected a string, got null."
    elif content is not None:
        yield from _wrong_content(content, _PARTS[role])
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield "Missing parameter 'tool_call_id'."
    calls = message.get("tool_calls")
    if "tool_calls" in message and not calls:
        yield "[] is too short - 'tool_calls'"
    for call in calls if is_array(calls) else ():
        yield from _wrong_tool_call(call if is_object(call) else {})


def _wrong_tool_call(call: Mapping[str, object]) -> Iterator[str]:
    function = call.get("function")
    if not isinstance(call.get("id"), str) or not call["id"] or call.get("type") != "function":
        yield "Missing required parameter: 'tool_calls[].id'."
    yield from _wrong_call(function if is_object(function) else {})


def _wrong_call(function: Mapping[str, object]) -> Iterator[str]:
    if not _NAME.fullmatch(str(function.get("name", ""))):
        yield "Invalid 'name' of a call: string does not match pattern '^[a-zA-Z0-9_-]+$'."
    arguments: object = function.get("arguments")
    try:
        is_object = isinstance(arguments, str) and isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    if not is_object:
        yield "invalid tool call arguments"


def _wrong_content(content: object, known: frozenset[str]) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not is_sequence(content) or not content:
        yield "Invalid value for 'content': expected a string or a non-empty array."
        return
    for part in content:
        kind = part.get("type") if is_object(part) else part
        if not is_object(part) or kind not in known:
            yield f"Invalid value: '{kind}'. Supported values are: {', '.join(map(repr, sorted(known)))}."
        elif not _is_part(part):
            yield f"Invalid `{part['type']}`."


def _is_part(part: Mapping[str, object]) -> bool:
    match part["type"]:
        case "image_url":
            image = part.get("image_url")
            return is_mapping(image) and _is_image(image.get("url"))
        case "input_image":
            return "file_id" in part or _is_image(part.get("image_url"))
        case "text" | "input_text" | "output_text":
            return isinstance(part.get("text"), str)
        case _:
            return True


def _is_image(url: object) -> bool:
    data = _IMAGE.fullmatch(str(url))
    return str(url).startswith(("https://", "http://")) if data is None else is_base64(data[2])


_TEXT = frozenset({"text"})
_PARTS: dict[str, frozenset[str]] = {
    "system": _TEXT,
    "developer": _TEXT,
    "user": _TEXT | {"image_url", "input_audio", "file"},
    "assistant": _TEXT | {"refusal"},
    "tool": _TEXT,
}
"""The types of parts that the content of a message may have, by its role."""


def _wrong_calls(messages: Sequence[Json]) -> Iterator[str]:
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            break
        waiting = {call["id"] for call in message.get("tool_calls", ())}
    if waiting:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(sorted(waiting))}"
        )


_ITEM_PARTS = {
    "user": frozenset({"input_text", "input_image", "input_file"}),
    "system": frozenset({"input_text"}),
    "developer": frozenset({"input_text"}),
    "assistant": frozenset({"output_text", "refusal"}),
}


def _wrong_item(item: object) -> Iterator[str]:
    if not is_object(item):
        yield "expected an object."
        return
    match item.get("type", "message"):
        case "message":
            role = item.get("role")
            if not isinstance(role, str) or role not in _ITEM_PARTS:
                yield f"Invalid value: '{role}'."
            else:
                yield from _wrong_content(item.get("content"), _ITEM_PARTS[role])
        case "function_call":
            if not isinstance(item.get("call_id"), str) or not item["call_id"]:
                yield "Missing required parameter: 'call_id'."
            yield from _wrong_call(item)
        case "function_call_output":
            if not isinstance(item.get("call_id"), str):
                yield "Missing required parameter: 'call_id'."
            yield from _wrong_content(item.get("output"), _ITEM_PARTS["user"])
        case "reasoning":
            if not is_sequence(item.get("summary")):
                yield "Missing required parameter: 'summary'."
        case kind:
            yield f"Invalid value: '{kind}'."


def _wrong_items(items: Sequence[Json]) -> Iterator[str]:
    def ids(kind: str) -> list[str]:
        return [item["call_id"] for item in items if item.get("type") == kind]

    called, answered = ids("function_call"), ids("function_call_output")
    for call_id in answered:
        if call_id not in called:
            yield f"No tool call found for function call output with call_id {call_id}."
    for call_id in called:
        if call_id not in answered:
            yield f"No tool output found for function call {call_id}."
    for item, following in zip(items, [*items[1:], Json()], strict=True):
        goes_on = following.get("role") == "assistant" or following.get("type") in {"function_call", "reasoning"}
        if item.get("type") == "reasoning" and not goes_on:
            yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
