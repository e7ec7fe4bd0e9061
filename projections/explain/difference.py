"""The differences between two states of a session, field by field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.errors import reading
from reenact.domain.legible import shortened
from reenact.domain.tools import is_array, is_object
from reenact.projections.explain.history import history_of
from reenact.projections.explain.history_view import LastEvent, Shown, last_of, shown_of
from reenact.projections.log import AuditedLog, Row

Document: TypeAlias = dict[str, object]

_NOT_COMPARED = frozenset({"session_id", "origin", "created_at", "last", "events"})
"""Fields that identify a session and a time: they describe the two sides and are not compared."""
_OF_THE_SIDE = frozenset({"session_id", "agent_id"})
"""The same fields in calls."""
_SUMS = frozenset({"session_id", "usage"})
"""Fields of the usage that are sums over its models."""
_LISTS = ("messages", "queue", "calls", "pending")
"""Lists whose items have an id."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_LINE = 200
_LINES = 40


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """A session after its `last` event, the last of its `events` events; `at` is the requested position."""

    session_id: str
    at: int | None
    last: LastEvent
    events: int


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field that differs: `before` is its value on the left, `after` on the right; absent if it has no such field.

    `path` is its path on the right, or on the left if it was removed; items of lists are counted from 0. `was` is its
    path on the left if that differs.
    """

    path: str
    kind: Literal["added", "removed", "changed"]
    before: object = msgspec.UNSET
    after: object = msgspec.UNSET
    was: str | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that turn the left state into the right one; `common` is the last event shared by both histories."""

    left: Side
    right: Side
    common: LastEvent | None
    changes: tuple[Change, ...]

    def text(self) -> str:
        """Return the difference as text; very long values are truncated."""
        lines = [f"--- {_side(self.left)}", f"+++ {_side(self.right)}"]
        if self.common is None:
            lines.append("    with no history in common")
        else:
            lines.append(f"    the same up to position {self.common.position}")
        for change in self.changes:
            was = "" if change.was is None else f" (was {change.was})"
            lines.append(shortened(f"@@ {change.path} {change.kind}{was}", _LINE))
            lines += [f"- {line}" for line in _value_lines(change.before)]
            lines += [f"+ {line}" for line in _value_lines(change.after)]
        return "\n".join(lines if self.changes else [*lines, "    no difference"])


def difference(
    log: AuditedLog, left: str, at_left: int | None = None, right: str | None = None, at_right: int | None = None
) -> Difference:
    """Return how the right session differs at its position; it is the same session by default, and None means now.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: a session begins after its position, or the log ends before it.
        LogUnusableError: the log lacks the session that one branches off from, or holds impossible events.
    """
    other = left if right is None else right
    past, present = history_of(log, left, until=at_left), history_of(log, other, until=at_right)
    with reading(f"session {left!r} or {other!r}"):
        before, after = shown_of(left, past), shown_of(other, present)
        common = _last_common_row(past, present)
        return Difference(
            left=Side(session_id=left, at=at_left, last=before.last, events=before.events),
            right=Side(session_id=other, at=at_right, last=after.last, events=after.events),
            common=None if common is None else last_of(common),
            changes=tuple(changes_of(document_of(before), document_of(after))),
        )


def document_of(shown: Shown) -> Document:
    """Return the compared fields of a session: all except those that identify the session and the time."""
    document = _without(msgspec.json.decode(msgspec.json.encode(shown), type=Document), _NOT_COMPARED)
    for name in ("calls", "pending"):
        document[name] = [_without(item, _OF_THE_SIDE) for item in _items(document[name])]
    document["usage"] = {
        **_without(msgspec.convert(document["usage"], Document), _SUMS),
        "cost": float(shown.usage.cost),
    }
    return document


def changes_of(left: Document, right: Document) -> Iterator[Change]:
    """Yield the changes from the left document to the right one: removals from the end, then additions and changes.

    Applied to each list in that order (removed, added, changed), they give the right one.
    """
    for name in {**left, **right}:
        if name in _LISTS:
            yield from _list_changes(name, _items(left[name]), _items(right[name]))
        else:
            yield from _field_changes(name, name, left.get(name, msgspec.UNSET), right.get(name, msgspec.UNSET))


def _field_changes(was: str, path: str, left: object, right: object) -> Iterator[Change]:
    if is_object(left) and is_object(right):
        for name in {**left, **right}:
            step = f".{name}" if _PLAIN.fullmatch(name) else f"[{msgspec.json.encode(name).decode()}]"
            before, after = left.get(name, msgspec.UNSET), right.get(name, msgspec.UNSET)
            yield from _field_changes(f"{was}{step}", f"{path}{step}", before, after)
    elif left is msgspec.UNSET:
        yield Change(path=path, kind="added", after=right)
    elif right is msgspec.UNSET:
        yield Change(path=was, kind="removed", before=left)
    elif not _same(left, right):
        yield Change(path=path, kind="changed", before=left, after=right, was=None if was == path else was)


def _list_changes(name: str, left: Sequence[Document], right: Sequence[Document]) -> Iterator[Change]:
    matcher = SequenceMatcher(None, _ids(left), _ids(right), autojunk=False)
    blocks = matcher.get_matching_blocks()
    pairs = [(here + place, there + place) for here, there, size in blocks for place in range(size)]
    stay, came = {here for here, _ in pairs}, {there for _, there in pairs}
    for here in range(len(left) - 1, -1, -1):
        if here not in stay:
            yield Change(path=f"{name}[{here}]", kind="removed", before=left[here])
    for there, item in enumerate(right):
        if there not in came:
            yield Change(path=f"{name}[{there}]", kind="added", after=item)
    for here, there in pairs:
        yield from _field_changes(f"{name}[{here}]", f"{name}[{there}]", left[here], right[there])


def _same(left: object, right: object) -> bool:
    """Return whether two JSON values are identical; 1, true and 1.0 differ."""
    return left == right and msgspec.json.encode(left) == msgspec.json.encode(right)


def _last_common_row(left: Sequence[Row], right: Sequence[Row]) -> Row | None:
    common: Row | None = None
    for one, other in zip(left, right, strict=False):
        if one.position != other.position:
            break
        common = one
    return common


def _ids(items: Sequence[Document]) -> list[tuple[str, int]]:
    """Return the ids of the items, each with the number of its occurrence: models reuse the ids of calls."""
    seen: Counter[str] = Counter()
    ids: list[tuple[str, int]] = []
    for item in items:
        id_ = str(item["id"])
        ids.append((id_, seen[id_]))
        seen[id_] += 1
    return ids


def _items(value: object) -> list[Document]:
    return msgspec.convert(value, list[Document])


def _without(document: Document, names: frozenset[str]) -> Document:
    return {name: value for name, value in document.items() if name not in names}


def _side(side: Side) -> str:
    last = side.last
    at = f"position {last.position}" if side.at is None else f"position {side.at}"
    return shortened(
        f"{side.session_id} at {at}, {last.time.astimezone():%Y-%m-%d %H:%M:%S}, {side.events} events", 200
    )


def _value_lines(value: object) -> list[str]:
    if value is msgspec.UNSET:
        return []
    lines = [shortened(line, _LINE) for line in _lines(value)]
    more = len(lines) - _LINES
    return lines if more <= 0 else [*lines[:_LINES], f"… {more} more lines; --output-format json has them all"]


def _lines(value: object) -> list[str]:
    if is_object(value) and "role" in value and is_array(content := value.get("content")):
        return [f"{value['role']} {value['id']}", *(line for block in content for line in _block_lines(block))]
    formatted = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return formatted.splitlines() if len(formatted) > _LINE else [msgspec.json.encode(value).decode()]


def _block_lines(block: object) -> list[str]:
    match block:
        case {"type": "text", "text": str(text)}:
            return text.splitlines()
        case {"type": "tool_use", "id": str(id_), "name": str(name), "input": object() as arguments}:
            return [f"-> {name} {msgspec.json.encode(arguments).decode()}  call {id_}"]
        case {"type": "tool_result", "tool_use_id": str(id_), "content": str(content)}:
            return f"<- call {id_}: {content}".splitlines()
        case _:
            return [msgspec.json.encode(block).decode()]
