"""The answer that a model's chunks add up to: text is joined, calls replace, pieces of calls are assembled."""

from __future__ import annotations

from typing import Any, TypeVar

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.faults import InvalidChunkError
from reenact.domain.loop.values import Frozen, FrozenList, frozen, frozen_object, is_mapping

_Kind = TypeVar("_Kind")


class Assembly:
    """Takes chunk after chunk, and holds what they add up to."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: list[Any] = []
        self._places: dict[int, dict[str, Any]] = {}
        self.usage: Frozen = Frozen()
        self.model: str | None = None

    def add(self, chunk: object) -> Frozen:
        """Take the next chunk, and return it as it is recorded.

        Text in `content` is joined. `tool_calls` replace what was there before, unless all of them have an `index`:
        these are pieces, whose arguments are joined. Counts in `usage` replace those of the same name.

        Raises:
            InvalidChunkError: it is no mapping, or holds under one of these names what cannot stand there.
        """
        if not is_mapping(chunk) and not hasattr(chunk, "model_dump"):
            raise InvalidChunkError(f"a model yields mappings with `content` or `tool_calls`, not {chunk!r}")
        try:
            taken = frozen_object(chunk, what="a chunk of the model's answer")
        except InvalidInputError as broken:
            raise InvalidChunkError(str(broken)) from None
        self._texts.append(_part(taken, "content", str, "is text") or "")
        self._take_calls(_part(taken, "tool_calls", FrozenList, "are a list of mappings"))
        usage = _part(taken, "usage", Frozen, "is a mapping of token counts") or Frozen()
        self.usage = Frozen({**self.usage, **{name: count for name, count in usage.items() if count is not None}})
        self.model = _text(taken, "model") or self.model
        return taken

    @property
    def result(self) -> Frozen:
        """The answer so far: `content` and `tool_calls`."""
        return Frozen(content="".join(self._texts), tool_calls=frozen(self._calls))

    def _take_calls(self, given: FrozenList[object] | None) -> None:
        if given is None:
            return
        calls = [call for call in given if isinstance(call, Frozen)]
        if len(calls) < len(given):
            raise InvalidChunkError(f"`tool_calls` of a chunk are a list of mappings, not {given!r}")
        if calls and all(type(call.get("index")) is int for call in calls):
            for piece in calls:
                self._take_piece(piece)
        else:
            self._calls = [*calls]
            self._places = {}

    def _take_piece(self, piece: Frozen) -> None:
        index = _part(piece, "index", int, "is a number") or 0
        empty: dict[str, Any] = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._places.setdefault(index, empty)
        self._calls = [self._places[index] for index in sorted(self._places)]
        told = piece.get("function")
        told = told if isinstance(told, Frozen) else Frozen()
        call.update({name: text for name in ("id", "type") if (text := _text(piece, name))})
        call["function"]["name"] = _text(told, "name") or call["function"]["name"]
        call["function"]["arguments"] += _text(told, "arguments")


def _text(mapping: Frozen, name: str) -> str:
    value = mapping.get(name)
    return value if isinstance(value, str) else ""


def _part(chunk: Frozen, name: str, kind: type[_Kind], what: str) -> _Kind | None:
    value = chunk.get(name)
    if value is None or isinstance(value, kind):
        return value
    raise InvalidChunkError(f"`{name}` of a chunk {what}, not {value!r}")


def model_of(payload: object) -> str:
    """Return the model that a payload names, or `unknown`."""
    named = payload.get("model") if is_mapping(payload) else getattr(payload, "model", None)
    return named if isinstance(named, str) and named else "unknown"
