"""Checks the names of tools in policies: a policy for a tool that does not exist would hold no call."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import msgspec

from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.matchers.globs import alternatives, is_one, is_wild, part
from reenact.domain.loop.policies import Policies
from reenact.domain.loop.policy_rules import Entry, Policy, is_pattern


def check_names(policies: Policies, tools: Collection[str], prefixes: Collection[str] = ()) -> None:
    """Raise `ConfigurationError`, with the nearest name, if policies are for a tool that is not among these.

    A name without wildcards in the deny list must be a tool's as well. Wildcards in the lists may match nothing: they
    also ban tools that are added later. The allow list is not checked: an entry for no tool lets nothing run. Names
    that begin with one of the `prefixes` are of tools that are not known yet.
    """
    for name in unknown_names(names_in(policies), tools, prefixes):
        raise ConfigurationError(f"policies: there is no tool {name!r}; {nearest(name, tools)}")


def names_in(policies: Policies) -> list[str]:
    """Return the names that must be those of tools: all in `tools`, and those without wildcards in the deny list."""
    return [*policies.tools, *(name for name in map(_tool_of, policies.deny) if not is_pattern(name))]


def restricted(policies: Policies, tools: Collection[str], prefixes: Collection[str] = ()) -> Policies:
    """Return what the policies say of these tools, without the names that `check_names` would refuse."""

    def is_known(name: str) -> bool:
        return not unknown_names([name], tools, prefixes)

    kept: dict[str, Policy] = {}
    for name, policy in policies.tools.items():
        for one in filter(is_known, alternatives(name)):
            kept[f"{{{one},{one}}}" if one in kept else one] = policy
    deny = tuple(entry for entry in policies.deny if is_pattern(_tool_of(entry)) or is_known(_tool_of(entry)))
    return msgspec.structs.replace(policies, tools=kept, deny=deny)


def unknown_names(names: Collection[str], tools: Collection[str], prefixes: Collection[str] = ()) -> list[str]:
    """Return the names and wildcards that match none of the tools, and cannot be of a tool with such a prefix."""
    every = [one for name in names for one in alternatives(name)]
    return [one for one in every if not _is_one_of(one, tools) and not any(_may_begin(one, of) for of in prefixes)]


def nearest(name: str, tools: Collection[str]) -> str:
    """Return a hint at the tool that may be meant, or at all there are."""
    folded = {tool.casefold(): tool for tool in tools}
    meant = difflib.get_close_matches(name.casefold(), folded, 1)
    return f"is {folded[meant[0]]!r} meant?" if meant else f"there are: {', '.join(sorted(tools)) or 'none'}"


def _tool_of(entry: Entry | str) -> str:
    return entry.tool if isinstance(entry, Entry) else entry


def _is_one_of(name: str, tools: Collection[str]) -> bool:
    wanted = part(name)
    return any(is_one(wanted, tool) for tool in tools)


def _may_begin(name: str, prefix: str) -> bool:
    """Return whether a text with this prefix could match the name, as far as its first wildcard."""
    literal = name[: next((at for at, letter in enumerate(name) if letter in "*?[\\"), len(name))]
    return literal.startswith(prefix) or (is_wild(name) and prefix.startswith(literal))
