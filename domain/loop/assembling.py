"""Assembles models' answers from chunks, and replaces the older part of a conversation by a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.events import CompressionComplete
from reenact.domain.loop.faults import InvalidChunkError
from reenact.domain.loop.instructions import CompressContext
from reenact.domain.loop.values import AppendOnlyList, Frozen, FrozenList, frozen, frozen_object, is_mapping

_Kind = TypeVar("_Kind")


class _PartialCall(msgspec.Struct):
    """A call that arrives in pieces."""

    id: str = ""
    type: str = "function"
    name: str = ""
    arguments: str = ""

    @property
    def whole(self) -> Frozen:
        """The call, as far as it has arrived."""
        return Frozen(id=self.id, type=self.type, function=Frozen(name=self.name, arguments=self.arguments))


class Assembly:
    """Collects the chunks of an answer, and joins them to the result."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: list[object] = []
        self._calls_by_index: dict[int, _PartialCall] = {}
        self.usage: Frozen = Frozen()
        self.model: str | None = None

    def add(self, chunk: object) -> Frozen:
        """Add the next chunk, and return it as it is recorded.

        Text in `content` is joined. `tool_calls` replace the previous ones, unless all of them have an `index`: then
        they are pieces, whose arguments are joined. Counts in `usage` replace those of the same name.

        Raises:
            InvalidChunkError: the chunk is not a mapping, or has a value of the wrong type under one of these names.
        """
        if not is_mapping(chunk) and not hasattr(chunk, "model_dump"):
            raise InvalidChunkError(f"a model yields mappings with `content` or `tool_calls`, not {chunk!r}")
        try:
            taken = frozen_object(chunk, what="a chunk of the model's answer")
        except InvalidInputError as broken:
            raise InvalidChunkError(str(broken)) from None
        self._texts.append(_field(taken, "content", str, "is text") or "")
        self._add_calls(_field(taken, "tool_calls", FrozenList, "are a list of mappings"))  # pyright: ignore[reportUnknownArgumentType]
        usage = _field(taken, "usage", Frozen, "is a mapping of token counts") or Frozen()
        self.usage = Frozen({**self.usage, **{name: count for name, count in usage.items() if count is not None}})
        self.model = _text(taken, "model") or self.model
        return taken

    @property
    def result(self) -> Frozen:
        """The answer so far: `content` and `tool_calls`."""
        return Frozen(content="".join(self._texts), tool_calls=frozen(self._calls))

    def _add_calls(self, given: FrozenList[object] | None) -> None:
        if given is None:
            return
        calls = [call for call in given if isinstance(call, Frozen)]
        if len(calls) < len(given):
            raise InvalidChunkError(f"`tool_calls` of a chunk must be a list of mappings, not {given!r}")
        if calls and all(type(call.get("index")) is int for call in calls):
            for piece in calls:
                self._add_piece(piece)
        else:
            self._calls = [*calls]
            self._calls_by_index = {}

    def _add_piece(self, piece: Frozen) -> None:
        call = self._calls_by_index.setdefault(_field(piece, "index", int, "is a number") or 0, _PartialCall())
        function = piece.get("function")
        function = function if isinstance(function, Frozen) else Frozen()
        call.id, call.type = _text(piece, "id") or call.id, _text(piece, "type") or call.type
        call.name = _text(function, "name") or call.name
        call.arguments += _text(function, "arguments")
        self._calls = [self._calls_by_index[index].whole for index in sorted(self._calls_by_index)]


def _text(mapping: Frozen, name: str) -> str:
    value = mapping.get(name)
    return value if isinstance(value, str) else ""


def _field(chunk: Frozen, name: str, kind: type[_Kind], what: str) -> _Kind | None:
    value = chunk.get(name)
    if value is None or isinstance(value, kind):
        return value
    raise InvalidChunkError(f"`{name}` of a chunk {what}, not {value!r}")


def model_of(payload: object) -> str:
    """Return the model that a payload names, or `unknown`."""
    named = payload.get("model") if is_mapping(payload) else getattr(payload, "model", None)
    return named if isinstance(named, str) and named else "unknown"


Part: TypeAlias = tuple[int, int]
"""A range of messages: the index of the first, and that of the first after the range."""


def part_to_replace(messages: Sequence[Frozen], keep: int) -> Part:
    """Return which messages a summary replaces: all but system messages at the start, and the last `keep`.

    The results of tools stay with the answer that requested them: the kept part does not begin with one.
    """
    first = 0
    while first < len(messages) and messages[first].get("role") in ("system", "developer"):
        first += 1
    end = max(first, len(messages) - keep)
    while first < end < len(messages) and messages[end].get("role") == "tool":
        end -= 1
    return first, end


def request_for_summary(messages: Sequence[Frozen], part: Part, instruction: CompressContext) -> dict[str, object]:
    """Return the payload that asks a model for the summary: the instruction's own, with the messages."""
    own: dict[str, object] = dict(instruction.payload) if is_mapping(instruction.payload) else {}
    asked = {"role": "user", "content": instruction.prompt}
    return {**own, "messages": [*messages[: part[1]], asked]}


def compressed(messages: Sequence[Frozen], part: Part, summary: str) -> CompressionComplete:
    """Return the event that replaces the part by the summary; it replaces nothing if the part is empty."""
    first, end = part
    if first == end:
        return CompressionComplete(summary=None, kept=first)
    told = Frozen(role="user", content=f"Summary of the conversation so far:\n{summary}")
    return CompressionComplete(summary=told, replaced=tuple(messages[first:end]), kept=first)


def shortened(messages: AppendOnlyList[Frozen], event: CompressionComplete) -> AppendOnlyList[Frozen]:
    """Return the messages after the event."""
    if event.summary is None:
        return messages
    rest = messages[event.kept + len(event.replaced) :]
    return AppendOnlyList([*messages[: event.kept], Frozen(event.summary), *rest])
