"""The arguments of a call, checked against what the tool takes; what is wrong is said so that a model can mend it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from reenact.actors.environment.tools.parameters import Parameters, model_argument
from reenact.domain.tools import InvalidArgumentsError, is_array, is_json, is_mapping, is_object

Step: TypeAlias = str | int | None
"""From a value to one inside: a field, an index, or something inside that is not told."""

_WHERE: Final = re.compile(r"(?s)(.*) - at (?:`?key`? in )?`\$(.*)`")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`, got `[^`]*`")
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")
_JSON_NAMES: Final = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}
_SHOWN: Final = 80


def read_arguments(tool: str, parameters: Parameters, arguments: object) -> dict[str, Any]:
    """Return the arguments as the tool's function takes them.

    Raises:
        InvalidArgumentsError: they do not fit; it names the tool, each argument, what came and what was expected.
    """
    if not is_mapping(arguments):
        raise InvalidArgumentsError(tool, [f"its arguments must be a JSON object; got {_shown(arguments)}"])
    try:
        return parameters.read(arguments)
    except msgspec.ValidationError:
        pass
    whole = _with_whole_numbers(arguments)
    try:
        return parameters.read(whole)
    except msgspec.ValidationError as error:
        problems = list(_problems(parameters, whole)) or [str(error)]
        raise InvalidArgumentsError(tool, problems) from None


def _with_whole_numbers(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value with `5.0` as `5`: to JSON Schema both are integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_mapping(value):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    if is_array(value):
        return [_with_whole_numbers(item) for item in value]
    return value


def _problems(parameters: Parameters, arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in arguments:
        if name not in parameters.types:
            known = ", ".join(f"`{name}`" for name in parameters.types) or "none"
            yield f"there is no argument `{name}`; it takes: {known}"
    for name, kind in parameters.types.items():
        if name in arguments:
            try:
                msgspec.convert(arguments[name], kind, dec_hook=model_argument)
            except msgspec.ValidationError as error:
                yield _problem(name, arguments[name], parameters.schema, str(error))
        elif name in parameters.required:
            yield f"argument `{name}` is missing"


def _problem(name: str, value: object, schema: Mapping[str, Any], message: str) -> str:
    found = _WHERE.fullmatch(message)
    what, where = found.groups() if found else (message, "")
    steps: list[Step] = [name]
    for field, index in _STEP.findall(where):
        steps.append(field or (int(index) if index else None))
    who = f"argument `{_shown_path(steps)}`"
    if missing := _MISSING.fullmatch(what):
        return f"{who} lacks `{missing[1]}`"
    if unknown := _UNKNOWN.fullmatch(what):
        return f"{who} has no field `{unknown[1]}`"
    return f"{who} {_rule(what, steps, schema)}{_got(value, steps[1:])}"


def _rule(what: str, steps: Sequence[Step], schema: Mapping[str, Any]) -> str:
    if expected := _EXPECTED.fullmatch(what):
        return f"must be of type {' | '.join(_JSON_NAMES.get(kind, kind) for kind in expected[1].split(' | '))}"
    allowed = [value for node in _schemas_at(steps, schema, schema) for value in node.get("enum", ())]
    if allowed and what.startswith("Invalid enum value "):
        return f"must be one of {', '.join(map(_shown, allowed))}"
    if what.startswith("Expected `"):
        kind, _, limits = what.removeprefix("Expected `").partition("`")
        return f"must be {_JSON_NAMES.get(kind, kind)}{limits.partition(', got')[0]}"
    if what.startswith("Invalid "):
        return f"must be a valid {what.removeprefix('Invalid ')}"
    return f"is not valid: {what}"


def _got(value: Any, steps: Sequence[Step]) -> str:  # noqa: ANN401 - any JSON value
    """Return what stands at the place that is wrong, if that can be told."""
    for step in steps:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return ""
    return f"; got {_shown(value)}"


def _shown_path(steps: Sequence[Step]) -> str:
    path = "".join(f".{step}" if isinstance(step, str) else f"[{'…' if step is None else step}]" for step in steps)
    return path.removeprefix(".")


def _shown(value: object) -> str:
    told = repr(value) if isinstance(value, str) or not is_json(value) else msgspec.json.encode(value).decode()
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"


def _schemas_at(
    steps: Sequence[Step], node: Mapping[str, Any], whole: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of the whole schema that describe what is at the end of the steps from the node."""
    node = whole.get("$defs", {}).get(node.get("$ref", "").removeprefix("#/$defs/"), node)
    for either in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _schemas_at(steps, either, whole)
    if not steps:
        yield node
        return
    step, *rest = steps
    prefix = node.get("prefixItems", ())
    if isinstance(step, str):
        inner = node.get("properties", {}).get(step)
    elif step is not None and step < len(prefix):
        inner = prefix[step]
    else:
        inner = node.get("items") or node.get("additionalProperties")
    if is_object(inner):
        yield from _schemas_at(rest, inner, whole)
