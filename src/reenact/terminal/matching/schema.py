"""JSON checked against a JSON Schema: every place where it does not conform, and nothing fetched from anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from reenact.terminal.matching.formats import FORMATS
from reenact.terminal.matching.jsons import InvalidJSONError, Place, Plain, brief, path, plain, read, value_of
from reenact.terminal.matching.shown import escaped, quoted

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Schema: TypeAlias = dict[str, Plain] | bool

_LONGEST: Final = 300
_REASONS: Final = 20


class BadSchemaError(ValueError):
    """The schema cannot be used; the message says why."""


class Violation(msgspec.Struct, frozen=True):
    """A place where a value breaks a rule.

    Attributes:
        place: the path to the value, as `$.items[2]`.
        problem: what is wrong, in words.
        rule: the rule that is broken, as it stands in the schema.
        found: the value, shortened.
        reasons: if the rule is about alternatives, why each of them does not hold.
    """

    place: str
    problem: str
    rule: str
    found: str
    reasons: tuple[str, ...] = ()


def schema_of(expected: object) -> Schema:
    """Return the schema that is given as a value or as JSON text.

    Raises:
        BadSchemaError: it is neither.
    """
    try:
        schema = plain(read(expected) if isinstance(expected, str) else value_of(expected))
    except InvalidJSONError as error:
        raise BadSchemaError(f"the schema is not JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise BadSchemaError(f"a schema is an object, true or false, not {brief(schema)}")
    return schema


def violations(instance: Plain, schema: Schema) -> Iterator[Violation]:
    """Yield every place where the instance breaks a rule of the schema; nothing if it conforms.

    The draft is the one that `$schema` names; without it, the newest that `jsonschema` knows. Formats are asserted:
    those that `jsonschema` checks here, and `FORMATS`; no others. A reference leads into the schema or to a draft of
    the standard, never to a network or a file. A `pattern` is a regular expression of Python.

    Raises:
        BadSchemaError: it is no valid schema, of an unknown draft, refers to what is not there, or never ends.
    """
    from jsonschema import SchemaError  # noqa: PLC0415 - most assertions need none, and it takes long to load
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - likewise

    try:
        for error in _validator(schema).iter_errors(instance):
            yield _violation(error)
    except SchemaError as error:
        problem = f"the schema is not valid: {_place(error.absolute_path)}: {_short(error.message)}"
        raise BadSchemaError(problem) from error
    except Unresolvable as error:
        problem = (
            f"the schema refers to {quoted(str(error.ref))}, which is not in it; nothing is fetched from elsewhere"
        )
        raise BadSchemaError(problem) from error
    except RecursionError:
        problem = "the schema refers to itself without end, or it or the JSON is nested too deep"
        raise BadSchemaError(problem) from None
    except BadSchemaError:
        raise
    except Exception as error:  # whatever a schema does to a validator is no failure of ours
        raise BadSchemaError(f"the schema cannot be applied: {type(error).__name__}: {_short(str(error))}") from error


def _validator(schema: Schema) -> Validator:
    from jsonschema import Draft202012Validator, FormatChecker  # noqa: PLC0415 - as above
    from jsonschema.validators import validator_for  # noqa: PLC0415 - as above
    from referencing import Registry  # noqa: PLC0415 - as above

    draft: type[Validator] = Draft202012Validator
    if isinstance(schema, dict) and "$schema" in schema:
        named = schema["$schema"]
        if not isinstance(named, str):
            raise BadSchemaError("the schema is not valid: $schema must be a text")
        draft = validator_for({"$schema": named}, default=Draft202012Validator)
        if draft is Draft202012Validator and named.rstrip("#") != draft.META_SCHEMA["$id"]:
            raise BadSchemaError(f"the schema is of a draft that is not known: {quoted(named)}")
    if isinstance(schema, dict):
        draft.check_schema(schema)
    formats = FormatChecker(formats=())
    formats.checkers.update({name: (_of_texts(check), ()) for name, check in FORMATS.items()})
    formats.checkers.update(draft.FORMAT_CHECKER.checkers)
    return draft(schema, format_checker=formats, registry=Registry())


def _of_texts(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or check(value)


def _violation(error: ValidationError) -> Violation:
    rule = {str(error.validator): error.validator_value} if isinstance(error.validator, str) else error.schema
    return Violation(
        place=_place(error.absolute_path),
        problem=_short(error.message),
        rule=_short(json.dumps(rule, ensure_ascii=False)),
        found=brief(error.instance),
        reasons=tuple(islice(_reasons(error), _REASONS)),
    )


def _reasons(error: ValidationError) -> Iterator[str]:
    for reason in error.context:
        yield f"alternative {reason.relative_schema_path[0]}: {_place(reason.absolute_path)}: {_short(reason.message)}"


def _place(parts: Iterable[str | int]) -> str:
    place: Place = None
    for part in parts:
        place = (place, part)
    return path(place)


def _short(message: str) -> str:
    message = message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]}…{message[-(_LONGEST // 2) :]}"
    return escaped(message)
