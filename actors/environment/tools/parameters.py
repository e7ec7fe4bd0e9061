"""What a function takes, read from its signature and its docstring: arguments, their types and their JSON Schema."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

import msgspec

from reenact.actors.environment.tools.context import ToolContext
from reenact.actors.environment.tools.schema import schema_of
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_property_name

AnyFunction: TypeAlias = Callable[..., Any]

_UNIONS: Final = (typing.Union, types.UnionType)
_COLLECTIONS: Final = (list, dict, set, frozenset, tuple)
_TYPES: Final = (
    "use str, int, float, bool, list, dict, datetime, Literal, an Enum, a dataclass, a TypedDict or the like"
)
_NOT_BY_NAME: Final = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, but a model gives arguments by name: remove the `/`",
    inspect.Parameter.VAR_POSITIONAL: "stands for any number of arguments, but a model must know them: declare a list",
    inspect.Parameter.VAR_KEYWORD: "stands for any argument, but a model must know them: declare each, or a dict",
}

# Docstrings are in the style of Google, of NumPy or of Sphinx.
_GOOGLE: Final = re.compile(
    r"^(?:(?:Keyword |Other )?(?:Args|Arguments|Parameters)|Params)[ \t]*:[ \t]*\n(?P<entries>(?:[ \t].*\n|\n)*)",
    re.MULTILINE,
)
_GOOGLE_NAME: Final = r"\*{0,2}(\w+)[ \t]*(?:\(.*?\))?[ \t]*:(?!:)"
_GOOGLE_ENTRY: Final = re.compile(rf"^{_GOOGLE_NAME}(.*(?:\n(?!{_GOOGLE_NAME}).*)*)", re.MULTILINE)
_NUMPY: Final = re.compile(
    r"^(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*\n(?P<entries>(?:(?!.*\n-{3,}[ \t]*\n).*\n)*)", re.MULTILINE
)
_NUMPY_ENTRY: Final = re.compile(
    r"^([\w*]+(?:[ \t]*,[ \t]*[\w*]+)*)[ \t]*(?::.*)?((?:\n[ \t].*|\n(?=\n|[ \t]))*)$", re.MULTILINE
)
_SPHINX: Final = re.compile(
    r"^(?P<entries>:(?:param|parameter|arg|argument|key|keyword)[ \t]+(?:[^:\n]*[ \t])?\*{0,2}\w+[ \t]*:.*\n"
    r"(?:[ \t].*\n)*)|^:type[ \t]+\w+[ \t]*:.*\n",
    re.MULTILINE,
)
_SPHINX_ENTRY: Final = re.compile(r"^:\w+[ \t]+(?:[^:\n]*[ \t])?\*{0,2}(\w+)[ \t]*:(.*(?:\n.*)*)")
_STYLES: Final = ((_GOOGLE, _GOOGLE_ENTRY), (_NUMPY, _NUMPY_ENTRY), (_SPHINX, _SPHINX_ENTRY))
"""For each style what finds a section about parameters, and the names and the text of an entry in it."""


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
            self.schema = schema_of(self._struct, texts, defaults, _model_schema)
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
        if hint is ToolContext or (get_origin(hint) in (Annotated, *_UNIONS) and ToolContext in get_args(hint)):
            context = parameter.name
            continue
        types[parameter.name] = _with_formats(hint)
        if parameter.default is not inspect.Parameter.empty:
            defaults[parameter.name] = parameter.default
    texts = {name: text for name, hint in types.items() if (text := _description(hint) or docs.get(name))}
    return Parameters(tool, types, defaults, texts, context)


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the docstring without what it says of parameters, and that by the parameters' names."""
    text = f"{inspect.cleandoc(docstring or '')}\n"
    parameters: dict[str, str] = {}
    for section, entry in _STYLES:
        for found in section.finditer(text):
            for names, described, *_ in entry.findall(textwrap.dedent(found["entries"] or "")):
                told = " ".join(line.strip() for line in described.splitlines() if line.strip())
                parameters |= dict.fromkeys((name.strip(" *") for name in names.split(",")), told)
        text = section.sub("", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip(), parameters


def model_argument(kind: Any, value: Any) -> Any:  # noqa: ANN401 - JSON becomes a model
    """Return the pydantic model of this type that the JSON value describes.

    Models are known by their methods, so that nothing is imported for them; types without a schema were refused before.

    Raises:
        ValueError: the value does not describe one; the message says for each place why.
    """
    try:
        return kind.model_validate_json(msgspec.json.encode(value), strict=True)
    except ValueError as error:
        errors: Callable[[], list[dict[str, Any]]] | None = getattr(error, "errors", None)
        if errors is None:
            raise
        raise ValueError("; ".join(map(_told, errors()))) from None


def _told(error: dict[str, Any]) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def _model_schema(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - any class
    """Return the JSON Schema of a pydantic model; what it defines stands in its `$defs`.

    Raises:
        NotImplementedError: the type is no model.
    """
    if not callable(getattr(kind, "model_json_schema", None)):
        raise NotImplementedError
    schema: dict[str, Any] = kind.model_json_schema(ref_template="#/$defs/{model}")
    return schema


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
        return _resolved(function, parameter, names)
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        raise _refused(tool, name, f"has a type that cannot be resolved: {error}") from error


def _resolved(function: AnyFunction, parameter: inspect.Parameter, names: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any type
    """Return the type of a parameter; what it names is looked for in `names`, then in the function's module."""

    def annotated() -> None: ...

    annotated.__annotations__ = {parameter.name: parameter.annotation}
    written: Any = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    module = getattr(written, "__globals__", None) or getattr(written.__call__, "__globals__", {})
    return typing.get_type_hints(annotated, module, dict(names), include_extras=True)[parameter.name]


def _description(hint: object) -> str:
    """Return the text in `Annotated[…, "text"]`, or the `description` of what stands there; empty if there is none."""
    if get_origin(hint) is not Annotated:
        return ""
    texts = (text if isinstance(text, str) else getattr(text, "description", None) for text in get_args(hint)[1:])
    return next((text for text in texts if isinstance(text, str)), "")


def _with_formats(hint: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type with the format of each time in it, which msgspec leaves out of a schema."""
    origin: Any = get_origin(hint)
    inner = get_args(hint)
    if hint is datetime:
        return Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
    if origin is Annotated:
        return Annotated[(_with_formats(inner[0]), *inner[1:])]
    if origin in _UNIONS:
        return typing.Union[tuple(map(_with_formats, inner))]  # noqa: UP007 - its members are not known before
    if origin in _COLLECTIONS:
        return types.GenericAlias(origin, tuple(map(_with_formats, inner)))
    return hint


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
            schema_of(_struct({name: hint}, frozenset({name})), {}, {}, _model_schema)
        except (TypeError, NameError) as found:
            why = str(found).rpartition("\n")[2]
            return _refused(tool, name, f"has a type that JSON does not have ({why}): {_TYPES}")
    return ConfigurationError(f"tool {tool}: its arguments have no JSON Schema: {error}")


def _refused(tool: str, parameter: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"tool {tool}: parameter `{parameter}` {why}")
