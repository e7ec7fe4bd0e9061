"""Validates JSON against JSON Schema: yields every violation, and fetches nothing.

The drafts are those of `jsonschema`, but with exact numbers, bounded searches and all formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from itertools import islice
from typing import Final, Protocol

import msgspec
from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import (
    extend,  # pyright: ignore[reportUnknownVariableType] - untyped
    validator_for,
)
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import SchemaRegistry

from reenact.domain.plain import is_mapping
from reenact.terminal.matching.jsons import (
    JSON,
    InvalidJSONError,
    Schema,
    brief,
    compact,
    parts,
    path,
    read,
    value_of,
)
from reenact.terminal.matching.options import BadPatternError, Expression, SlowSearchError, UnusableError
from reenact.terminal.text import escaped, quoted

_LONGEST = 300
_REASONS = 20


class BadSchemaError(UnusableError):
    """The schema cannot be used; the message says why."""


class Violation(msgspec.Struct, frozen=True):
    """A place where a value violates a rule.

    Attributes:
        place: the path to the value, such as `$.items[2]`.
        problem: a description of the violation.
        rule: the violated rule, as in the schema.
        found: the value, shortened.
        reasons: if the rule has alternatives, why each of them fails.
    """

    place: str
    problem: str
    rule: str
    found: str
    reasons: tuple[str, ...] = ()


def schema_of(expected: object) -> Schema:
    """Return the schema, given as a value or as JSON text.

    Raises:
        BadSchemaError: it is not JSON, or not an object or boolean.
    """
    try:
        schema = read(expected) if isinstance(expected, str) else value_of(expected)
    except InvalidJSONError as error:
        raise BadSchemaError(f"the schema is not JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise BadSchemaError(f"a schema must be an object, true or false, not {brief(schema)}")
    return schema


def violations(instance: JSON, schema: Schema) -> Iterator[Violation]:
    """Yield every violation of the schema by the instance; nothing if the instance conforms.

    The draft is the one that `$schema` names, or else the newest that `jsonschema` knows. Numbers are exact. All
    formats of the drafts 4 to 2020-12 are asserted, `idn-hostname` only if the package `idna` is installed. A reference
    leads into the schema or to a draft of the standard, never to a network or a file. A `pattern` is a regular
    expression of Python, except that `$` matches only at the end of the text; a search is limited to 10 seconds.

    Raises:
        BadSchemaError: the schema is not valid, is of an unknown draft, has an unresolvable reference, or recurses
            endlessly.
    """
    try:
        for error in _checker(schema).iter_errors(instance):
            yield _violation(error)
    except SchemaError as error:
        raise BadSchemaError(
            f"the schema is not valid: {path(error.absolute_path)}: {_short(error.message)}"
        ) from error
    except Unresolvable as error:
        raise BadSchemaError(
            f"the schema refers to {quoted(str(error.ref))}, which is not in it; nothing is fetched from elsewhere"
        ) from error
    except RecursionError:
        raise BadSchemaError("the schema refers to itself without end, or it or the JSON is nested too deep") from None
    except BadSchemaError:
        raise
    except (BadPatternError, SlowSearchError) as error:
        raise BadSchemaError(f"the schema cannot be applied: {error}") from error
    except Exception as error:  # an error that a schema causes in the validator is reported as the schema's
        raise BadSchemaError(f"the schema cannot be applied: {type(error).__name__}: {_short(str(error))}") from error


def _checker(schema: Schema) -> Checker:
    """Return the validator for the schema, of the draft that it names or else the newest one."""
    common: type[Validator] = Draft202012Validator
    draft = _draft_of(schema)
    if draft is not None:
        common = validator_for({"$schema": draft}, default=Draft202012Validator)
        if common is Draft202012Validator and draft.rstrip("#") != common.META_SCHEMA["$id"]:
            raise BadSchemaError(f"the schema is of a draft that is not known: {quoted(draft)}")
    kind = _exact(common)
    if isinstance(schema, dict):
        for error in kind(common.META_SCHEMA, format_checker=common.FORMAT_CHECKER).iter_errors(schema):
            raise SchemaError.create_from(error)
    formats = FormatChecker(formats=())
    formats.checkers.update({name: (_of_texts(check), ()) for name, check in _FORMATS.items()})
    formats.checkers.update(common.FORMAT_CHECKER.checkers)
    return kind(schema, format_checker=formats, registry=Registry())


def _draft_of(schema: object) -> str | None:
    """Return the URI of the draft that the schema names, or None."""
    address = schema.get("$schema") if is_mapping(schema) else None
    if address is None or isinstance(address, str):
        return address
    raise BadSchemaError("the schema is not valid: $schema must be a text")


def _violation(error: ValidationError) -> Violation:
    rule = {str(error.validator): error.validator_value} if isinstance(error.validator, str) else error.schema
    return Violation(
        place=path(error.absolute_path),
        problem=_short(error.message),
        rule=_short(compact(rule)),
        found=brief(error.instance),
        reasons=tuple(islice(_reasons(error), _REASONS)),
    )


def _reasons(error: ValidationError) -> Iterator[str]:
    for reason in error.context:
        yield f"alternative {reason.relative_schema_path[0]}: {path(reason.absolute_path)}: {_short(reason.message)}"


def _short(message: str) -> str:
    message = message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]}…{message[-(_LONGEST // 2) :]}"
    return escaped(message)


class Checker(Protocol):
    """The part of a validator that is used here; each subschema has a validator of its own."""

    schema: Schema
    format_checker: FormatChecker

    def iter_errors(self, instance: JSON) -> Iterator[ValidationError]:
        """Yield the errors of the value."""
        ...

    def descend(
        self, instance: JSON, schema: JSON, path: str | None = None, schema_path: str | None = None
    ) -> Iterator[ValidationError]:
        """Yield the errors of a part of the value for a subschema."""
        ...


class _Kind(Protocol):
    """A class of validators: a draft."""

    evolve: Callable[..., Checker]
    descend: Callable[..., Iterator[ValidationError]]

    def __call__(
        self,
        schema: object,
        *,
        format_checker: FormatChecker,
        registry: SchemaRegistry = ...,
        _resolver: object = ...,
    ) -> Checker: ...


@cache
def _exact(draft: type[Validator]) -> _Kind:
    kind = _extended(draft)
    evolve, descend = kind.evolve, kind.descend

    def evolved(self: Checker, **changes: object) -> Checker:
        inner = changes.get("schema", self.schema)
        address = _draft_of(inner)
        if address is None:
            return evolve(self, **changes)
        # The base class would pick the library's validator, without our rules, for a subschema that names its draft.
        other = _exact(validator_for({"$schema": address}, default=draft))
        resolver: object = changes.get("_resolver", getattr(self, "_resolver", None))
        return other(inner, format_checker=self.format_checker, _resolver=resolver)

    def descended(self: Checker, instance: JSON, schema: JSON, **steps: object) -> Iterator[ValidationError]:
        for error in descend(self, instance, schema, **steps):
            for name, place in (("path", error.path), ("schema_path", error.schema_path)):
                step = steps.get(name)
                if schema is False and isinstance(step, str | int):  # the base class leaves it out
                    place.append(step)
            yield error

    kind.evolve, kind.descend = evolved, descended
    return kind


def _extended(draft: type[Validator]) -> _Kind:
    types = draft.TYPE_CHECKER
    by_writing = not types.is_type(1.0, "integer")  # pyright: ignore[reportUnknownMemberType] - untyped
    of_draft = {"number": _is_number, "integer": _is_written_as_integer if by_writing else _is_integer}
    exact: object = types.redefine_many(of_draft)  # pyright: ignore[reportUnknownMemberType] - untyped
    rules = {name: rule for name, rule in _RULES.items() if name in draft.VALIDATORS}
    return extend(draft, rules, type_checker=exact)  # type: ignore[no-untyped-call, no-any-return]  # pyright: ignore[reportUnknownVariableType] - no types


def _of_texts(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or check(value)


def _multiple_of(_validator: Checker, of: Decimal, instance: JSON, _schema: object) -> Iterator[ValidationError]:
    if isinstance(instance, Decimal) and not _is_multiple(instance, of):
        yield ValidationError(f"{instance!r} is not a multiple of {of!r}")


def _unique_items(_validator: Checker, wanted: object, instance: JSON, _schema: object) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and _has_equal(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _pattern(_validator: Checker, pattern: str, instance: JSON, _schema: object) -> Iterator[ValidationError]:
    if isinstance(instance, str) and _expression(pattern).search(instance) is None:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Checker, patterns: Mapping[str, JSON], instance: JSON, _schema: object
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, inner in patterns.items():
            for name, member in instance.items():
                if _expression(pattern).search(name) is not None:
                    yield from validator.descend(member, inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: Checker, inner: JSON, instance: JSON, schema: Mapping[str, Mapping[str, JSON]]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), [_expression(one) for one in schema.get("patternProperties", {})]
    more = [name for name in instance if name not in known and not any(one.search(name) for one in patterns)]
    if isinstance(inner, dict):
        for name in more:
            yield from validator.descend(instance[name], inner, path=name)
    elif inner is False and more:
        listed = ", ".join(map(compact, sorted(more)))
        yield ValidationError(f"Additional properties are not allowed ({listed})")


_RULES = {
    "additionalProperties": _additional_properties,
    "divisibleBy": _multiple_of,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique_items,
}


_PARTS = re.compile(r"\\.|\[\^?+(?:\\.|[^\]\\])*+\]|\$", re.DOTALL)


def _is_number(_checker: object, value: object) -> bool:
    """Return whether it is a number; the numbers in the standard's own schemas are Python's."""
    return isinstance(value, Decimal | int | float) and not isinstance(value, bool)


def _is_integer(checker: object, value: object) -> bool:
    """Return whether it is a number without a fraction, however it is written."""
    return isinstance(value, Decimal | int | float) and _is_number(checker, value) and parts(value)[1] >= 0


def _is_written_as_integer(checker: object, value: object) -> bool:
    """Return whether it is a number written without fraction and exponent, as drafts 3 and 4 require."""
    return value.as_tuple().exponent == 0 if isinstance(value, Decimal) else _is_integer(checker, value)


def _is_multiple(value: Decimal | float, of: Decimal | float) -> bool:
    """Return whether a number is an integer multiple of another one above 0; exact for any size."""
    (digits, power), (divisor, least) = parts(value), parts(of)
    return not digits or (power >= least and digits % divisor * pow(10, power - least, divisor) % divisor == 0)


def _has_equal(elements: Iterable[JSON]) -> bool:
    """Return whether two of the elements are equal, in linear time."""
    seen: set[str] = set()
    for element in elements:
        form = compact(element)
        if form in seen:
            return True
        seen.add(form)
    return False


@lru_cache
def _expression(pattern: str) -> Expression:
    """Compile a pattern of a schema: a Python expression, except that `$` matches only at the end of the text.

    Raises:
        BadPatternError: it is not a regular expression.
    """
    return Expression(_PARTS.sub(lambda part: r"\Z" if part[0] == "$" else part[0], pattern))


_TIME = re.compile(
    r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9]))"
)
_DURATION = re.compile(
    r"P(?!\Z)(?:[0-9]+W"
    r"|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)?"
    r"(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?)"
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_IN_URI = r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*+"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_IN_URI}")
_URI_REFERENCE = re.compile(_IN_URI)
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*+)*+")
_RELATIVE_POINTER = re.compile(rf"(?:0|[1-9][0-9]*+)(?:[+-][1-9][0-9]*+)?(?:#|{_POINTER.pattern})")
_FOREIGN = (
    "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd"
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_IN_IRI = rf"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;={_FOREIGN}{_PRIVATE}-]|%[0-9A-Fa-f]{{2}})*+"
_IRI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_IN_IRI}")
_IRI_REFERENCE = re.compile(_IN_IRI)
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*+(?::[1-9][0-9]{0,3}|\*)?"
_TEMPLATE = re.compile(
    rf"(?:[!#$&()*+,\-./0-9:;=?@A-Z\[\]_a-z~{_FOREIGN}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*+\}})*+"
)
_DATE_LENGTH = len("1985-04-12")
_MINUTES_OF_DAY = 24 * 60


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None or found["second"] != "60":
        return found is not None
    minute = 60 * int(found["hour"]) + int(found["minute"])
    ahead = 60 * int(found["hours"] or 0) + int(found["minutes"] or 0)
    # A leap second is the last second of a day in UTC.
    return (minute - (-ahead if found["sign"] == "-" else ahead)) % _MINUTES_OF_DAY == _MINUTES_OF_DAY - 1


def _is_date_time(text: str) -> bool:
    day, between, time = text[:_DATE_LENGTH], text[_DATE_LENGTH : _DATE_LENGTH + 1], text[_DATE_LENGTH + 1 :]
    return between in ("T", "t") and Draft202012Validator.FORMAT_CHECKER.conforms(day, "date") and _is_time(time)


def _is(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date-time": _is_date_time,
    "duration": _is(_DURATION),
    "hostname": _is(_HOSTNAME),
    "iri": _is(_IRI),
    "iri-reference": _is(_IRI_REFERENCE),
    "json-pointer": _is(_POINTER),
    "relative-json-pointer": _is(_RELATIVE_POINTER),
    "time": _is_time,
    "uri": _is(_URI),
    "uri-reference": _is(_URI_REFERENCE),
    "uri-template": _is(_TEMPLATE),
}
"""Checks of texts by format: RFC 3339, RFC 1123, RFC 6570, RFC 6901 with its draft for relative pointers, and the
characters and scheme of RFC 3986 and RFC 3987.
"""
