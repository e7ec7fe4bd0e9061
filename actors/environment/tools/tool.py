"""Tools that are Python functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FrameType, MethodType
from typing import Generic, ParamSpec, TypeAlias, TypedDict, TypeGuard, TypeVar, Unpack, overload

from reenact._signature import signature_of
from reenact.actors.environment.tools.arguments import (
    AnyFunction,
    Parameters,
    ToolContext,
    parameters_of,
    read_arguments,
    read_docstring,
)
from reenact.actors.environment.tools.running import awaited, in_thread
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import Intervention, ToolSpec, check_spec

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_FIRST_OF_A_METHOD = "self"


class Tool(Generic[P, R_co]):
    """A function that a model can call, with the `spec` by which the model knows it. Made by `tool`.

    Calling it calls the function. As an attribute of an instance it is a tool of that instance.
    """

    __name__: str

    def __init__(
        self, function: Callable[P, R_co], spec: ToolSpec, parameters: Parameters, *, bound: bool = True
    ) -> None:
        functools.update_wrapper(self, function)
        self.spec = spec
        self.function = function
        self._parameters = parameters
        self._bound = bound
        self._is_async = inspect.iscoroutinefunction(_written_function(function))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R_co]:
        if instance is None or self._bound:
            return self
        return Tool(MethodType(self.function, instance), self.spec, self._parameters)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    def check_bound(self) -> None:
        """Raise `ConfigurationError` if this is a method without an instance."""
        if not self._bound:
            raise ConfigurationError(
                f"tool {self.spec.name} is a method: give the one of an instance, such as `Things().{self.spec.name}`"
            )

    async def run(self, arguments: Mapping[str, object], context: ToolContext | None = None) -> object:
        """Call the function with arguments from JSON, as a model gives them, and return its result.

        A coroutine function runs on this loop, any other function on a thread of its own.

        Raises:
            InvalidArgumentsError: the arguments do not fit.
            EscapedError: it raised an exception that would end the loop, such as `SystemExit`.
            Exception: any exception that the function raises.
        """
        self.check_bound()
        values = read_arguments(self.spec.name, self._parameters, arguments)
        if self._parameters.context:
            values[self._parameters.context] = context or ToolContext()
        function: AnyFunction = self.function
        call = functools.partial(function, **values)
        result = call() if self._is_async else await in_thread(call, f"reenact-tool-{self.spec.name}")
        return await awaited(result) if inspect.isawaitable(result) else result


AnyTool: TypeAlias = Tool[..., object]


def is_tool(one: object) -> TypeGuard[AnyTool]:
    """Return whether this is a tool with a function."""
    return isinstance(one, Tool)


def as_tool(one: object) -> AnyTool:
    """Return the tool, or make the function one; raise `ConfigurationError` if it is neither."""
    if not callable(one):
        raise ConfigurationError(f"{one!r} is not a tool; give a function, or what `@tool` made of one")
    made: AnyTool = one if is_tool(one) else tool(one)
    made.check_bound()
    return made


class _Rules(TypedDict, total=False):
    idempotent: bool
    timeout: float | None
    intervention: Intervention | None
    cost: float | None


class ToolSettings(_Rules, total=False):
    """The settings of `tool`."""

    name: str | None
    description: str | None


@overload
def tool(function: Callable[P, R_co], /, **settings: Unpack[ToolSettings]) -> Tool[P, R_co]: ...
@overload
def tool(**settings: Unpack[ToolSettings]) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]: ...
def tool(  # pyright: ignore[reportInconsistentOverload] - the returned tool keeps the function's parameters
    function: AnyFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout: float | None = None,
    intervention: Intervention | None = None,
    cost: float | None = None,
) -> AnyTool | Callable[[AnyFunction], AnyTool]:
    """Make a function a tool: `@tool`, `@tool(timeout=5)`, or `tool(function)`.

    The model sees the function's name and docstring, unless `name` and `description` are given, and the types of its
    parameters, with their descriptions in the docstring. See `ToolSpec` for the other settings.

    Raises:
        ConfigurationError: a model could not call it; the message names the function and the parameter, and what to do.
    """
    rules: _Rules = {"idempotent": idempotent, "timeout": timeout, "intervention": intervention, "cost": cost}

    def made(function: AnyFunction) -> AnyTool:
        return _new_tool(function, name, description, rules, _names_around(inspect.currentframe()))

    if function is None:
        return made
    return _new_tool(function, name, description, rules, _names_around(inspect.currentframe()))


def _new_tool(
    function: AnyFunction,
    name: str | None,
    description: str | None,
    rules: _Rules,
    names: Mapping[str, object],
) -> AnyTool:
    function = function.function if isinstance(function, Tool) else function
    _check_kind(function)
    called = name if name is not None else _name_of(function)
    text, docs = read_docstring(inspect.getdoc(_written_function(function)))
    is_method = _is_method(function)
    parameters = parameters_of(called, functools.partial(function, None) if is_method else function, docs, names)
    spec = ToolSpec(
        name=called,
        description=text if description is None else description,
        input_schema=parameters.schema,
        **rules,
    )
    return Tool(function, check_spec(spec), parameters, bound=not is_method)


def _names_around(frame: FrameType | None) -> Mapping[str, object]:
    """Return the local names of the caller of this frame's function, because annotations may use local classes."""
    caller = None if frame is None else frame.f_back
    return {} if caller is None else dict(caller.f_locals)


def _check_kind(function: object) -> None:
    if isinstance(function, staticmethod | classmethod):
        raise ConfigurationError(
            f"{function!r} cannot be made a tool inside of its class; write `tool(TheClass.the_function)` below it"
        )
    if isinstance(function, type) or not callable(function):
        raise ConfigurationError(f"a tool must be a function, not {function!r}")
    if inspect.isgeneratorfunction(_written_function(function)) or inspect.isasyncgenfunction(
        _written_function(function)
    ):
        raise ConfigurationError(f"tool {_name_of(function)} yields: let it return a list of all, or their text")


def _written_function(function: AnyFunction) -> AnyFunction:
    """Return the function as it was written: that of a partial, or the `__call__` of an object."""
    inner: AnyFunction = function.func if isinstance(function, functools.partial) else function
    called: AnyFunction = type(inner).__call__
    return inner if inspect.isroutine(inner) else called


def _name_of(function: AnyFunction) -> str:
    inner: AnyFunction = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", None) or type(inner).__name__)


def _is_method(function: AnyFunction) -> bool:
    """Return whether the function is written in a class, and not yet bound to an instance."""
    where = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
    if not where or where.endswith("<locals>") or inspect.ismethod(function):
        return False
    return next(iter(signature_of(function).parameters), "") == _FIRST_OF_A_METHOD
