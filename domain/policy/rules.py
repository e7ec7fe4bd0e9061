"""The parts of a policy: rules over the parameters of a tool, entries of lists over all tools, and verdicts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.plain import UserValue, is_mapping, is_sequence
from reenact.domain.policy.matchers import ABSENT, Wanted, ready
from reenact.domain.policy.patterns import (
    YES,
    Found,
    MatchContext,
    Part,
    Test,
    alternatives,
    any_of,
    attempt,
    is_wild,
    part,
)
from reenact.domain.structs import Frozen

M = TypeVar("M", bound=str)
Mode: TypeAlias = Literal["never", "required", "first", "always"]
RuleMode: TypeAlias = Literal["never", "required", "first", "always", "allow", "deny"]
Decision: TypeAlias = Literal["run", "ask", "deny"]

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
RULE_MODES: Final[tuple[RuleMode, ...]] = get_args(RuleMode)


_COULD_BE = re.compile(r"[^\s@]+")


class Rule(UserValue):
    """What happens to calls whose parameters all match; without parameters, to all calls.

    A key is the name of a parameter, or several names: `path|file_path`. `allow` is another word for `never`: no
    approval is needed. `deny` answers the call with an error.
    """

    when: dict[str, Wanted]
    mode: RuleMode

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` if the mode is unknown."""
        check_mode(self.mode, RULE_MODES, "the mode of a rule")


class Entry(Frozen, omit_defaults=True):
    """An entry of the allow or deny list, for calls of tools that match `tool`, with arguments that match `when`.

    `reason` is shown to the model. An `advisory` entry denies only calls that it recognises, and none that are unclear.
    """

    tool: str
    when: dict[str, Wanted] = {}
    reason: str = ""
    advisory: bool = False


class Policy(UserValue, omit_defaults=True):
    """When a person must approve a tool's calls: always as `mode` says, or as the first matching rule says.

    If there are rules, a call that none of them matches is `required`, or `always` if that is the mode.
    """

    mode: Mode = "required"
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` if the mode is unknown."""
        check_mode(self.mode, MODES, "the mode of a policy")


class Verdict(Frozen):
    """The decision on a call, and its reason: it runs, a person is asked, or it is answered with an error."""

    decision: Decision
    reason: str = ""


class Conditions:
    """The compiled parameters of a rule or of an entry; for `surely` see `ready`.

    Raises:
        ConfigurationError: one of them is not valid; the error names it and its place.
    """

    def __init__(self, when: object, place: str = "", *, surely: bool = False) -> None:
        if not is_mapping(when):
            raise ConfigurationError(f"{place}.when must be a mapping from parameters to matchers, not {when!r:.80}")
        self.tests: list[tuple[list[str], Test]] = []
        for parameter, wanted in when.items():
            if not isinstance(parameter, str) or not all(parameter.split("|")):
                what = f"the key {parameter!r:.80}; a key is the name of a parameter"
                raise ConfigurationError(f"{place}.when has {what}")
            try:
                self.tests.append((parameter.split("|"), ready(wanted, surely=surely)))
            except RecursionError:
                raise ConfigurationError(f"{place}.when.{parameter} is nested too deeply") from None
            except ConfigurationError as error:
                raise ConfigurationError(f"{place}.when.{parameter}: {error}") from None
        self.described = " and ".join("`" + "`, `".join(names) + "`" for names, _ in self.tests)

    def hold(self, arguments: Mapping[str, object], sight: MatchContext) -> Found:
        """Return how the arguments match all conditions together. Never raises."""
        found = YES
        for names, test in self.tests:
            given = [arguments[name] for name in names if name in arguments] or [ABSENT]
            one = any_of(attempt(test, value, sight) for value in given)
            if one.match < found.match:
                found = one
        return found


def check_mode(mode: object, modes: tuple[M, ...], what: str) -> M:
    """Return the mode, or raise `ConfigurationError`, which begins with `what`, if it is not one of `modes`."""
    for known in modes:
        if known == mode:
            return known
    more = "; for a tool that must never run, use policies.deny" if modes is MODES else ""
    raise ConfigurationError(f"{what} must be one of {', '.join(modes)}, not {mode!r:.80}{more}")


def listed(value: object, place: str, what: str) -> list[object]:
    """Return the list, or raise `ConfigurationError` if the value is not one."""
    if is_sequence(value):
        return list(value)
    raise ConfigurationError(f"{place} must be a list of {what}, not {value!r:.80}")


def is_pattern(name: str) -> bool:
    """Return whether the name of a tool has wildcards."""
    return is_wild(name) or alternatives(name) != (name,)


def tool_parts(pattern: object, place: str) -> tuple[Part, ...]:
    """Return the compiled alternatives of a tool's name.

    Raises:
        ConfigurationError: the pattern is not text, or is not valid.
    """
    if not isinstance(pattern, str) or not pattern:
        raise ConfigurationError(
            f"{place}: tool must be the name of a tool, with or without wildcards, not {pattern!r:.80}"
        )
    if not _COULD_BE.fullmatch(pattern) or pattern.count("[") != pattern.count("]"):
        why = f"no tool could be named {pattern!r:.80}; give a name, or part of one with * and ?"
        raise ConfigurationError(f"{place}: {why}")
    try:
        return tuple(part(one) for one in alternatives(pattern))
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value in hexadecimal; the order of keys is ignored, `1`, `1.0` and `true` differ.

    Raises:
        InvalidInputError: the value is not JSON, or is nested too deeply.
    """
    try:
        told = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{type(value).__name__} has no digest, for it is not a JSON value: {error}") from None
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def call_digest(name: str, arguments: Mapping[str, object], revision: str = "") -> str:
    """Return a digest that is equal for the same call, under the same revision of the policies if one is given.

    Raises:
        InvalidInputError: the arguments are not a JSON object, or are nested too deeply.
    """
    return digest([name, dict(arguments), revision])
