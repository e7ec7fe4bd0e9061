"""Structured output: answers that are JSON and fit a schema; how they are checked, and corrections for the model.

The check is part of a decision. It is therefore pure, and its time is bounded whatever the schema and the answer are:
both are limited in size and depth, patterns are matched in linear time, and a check that would take too long reports
that the answer is too large.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias, TypeGuard

import msgspec

from reenact.domain.errors import ConfigurationError, InvalidInputError, shown
from reenact.domain.messages import Block, text_of
from reenact.domain.plain import DEEPEST, Json, JsonObject, is_mapping, plain, plain_object
from reenact.domain.policy.expressions import Expression
from reenact.domain.structs import FrozenByName
from reenact.domain.tools import faults_of_schema, is_array, is_object

RETRIES = 2
"""How often the model is asked again for an answer that fits, by default."""
MOST_RETRIES = 10
MAX_SCHEMA_BYTES = 100_000
MAX_ANSWER = 2_000_000
"""The longest answer that is parsed as JSON, in characters."""
MAX_WORK = 4_000_000
"""The work that one check may do, in characters; each part of a value counts as `_WORK_PER_PART` characters."""
MOST_ERRORS = 10
INVALID = "output_invalid"
"""The failure type of a turn whose answers did not fit."""

_WORK_PER_PART = 20
_SHOWN = 80
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FENCE = re.compile(r"```(?:json)?[ \t]*\n")
_TO_LAST_FENCE = re.compile(r"(.*)\n[ \t]*```", re.DOTALL)
_UNCHECKED: Final[frozenset[str]] = frozenset({"refusal", "max_tokens", "model_context_window_exceeded", "pause_turn"})
"""Stop reasons of answers that are not checked: asking again would give the same, or another part of the answer."""


class OutputSpec(FrozenByName):
    """The required form of an answer: JSON that fits the schema, which is that of an object.

    `name` is sent to the model, and has 1 to 64 letters, digits, `_` and `-`. If an answer does not fit, the model is
    asked again, up to `retries` times.
    """

    name: str
    schema: JsonObject
    retries: int = RETRIES


def check_output(output: OutputSpec) -> OutputSpec:
    """Return the output with a copy of its schema, or raise `ConfigurationError` if the schema cannot be checked."""
    who = f"output {output.name!r:.80}"
    given: object = output.schema
    if not is_mapping(given):
        raise ConfigurationError(f"{who}: a schema must be a mapping, not {shown(given):.80}")
    try:
        schema = plain_object("schema", given)
    except (InvalidInputError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{who}: {error}") from None
    if not _NAME.fullmatch(output.name):
        raise ConfigurationError(f"{who}: a name has 1 to 64 letters, digits, `_` and `-`")
    if type(output.retries) is not int or not 0 <= output.retries <= MOST_RETRIES:
        raise ConfigurationError(
            f"{who}: `retries` must be a number from 0 to {MOST_RETRIES}, not {output.retries!r:.80}"
        )
    size = len(msgspec.json.encode(schema))
    if size > MAX_SCHEMA_BYTES:
        raise ConfigurationError(f"{who}: the schema has {size} bytes; it may have {MAX_SCHEMA_BYTES}")
    for fault in (*faults_of_schema("the schema", schema), *_faults(schema, schema, "#")):
        raise ConfigurationError(f"{who}: {fault}")
    return msgspec.structs.replace(output, schema=schema)


def is_checked(stop_reason: str | None) -> bool:
    """Return whether an answer with this stop reason must fit the schema: a refusal or a truncated answer need not."""
    return stop_reason not in _UNCHECKED


def faults_of_answer(output: OutputSpec, content: tuple[Block, ...]) -> tuple[str, ...]:
    """Return the problems of the answer, at most `MOST_ERRORS`; an empty tuple if it fits. Never raises."""
    try:
        value = read_output(content)
    except InvalidInputError as error:
        return (str(error),)
    return faults_of_value(output.schema, value)


def read_output(content: tuple[Block, ...]) -> Json:
    """Return the JSON value in the text of an answer: the whole text, the content of a code fence, or the last line.

    Raises:
        InvalidInputError: the text is not JSON, or holds a value that a log cannot store; the message says why.
    """
    text = text_of(content).strip()
    if not text:
        raise InvalidInputError("the answer has no text")
    if len(text) > MAX_ANSWER:
        raise InvalidInputError(f"the answer has more than {MAX_ANSWER} characters")
    problem = ""
    for candidate in dict.fromkeys((text, _without_fence(text), text.rpartition("\n")[2])):
        try:
            return plain("the answer", _decode(candidate))
        except RecursionError:
            problem = problem or f"the answer is nested more than {DEEPEST} deep"
        except InvalidInputError as error:
            problem = problem or str(error)
        except (msgspec.DecodeError, UnicodeEncodeError):
            problem = problem or "the answer is not JSON"
    raise InvalidInputError(problem)


_decode = msgspec.json.Decoder().decode


def _without_fence(text: str) -> str:
    """Return the content of a code fence in the text, or the text if there is none."""
    opening = _FENCE.search(text)
    fenced = None if opening is None else _TO_LAST_FENCE.match(text, opening.end())
    return text if fenced is None else fenced[1]


def correction(errors: tuple[str, ...]) -> str:
    """Return the message that tells the model why its answer does not fit."""
    listed = "\n".join(f"- {error}" for error in errors)
    return f"That answer does not fit its JSON Schema:\n{listed}\nGive the whole answer again, as JSON that fits."


Schema: TypeAlias = Json

_TYPES: Final[Mapping[str, str]] = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_SCHEMA_KEYWORDS: Final = frozenset(
    {"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"},
)
_SCHEMA_LIST_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAP_KEYWORDS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_COUNTS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)
_NOT_CHECKED: Final = frozenset(
    {"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"}
    | {"additionalItems", "dependencies"}
)
"""Keywords that constrain a value but are not supported by the check."""


def _faults(node: Schema, whole: JsonObject, place: str) -> Iterator[str]:
    """Yield the faults of a schema: keywords that are malformed, or that cannot be checked."""
    if isinstance(node, bool):
        return
    if not is_plain_object(node):
        yield f"there is no schema at {place:.80}; a schema is an object, true or false"
        return
    for keyword, given in node.items():
        at = f"{place}/{keyword}"
        if keyword in _NOT_CHECKED:
            yield f"`{keyword}` at {place:.80} is not supported; use other keywords"
        elif keyword in _SCHEMA_KEYWORDS:
            yield from _faults(given, whole, at)
        elif keyword in _SCHEMA_LIST_KEYWORDS:
            yield from _faults_of_list(given, whole, at)
        elif keyword in _SCHEMA_MAP_KEYWORDS:
            yield from _faults_of_members(keyword, given, whole, at)
        else:
            yield from (f"{fault} at {place:.80}" for fault in _faults_of_rule(keyword, given, whole))


def _faults_of_list(given: Json, whole: JsonObject, at: str) -> Iterator[str]:
    if not _is_list(given) or not given:
        yield f"there is no list of schemas at {at:.80}"
        return
    for place, inner in enumerate(given):
        yield from _faults(inner, whole, f"{at}/{place}")


def _faults_of_members(keyword: str, given: Json, whole: JsonObject, at: str) -> Iterator[str]:
    if not is_plain_object(given):
        yield f"there is no mapping of names to schemas at {at:.80}"
        return
    for name, inner in given.items():
        if keyword == "patternProperties":
            yield from _faults_of_pattern(name)
        yield from _faults(inner, whole, f"{at}/{name}")


def _faults_of_rule(keyword: str, given: Json, whole: JsonObject) -> Iterator[str]:
    wrong = False
    match keyword:
        case "type":
            kinds = given if is_array(given) else [given]
            wrong = not kinds or any(not isinstance(kind, str) or kind not in _TYPES for kind in kinds)
        case "enum":
            wrong = not is_array(given) or not given
        case "required":
            wrong = not _is_names(given)
        case "dependentRequired":
            wrong = not is_plain_object(given) or not all(map(_is_names, given.values()))
        case "pattern":
            yield from _faults_of_pattern(given)
        case "multipleOf":
            wrong = not _is_number(given) or given <= 0
        case "uniqueItems":
            wrong = not isinstance(given, bool)
        case "$ref":
            if _resolve_reference(given, whole) is None:
                yield f"`$ref` {given!r:.80} is not in the schema, and nothing is fetched from elsewhere,"
        case _:
            is_count = isinstance(given, int) and not isinstance(given, bool) and given >= 0
            wrong = (keyword in _COUNTS and not is_count) or (keyword in _BOUNDS and not _is_number(given))
    if wrong:
        yield f"`{keyword}` cannot be {given!r:.80},"


def _faults_of_pattern(given: Json) -> Iterator[str]:
    if not isinstance(given, str):
        yield f"a pattern must be a text, not {given!r:.80},"
        return
    try:
        _expression(given)
    except ConfigurationError as error:
        yield f"{error},"


def is_plain_object(value: object) -> TypeGuard[dict[str, Json]]:
    """Return whether the value is a JSON object."""
    return is_object(value)


def _is_names(given: object) -> bool:
    return is_array(given) and all(isinstance(name, str) for name in given)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _resolve_reference(reference: Json, whole: JsonObject) -> Schema:
    """Return the schema that a reference points to, None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node: object = whole
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if is_array(node):
            node = dict(zip(map(str, range(len(node))), node, strict=True)).get(name)
        elif is_object(node) and name in node:
            node = node[name]
        else:
            return None
    return node if isinstance(node, bool) or is_plain_object(node) else None


@lru_cache(maxsize=256)
def _expression(pattern: str) -> Expression:
    """Return an expression that finds the pattern anywhere in a text, or raise `ConfigurationError`."""
    Expression(pattern)  # raises unless complete by itself: no bracket in it may close the group below
    return Expression(f"(?s:.*)(?:{pattern})(?s:.*)")


class _TooMuchError(Exception):
    """The check would do more work than allowed."""


def faults_of_value(schema: JsonObject, value: Json) -> tuple[str, ...]:
    """Return the places where the value does not fit the schema, at most `MOST_ERRORS`.

    The tuple is empty if the value fits. Never raises. The schema must have passed `check_output`.
    """
    found: list[str] = []
    try:
        for problem in islice(_Check(schema).check(schema, value, ""), MOST_ERRORS):
            found.append(problem)  # noqa: PERF402 - problems found before an error are returned, too
    except (_TooMuchError, RecursionError) as error:
        found.append(str(error) if isinstance(error, _TooMuchError) else _TOO_DEEP)
    return tuple(found[:MOST_ERRORS])


_TOO_MUCH = "the answer is too large to be checked"
_TOO_DEEP = f"the answer is nested too deep: the schema leads more than {DEEPEST} schemas down"


class _Check:
    """A check of one value. It yields problems lazily, each beginning with its place in the value."""

    def __init__(self, whole: JsonObject) -> None:
        self._root_schema = whole
        self._work_left = MAX_WORK
        self._depth = 0

    def check(self, node: Schema, value: Json, place: str) -> Iterator[str]:
        """Yield the problems of a part of the value against a schema."""
        self._spend(_WORK_PER_PART)
        if node is False:
            yield f"{_at(place)} may not be there"
        if not is_plain_object(node):
            return
        self._depth += 1
        if self._depth > DEEPEST:
            raise _TooMuchError(_TOO_DEEP)
        try:
            if "$ref" in node:
                yield from self.check(_resolve_reference(node["$ref"], self._root_schema), value, place)
            if wrong := _type_fault(node, value):
                yield f"{_at(place)} {wrong}"
            else:
                yield from self._check_contents(node, value, place)
        finally:
            self._depth -= 1

    def _check_contents(self, node: Mapping[str, Json], value: Json, place: str) -> Iterator[str]:
        yield from self._check_alternatives(node, value, place)
        if "const" in node:
            yield from self._check_allowed([node["const"]], value, place)
        if "enum" in node:
            yield from self._check_allowed(_listed(node, "enum"), value, place)
        if isinstance(value, str):
            yield from self._check_text(node, value, place)
        elif is_plain_object(value):
            yield from self._check_object(node, value, place)
        elif _is_list(value):
            yield from self._check_array(node, value, place)
        elif _is_number(value):
            yield from (f"{_at(place)} {problem}" for problem in _faults_of_number(node, value))

    def _check_allowed(self, allowed: Sequence[Json], value: Json, place: str) -> Iterator[str]:
        form = self._canonical_form(value)
        if all(self._canonical_form(one) != form for one in allowed):
            told = ", ".join(map(_shown, allowed[:MOST_ERRORS]))
            yield f"{_at(place)} must be {'one of ' if len(allowed) > 1 else ''}{told}; got {_shown(value)}"

    def _check_alternatives(self, node: Mapping[str, Json], value: Json, place: str) -> Iterator[str]:
        for inner in _listed(node, "allOf"):
            yield from self.check(inner, value, place)
        for keyword in ("anyOf", "oneOf"):
            if keyword not in node:
                continue
            tried = [self._first_problem(inner, value, place) for inner in _listed(node, keyword)]
            fitting = tried.count(None)
            if not fitting:
                yield f"{_at(place)} fits none of the alternatives: {' / '.join(filter(None, tried))}"
            elif keyword == "oneOf" and fitting > 1:
                yield f"{_at(place)} fits {fitting} of the alternatives, and may fit only one"
        if "not" in node and self._first_problem(node["not"], value, place) is None:
            yield f"{_at(place)} is what it may not be; got {_shown(value)}"
        if "if" in node:
            then = "then" if self._first_problem(node["if"], value, place) is None else "else"
            yield from self.check(node.get(then, True), value, place)

    def _first_problem(self, node: Schema, value: Json, place: str) -> str | None:
        """Return the first problem, None if the value fits."""
        return next(self.check(node, value, place), None)

    def _check_text(self, node: Mapping[str, Json], value: str, place: str) -> Iterator[str]:
        for limit in _violated_bounds(node, "Length", len(value)):
            yield f"{_at(place)} has {len(value)} characters; it must have {limit}"
        pattern = node.get("pattern")
        if isinstance(pattern, str) and not self._matches(pattern, value):
            yield f"{_at(place)} must match the pattern {pattern!r:.200}; got {_shown(value)}"
        kind = node.get("format")
        reads = _FORMATS.get(kind) if isinstance(kind, str) else None
        if reads is not None:
            self._spend(len(value))
            try:
                reads(value)
            except ValueError:
                yield f"{_at(place)} must be a valid {kind}; got {_shown(value)}"

    def _check_object(self, node: Mapping[str, Json], value: dict[str, Json], place: str) -> Iterator[str]:
        for limit in _violated_bounds(node, "Properties", len(value)):
            yield f"{_at(place)} has {len(value)} members; it must have {limit}"
        needed = [*_listed(node, "required")]
        for name, names in _members(node, "dependentRequired").items():
            needed += names if name in value and _is_list(names) else []
        self._spend(len(needed))
        yield from (f"{_at(place)} lacks {_shown(name)}" for name in needed if name not in value)
        for name, inner in _members(node, "dependentSchemas").items():
            if name in value:
                yield from self.check(inner, value, place)
        known, patterns = _members(node, "properties"), _members(node, "patternProperties")
        others = node.get("additionalProperties", True)
        for name, one in value.items():
            path = f"{place}.{name}"
            schemas = [known[name]] if name in known else []
            schemas += [inner for pattern, inner in patterns.items() if self._matches(pattern, name)]
            for inner in schemas or [others]:
                yield from self.check(inner, one, path)
            if "propertyNames" in node:
                yield from self.check(node["propertyNames"], name, f"{path} (the name)")

    def _check_array(self, node: Mapping[str, Json], value: list[Json], place: str) -> Iterator[str]:
        for limit in _violated_bounds(node, "Items", len(value)):
            yield f"{_at(place)} has {len(value)} items; it must have {limit}"
        if node.get("uniqueItems") is True and len({self._canonical_form(one) for one in value}) < len(value):
            yield f"{_at(place)} has the same item twice"
        first, rest = _listed(node, "prefixItems"), node.get("items", True)
        for index, one in enumerate(value):
            yield from self.check(first[index] if index < len(first) else rest, one, f"{place}[{index}]")
        if "contains" in node:
            fitting = sum(self._first_problem(node["contains"], one, place) is None for one in value)
            for limit in _violated_bounds({"minContains": 1, **node}, "Contains", fitting):
                yield f"{_at(place)} has {fitting} items of a kind of which it must have {limit}"

    def _matches(self, pattern: str, text: str) -> bool:
        try:
            expression = _expression(pattern)
        except ConfigurationError:  # the schema was not checked
            return True
        self._spend(expression.work(text))
        return expression.fullmatch(text)

    def _canonical_form(self, value: Json) -> bytes:
        """Return an encoding of the value that is the same for values that are equal in JSON."""
        form = msgspec.json.encode(_with_integers(value), order="sorted")
        self._spend(len(form))
        return form

    def _spend(self, work: int) -> None:
        self._work_left -= work
        if self._work_left < 0:
            raise _TooMuchError(_TOO_MUCH)


_BOUNDS: Final[Mapping[str, tuple[str, Callable[[float, float], bool]]]] = {
    "minimum": ("at least", operator.ge),
    "maximum": ("at most", operator.le),
    "exclusiveMinimum": ("more than", operator.gt),
    "exclusiveMaximum": ("less than", operator.lt),
}


def _faults_of_number(node: Mapping[str, Json], value: float) -> Iterator[str]:
    for keyword, (words, holds) in _BOUNDS.items():
        limit = node.get(keyword)
        if _is_number(limit) and not holds(value, limit):
            yield f"must be {words} {limit}; got {value}"
    of = node.get("multipleOf")
    if _is_number(of) and of > 0 and not _is_multiple(value, of):
        yield f"must be a multiple of {of}; got {value}"


def _is_multiple(value: float, of: float) -> bool:
    """Return whether the value is a multiple within float precision: 0.3 is three times 0.1."""
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    return abs(math.remainder(value, of)) <= _NEARLY * of or abs(value) / of >= _WHOLE


_NEARLY = 1e-9
_WHOLE = 2.0**53
"""From this value on, every float is a whole number."""


def _violated_bounds(node: Mapping[str, Json], what: str, count: int) -> Iterator[str]:
    """Yield the violated bound on the count, if there is one."""
    least, most = node.get(f"min{what}"), node.get(f"max{what}")
    if _is_number(least) and count < least:
        yield f"at least {least}"
    if _is_number(most) and count > most:
        yield f"at most {most}"


def _type_fault(node: Mapping[str, Json], value: Json) -> str:
    """Return the type error of the value, "" if it has one of the types that the schema allows."""
    given = node.get("type")
    kinds = given if _is_list(given) else [] if given is None else [given]
    if not kinds or any(_has_type(kind, value) for kind in kinds):
        return ""
    wanted = " or ".join(_TYPES.get(str(kind), str(kind)) for kind in kinds)
    return f"must be {wanted}; got {_shown(value)}"


def _has_type(kind: object, value: Json) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return _is_number(value) and (isinstance(value, int) or value.is_integer())
        case "number":
            return _is_number(value)
        case "string":
            return isinstance(value, str)
        case "array":
            return is_array(value)
        case _:
            return is_object(value)


def _with_integers(value: Json) -> Json:
    """Return the value with floats such as `5.0` as integers: they are equal in JSON."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    if is_plain_object(value):
        return {name: _with_integers(one) for name, one in value.items()}
    return [_with_integers(one) for one in value] if _is_list(value) else value


def _is_list(value: object) -> TypeGuard[list[Json]]:
    return is_array(value)


def _listed(node: Mapping[str, Json], keyword: str) -> list[Json]:
    given = node.get(keyword)
    return given if _is_list(given) else []


def _members(node: Mapping[str, Json], keyword: str) -> dict[str, Json]:
    given = node.get(keyword)
    return given if is_plain_object(given) else {}


def _at(place: str) -> str:
    return f"`{place.removeprefix('.'):.120}`" if place else "the answer"


def _shown(value: object) -> str:
    told = msgspec.json.encode(value[:_SHOWN] if isinstance(value, str) else value).decode()
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"


def _read_date(text: str) -> None:
    date.fromisoformat(text)


def _read_time(text: str) -> None:
    time.fromisoformat(text)


def _read_date_time(text: str) -> None:
    if "T" not in text.upper() and " " not in text:
        raise ValueError(text)
    datetime.fromisoformat(text)


def _read_uuid(text: str) -> None:
    if not _UUID.fullmatch(text):
        raise ValueError(text)


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FORMATS: Final[Mapping[str, Callable[[str], None]]] = {
    "date": _read_date,
    "time": _read_time,
    "date-time": _read_date_time,
    "uuid": _read_uuid,
}
"""Parsers of the checked formats, which raise `ValueError`; other formats are only hints for the model."""


def example_of(schema: JsonObject) -> Json:
    """Return a value that fits a schema of the usual kind; patterns are ignored, and so are most limits."""
    return _example(schema, schema, 0)


def _example(node: Schema, whole: JsonObject, depth: int) -> Json:
    if not is_plain_object(node) or depth > DEEPEST:
        return None
    if "$ref" in node:
        return _example(_resolve_reference(node["$ref"], whole), whole, depth + 1)
    for keyword in ("const", "default"):
        if keyword in node:
            return node[keyword]
    for keyword in ("examples", "enum"):
        if listed := _listed(node, keyword):
            return listed[0]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if listed := _listed(node, keyword):
            return _example(listed[-1], whole, depth + 1)  # null, if among them, is usually the last
    match node.get("type"):
        case "object":
            needed, known = node.get("required"), _members(node, "properties")
            names = [name for name in needed if isinstance(name, str)] if is_array(needed) else []
            return {name: _example(known.get(name, True), whole, depth + 1) for name in names}
        case "array":
            first = [_example(one, whole, depth + 1) for one in _listed(node, "prefixItems")]
            least = node.get("minItems", 0)
            more = int(least) - len(first) if _is_number(least) else 0
            return [*first, *(_example(node.get("items", True), whole, depth + 1) for _ in range(more))]
        case "string":
            least = node.get("minLength", 0)
            text = _TEXTS.get(str(node.get("format")), "")
            return text.ljust(int(least) if _is_number(least) else 0, "a")
        case "integer" | "number":
            least = node.get("minimum", node.get("exclusiveMinimum", 0))
            return int(least) + ("exclusiveMinimum" in node) if _is_number(least) else 0
        case "boolean":
            return False
        case _:
            return None


_TEXTS: Final[Mapping[str, str]] = {
    "date": "2000-01-01",
    "time": "00:00:00",
    "date-time": "2000-01-01T00:00:00Z",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
