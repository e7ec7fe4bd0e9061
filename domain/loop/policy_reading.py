"""Reads policies from plain mappings, as they stand in a file, or from the values; says what is wrong, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.denylist import BUILT_IN_DENY_LIST
from reenact.domain.loop.matchers.values import is_list, is_mapping
from reenact.domain.loop.matching import MATCHERS, Wanted, ready
from reenact.domain.loop.policies import Policies
from reenact.domain.loop.policy_rules import MODES, RULE_MODES, Entry, Policy, Rule, check_mode, is_pattern, tool_parts

BUILT_IN: Final = "@built-in"
"""Stands in a list of what is denied for the entries of `BUILT_IN_DENY_LIST`."""

_KINDS: Final[dict[str, type[msgspec.Struct]]] = {str(one.__struct_config__.tag): one for one in MATCHERS}
_WHOLE: Final = {"tools", "allow", "deny"}


def policies_of(value: object) -> Policies:
    """Return the policies that a value says.

    The value is `Policies`, None, a mapping from tools, by name or wildcards, to policies, or a mapping with `tools`,
    `allow` and `deny` and nothing else. A policy is a `Policy`, a mode, or a mapping with `mode` and `rules`. A rule is
    a `Rule`, or a mapping with `when` and `mode`; a matcher is one, a JSON value, or a mapping with its `type`. An
    entry of a list is an `Entry`, the name of a tool, or a mapping; in `deny`, "@built-in" stands for the built-in
    deny list.

    Raises:
        ConfigurationError: something of it cannot work; the error names its place and says what to do.
    """
    if value is None:
        return Policies()
    if isinstance(value, Policies):
        given = {"tools": value.tools, "allow": value.allow, "deny": value.deny}
    else:
        given = _mapping(value, "policies", "a mapping from tools to policies")
        if not given.keys() <= _WHOLE:
            given = {"tools": given}
    tools = _mapping(given.get("tools", {}), "policies.tools", "a mapping from tools to policies")
    return Policies(
        tools={_name(name): _policy(policy, f"policies.{name}") for name, policy in tools.items()},
        allow=_entries(_list(given.get("allow", ()), "policies.allow", "entries"), "policies.allow"),
        deny=_denied(given.get("deny", BUILT_IN_DENY_LIST)),
    )


def _name(name: str) -> str:
    return _tool(name, f"policies.{name}") if is_pattern(name) else name


def _policy(value: object, place: str) -> Policy:
    if isinstance(value, Policy):
        given: Mapping[str, Any] = {"mode": value.mode, "rules": value.rules}
    elif isinstance(value, str):
        given = {"mode": value}
    else:
        given = _fields(value, place, Policy, "a mode, or a mapping with mode and rules")
    rules = _list(given.get("rules", ()), f"{place}.rules", "rules")
    return Policy(
        mode=_mode(given.get("mode", "required"), MODES, f"{place}.mode"),
        rules=tuple(_rule(rule, f"{place}.rules[{index}]") for index, rule in enumerate(rules)),
    )


def _rule(value: object, place: str) -> Rule:
    given: Mapping[str, Any] = (
        {"when": value.when, "mode": value.mode}
        if isinstance(value, Rule)
        else _fields(value, place, Rule, "a mapping with when and mode")
    )
    return Rule(
        when=_when(given["when"], f"{place}.when"),
        mode=_mode(given["mode"], RULE_MODES, f"{place}.mode"),
    )


def _denied(value: object) -> tuple[Entry | str, ...]:
    if value is BUILT_IN_DENY_LIST:
        return BUILT_IN_DENY_LIST
    entries: list[object] = []
    for entry in _list(value, "policies.deny", "entries"):
        entries.extend(BUILT_IN_DENY_LIST if entry == BUILT_IN else [entry])
    read = _entries(entries, "policies.deny")
    return BUILT_IN_DENY_LIST if read == BUILT_IN_DENY_LIST else read


def _entries(entries: list[Any], place: str) -> tuple[Entry | str, ...]:
    return tuple(_entry(entry, f"{place}[{index}]") for index, entry in enumerate(entries))


def _entry(value: object, place: str) -> Entry | str:
    if isinstance(value, str):
        _tool(value, place)
        return value
    given: Mapping[str, Any] = (
        msgspec.structs.asdict(value)
        if isinstance(value, Entry)
        else _fields(value, place, Entry, "the name of a tool, or a mapping with tool, when, reason and advisory")
    )
    reason, advisory = given.get("reason", ""), given.get("advisory", False)
    if not isinstance(reason, str):
        raise ConfigurationError(f"{place}.reason is text, not {reason!r:.80}")
    if not isinstance(advisory, bool):
        raise ConfigurationError(f"{place}.advisory is true or false, not {advisory!r:.80}")
    return Entry(
        tool=_tool(given["tool"], f"{place}.tool"),
        when=_when(given.get("when", {}), f"{place}.when"),
        reason=reason,
        advisory=advisory,
    )


def _tool(value: object, place: str) -> str:
    try:
        tool_parts(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None
    return str(value)


def _when(value: object, place: str) -> dict[str, Wanted]:
    given = _mapping(value, place, "a mapping from parameters to matchers")
    for parameter in given:
        if not all(parameter.split("|")):
            raise ConfigurationError(f"{place} has the key {parameter!r:.80}; give the name of a parameter, or 'a|b'")
    return {parameter: _wanted(wanted, f"{place}.{parameter}") for parameter, wanted in given.items()}


def _wanted(value: object, place: str) -> Any:  # noqa: ANN401 - what `Wanted` says, once it is checked
    wanted = value
    if is_mapping(value):
        wanted = _matcher(_mapping(value, place, "a matcher"), place)
    elif is_list(value):
        wanted = list(value)
    try:
        ready(wanted)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{place} is nested too deeply; match less of it") from None
    return wanted


def _matcher(value: Mapping[str, Any], place: str) -> object:
    name = value.get("type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ConfigurationError(
            f"{place}: a mapping is a matcher, its type one of {', '.join(_KINDS)}, not {name!r:.80}; to match an "
            'object, give {"type": "exact", "value": {…}}'
        )
    given = {key: one for key, one in value.items() if key != "type"}
    return kind(**_fields(given, place, kind, f"what a matcher of the type {name} has"))


def _fields(value: object, place: str, kind: type[msgspec.Struct], what: str) -> dict[str, Any]:
    """Return a mapping that has what the struct needs, and nothing else."""
    given = _mapping(value, place, what)
    fields = msgspec.structs.fields(kind)
    names = ", ".join(field.name for field in fields)
    if unknown := [key for key in given if key not in {field.name for field in fields}]:
        raise ConfigurationError(f"{place} has {unknown[0]!r:.80}, which means nothing here; it takes {names}")
    if missing := [field.name for field in fields if field.required and field.name not in given]:
        raise ConfigurationError(f"{place} has no {missing[0]}; it takes {names}")
    return given


def _mapping(value: object, place: str, what: str) -> dict[str, Any]:
    if not is_mapping(value):
        raise ConfigurationError(f"{place} is {what}, not {value!r:.80}")
    given: dict[str, Any] = {}
    for key, one in value.items():
        if not isinstance(key, str):
            raise ConfigurationError(f"{place} has the key {key!r:.80}; its keys are texts")
        given[key] = one
    return given


def _list(value: object, place: str, what: str) -> list[Any]:
    if is_list(value):
        return list(value)
    raise ConfigurationError(f"{place} is a list of {what}, not {value!r:.80}")


def _mode(value: object, modes: tuple[str, ...], place: str) -> Any:  # noqa: ANN401 - one of the modes
    check_mode(value, modes, place)
    return value
