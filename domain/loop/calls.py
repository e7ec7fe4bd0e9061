"""Tool calls as models write them, kept unchanged, and results as models read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn, TypeAlias, TypeGuard

import msgspec

from reenact.domain.content import check_result_content
from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.faults import InvalidToolCallError
from reenact.domain.loop.values import Frozen, compact, frozen, frozen_object, is_mapping
from reenact.domain.plain import JsonDict, JsonObject, parsed, plain

Arguments: TypeAlias = str | Mapping[str, object]
UNREADABLE = "INVALID_JSON"
"""The key under which the text of a call's input is kept if it cannot be parsed.

(platform.claude.com: "Fine-grained tool streaming".)
"""
_TOOL_USE = "tool_use"


class ToolCall(Frozen):
    """A tool call: the mapping that requested it, with properties for the common fields of both formats.

    `ToolCall({"id": …, "type": "function", "function": {"name": …, "arguments": "{…}"}})`, `ToolCall({"type":
    "tool_use", "id": …, "name": …, "input": {…}})`, or `ToolCall(id=…, name=…, arguments=…)`, where the arguments are
    an object or its JSON. Empty text as arguments is an empty object.

    Raises:
        InvalidToolCallError: the call has no id or no name, or its arguments are not a JSON object.
    """

    __slots__ = ()

    def __init__(
        self,
        call: Mapping[str, object] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the word users know it by
        name: str | None = None,
        arguments: Arguments = "",
    ) -> None:
        try:
            told: Mapping[str, object] = (
                {"id": id, "type": "function", "function": {"name": name, "arguments": _as_json(arguments)}}
                if call is None
                else call
            )
            super().__init__(frozen_object(told, what="a call of a tool", finite=True))
        except InvalidInputError as broken:
            raise InvalidToolCallError(str(broken)) from None
        id_, called = self.get("id"), self._function
        if not isinstance(id_, str) or not id_:
            raise InvalidToolCallError(f"a call of a tool needs an `id`, which its answer names: {dict(self)!r}")
        if not isinstance(called.get("name"), str) or not called["name"]:
            raise InvalidToolCallError(f"call {id_!r} needs the name of a tool: {dict(self)!r}")
        _ = self.input

    @property
    def _function(self) -> Frozen:
        function = self if self.get("type") == _TOOL_USE else self.get("function")
        return function if isinstance(function, Frozen) else Frozen()

    @property
    def _raw_arguments(self) -> object:
        return self._function.get("input" if self.get("type") == _TOOL_USE else "arguments")

    @property
    def id(self) -> str:
        """The id of the call, which its result refers to."""
        return str(self["id"])

    @property
    def name(self) -> str:
        """The name of the called tool."""
        return str(self._function["name"])

    @property
    def arguments(self) -> str:
        """The arguments as JSON, as the model wrote them."""
        return _as_json(self._raw_arguments)

    @property
    def input(self) -> Frozen:
        """The arguments, decoded."""
        return _decoded(self._raw_arguments, self.name)


def call_of(value: object) -> ToolCall:
    """Return the call that a mapping in either format describes, or raise `InvalidToolCallError`."""
    if isinstance(value, ToolCall):
        return value
    if is_mapping(value):
        return ToolCall(value)
    raise InvalidToolCallError(
        f"a call of a tool must be a mapping with an id and a function, or a `ToolCall`, not {value!r}"
    )


def looks_like_a_call(value: object) -> bool:
    """Return whether the value is meant as a call: a mapping with a `function`, or with the `type` of a call."""
    return is_mapping(value) and ("function" in value or value.get("type") in ("function", _TOOL_USE))


def with_arguments(call: ToolCall, arguments: Mapping[str, object]) -> ToolCall:
    """Return the call in the same format with other arguments."""
    if call.get("type") == _TOOL_USE:
        return ToolCall({**call, "input": arguments})
    function = {**frozen_object(call["function"], what="a function"), "arguments": compact(frozen(arguments))}
    return ToolCall({**call, "function": function})


def input_of(written: str) -> JsonDict:
    """Return the input of a call as a model wrote it; text that is not a JSON object is kept under `UNREADABLE`.

    So the text is not lost. Such a call never runs, and the model is told why.
    """
    try:
        value = plain("the input", parsed(written or "{}"))
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {UNREADABLE: written}


def is_unreadable(arguments: Mapping[str, object]) -> bool:
    """Return whether these arguments are text that could not be parsed, kept under `UNREADABLE`."""
    return list(arguments) == [UNREADABLE]


def _decoded(arguments: object, name: str) -> Frozen:
    """Return the arguments as an object, or raise `InvalidToolCallError` naming the tool."""
    what = f"the arguments of {name}"
    value: object = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments, parse_constant=_refuse_constant) if arguments else {}
        except (ValueError, RecursionError) as broken:
            raise InvalidToolCallError(f"{what} are not JSON: {broken}") from None
    if not is_mapping(value):
        raise InvalidToolCallError(f"{what} must be an object of JSON, not {value!r}")
    try:
        return frozen_object(value, what=what, finite=True)
    except InvalidInputError as broken:
        raise InvalidToolCallError(str(broken)) from None


def _as_json(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else compact(frozen(arguments, finite=True))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


Content: TypeAlias = str | tuple[JsonObject, ...]
BLOCK_TYPES = frozenset({"text", "image", "document", "search_result"})
"""The content blocks that the Messages API accepts in the result of a call."""


def content_of(result: object) -> Content:
    """Return a result's content for the model: text and the API's content blocks unchanged, any other value as JSON."""
    match result:
        case None:
            return ""
        case str():
            return result
        case [*blocks] if _are_blocks(blocks):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            return tuple(blocks)
        case _:
            return json_text(result)


def json_text(value: object) -> str:
    """Return the value as JSON without white space and without ASCII escapes."""
    return msgspec.json.encode(value).decode()


def _are_blocks(value: list[object]) -> TypeGuard[list[JsonObject]]:
    """Return whether the API accepts all blocks: if it refuses one, it refuses the whole conversation."""
    if not value or not all(_is_block(block) for block in value):
        return False
    try:
        check_result_content(value)
    except InvalidInputError:
        return False
    return True


def _is_block(value: object) -> bool:
    """Return whether the value looks like a content block."""
    match value:
        case {"type": "text", "text": str(text)}:
            return bool(text)
        case {"type": "image" | "document", "source": {"type": str()}}:
            return True
        case {"type": "search_result", "source": str(), "title": str(), "content": [*_]}:  # pyright: ignore[reportUnknownVariableType]
            return True
        case _:
            return False
