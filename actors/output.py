"""Structured output: the JSON Schema of the requested type, and the answer as a value of that type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec

from reenact.actors.environment.tools.arguments import model_argument, schema_of_type, why_no_schema, with_whole_numbers
from reenact.domain.errors import ConfigurationError, InvalidOutputError, shown
from reenact.domain.image import Image, OutputType
from reenact.domain.output import OutputSpec, check_output
from reenact.domain.plain import Json, JsonDict, is_mapping, made

T_co = TypeVar("T_co", covariant=True)
_DEFAULT_NAME = "answer"
_IMPROPER = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_VALUE = "value"
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "$ref")


class Output(Generic[T_co]):
    """The requested output of an answer, with the function that reads it from JSON."""

    __slots__ = ("_read", "spec")

    def __init__(self, spec: OutputSpec, read: Callable[[Json], T_co]) -> None:
        self.spec = spec
        self._read = read

    def value(self, output: Json, turn_id: str) -> T_co:
        """Return the value of an output, which the runtime has validated against the schema.

        Raises:
            InvalidOutputError: it violates a rule of the type that the schema does not express.
        """
        try:
            return self._read(output)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise InvalidOutputError(turn_id, str(error)) from error


def output_of(kind: object) -> Output[object]:
    """Return the output for a type, for the JSON Schema of an object, or for an `OutputSpec`.

    Raises:
        ConfigurationError: answers cannot be validated against it; the message says why.
    """
    if isinstance(kind, OutputSpec):
        return Output(check_output(kind), _identity)
    if is_mapping(kind):
        spec = check_output(made(OutputSpec, name=_DEFAULT_NAME, schema=kind))
        return Output(spec, _identity)
    not_a_type = ConfigurationError(f"output must be a type, a JSON Schema or an OutputSpec, not {shown(kind):.200}")
    if isinstance(kind, str):  # it would be evaluated
        raise not_a_type
    try:
        return _output_of_type(kind)
    except TypeError as error:  # it is not hashable, so it is not a type
        raise not_a_type from error


def spec_of(output: OutputType | None) -> OutputSpec | None:
    """Return only the spec of the output; None if no output is requested."""
    return None if output is None else output_of(output).spec


def with_spec(image: Image) -> Image:
    """Return the image with its output as a spec, which can be stored."""
    # Values that are not images, such as the class itself, are refused elsewhere.
    output = None if isinstance(image, type) else getattr(image, "output", None)
    return image if output is None else msgspec.structs.replace(image, output=spec_of(output))


@lru_cache(maxsize=128)
def _output_of_type(kind: object) -> Output[object]:
    name = getattr(kind, "__name__", _DEFAULT_NAME)
    try:
        whole = schema_of_type(_VALUE, kind)
    except (TypeError, NameError, RecursionError, NotImplementedError) as error:
        raise ConfigurationError(
            f"output {name!r:.80}: the type has no JSON Schema ({why_no_schema(error)})"
        ) from error
    schema, is_wrapped = _object_schema(whole)
    spec = check_output(OutputSpec(name=_IMPROPER.sub("_", str(name))[:_LONGEST_NAME] or _DEFAULT_NAME, schema=schema))
    read = _reader(kind)
    return Output(spec, (lambda output: read(_unwrap(output))) if is_wrapped else read)


def _object_schema(whole: JsonDict) -> tuple[JsonDict, bool]:
    """Return the schema of the type if it is an object's, or else that of an object that contains the value."""
    properties, definitions = whole["properties"], whole.get("$defs")
    assert isinstance(properties, dict)
    inner = properties[_VALUE]
    assert isinstance(inner, dict)
    named = inner.get("$ref")
    if isinstance(named, str) and isinstance(definitions, dict):
        found = definitions.get(named.rpartition("/")[2])
        inner = found if isinstance(found, dict) else inner
    if inner.get("type") != "object" or any(keyword in inner for keyword in _NOT_AT_THE_TOP):
        return whole, True
    return {**inner, "$defs": definitions} if definitions else inner, False


def _reader(kind: object) -> Callable[[Json], object]:
    def read(output: Json) -> object:
        try:
            return msgspec.json.decode(msgspec.json.encode(output), type=kind, dec_hook=model_argument)
        except msgspec.ValidationError:
            whole = msgspec.json.encode(with_whole_numbers(output))
            return msgspec.json.decode(whole, type=kind, dec_hook=model_argument)

    return read


def _unwrap(output: Json) -> Json:
    return output[_VALUE] if isinstance(output, Mapping) else output


def _identity(output: Json) -> object:
    return output
