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
        if isinstance(taken.get("model"), str):
            self.model = taken["model"]
        return taken

    @property
    def result(self) -> Frozen:
        """The answer so far: `content` and `tool_calls`."""
        return Frozen(content="".join(self._texts), tool_calls=frozen(self._calls))

    def _take_calls(self, calls: FrozenList | None) -> None:
        if calls is None:
            return
        if not all(isinstance(call, Frozen) for call in calls):
            raise InvalidChunkError(f"`tool_calls` of a chunk are a list of mappings, not {calls!r}")
        if calls and all(type(call.get("index")) is int for call in calls):
            for piece in calls:
                self._take_piece(piece)
        else:
            self._calls = list(calls)
            self._places = {}

    def _take_piece(self, piece: Frozen) -> None:
        call = self._places.get(piece["index"])
        if call is None:
            call = dict[str, Any](id="", type="function", function=dict[str, Any](name="", arguments=""))
            self._places[piece["index"]] = call
            self._calls = [self._places[index] for index in sorted(self._places)]
        told = piece.get("function")
        told = told if isinstance(told, Frozen) else Frozen()
        for name in ("id", "type"):
            if isinstance(piece.get(name), str) and piece[name]:
                call[name] = piece[name]
        if isinstance(told.get("name"), str) and told["name"]:
            call["function"]["name"] = told["name"]
        if isinstance(told.get("arguments"), str):
            call["function"]["arguments"] += told["arguments"]


def _part(chunk: Frozen, name: str, kind: type[_Kind], what: str) -> _Kind | None:
    value = chunk.get(name)
    if value is None or isinstance(value, kind):
        return value
    raise InvalidChunkError(f"`{name}` of a chunk {what}, not {value!r}")


def model_of(payload: object) -> str:
    """Return the model that a payload names, or `unknown`."""
    named = payload.get("model") if is_mapping(payload) else getattr(payload, "model", None)
    return named if isinstance(named, str) and named else "unknown"
