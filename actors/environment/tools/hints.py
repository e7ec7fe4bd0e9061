"""The types that a signature gives its parameters, as written, in quotes or postponed."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

import msgspec

AnyFunction: TypeAlias = Callable[..., Any]

_UNIONS: Final = (typing.Union, types.UnionType)
_COLLECTIONS: Final = (list, dict, set, frozenset, tuple)


def resolved(function: AnyFunction, parameter: inspect.Parameter, names: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any type
    """Return the type of a parameter; what it names is looked for in `names`, then in the function's module.

    Raises:
        NameError, SyntaxError, TypeError, AttributeError: it names what is not there, or is no type.
    """

    def annotated() -> None: ...

    annotated.__annotations__ = {parameter.name: parameter.annotation}
    hints = typing.get_type_hints(annotated, _globals(function), dict(names), include_extras=True)
    return hints[parameter.name]


def _globals(function: AnyFunction) -> dict[str, Any]:
    """Return the names of the module in which the function was written."""
    written: Any = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    found: dict[str, Any] = getattr(written, "__globals__", None) or getattr(written.__call__, "__globals__", {})
    return found


def is_or_holds(hint: object, kind: type) -> bool:
    """Return whether the type is that kind, alone, annotated or in a union."""
    return hint is kind or (get_origin(hint) in (Annotated, *_UNIONS) and kind in get_args(hint))


def description(hint: object) -> str:
    """Return the text in `Annotated[…, "text"]`, or the `description` of what stands there; empty if there is none."""
    if get_origin(hint) is not Annotated:
        return ""
    texts = (text if isinstance(text, str) else getattr(text, "description", None) for text in get_args(hint)[1:])
    return next((text for text in texts if isinstance(text, str)), "")


def with_formats(hint: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type with the format of each time in it, which msgspec leaves out of a schema."""
    origin: Any = get_origin(hint)
    inner = get_args(hint)
    if hint is datetime:
        return Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
    if origin is Annotated:
        return Annotated[(with_formats(inner[0]), *inner[1:])]
    if origin in _UNIONS:
        return typing.Union[tuple(map(with_formats, inner))]  # noqa: UP007 - its members are not known before
    if origin in _COLLECTIONS:
        return types.GenericAlias(origin, tuple(map(with_formats, inner)))
    return hint
