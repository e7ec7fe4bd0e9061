"""JSON Schema validation: yields every violation, and fetches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from reenact.domain.errors import needing_extra
from reenact.terminal.matching.jsons import (
    JSON,
    InvalidJSONError,
    Place,
    Schema,
    brief,
    compact,
    exact,
    path,
    read,
    value_of,
)
from reenact.terminal.matching.patterns import BadPatternError, SlowSearchError
from reenact.terminal.text import escaped, quoted

if TYPE_CHECKING:
    from jsonschema import ValidationError

    from reenact.terminal.matching.drafts import Checker

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
        schema = exact(read(expected) if isinstance(expected, str) else value_of(expected))
    except InvalidJSONError as error:
        raise BadSchemaError(f"the schema is not JSON: {error}") from error
    except RecursionError:
        raise BadSchemaError("the schema is not JSON: it is nested too deep") from None
    if not isinstance(schema, dict | bool):
        raise BadSchemaError(f"a schema is an object, true or false, not {brief(schema)}")
    return schema


def violations(instance: JSON, schema: Schema) -> Iterator[Violation]:
    """Yield every place where the instance breaks a rule of the schema; nothing if it conforms.

    The draft is the one that `$schema` names; without it, the newest that `jsonschema` knows. Numbers are those that
    were written, not rounded. Formats are asserted: those that the drafts name. A reference leads into the schema or to
    a draft of the standard, never to a network or a file. A `pattern` is a regular expression of Python, but for `$`,
    which is the end of the text alone; a search takes 10 seconds at most.

    Raises:
        BadSchemaError: it is no valid schema, of an unknown draft, refers to what is not there, or never ends.
    """
    with needing_extra("terminal", "a JSON Schema"):
        from jsonschema import SchemaError  # noqa: PLC0415 - most assertions need none, and it takes long to load
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - likewise

    try:
        for error in _checker(schema).iter_errors(exact(instance)):
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
    except (BadPatternError, SlowSearchError) as error:
        raise BadSchemaError(f"the schema cannot be applied: {error}") from error
    except Exception as error:  # whatever a schema does to a validator is no failure of ours
        raise BadSchemaError(f"the schema cannot be applied: {type(error).__name__}: {_short(str(error))}") from error


def _checker(schema: Schema) -> Checker:
    from reenact.terminal.matching.drafts import checker_of  # noqa: PLC0415 - as above

    draft = schema.get("$schema") if isinstance(schema, dict) else None
    if draft is not None and not isinstance(draft, str):
        raise BadSchemaError("the schema is not valid: $schema must be a text")
    checker = checker_of(schema, draft)
    if checker is None:
        raise BadSchemaError(f"the schema is of a draft that is not known: {quoted(draft or '')}")
    return checker


def _violation(error: ValidationError) -> Violation:
    rule = {str(error.validator): error.validator_value} if isinstance(error.validator, str) else error.schema
    return Violation(
        place=_place(error.absolute_path),
        problem=_short(error.message),
        rule=_short(compact(rule)),
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
