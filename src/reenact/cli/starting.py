"""Starting quickly: what takes time, and does nothing for whoever waits, is not done."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from typer.core import TyperArgument, TyperOption

Parameter = TypeVar("Parameter")

_SELDOM: Final = 50_000
"""So many objects that may have parts are made more than given up, before anybody looks for garbage among them."""
_ASKED: Final = "get_runtime_param"
"""The method of a parameter that returns what makes its values."""


def look_for_garbage_seldom() -> None:
    """Let this process, which is the command's alone, look for garbage seldom, and not when it ends.

    Most of what it makes are modules and classes, which stay. To look for garbage in them while there are more and more
    of them, and again at the end, took a third of the time of `reenact -p`.
    """
    gc.set_threshold(_SELDOM, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def light(parameters: list[Parameter]) -> list[Parameter]:
    """Let the parameters of a command take what is typed as it is, where that is what it is to be; return them.

    Typer asks pydantic about each value, also about those that were not given. To load that takes as long as all else
    that `reenact --version` does, so it is asked only about what is not plain to see.
    """
    for one in parameters:
        if isinstance(one, TyperOption | TyperArgument) and _ASKED not in vars(one):
            as_typer_does = getattr(one, _ASKED, None)
            described = getattr(one, "type_descriptor", None)
            if as_typer_does is not None and described is not None:  # another typer may do it in another way
                setattr(one, _ASKED, partial(_Light, as_typer_does, described.annotation))
    return parameters


class _Asked(Protocol):
    """What makes a value of what was typed, or refuses it."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any: ...  # noqa: ANN401 - as typer has it


class _Light:
    """Makes the values of a parameter that has this type, and asks whom typer would ask only if it has to."""

    def __init__(self, otherwise: Callable[[], _Asked], annotation: object) -> None:
        self._otherwise = otherwise
        self._annotation = annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - likewise
        """Return the value, or raise what typer raises."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._annotation == list[str] and value.__class__ in (list, tuple):
            return value
        if isinstance(self._annotation, type):
            if isinstance(value, self._annotation):
                return value
            if issubclass(self._annotation, Enum) and value in {one.value for one in self._annotation}:
                return self._annotation(value)
        return self._otherwise().coerce(value, param=param, ctx=ctx)
