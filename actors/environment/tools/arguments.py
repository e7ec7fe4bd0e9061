"""The arguments of a tool: read from its signature, described as JSON Schema, and checked when it is called."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Protocol, TypeAlias, TypedDict, TypeGuard, get_args, get_origin

import msgspec

from reenact._signature import signature_of
from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.values import is_mapping
from reenact.domain.marks import parts_of
from reenact.domain.plain import Json, JsonDict
from reenact.domain.tools import InvalidArgumentsError, is_array, is_json, is_property_name


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """The call that is being run. A tool receives it in a parameter of this type, which the model does not see.

    `idempotency_key` is the same when the call is run again after a crash: pass it to services that take one, so that
    the effect happens only once. Outside of an agent all fields are empty.
    """

    session_id: str = ""
    agent_id: str = ""
    turn_id: str = ""
    call_id: str = ""
    idempotency_key: str = ""


AnyFunction: TypeAlias = Callable[..., object]

_UNIONS = (typing.Union, types.UnionType)
_COLLECTIONS = (list, dict, set, frozenset, tuple)
_NO_SCHEMA = (TypeError, NameError, RecursionError)
_TYPES = "use str, int, float, bool, list, dict, datetime, Literal, an Enum, a dataclass, a TypedDict or the like"
_NOT_BY_NAME = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, but a model gives arguments by name: remove the `/`",
    inspect.Parameter.VAR_POSITIONAL: "stands for any number of arguments, but a model must know them: declare a list",
    inspect.Parameter.VAR_KEYWORD: "stands for any argument, but a model must know them: declare each, or a dict",
}

# Docstrings are in the style of Google, of NumPy or of Sphinx.
_GOOGLE = re.compile(
    r"^(?:(?:Keyword |Other )?(?:Args|Arguments|Parameters)|Params)[ \t]*:[ \t]*\n(?P<entries>(?:[ \t].*\n|\n)*)",
    re.MULTILINE,
)
_GOOGLE_NAME = r"\*{0,2}(\w+)[ \t]*(?:\(.*?\))?[ \t]*:(?!:)"
_GOOGLE_ENTRY = re.compile(rf"^{_GOOGLE_NAME}(.*(?:\n(?!{_GOOGLE_NAME}).*)*)", re.MULTILINE)
_NUMPY = re.compile(
    r"^(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*\n(?P<entries>(?:(?!.*\n-{3,}[ \t]*\n).*\n)*)", re.MULTILINE
)
_NUMPY_ENTRY = re.compile(
    r"^([\w*]+(?:[ \t]*,[ \t]*[\w*]+)*)[ \t]*(?::.*)?((?:\n[ \t].*|\n(?=\n|[ \t]))*)$", re.MULTILINE
)
_SPHINX = re.compile(
    r"^(?P<entries>:(?:param|parameter|arg|argument|key|keyword)[ \t]+(?:[^:\n]*[ \t])?\*{0,2}\w+[ \t]*:.*\n"
    r"(?:[ \t].*\n)*)|^:type[ \t]+\w+[ \t]*:.*\n",
    re.MULTILINE,
)
_SPHINX_ENTRY = re.compile(r"^:\w+[ \t]+(?:[^:\n]*[ \t])?\*{0,2}(\w+)[ \t]*:(.*(?:\n.*)*)")
_STYLES = ((_GOOGLE, _GOOGLE_ENTRY), (_NUMPY, _NUMPY_ENTRY), (_SPHINX, _SPHINX_ENTRY))
"""For each docstring style, a pattern for a section about parameters, and one for an entry in it."""


class Parameters:
    """The parameters of a function. `types` maps the arguments that the model gives to their types, in signature order.

    `schema` describes them; `required` ones have no default. `context` names the parameter that receives the
    `ToolContext`, or is empty.
    """

    __slots__ = ("_struct", "context", "required", "schema", "types")

    def __init__(
        self,
        tool: str,
        types: Mapping[str, object],
        defaults: Mapping[str, object],
        texts: Mapping[str, str],
        context: str,
    ) -> None:
        self.types = types
        self.required = frozenset(types) - frozenset(defaults)
        self.context = context
        self._struct = _struct(types, self.required)
        try:
            self.schema = schema_of(self._struct, texts, defaults)
        except _NO_SCHEMA as error:
            raise _unsupported(tool, types, error) from error
        msgspec.msgpack.Decoder(self._struct)  # msgspec prepares the type here, before several threads convert to it

    def read(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments as the function takes them; missing ones are left to its defaults.

        Raises:
            msgspec.ValidationError: they do not fit.
        """
        read = msgspec.convert(arguments, self._struct, str_keys=True, dec_hook=model_argument)
        values = ((name, getattr(read, name)) for name in self.types)
        return {name: value for name, value in values if value is not msgspec.UNSET}


def parameters_of(tool: str, function: AnyFunction, docs: Mapping[str, str], names: Mapping[str, object]) -> Parameters:
    """Return a function's parameters; `docs` holds their descriptions, `names` the names that annotations may use.

    Raises:
        ConfigurationError: a model could not give the function its arguments; the message names the parameter.
    """
    types: dict[str, object] = {}
    defaults: dict[str, object] = {}
    context = ""
    for parameter in _signature(tool, function):
        hint = _parameter_type(tool, function, parameter, names)
        if _is_context(hint):
            if context:
                raise _parameter_error(tool, parameter.name, f"is a second ToolContext, beside `{context}`: remove one")
            context = parameter.name
            continue
        types[parameter.name] = _with_formats(hint)
        if parameter.default is not inspect.Parameter.empty:
            defaults[parameter.name] = parameter.default
    texts = {name: text for name, hint in types.items() if (text := _description(hint) or docs.get(name))}
    return Parameters(tool, types, defaults, texts, context)


def _is_context(hint: object) -> bool:
    """Return whether the type is `ToolContext`, or a union or an annotation of it."""
    inner = get_args(hint) if get_origin(hint) in (Annotated, *_UNIONS) else ()
    return hint is ToolContext or any(map(_is_context, inner))


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the docstring without its sections about parameters, and the descriptions of parameters by name."""
    text = f"{inspect.cleandoc(docstring or '')}\n"
    parameters: dict[str, str] = {}
    for section, entry in _STYLES:
        text = section.sub(functools.partial(_rest, entry, parameters), text)
    return re.sub(r"\n{3,}", "\n\n", text).strip(), parameters


def _rest(entry: re.Pattern[str], parameters: dict[str, str], section: re.Match[str]) -> str:
    """Add the parameters that a section describes; return what stays of it: all, if it has text but no entry."""
    inside = textwrap.dedent(section["entries"] or "")
    entries: list[tuple[str, ...]] = entry.findall(inside)
    for names, described, *_ in entries:
        told = " ".join(line.strip() for line in described.splitlines() if line.strip())
        parameters |= dict.fromkeys((name.strip(" *") for name in names.split(",")), told)
    return "" if entries or not inside.strip() else section[0]


class _Model(Protocol):
    """A pydantic model."""

    def model_validate_json(self, json_data: bytes, *, strict: bool) -> object: ...
    def model_json_schema(self, *, ref_template: str) -> JsonDict: ...


class _Complaint(TypedDict):
    loc: tuple[str | int, ...]
    msg: str


def _is_model(kind: object) -> TypeGuard[_Model]:
    return hasattr(kind, "model_json_schema")


def model_argument(kind: object, value: object) -> object:
    """Return the pydantic model of this type that the JSON value describes.

    Models are recognised by their methods, so that pydantic is not imported; types without a schema were refused
    before.

    Raises:
        ValueError: the value does not fit the model; the message says why for each place.
    """
    try:
        assert _is_model(kind)
        return kind.model_validate_json(msgspec.json.encode(value), strict=True)
    except ValueError as error:
        errors: Callable[[], list[_Complaint]] | None = getattr(error, "errors", None)
        if errors is None:
            raise
        raise ValueError("; ".join(map(_complaint_text, errors()))) from None


def _complaint_text(error: _Complaint) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg']}" if where else error["msg"]


def _model_schema(kind: object) -> JsonDict:
    """Return the JSON Schema of a pydantic model, with its definitions in `$defs`.

    Raises:
        NotImplementedError: the type is not a model.
    """
    if not _is_model(kind):
        raise NotImplementedError
    return kind.model_json_schema(ref_template="#/$defs/{model}")


def _signature(tool: str, function: AnyFunction) -> Iterator[inspect.Parameter]:
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {tool}: its signature cannot be read ({error}); wrap it in a function of your own"
        ) from None
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return (parameter for parameter in parameters if parameter.name not in bound)


def _parameter_type(
    tool: str, function: AnyFunction, parameter: inspect.Parameter, names: Mapping[str, object]
) -> object:
    """Return the type of a parameter, checked to be one that a model can give or that is the `ToolContext`."""
    name = parameter.name
    if parameter.kind in _NOT_BY_NAME:
        raise _parameter_error(tool, name, _NOT_BY_NAME[parameter.kind])
    if parameter.annotation is inspect.Parameter.empty:
        raise _parameter_error(tool, name, f"has no type: write `{name}: str`, or `{name}: Any` for any JSON value")
    if name.startswith("__"):
        raise _parameter_error(tool, name, "begins with two underscores, as internal names do: rename it")
    if not is_property_name(name):
        raise _parameter_error(tool, name, "has a name that the Messages API refuses: use at most 64 ASCII letters")
    try:
        return _resolved(function, parameter, names)
    except Exception as error:  # an annotation in quotes is code, and may raise anything
        raise _parameter_error(tool, name, f"has a type that cannot be resolved: {error}") from error


def _resolved(function: AnyFunction, parameter: inspect.Parameter, names: Mapping[str, object]) -> object:
    """Return a parameter's type; names in its annotation are looked up in `names`, then in the function's module."""

    def annotated() -> None: ...

    annotated.__annotations__ = {parameter.name: parameter.annotation}
    written = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    module = getattr(written, "__globals__", None) or getattr(written.__call__, "__globals__", {})
    return typing.get_type_hints(annotated, module, dict(names), include_extras=True)[parameter.name]


def _description(hint: object) -> str:
    """Return the text in `Annotated[…, "text"]`, or the `description` of an object there; empty if there is none."""
    if get_origin(hint) is not Annotated:
        return ""
    texts = (text if isinstance(text, str) else getattr(text, "description", None) for text in get_args(hint)[1:])
    return next((text for text in texts if isinstance(text, str)), "")


def _with_formats(hint: object) -> object:
    """Return the type with a format added to each datetime in it, which msgspec leaves out of the schema."""
    origin = get_origin(hint)
    inner = get_args(hint)
    if hint is datetime:
        return Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
    if origin is Annotated:
        return Annotated[(_with_formats(inner[0]), *inner[1:])]
    if origin in _UNIONS:
        return typing.Union[tuple(map(_with_formats, inner))]  # noqa: UP007 - its members are only known at run time
    if origin in _COLLECTIONS and inner:
        return types.GenericAlias(origin, tuple(map(_with_formats, inner)))
    return hint


def _struct(types: Mapping[str, object], required: frozenset[str]) -> type[msgspec.Struct]:
    fields = [(name, hint) if name in required else (name, hint, msgspec.UNSET) for name, hint in types.items()]
    return msgspec.defstruct("arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _unsupported(tool: str, types: Mapping[str, object], error: Exception) -> ConfigurationError:
    """Return an error that names the first parameter whose type has no schema, if one parameter alone is the cause."""
    for name, hint in types.items():
        try:
            schema_of(_struct({name: hint}, frozenset({name})))
        except _NO_SCHEMA as found:
            return _parameter_error(
                tool, name, f"has a type that JSON does not have ({why_no_schema(found)}): {_TYPES}"
            )
    return ConfigurationError(f"tool {tool}: its arguments have no JSON Schema: {error}")


def why_no_schema(error: Exception) -> str:
    """Return why a type has no schema, and what to do if it is a union of pydantic models."""
    why = str(error).rpartition("\n")[2]
    return (
        f"{why}; if these are pydantic models, use a RootModel of them" if "more than one custom type" in why else why
    )


def _parameter_error(tool: str, parameter: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"tool {tool}: parameter `{parameter}` {why}")


_PREFIX = "#/$defs/"
_REFERENCE = re.compile(r'"\$ref":"#/\$defs/([^"]*)"')
_ALTERNATIVES = frozenset({"anyOf", "oneOf"})


def schema_of(
    struct: type[msgspec.Struct], texts: Mapping[str, str] = {}, defaults: Mapping[str, object] = {}
) -> JsonDict:
    """Return the schema of the struct, with descriptions and defaults of its fields.

    A reference is replaced by its definition, unless that refers to itself.

    Raises:
        TypeError, NameError, RecursionError: a type of the struct has no schema.
    """
    (top,), components = msgspec.json.schema_components(
        [struct], schema_hook=_model_schema, ref_template=f"{_PREFIX}{{name}}"
    )
    definitions: dict[str, JsonDict] = {}
    properties: dict[str, JsonDict] = components[_referred(top)]["properties"]
    for name, field in properties.items():
        _complete(field, texts.get(name), defaults.get(name, msgspec.UNSET))
    for name, definition in (*_inner_definitions(components), *components.items()):
        plain = {key: value for key, value in definition.items() if key != "$defs"}
        if definitions.setdefault(name, plain) != plain:
            raise TypeError(f"two different types have the name {name!r}; rename one of them")
    schema = definitions.pop(_referred(top))
    del schema["title"]
    inline = {name: of for name, of in definitions.items() if name not in reachable(references(of), definitions)}
    needed = sorted(reachable(references(schema), definitions) - inline.keys())
    made = _inlined(schema, inline)
    if needed:
        made["$defs"] = {name: _inlined(definitions[name], inline) for name in needed}
    return made


def schema_of_type(name: str, kind: object) -> JsonDict:
    """Return the schema of an object with one member of this type and name.

    Raises:
        TypeError, NameError, RecursionError: the type has no schema.
    """
    return schema_of(_struct({name: _with_formats(kind)}, frozenset({name})))


def _complete(field: JsonDict, text: str | None, default: object) -> None:
    """Add the description and the default to a field's schema."""
    if text:
        field["description"] = text
    try:
        value = msgspec.to_builtins(default, str_keys=True, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return
    if is_json(value):
        field["default"] = value


def _inner_definitions(node: Json) -> Iterator[tuple[str, JsonDict]]:
    """Yield the definitions in a schema, and the definitions in these."""
    if isinstance(node, dict) and isinstance(inner := node.get("$defs"), dict):
        yield from ((name, of) for name, of in inner.items() if isinstance(of, dict))
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _inner_definitions(part)


def _inlined(node: JsonDict, inline: Mapping[str, JsonDict]) -> JsonDict:
    """Return the schema with references to these definitions replaced by the definitions."""
    if (name := _referred(node)) in inline:
        return _inlined({**inline[name], **{key: value for key, value in node.items() if key != "$ref"}}, inline)
    # The discriminator of alternatives is OpenAPI's: it refers to definitions, which are inlined here.
    left_out = {"$defs"} if _ALTERNATIVES.isdisjoint(node) else {"$defs", "discriminator"}
    made = {key: _inlined_part(value, inline) for key, value in node.items() if key not in left_out}
    if made.get("uniqueItems") and isinstance(default := made.get("default"), list):
        made["default"] = sorted(default, key=msgspec.json.encode)  # a set has another order in each process
    return made


def _inlined_part(node: Json, inline: Mapping[str, JsonDict]) -> Json:
    if isinstance(node, list):
        return [_inlined_part(item, inline) for item in node]
    return _inlined(node, inline) if isinstance(node, dict) else node


def _referred(node: JsonDict) -> str:
    """Return the name of the definition that the schema refers to; empty if it refers to none."""
    reference = node.get("$ref")
    return reference.removeprefix(_PREFIX) if isinstance(reference, str) else ""


def inner_schemas(schema: JsonDict) -> Iterator[Json]:
    """Yield the schemas directly in a schema: its definitions, members, alternatives and items."""
    for keyword in ("$defs", "properties"):
        found = schema.get(keyword)
        yield from found.values() if isinstance(found, dict) else ()
    yield from _listed(schema, "anyOf")
    if "items" in schema:
        yield schema["items"]


def references(schema: Json) -> set[str]:
    """Return the names of the definitions that the schema refers to."""
    return set(_REFERENCE.findall(msgspec.json.encode(schema).decode()))


def reachable(names: Iterable[str], definitions: Mapping[str, Json]) -> set[str]:
    """Return the names, and the names of the definitions that these refer to, directly or through others."""
    found: set[str] = set()
    left = set(names)
    while left:
        found |= left
        left = {name for one in left for name in references(definitions.get(one, {}))} - found
    return found


Step: TypeAlias = str | int | None
"""A step from a value to one inside it: a field, an index, or None where the error message does not say."""

_WHERE = re.compile(r"(?s)(.*) - at (`?key`? in )?`\$(.*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_EXPECTED = re.compile(r"Expected `([^`]*)`, got `[^`]*`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_JSON_NAMES = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}
_SHOWN = 80


def read_arguments(tool: str, parameters: Parameters, arguments: object) -> dict[str, object]:
    """Return the arguments as the tool's function takes them.

    Raises:
        InvalidArgumentsError: they do not fit; it names the tool, each argument, its value and what was expected.
    """
    if not is_mapping(arguments):
        raise InvalidArgumentsError(tool, [f"its arguments must be a JSON object; got {_shown(arguments)}"])
    try:
        return parameters.read(arguments)
    except msgspec.ValidationError:
        pass
    whole = {name: with_whole_numbers(value) for name, value in arguments.items()}
    try:
        return parameters.read(whole)
    except msgspec.ValidationError as error:
        problems = list(_problems(parameters, whole)) or [str(error)]
        raise InvalidArgumentsError(tool, problems) from None


def with_whole_numbers(value: object) -> object:
    """Return the value with `5.0` replaced by `5`: JSON Schema regards both as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_mapping(value):
        return {key: with_whole_numbers(item) for key, item in value.items()}
    if is_array(value):
        return [with_whole_numbers(item) for item in value]
    return value


def _problems(parameters: Parameters, arguments: Mapping[str, object]) -> Iterator[str]:
    for name in arguments:
        if name not in parameters.types:
            known = ", ".join(f"`{name}`" for name in parameters.types) or "none"
            yield f"there is no argument `{name}`; it takes: {known}"
    for name, kind in parameters.types.items():
        if name in arguments:
            try:
                msgspec.convert(arguments[name], kind, str_keys=True, dec_hook=model_argument)
            except msgspec.ValidationError as error:
                yield _problem(name, arguments[name], parameters.schema, str(error))
        elif name in parameters.required:
            yield f"argument `{name}` is missing"


def _problem(name: str, value: object, schema: JsonDict, message: str) -> str:
    found = _WHERE.fullmatch(message)
    what, key, where = found.groups() if found else (message, None, "")
    steps: list[Step] = [name]
    for field, index in _STEP.findall(where):
        steps.append(field or (int(index) if index else None))
    who = f"{'a key of ' if key else ''}argument `{_shown_path(steps)}`"
    if missing := _MISSING.fullmatch(what):
        return f"{who} lacks `{missing[1]}`"
    if unknown := _UNKNOWN.fullmatch(what):
        return f"{who} has no field `{unknown[1]}`"
    return f"{who} {_rule(what, steps, schema)}{_got(value, steps[1:])}"


def _rule(what: str, steps: Sequence[Step], schema: JsonDict) -> str:
    if expected := _EXPECTED.fullmatch(what):
        return f"must be of type {' | '.join(_JSON_NAMES.get(kind, kind) for kind in expected[1].split(' | '))}"
    allowed = [value for node in _schemas_at(steps, schema, schema) for value in _listed(node, "enum")]
    if allowed and what.startswith(("Invalid enum value ", "Invalid value ")):
        return f"must be one of {', '.join(map(_shown, allowed))}"
    if what.startswith("Expected `"):
        kind, _, limits = what.removeprefix("Expected `").partition("`")
        return f"must be {_JSON_NAMES.get(kind, kind)}{limits.partition(', got')[0]}"
    if what.startswith("Invalid "):
        return f"must be a valid {what.removeprefix('Invalid ')}"
    return f"is not valid: {what}"


def _got(value: object, steps: Sequence[Step]) -> str:
    """Return the value at the place that is wrong, for the error message; empty if the place is not known."""
    for step in steps:
        parts = parts_of(value) or {}
        if step not in parts:
            return ""
        value = parts[step]
    return f"; got {_shown(value)}"


def _shown_path(steps: Sequence[Step]) -> str:
    path = "".join(f".{step}" if isinstance(step, str) else f"[{'…' if step is None else step}]" for step in steps)
    return path.removeprefix(".")


def _shown(value: object) -> str:
    told = repr(value) if isinstance(value, str) or not is_json(value) else msgspec.json.encode(value).decode()
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"


def _schemas_at(steps: Sequence[Step], node: Json, whole: JsonDict) -> Iterator[JsonDict]:
    """Yield the subschemas that describe the value at the end of the steps from the node."""
    if not isinstance(node, dict):
        return
    if name := _referred(node):
        definitions = whole["$defs"]
        yield from _schemas_at(steps, definitions[name] if isinstance(definitions, dict) else None, whole)
        return
    for either in (*_listed(node, "anyOf"), *_listed(node, "oneOf")):
        yield from _schemas_at(steps, either, whole)
    if not steps:
        yield node
        return
    step, *rest = steps
    properties, prefix = node.get("properties"), _listed(node, "prefixItems")
    if isinstance(step, str):
        inner = properties.get(step) if isinstance(properties, dict) else None
    elif step is not None and step < len(prefix):
        inner = prefix[step]
    else:
        inner = node.get("items") or node.get("additionalProperties")
    yield from _schemas_at(rest, inner, whole)


def _listed(node: JsonDict, key: str) -> list[Json]:
    found = node.get(key)
    return found if isinstance(found, list) else []
