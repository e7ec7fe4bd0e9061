"""The drafts of JSON Schema as `jsonschema` has them, but with exact numbers, and with rules that take no long time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Protocol

from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import (
    extend,  # pyright: ignore[reportUnknownVariableType] - it has no types
    validator_for,
)
from referencing import Registry
from referencing.jsonschema import SchemaRegistry

from reenact.terminal.matching.formats import FORMATS
from reenact.terminal.matching.jsons import JSON, Schema, compact
from reenact.terminal.matching.rules import (
    draft_of,
    expression,
    has_equal,
    is_integer,
    is_multiple,
    is_number,
    is_written_as_integer,
)


class Checker(Protocol):
    """What checks values by a schema; each schema inside has one of its own."""

    schema: Schema
    format_checker: FormatChecker

    def iter_errors(self, instance: JSON) -> Iterator[ValidationError]:
        """Yield where the value does not conform."""
        ...

    def descend(
        self, instance: JSON, schema: JSON, path: str | None = None, schema_path: str | None = None
    ) -> Iterator[ValidationError]:
        """Yield where a part of the value does not conform to a schema that is in this one."""
        ...


class _Kind(Protocol):
    """A class of checkers: a draft."""

    evolve: Callable[..., Checker]

    def __call__(
        self,
        schema: object,
        *,
        format_checker: FormatChecker,
        registry: SchemaRegistry = ...,
        _resolver: object = ...,
    ) -> Checker: ...


def checker_of(schema: Schema, draft: str | None) -> Checker | None:
    """Return what checks by the schema, of the newest draft or the one with this address; None if there is none.

    Raises:
        SchemaError: it is no schema of that draft.
    """
    common: type[Validator] = Draft202012Validator
    if draft is not None:
        common = validator_for({"$schema": draft}, default=Draft202012Validator)
        if common is Draft202012Validator and draft.rstrip("#") != common.META_SCHEMA["$id"]:
            return None
    kind = _exact(common)
    if isinstance(schema, dict):
        for error in kind(common.META_SCHEMA, format_checker=common.FORMAT_CHECKER).iter_errors(schema):
            raise SchemaError.create_from(error)
    formats = FormatChecker(formats=())
    formats.checkers.update({name: (_of_texts(check), ()) for name, check in FORMATS.items()})
    formats.checkers.update(common.FORMAT_CHECKER.checkers)
    return kind(schema, format_checker=formats, registry=Registry())


@cache
def _exact(draft: type[Validator]) -> _Kind:
    kind = _extended(draft)
    evolve = kind.evolve

    def evolved(self: Checker, **changes: object) -> Checker:
        inner = changes.get("schema", self.schema)
        address = draft_of(inner)
        if address is None:
            return evolve(self, **changes)
        # A schema that names its draft would be given to the one that has the common rules.
        other = _exact(validator_for({"$schema": address}, default=draft))
        resolver: object = changes.get("_resolver", getattr(self, "_resolver", None))
        return other(inner, format_checker=self.format_checker, _resolver=resolver)

    kind.evolve = evolved
    return kind


def _extended(draft: type[Validator]) -> _Kind:
    types = draft.TYPE_CHECKER
    by_writing = not types.is_type(1.0, "integer")  # pyright: ignore[reportUnknownMemberType] - no types
    of_draft = {"number": _is_number, "integer": _is_written_as_integer if by_writing else _is_integer}
    exact: object = types.redefine_many(of_draft)  # pyright: ignore[reportUnknownMemberType] - no types
    rules = {name: rule for name, rule in _RULES.items() if name in draft.VALIDATORS}
    return extend(draft, rules, type_checker=exact)  # type: ignore[no-untyped-call, no-any-return]  # pyright: ignore[reportUnknownVariableType] - no types


def _is_number(_checker: object, value: object) -> bool:
    return is_number(value)


def _is_integer(_checker: object, value: object) -> bool:
    return is_integer(value)


def _is_written_as_integer(_checker: object, value: object) -> bool:
    return is_written_as_integer(value)


def _of_texts(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or check(value)


def _multiple_of(_validator: Checker, of: Decimal, instance: JSON, _schema: object) -> Iterator[ValidationError]:
    if isinstance(instance, Decimal) and not is_multiple(instance, of):
        yield ValidationError(f"{instance!r} is not a multiple of {of!r}")


def _unique_items(_validator: Checker, wanted: object, instance: JSON, _schema: object) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list) and has_equal(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _pattern(_validator: Checker, pattern: str, instance: JSON, _schema: object) -> Iterator[ValidationError]:
    if isinstance(instance, str) and expression(pattern).search(instance) is None:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Checker, patterns: Mapping[str, JSON], instance: JSON, _schema: object
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, inner in patterns.items():
            for name, member in instance.items():
                if expression(pattern).search(name) is not None:
                    yield from validator.descend(member, inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: Checker, inner: JSON, instance: JSON, schema: Mapping[str, Mapping[str, JSON]]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), [expression(one) for one in schema.get("patternProperties", {})]
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
