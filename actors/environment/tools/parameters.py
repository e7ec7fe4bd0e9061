"""What a function takes, read from its signature: the types of its arguments, and their JSON Schema."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from reenact.actors.environment.tools.context import ToolContext
from reenact.actors.environment.tools.hints import AnyFunction, description, is_or_holds, resolved, with_formats
from reenact.actors.environment.tools.models import model_argument, model_schema
from reenact.actors.environment.tools.schema import schema_of
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_property_name

_TYPES: Final = (
    "use str, int, float, bool, list, dict, datetime, Literal, an Enum, a dataclass, a TypedDict or the like"
)
_NOT_BY_NAME: Final = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, but a model gives arguments by name: remove the `/`",
    inspect.Parameter.VAR_POSITIONAL: "stands for any number of arguments, but a model must know them: declare a list",
    inspect.Parameter.VAR_KEYWORD: "stands for any argument, but a model must know them: declare each, or a dict",
}


class Parameters:
    """What a function takes. `types` has the arguments that the model gives, by name, in the order of the signature.

    `schema` describes them; `required` ones have no default. `context` names the parameter that is given the
    `ToolContext`, if there is one.
    """

    __slots__ = ("_struct", "context", "required", "schema", "types")

    def __init__(
        self, tool: str, types: Mapping[str, Any], defaults: Mapping[str, Any], texts: Mapping[str, str], context: str
    ) -> None:
        self.types = types
        self.required = frozenset(types) - frozenset(defaults)
        self.context = context
        self._struct = _struct(types, self.required)
        try:
            self.schema = schema_of(self._struct, texts, defaults, model_schema)
        except (TypeError, NameError) as error:
            raise _unsupported(tool, types, error) from error

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them; those that are not given are left to its defaults.

        Raises:
            msgspec.ValidationError: they do not fit.
        """
        read = msgspec.convert(arguments, self._struct, dec_hook=model_argument)
        values = ((name, getattr(read, name)) for name in self.types)
        return {name: value for name, value in values if value is not msgspec.UNSET}


def parameters_of(tool: str, function: AnyFunction, docs: Mapping[str, str], names: Mapping[str, Any]) -> Parameters:
    """Return what the function takes; `docs` describes parameters, `names` are those known where the tool is made.

    Raises:
        ConfigurationError: a model could not give the function its arguments; the message names the parameter.
    """
    types: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    context = ""
    for parameter in _signature(tool, function):
        hint = _checked(tool, function, parameter, names)
        if is_or_holds(hint, ToolContext):
            context = parameter.name
            continue
        types[parameter.name] = with_formats(hint)
        if parameter.default is not inspect.Parameter.empty:
            defaults[parameter.name] = parameter.default
    texts = {name: text for name, hint in types.items() if (text := description(hint) or docs.get(name))}
    return Parameters(tool, types, defaults, texts, context)


def _signature(tool: str, function: AnyFunction) -> Iterator[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        msg = f"tool {tool}: its signature cannot be read ({error}); wrap it in a function of your own"
        raise ConfigurationError(msg) from None
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return (parameter for parameter in parameters if parameter.name not in bound)


def _checked(tool: str, function: AnyFunction, parameter: inspect.Parameter, names: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any type
    """Return the type of a parameter that a model can give, or is given by us."""
    name = parameter.name
    if parameter.kind in _NOT_BY_NAME:
        raise _refused(tool, name, _NOT_BY_NAME[parameter.kind])
    if parameter.annotation is inspect.Parameter.empty:
        raise _refused(tool, name, f"has no type: write `{name}: str`, or `{name}: Any` for any JSON value")
    if not is_property_name(name):
        raise _refused(tool, name, "has a name that the Messages API refuses: use at most 64 ASCII letters")
    try:
        return resolved(function, parameter, names)
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        raise _refused(tool, name, f"has a type that cannot be resolved: {error}") from error


def _struct(types: Mapping[str, Any], required: frozenset[str]) -> type[msgspec.Struct]:
    fields = [
        (name, hint) if name in required else (name, hint, msgspec.field(default_factory=_unset))
        for name, hint in types.items()
    ]
    return msgspec.defstruct("arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _unset() -> msgspec.UnsetType:
    return msgspec.UNSET


def _unsupported(tool: str, types: Mapping[str, Any], error: Exception) -> ConfigurationError:
    """Return an error that names the first parameter whose type has no schema, if one alone is at fault."""
    for name, hint in types.items():
        try:
            schema_of(_struct({name: hint}, frozenset({name})), {}, {}, model_schema)
        except (TypeError, NameError) as found:
            why = str(found).rpartition("\n")[2]
            return _refused(tool, name, f"has a type that JSON does not have ({why}): {_TYPES}")
    return ConfigurationError(f"tool {tool}: its arguments have no JSON Schema: {error}")


def _refused(tool: str, parameter: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"tool {tool}: parameter `{parameter}` {why}")
