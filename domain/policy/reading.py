"""Reads policies from the forms that users write, and checks the names of tools in them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from reenact.domain.errors import ConfigurationError
from reenact.domain.plain import is_mapping, is_sequence, made
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.lists import BUILT_IN_DENY_LIST
from reenact.domain.policy.matchers import MATCHERS
from reenact.domain.policy.patterns import alternatives, is_one, is_wild, part
from reenact.domain.policy.rules import (
    MODES,
    RULE_MODES,
    Conditions,
    Entry,
    Policy,
    Rule,
    check_mode,
    is_pattern,
    listed,
    tool_parts,
)

BUILT_IN = "@built-in"
"""In a deny list, this text stands for the entries of `BUILT_IN_DENY_LIST`."""

_KINDS: Final[dict[str, type[msgspec.Struct]]] = {str(one.__struct_config__.tag): one for one in MATCHERS}
_WHOLE = {"tools", "allow", "deny"}
_BY_IMAGE = {"images", "policies"}


def policies_of(value: object) -> Policies:
    """Return the policies that a value describes.

    The value is `Policies`, None, a mapping from tools, by name or wildcards, to policies, or a mapping with `tools`,
    `allow` and `deny` and nothing else. A policy is a `Policy`, a mode, or a mapping with `mode` and `rules`. A rule is
    a `Rule`, or a mapping with `when` and `mode`; a matcher is one, a JSON value, or a mapping with its `type`. An
    entry of a list is an `Entry`, the name of a tool, or a mapping; in `deny`, "@built-in" stands for the built-in deny
    list.

    Raises:
        ConfigurationError: a part is not valid; the error names its place and says what to do.
    """
    if value is None:
        return Policies()
    told = msgspec.structs.asdict(value) if isinstance(value, Policies) else value
    given = _mapping(told, "policies", "a mapping from tools to policies")
    if not given.keys() <= _WHOLE:
        given = {"tools": given}
    tools = _mapping(given.get("tools", {}), "policies.tools", "a mapping from tools to policies")
    return Policies(
        tools={_checked_tool_name(name): _policy(policy, f"policies.{name}") for name, policy in tools.items()},
        allow=_entries(listed(given.get("allow", ()), "policies.allow", "entries"), "policies.allow"),
        deny=_deny_list(given.get("deny", BUILT_IN_DENY_LIST)),
    )


def check_names(policies: Policies, tools: Collection[str], prefixes: Collection[str] = ()) -> None:
    """Raise `ConfigurationError`, with the nearest name, if the policies name a tool that is not among `tools`.

    A name without wildcards in the deny list must be that of a tool as well. Wildcards in the lists may match nothing:
    they also apply to tools that are added later. The allow list is not checked: an entry for no tool lets nothing run.
    Names that begin with one of the `prefixes` are those of tools that are not known yet.
    """
    for name in unknown_names(names_in(policies), tools, prefixes):
        raise ConfigurationError(f"policies: there is no tool {name!r}; {nearest(name, tools)}")


def names_in(policies: Policies) -> list[str]:
    """Return the names that must be those of tools: all in `tools`, and those without wildcards in the deny list."""
    return [*policies.tools, *(name for name in map(_tool_of, policies.deny) if not is_pattern(name))]


def restricted(policies: Policies, tools: Collection[str], prefixes: Collection[str] = ()) -> Policies:
    """Return the policies for these tools, without the names that `check_names` would refuse."""

    def is_known(name: str) -> bool:
        return not unknown_names([name], tools, prefixes)

    kept: dict[str, Policy] = {}
    for name, policy in policies.tools.items():
        for one in filter(is_known, alternatives(name)):
            kept[f"{{{one},{one}}}" if one in kept else one] = policy
    deny = tuple(entry for entry in policies.deny if is_pattern(_tool_of(entry)) or is_known(_tool_of(entry)))
    return msgspec.structs.replace(policies, tools=kept, deny=deny)


def unknown_names(names: Collection[str], tools: Collection[str], prefixes: Collection[str] = ()) -> list[str]:
    """Return the names and wildcards that match none of the tools, nor any name with one of the prefixes."""
    every = [one for name in names for one in alternatives(name)]
    return [one for one in every if not _matches_a_tool(one, tools) and not any(_may_begin(one, of) for of in prefixes)]


def nearest(name: str, tools: Collection[str]) -> str:
    """Return a hint that suggests the nearest tool, or lists all tools."""
    folded = {tool.casefold(): tool for tool in tools}
    meant = difflib.get_close_matches(name.casefold(), folded, 1)
    return f"is {folded[meant[0]]!r} meant?" if meant else f"there are: {', '.join(sorted(tools)) or 'none'}"


def policies_by_image(value: object) -> tuple[Policies | None, dict[str, Policies]]:
    """Return the policies for all images, None if there are none, and those for single images, by their ids.

    The value is what `policies_of` accepts, for all images; or a mapping with `images`, from ids to such values, and
    optionally `policies` for all others, and nothing else.

    Raises:
        ConfigurationError: a part is not valid; the error names its place and says what to do.
    """
    if not is_mapping(value) or "images" not in value or not value.keys() <= _BY_IMAGE:
        return policies_of(value), {}
    by_image: dict[str, Policies] = {}
    for image_id, one in _mapping(value["images"], "images", "a mapping from ids of images to policies").items():
        try:
            by_image[image_id] = policies_of(one)
        except ConfigurationError as error:
            raise ConfigurationError(f"images.{image_id}: {error}") from None
    return (policies_of(value["policies"]) if "policies" in value else None), by_image


def _checked_tool_name(name: str) -> str:
    return _tool(name, f"policies.{name}") if is_pattern(name) else name


def _policy(value: object, place: str) -> Policy:
    given = _fields({"mode": value} if isinstance(value, str) else value, place, Policy, "a mode, or ")
    rules = listed(given.get("rules", ()), f"{place}.rules", "rules")
    return Policy(
        mode=check_mode(given.get("mode", "required"), MODES, f"{place}.mode"),
        rules=tuple(_rule(rule, f"{place}.rules[{index}]") for index, rule in enumerate(rules)),
    )


def _rule(value: object, place: str) -> Rule:
    given = _fields(value, place, Rule)
    return made(Rule, when=_when(given["when"], place), mode=check_mode(given["mode"], RULE_MODES, f"{place}.mode"))


def _deny_list(value: object) -> tuple[Entry | str, ...]:
    if value is BUILT_IN_DENY_LIST:
        return BUILT_IN_DENY_LIST
    entries: list[object] = []
    for entry in listed(value, "policies.deny", "entries"):
        entries.extend(BUILT_IN_DENY_LIST if entry == BUILT_IN else [entry])
    read = _entries(entries, "policies.deny")
    return BUILT_IN_DENY_LIST if read == BUILT_IN_DENY_LIST else read


def _entries(entries: list[object], place: str) -> tuple[Entry | str, ...]:
    return tuple(_entry(entry, f"{place}[{index}]") for index, entry in enumerate(entries))


def _entry(value: object, place: str) -> Entry | str:
    if isinstance(value, str):
        return _tool(value, place)
    given = _fields(value, place, Entry, "the name of a tool, or ")
    reason, advisory = given.get("reason", ""), given.get("advisory", False)
    if not isinstance(reason, str):
        raise ConfigurationError(f"{place}.reason must be text, not {reason!r:.80}")
    if not isinstance(advisory, bool):
        raise ConfigurationError(f"{place}.advisory must be true or false, not {advisory!r:.80}")
    return made(Entry, _tool(given["tool"], f"{place}.tool"), _when(given.get("when", {}), place), reason, advisory)


def _tool(value: object, place: str) -> str:
    tool_parts(value, place)
    return str(value)


def _when(value: object, place: str) -> dict[str, object]:
    given = _mapping(value, f"{place}.when", "a mapping from parameters to matchers")
    when = {parameter: _matcher_or_value(wanted, f"{place}.when.{parameter}") for parameter, wanted in given.items()}
    Conditions(when, place)
    return when


def _matcher_or_value(value: object, place: str) -> object:
    if is_mapping(value):
        return _matcher(_mapping(value, place, "a matcher"), place)
    return list(value) if is_sequence(value) else value


def _matcher(value: Mapping[str, object], place: str) -> object:
    name = value.get("type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ConfigurationError(
            f"{place}: a mapping must be a matcher, its type one of {', '.join(_KINDS)}, not {name!r:.80}; to match an "
            'object, give {"type": "exact", "value": {…}}'
        )
    given = {key: one for key, one in value.items() if key != "type"}
    return kind(**_fields(given, place, kind))


def _fields(value: object, place: str, kind: type[msgspec.Struct], instead: str = "") -> dict[str, object]:
    """Return the fields given by a struct or by a mapping, which must have the required fields and no unknown ones."""
    fields = msgspec.structs.fields(kind)
    names = ", ".join(field.name for field in fields)
    told = msgspec.structs.asdict(value) if isinstance(value, kind) else value
    given = _mapping(told, place, f"{instead}a mapping with {names}")
    if unknown := [key for key in given if key not in kind.__struct_fields__]:
        raise ConfigurationError(f"{place} has {unknown[0]!r:.80}, which means nothing here; it takes {names}")
    if missing := [field.name for field in fields if field.required and field.name not in given]:
        raise ConfigurationError(f"{place} has no {missing[0]}; it takes {names}")
    return given


def _mapping(value: object, place: str, what: str) -> dict[str, object]:
    if not is_mapping(value):
        raise ConfigurationError(f"{place} must be {what}, not {value!r:.80}")
    given: dict[str, object] = {}
    for key, one in value.items():
        if not isinstance(key, str):
            raise ConfigurationError(f"{place} has the key {key!r:.80}; its keys are texts")
        given[key] = one
    return given


def _tool_of(entry: Entry | str) -> str:
    return entry.tool if isinstance(entry, Entry) else entry


def _matches_a_tool(name: str, tools: Collection[str]) -> bool:
    wanted = part(name)
    return any(is_one(wanted, tool) for tool in tools)


def _may_begin(name: str, prefix: str) -> bool:
    """Return whether a text with this prefix could match the name, judging by the part before its first wildcard."""
    literal = name[: next((at for at, letter in enumerate(name) if letter in "*?[\\"), len(name))]
    return literal.startswith(prefix) or (is_wild(name) and prefix.startswith(literal))
