"""Judges a tool call: by the deny list, by the policy of its tool, and by the allow list.

The verdict is given before the call runs, from its name and its arguments alone. Deny takes precedence over everything;
a tool without a policy runs; `required` asks unless the call is on the allow list; `first` asks unless it is there, or
a person has approved the same call before; `always` asks; `never` does not. A match that cannot be decided never lets a
call run: a denying rule then denies, or asks if the argument is missing; any other rule asks a person. Policies that
cannot be read deny every call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple, TypeGuard

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.policy.lists import BUILT_IN_DENY_LIST
from reenact.domain.policy.patterns import Found, Match, MatchContext, Part, Test, alternatives, attempt, is_one, part
from reenact.domain.policy.rules import (
    MODES,
    RULE_MODES,
    Conditions,
    Entry,
    Policy,
    Rule,
    Verdict,
    call_digest,
    check_mode,
    digest,
    is_pattern,
    listed,
    tool_parts,
)

_RUN, _FIRST, _REQUIRED, _ALWAYS = range(4)
_STRICTNESS = {"never": _RUN, "allow": _RUN, "first": _FIRST, "required": _REQUIRED, "always": _ALWAYS}
_DECISIONS = ("run", "ask", "deny")
"""In order of strictness."""
_NO_POLICY = Verdict("run", "no policy is set for it")


class Policies(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """The policies that decide whether a call runs, needs a person's approval, or is denied.

    `tools` has policies by the names of tools, with or without wildcards: an exact name takes precedence over
    wildcards, and of several matching wildcards the strictest decision holds. `allow` lists the calls that need no
    approval, `deny` those that never run; a text is the name of a tool, with or without wildcards. The built-in deny
    list is advisory. The mappings must not be changed: the compiled policies are cached.
    """

    tools: dict[str, Policy] = {}
    allow: tuple[Entry | str, ...] = ()
    deny: tuple[Entry | str, ...] = BUILT_IN_DENY_LIST

    @cached_property
    def revision(self) -> str:
        """The digest of everything in the policies, the same in every process.

        Raises:
            InvalidInputError: they hold a value that is not JSON; `policies_of` refuses that.
        """
        try:
            told: object = msgspec.to_builtins([self.tools, self.allow, self.deny])
        except (TypeError, RecursionError) as error:
            raise InvalidInputError(f"the policies have no revision, for they hold no JSON: {error}") from None
        return digest(told)

    def with_own(self, own: Mapping[str, Policy]) -> Policies:
        """Return the policies with those that tools define themselves, where `tools` does not name the tool."""
        more = {name: policy for name, policy in own.items() if not self.has_policy(name)}
        return msgspec.structs.replace(self, tools={**more, **self.tools})

    def has_policy(self, name: str) -> bool:
        """Return whether there is a policy for this tool."""
        return name in self.tools or any(is_one(part(one), name) for key in self.tools for one in alternatives(key))

    @cached_property
    def judge(self) -> Judge:
        """The compiled policies."""
        return Judge(self)


def judge(
    policies: Policies,
    name: str,
    arguments: Mapping[str, object],
    asked: Collection[str] = (),
    *,
    cwd: str | None = None,
    home: str | None = None,
    resolve: Callable[[str], str] | None = None,
) -> Verdict:
    """Return the verdict on a call. Never raises.

    `asked` holds the `call_digest(name, arguments)` of the calls that a person has approved in this session. `cwd` and
    `home` are the absolute paths from which the tool resolves relative paths and `~`. `resolve` follows symbolic links,
    as `os.path.realpath` does; without it links are not followed.
    """
    try:
        return policies.judge.verdict(name, arguments, asked, MatchContext(cwd, home, resolve))
    except Exception as error:  # noqa: BLE001 - any error denies the call
        return Verdict("deny", f"the policies cannot be read: {type(error).__name__}: {error!s:.200}")


class Judge:
    """Compiled policies.

    Raises:
        ConfigurationError: a part of them is not valid.
    """

    def __init__(self, policies: Policies) -> None:
        self._deny_list = _built_in_deny_list() if policies.deny is BUILT_IN_DENY_LIST else _DenyList(policies.deny)
        self._allow_list = _compiled_entries(policies.allow, "policies.allow")
        self._tools: dict[str, list[_ToolPolicy]] = {}
        self._patterns: list[tuple[Part, _ToolPolicy]] = []
        for name, policy in policies.tools.items():
            place = f"policies.{name}"
            ready = _ToolPolicy(policy, place)
            for wanted in tool_parts(name, place) if is_pattern(name) else (name,):
                if isinstance(wanted, str):
                    self._tools.setdefault(wanted, []).append(ready)
                else:
                    self._patterns.append((wanted, ready))

    def verdict(self, name: str, arguments: object, asked: Collection[str], sight: MatchContext) -> Verdict:
        """Return the verdict on a call."""
        if not _is_object(arguments):
            return Verdict("deny", f"its arguments are not an object but {type(arguments).__name__}")
        if denied := self._deny_list.reason(name, arguments, sight):
            return Verdict("deny", denied)
        try:
            call = _Call(name, arguments, asked, sight, self._allow_list)
            verdicts = [policy.verdict(call) for policy in self._policies_of(name)]
        except Exception as error:  # noqa: BLE001 - no error may let a call run
            return Verdict("ask", f"its policy cannot be held against it: {type(error).__name__}: {error!s:.200}")
        return max(verdicts, key=lambda one: _DECISIONS.index(one.decision), default=_NO_POLICY)

    def _policies_of(self, name: str) -> Sequence[_ToolPolicy]:
        """Return the policies of exactly this name, or else those whose wildcards match it."""
        return self._tools.get(name) or [policy for wanted, policy in self._patterns if is_one(wanted, name)]


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


class _Call(NamedTuple):
    """A call, and everything it is judged by except the policy of its tool."""

    name: str
    arguments: Mapping[str, object]
    asked: Collection[str]
    sight: MatchContext
    allowed: Sequence[_CompiledEntry]

    def is_allowed(self) -> bool:
        """Return whether the call is on the allow list."""
        return any(
            item.concerns(self.name) and item.conditions.hold(self.arguments, self.sight).match is Match.YES
            for item in self.allowed
        )

    def is_approved(self) -> bool:
        """Return whether a person has approved the same call before."""
        return call_digest(self.name, self.arguments) in self.asked


class _CompiledRule:
    """A compiled rule."""

    def __init__(self, rule: Rule, number: int, place: str) -> None:
        self.mode = check_mode(rule.mode, RULE_MODES, place)
        self.conditions = Conditions(rule.when, place)
        self._name = f"rules[{number}] of its policy"

    def hold(self, call: _Call) -> Found:
        """Return how the call matches."""
        return self.conditions.hold(call.arguments, call.sight)

    def says(self, does: str, found: Found) -> str:
        """Return the rule's effect in words."""
        told = f" for its {self.conditions.described}" if self.conditions.described else ""
        doubt = f"; nobody can tell: {found.why}" if found.match in {Match.UNKNOWN, Match.MISSING} else ""
        return f"{self._name} {does}{told}{doubt}"


class _ToolPolicy:
    """The compiled policy of one tool."""

    def __init__(self, policy: Policy, place: str) -> None:
        mode = check_mode(policy.mode, MODES, place)
        listed(policy.rules, f"{place}.rules", "rules")
        rules = [_CompiledRule(rule, number, f"{place}.rules[{number}]") for number, rule in enumerate(policy.rules)]
        self._denying = [rule for rule in rules if rule.mode == "deny"]
        self._others = [rule for rule in rules if rule.mode != "deny"]
        self._default_strictness = max(_STRICTNESS[mode], _REQUIRED if rules else _RUN)

    def verdict(self, call: _Call) -> Verdict:
        """Return the verdict on a call that the deny list does not match."""
        unsure = ""
        for rule in self._denying:
            found = rule.hold(call)
            if found.match is Match.MISSING:
                unsure = unsure or rule.says("may deny it", found)
            elif found.match is not Match.NO:
                return Verdict("deny", rule.says("denies it", found))
        return Verdict("ask", unsure) if unsure else self._verdict_of_other_rules(call)

    def _verdict_of_other_rules(self, call: _Call) -> Verdict:
        """Return the verdict of the first certain match, or of a stricter rule before it that matches in part."""
        strictness, reason = _RUN, "its policy lets it run"
        for rule in self._others:
            found, own = rule.hold(call), _STRICTNESS[rule.mode]
            if found.match is Match.NO or (own == _RUN and found.match is not Match.YES):
                continue
            if found.match < Match.PARTLY:
                return Verdict("ask", rule.says("may ask about it", found))
            if own > strictness:
                strictness, reason = own, rule.says("asks about it", found)
            if found.match is Match.YES:
                break
        else:
            if self._default_strictness > strictness:
                strictness, reason = self._default_strictness, "its policy asks about it"
        return _verdict_of_strictness(strictness, reason, call)


def _verdict_of_strictness(strictness: int, reason: str, call: _Call) -> Verdict:
    if strictness == _RUN:
        return Verdict("run", reason)
    if strictness < _ALWAYS and call.is_allowed():
        return Verdict("run", "it is on the allow list")
    if strictness == _FIRST and call.is_approved():
        return Verdict("run", "a person has approved the same call before")
    return Verdict("ask", reason)


class _DenyList:
    """The compiled deny list, indexed by parameter."""

    def __init__(self, entries: Sequence[Entry | str]) -> None:
        self._other_entries: list[_CompiledEntry] = []
        self._by_parameter: dict[str, list[tuple[_CompiledEntry, Test]]] = {}
        for item in _compiled_entries(entries, "policies.deny"):
            if len(item.conditions.tests) != 1:
                self._other_entries.append(item)
                continue
            names, test = item.conditions.tests[0]
            for parameter in names:
                self._by_parameter.setdefault(parameter, []).append((item, test))

    def reason(self, name: str, arguments: Mapping[str, object], sight: MatchContext) -> str:
        """Return why the call is denied, "" if it is not."""
        for parameter in arguments:
            for item, test in self._by_parameter.get(parameter, ()):
                found = attempt(test, arguments[parameter], sight)
                if found.match is not Match.NO and item.denies(found) and item.concerns(name):
                    return item.denial(found, f"`{parameter}`")
        for item in self._other_entries:
            if item.concerns(name) and item.denies(found := item.conditions.hold(arguments, sight)):
                return item.denial(found, item.conditions.described)
        return ""


@cache
def _built_in_deny_list() -> _DenyList:
    """Return the compiled built-in list."""
    return _DenyList(BUILT_IN_DENY_LIST)


class _CompiledEntry:
    """A compiled entry of a list."""

    def __init__(self, entry: Entry | str, place: str) -> None:
        self.entry = Entry(entry) if isinstance(entry, str) else entry
        self._tools = tool_parts(self.entry.tool, place)
        self.conditions = Conditions(self.entry.when, place, surely=self.entry.advisory)

    def concerns(self, name: str) -> bool:
        """Return whether the entry applies to this tool."""
        return any(is_one(wanted, name) for wanted in self._tools)

    def denies(self, found: Found) -> bool:
        """Return whether a call that matches like this is denied."""
        return found.match >= Match.PARTLY or (found.match is Match.UNKNOWN and not self.entry.advisory)

    def denial(self, found: Found, parameters: str) -> str:
        """Return in words why a call is denied."""
        reason = f"the deny list forbids it{f' for its {parameters}' if parameters else ''}"
        if self.entry.reason:
            reason += f": {self.entry.reason}"
        return f"{reason}; nobody can tell whether it is meant: {found.why}" if found.match is Match.UNKNOWN else reason


def _compiled_entries(entries: Sequence[Entry | str], place: str) -> list[_CompiledEntry]:
    listed(entries, place, "entries")
    built_in = () if entries is BUILT_IN_DENY_LIST else _built_in_entries()
    return [
        next((item for item in built_in if item.entry == entry), None) or _CompiledEntry(entry, f"{place}[{index}]")
        for index, entry in enumerate(entries)
    ]


@cache
def _built_in_entries() -> Sequence[_CompiledEntry]:
    """Return the compiled entries of the built-in list, cached because compiling them takes milliseconds."""
    return _compiled_entries(BUILT_IN_DENY_LIST, "policies.deny")
