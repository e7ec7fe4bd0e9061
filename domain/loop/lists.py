"""The lists over all tools: the calls that never run, and those that nobody need be asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.denylist import BUILT_IN_DENY_LIST
from reenact.domain.loop.matchers.findings import Found, Match, Sight, Test, attempt
from reenact.domain.loop.matchers.globs import ANY, Part, is_one
from reenact.domain.loop.matchers.values import is_list
from reenact.domain.loop.policy_rules import Conditions, Entry, tool_parts


class AllowList:
    """The calls that need not be asked about; an entry that cannot be read allows none."""

    def __init__(self, entries: object) -> None:
        self._items = [item for item in map(_item, entries if is_list(entries) else ()) if not item.problem]

    def has(self, name: str, arguments: Mapping[str, object], sight: Sight) -> bool:
        """Return whether the call is in the list for sure."""
        return any(
            item.concerns(name) and item.conditions.hold(arguments, sight).match is Match.YES for item in self._items
        )


class DenyList:
    """The calls that never run; an entry that cannot be read denies all of its tools. Parameters find their entries."""

    def __init__(self, entries: object) -> None:
        self._problem = "" if is_list(entries) else f"{entries!r:.80} is no list"
        self._items: list[_Item] = []
        self._by_parameter: dict[str, list[tuple[_Item, Test]]] = {}
        for item in map(_item, entries if is_list(entries) else ()):
            tests = item.conditions.tests
            if item.problem or len(tests) != 1:
                self._items.append(item)
                continue
            names, test = tests[0]
            for parameter in names:
                self._by_parameter.setdefault(parameter, []).append((item, test))

    def reason(self, name: str, arguments: Mapping[str, object], sight: Sight) -> str:
        """Return why the call is denied, or nothing if it is not."""
        if self._problem:
            return f"the deny list cannot be read: {self._problem}"
        for parameter in arguments:
            for item, test in self._by_parameter.get(parameter, ()):
                found = attempt(test, arguments[parameter], sight)
                if found.match is not Match.NO and _denies(item, found) and item.concerns(name):
                    return _told(item, found, f"`{parameter}`")
        for item in self._items:
            if item.concerns(name):
                if item.problem:
                    return f"an entry of the deny list cannot be read: {item.problem}"
                found = item.conditions.hold(arguments, sight)
                if _denies(item, found):
                    return _told(item, found, item.conditions.told)
        return ""


@cache
def built_in() -> DenyList:
    """Return the built-in list, made ready once."""
    return DenyList(BUILT_IN_DENY_LIST)


class _Item:
    """An entry, made ready; `problem` is why it could not be."""

    def __init__(self, entry: object) -> None:
        self.entry = Entry(entry) if isinstance(entry, str) else entry if isinstance(entry, Entry) else Entry("*")
        self.problem = "" if isinstance(entry, Entry | str) else f"{entry!r:.80} is no entry"
        self.conditions = Conditions({})
        self._tools: tuple[Part, ...] = (ANY,)
        try:
            self._tools = tool_parts(self.entry.tool)
            self.conditions = Conditions(self.entry.when, surely=self.entry.advisory)
        except ConfigurationError as error:
            self.problem = str(error)

    def concerns(self, name: str) -> bool:
        """Return whether the entry is about this tool."""
        return any(is_one(wanted, name) for wanted in self._tools)


@cache
def _built_in_items() -> Mapping[str, Sequence[_Item]]:
    """Return the entries of the built-in list by their reasons: to make them ready takes milliseconds."""
    items: dict[str, list[_Item]] = {}
    for entry in BUILT_IN_DENY_LIST:
        items.setdefault(entry.reason, []).append(_Item(entry))
    return items


def _item(entry: object) -> _Item:
    known = _built_in_items().get(entry.reason, ()) if isinstance(entry, Entry) else ()
    return next((item for item in known if item.entry == entry), None) or _Item(entry)


def _denies(item: _Item, found: Found) -> bool:
    return found.match >= Match.PARTLY or (found.match is Match.UNKNOWN and not item.entry.advisory)


def _told(item: _Item, found: Found, parameters: str) -> str:
    reason = f"the deny list forbids it{f' for its {parameters}' if parameters else ''}"
    if item.entry.reason:
        reason += f": {item.entry.reason}"
    return f"{reason}; nobody can tell whether it is meant: {found.why}" if found.match is Match.UNKNOWN else reason
