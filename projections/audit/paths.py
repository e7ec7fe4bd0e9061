"""The paths of a policy, read and held against the types of events: one that leads nowhere would keep nothing back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import inspect

from reenact.domain.errors import RedactionError
from reenact.projections.audit.copies import ANY, Path
from reenact.projections.audit.taking import stays

_SEVERAL: Final = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
_WITHOUT_TEXT: Final = (
    inspect.IntType,
    inspect.FloatType,
    inspect.BoolType,
    inspect.DateTimeType,
    inspect.LiteralType,
    inspect.NoneType,
)


def paths_of(fields: Iterable[str], kinds: Mapping[str, type[msgspec.Struct]]) -> Iterator[Path]:
    """Yield the paths that a policy's fields name, each beginning with the stored name of an event.

    Raises:
        RedactionError: one names nothing that there is, or what cannot be taken out.
    """
    for field in fields:
        name, *below = field.split(".")
        if not all((name, *below)):
            raise RedactionError(f"the policy names the field {field!r}; a path is names with dots between them")
        path = tuple(below) or (ANY,)
        if name != ANY and name not in kinds:
            raise RedactionError(f"the policy names {field!r}, but there is no event {name!r}; `*` is any event")
        found = [one for one in kinds if name in (ANY, one) and list(_ends(inspect.type_info(kinds[one]), path))]
        if not found:
            raise RedactionError(f"the policy names {field!r}, but no event has such a field; see docs/export.md")
        ends = [end for one in found for end in _ends(inspect.type_info(kinds[one]), path)]
        if all(end is None or isinstance(end, _WITHOUT_TEXT) for end in ends):
            message = f"the policy names {field!r}, which has to stay: it holds no text, or holds the history together"
            raise RedactionError(f"{message}; name another field")
        yield from ((one, *path) for one in found)


def _ends(kind: inspect.Type, path: Path) -> Iterator[inspect.Type | None]:
    """Yield what stands at the path in values of a type, None for what has to stay."""
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _ends(one, path)
    elif isinstance(kind, _SEVERAL) and (path or not isinstance(kind.item_type, inspect.StructType)):
        yield from _ends(kind.item_type, path) if path else (kind,)
    elif not path:
        yield kind
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if path[0] in (ANY, field.name):
                ends = _ends(field.type, path[1:])
                yield from (None for _ in ends) if stays(kind.cls, field.name) else ends
    elif isinstance(kind, inspect.DictType):
        yield from _ends(kind.value_type, path[1:])
    elif isinstance(kind, inspect.AnyType):
        yield kind
