"""Values without what must not leave: fields that a policy names, and what stands in any text; their types stay.

What holds a history together stays, for without it nothing could be read again: ids, digests, kinds, numbers, times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from reenact.domain import agent, image, tools
from reenact.domain import events as heard
from reenact.domain.errors import RedactionError
from reenact.domain.loop import events as loop
from reenact.domain.marks import REDACTED, mark
from reenact.domain.messages import OpaqueBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.plain import is_mapping, is_sequence
from reenact.projections.audit.copies import ANY, Path
from reenact.projections.audit.secrets import Texts

Paths: TypeAlias = Collection[Path]
"""Below a value, what is taken out of it; () is all of it."""
Extra: TypeAlias = Callable[[msgspec.Struct], Paths]
"""Tells what else is taken out of a value because of what it says."""

FIELD: Final = "field"
"""What the mark calls that is in the place of a field: the same wherever a value is copied to."""

_STAYS: Final = frozenset(
    {
        *("id", "ids", "digest", "revision", "stop_reason", "usage", "from_state", "activity", "media_type", "role"),
        *("model", "origin"),
    }
)
_STAYS_OF: Final[dict[type, frozenset[str]]] = {
    agent.AgentStopped: frozenset({"reason"}),
    agent.RulesRecorded: frozenset({"rules"}),
    image.Definition: frozenset({"policies", "base"}),
    tools.ToolSpec: frozenset({"name"}),
    loop.Warning: frozenset({"reason"}),
    ToolUseBlock: frozenset({"name"}),
    loop.AskedCall: frozenset({"name"}),
    **dict.fromkeys((loop.ToolStarted, loop.ToolResult), frozenset({"name"})),
    **dict.fromkeys((heard.ToolCall, heard.ToolResult), frozenset({"name"})),
}
"""What else stays: from these follow the decisions that were recorded behind them."""
_NAMES: Final = frozenset({"type", "name"})
"""What a field that is taken out keeps of what it holds, though a policy may name it, or find something in it."""
_MARK: Final = mark("x")
_EMPTIED: Final = frozenset({"original", "extra", "citations"})
"""What goes without a mark where it may be missing: it is read by others, who expect its form."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Forms(msgspec.Struct, frozen=True, gc=False):
    """What a field may be, by its type."""

    text: bool
    mapping: bool
    empty: bool
    nothing: bool


class Taking:
    """Takes out of values what a policy says, and keeps their types."""

    def __init__(self, texts: Texts, extra: Extra) -> None:
        """Clean all texts with `texts`; `extra` is asked about every struct on the way."""
        self._texts = texts
        self._extra = extra
        self._found_in = lru_cache(maxsize=10_000)(texts.found_in)

    def struct(self, value: _Struct, paths: Paths, name: str) -> _Struct:
        """Return the struct without what stands at these paths, which are marked with the name; itself if it can stay.

        Raises:
            RedactionError: something would have to be taken out of what must stay.
        """
        paths = [*paths, *self._extra(value)]
        changes: dict[str, Any] = {}
        for field in value.__struct_fields__:
            before = getattr(value, field)
            after = self._field(value, field, before, below(paths, field), f"{name}.{field}")
            if after is not before:
                changes[field] = after
        if not changes:
            return value
        if isinstance(value, ThinkingBlock) and "thinking" in changes:
            changes["signature"] = None  # it is of the thought as it was
        return msgspec.structs.replace(value, **changes)

    def free(self, value: object, paths: Paths, name: str) -> Any:  # noqa: ANN401 - plain data of any type
        """Return plain data of any type, likewise."""
        if () in paths:
            return self._texts.mark(FIELD, _written(value))
        match value:
            case str():
                return self._texts.cleaned(value)
            case bool() | None:
                return value
            case int() | float():
                return value if self._texts.found_in(str(value)) is None else self._texts.cleaned(str(value))
            case msgspec.Struct():
                return self.struct(value, paths, name)
            case _ if is_mapping(value):
                return self._mapping(value, paths, name)
            case _ if is_sequence(value):
                items = [self.free(one, paths, name) for one in value]
                if all(after is before for after, before in zip(items, value, strict=True)):
                    return value
                return tuple(items) if isinstance(value, tuple) else items
            case _:
                return value  # times, and what else has no text

    def _mapping(self, value: Any, paths: Paths, name: str) -> Any:  # noqa: ANN401 - as it is
        made: dict[Any, Any] = {}
        changed = False
        for key, before in value.items():
            after = self.free(before, below(paths, str(key)), name)
            kept = new = self._texts.cleaned(key) if isinstance(key, str) else key
            number = 1
            while new in made:
                number += 1
                new = f"{kept} {number}"
            changed = changed or after is not before or new != key
            made[new] = after
        return made if changed else value

    def _field(self, owner: msgspec.Struct, field: str, value: object, paths: Paths, name: str) -> Any:  # noqa: ANN401
        if () in paths and not stays(type(owner), field):
            return self._taken(type(owner), field, value, paths, name)
        paths = [path for path in paths if path and not stays(type(owner), field)]
        if isinstance(value, str):
            return self._cleaned(owner, field, value, name)
        if isinstance(value, int | float | None) and not may_be(type(owner), field).text:
            return value
        try:
            return self.free(value, paths, name)
        except RecursionError:  # what is too deep to be looked through may hold anything, so that all of it goes
            return self._taken(type(owner), field, value, paths, name)

    def _cleaned(self, owner: msgspec.Struct, field: str, value: str, name: str) -> str:
        if not may_be(type(owner), field).text:
            return value
        if not stays(type(owner), field):
            return self._texts.cleaned(value)
        found = self._found_in(value)
        if found is None:
            return value
        message = f"what the policy calls {found!r} stands in {name}, which has to stay, for other records name it"
        raise RedactionError(
            f"{message}; export without that session, or let the policy say more exactly what it means"
        )

    def _taken(self, owner: type, field: str, value: object, paths: Paths, name: str) -> Any:  # noqa: ANN401 - as it is
        """Return what stands in the place of a field's value."""
        forms = may_be(owner, field)
        if isinstance(value, msgspec.Struct):
            return self._emptied(value, paths, name)
        if is_sequence(value) and value and all(isinstance(one, msgspec.Struct) for one in value):
            items = tuple(self._emptied(one, paths, name) for one in value if isinstance(one, msgspec.Struct))
            return items if isinstance(value, tuple) else list(items)
        if value is None or (field in _EMPTIED and forms.nothing):
            return None
        told = self._texts.mark(FIELD, _written(value))
        if forms.text:
            return told
        if forms.mapping and is_mapping(value):
            return {REDACTED: told}
        if forms.empty and is_sequence(value):
            return ()
        return value

    def _emptied(self, value: _Struct, paths: Paths, name: str) -> _Struct:
        """Return the struct with the place of everything that it says marked, of its names only where a path leads."""
        if isinstance(value, OpaqueBlock):  # its type tells others how to pass over it
            told = self._texts.mark(FIELD, _written(value.data))
            return msgspec.structs.replace(value, data={"type": value.data.get("type", "text"), REDACTED: told})
        emptied = [(field,) for field in value.__struct_fields__ if field not in _NAMES]
        return self.struct(value, [*emptied, *(path for path in paths if path)], name)


def below(paths: Paths, name: str) -> Paths:
    """Return what is taken out of what stands under the name."""
    return [path[1:] for path in paths if path and path[0] in (name, ANY)] if paths else ()


def stays(owner: type, field: str) -> bool:
    """Return whether a field of values of this type holds a history together."""
    return field in _STAYS or field.endswith(("_id", "_ids")) or field in _STAYS_OF.get(owner, ())


@lru_cache(maxsize=2048)
def may_be(owner: type, field: str) -> Forms:
    """Return what the field may be."""
    kind: Any = next((one.type for one in msgspec.structs.fields(owner) if one.name == field), None)

    def takes(candidate: object) -> bool:
        try:
            msgspec.convert(candidate, kind, strict=True)
        except msgspec.ValidationError:
            return False
        return True

    return Forms(takes(_MARK), takes({REDACTED: _MARK}), takes([]), takes(None))


def _written(value: object) -> str:
    """Return the value as text, the same for equal ones."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="deterministic", enc_hook=repr).decode()
