"""Redacts the rows of an export: each is decoded, cleaned according to the policy, encoded again and sealed."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from reenact.domain.chain import Row
from reenact.domain.errors import LogUnusableError, RedactionError
from reenact.domain.history.causes import read_cause
from reenact.domain.history.stored import STORED
from reenact.domain.loop import events as loop
from reenact.domain.marks import REDACTED, mark
from reenact.domain.messages import ToolResultBlock, ToolUseBlock
from reenact.domain.session.agent import ResultsRecorded
from reenact.domain.session.announce import Call, version_of
from reenact.domain.session.state import SessionBranched
from reenact.domain.stream import events as heard
from reenact.domain.stream.feed import Entry, FeedPart, pack_feed, pack_segments, unpack_feed
from reenact.projections.log import stream_of
from reenact.projections.transfer.lines import Forms, events_of
from reenact.projections.transfer.policy import (
    NEEDS,
    FieldPath,
    Redaction,
    ToolRedaction,
    paths_of,
    with_causes,
    with_copies,
)
from reenact.projections.transfer.removing import FIELD, Paths, Remover, Texts, known_secrets, matches_of, values_in
from reenact.projections.verification.answer_check import COMPACTED, DELTAS

MOST_KEY_BYTES = 64
_HEARD = {kind.event_type: kind for kind in heard.NOTIFICATIONS}
_OF_COMMANDS: Final[tuple[FieldPath, ...]] = (("arguments",), ("value",), ("result",))
"""Fields of commands that may hold content of a call that is in none of their events."""
_NO_DIGEST = mark(FIELD)  # without the key: equal digests need not be recognisable
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class _OfCall(msgspec.Struct, frozen=True, gc=False):
    """The fields of a value that hold content of a call: its arguments, other forms of them, and its result."""

    arguments: tuple[str, ...] = ()
    as_a_whole: tuple[str, ...] = ()
    result: tuple[str, ...] = ()


_OF_CALLS: Final[dict[type, _OfCall]] = {
    ToolUseBlock: _OfCall(("input",), ("extra",)),
    heard.ToolCall: _OfCall(("input",)),
    Call: _OfCall(("arguments",)),
    loop.AskedCall: _OfCall(("arguments",), ("original", "reason")),
    loop.ToolEdited: _OfCall(("original", "edited")),
    loop.HumanPromptRequired: _OfCall(as_a_whole=("prompt", "metadata")),
    loop.HumanSelectRequired: _OfCall(as_a_whole=("prompt", "options", "metadata")),
    loop.ToolResult: _OfCall(result=("result",)),
    heard.ToolResult: _OfCall(result=("result",)),
    loop.HumanResponded: _OfCall(result=("value",)),
    ToolResultBlock: _OfCall(result=("content",)),
}


class Calls:
    """What must be removed from the calls of tools that a policy names, wherever they occur in a history.

    A call whose tool is unknown may be any. For a call that is exported without some of its arguments, the digest is
    removed, too, since it would confirm a guess; nobody can approve such a call any more.
    """

    def __init__(self, tools: Sequence[ToolRedaction]) -> None:
        """Take the tools of a policy."""
        self._tools = [(tool, [tuple(path.split(".")) for path in tool.arguments]) for tool in tools]
        self._names: dict[str, dict[str, str]] = {}  # of the calls in a stream
        self._changed: dict[str, set[str]] = {}  # calls that were exported without some of their arguments
        self._stream = ""

    def enter(self, stream: str) -> None:
        """Set the stream of the rows that follow."""
        self._stream = stream

    def branch(self, origin: str) -> None:
        """Copy the calls of the other stream, which the current one continues."""
        self._names.setdefault(self._stream, {}).update(self._names.get(origin, {}))
        if origin in self._changed:
            self._changed[self._stream] = set(self._changed[origin])

    def forget(self, ids: Iterable[str]) -> None:
        """Drop these calls, which are answered."""
        for each in ids:
            self._names.get(self._stream, {}).pop(each, None)

    def paths(self, value: msgspec.Struct) -> Paths:
        """Return the paths to remove from the value."""
        of = _OF_CALLS.get(type(value)) if self._tools else None
        if of is None:
            return ()
        names = self._names.setdefault(self._stream, {})
        id_: str = getattr(value, "tool_use_id", None) or getattr(value, "id", None) or ""
        name = getattr(value, "name", None) or names.get(id_)
        if id_ and name and isinstance(value, ToolUseBlock | heard.ToolCall):
            names[id_] = name
        found: list[FieldPath] = []
        for tool, arguments in self._tools:
            if name is None or fnmatchcase(name, tool.name):
                found += ((field, *path) for field in of.arguments for path in arguments)
                found += ((field,) for field in of.as_a_whole if arguments)
                found += ((field,) for field in of.result if tool.result)
        return found

    def without_digests(self, before: _Struct, left: _Struct) -> _Struct:
        """Return the redacted event without digests of changed calls."""
        match before, left:
            case loop.HumanApproveRequired(calls=were), loop.HumanApproveRequired(calls=calls) if left is not before:
                return replace(left, calls=tuple(map(self._without_digest_if_changed, were, calls)))
            case loop.ToolEdited(edited=was), loop.ToolEdited(edited=edited, id=id_) if edited is not was:
                self._changed.setdefault(self._stream, set()).add(id_)
            case _, loop.ToolApproved(id=id_) if id_ in self._changed.get(self._stream, ()):
                return replace(left, digest=_NO_DIGEST)
            case _:
                pass
        return left

    def without_digest(self, command: _Struct) -> _Struct:
        """Return the redacted command without the digest in it, if it may be that of a changed call."""
        if self._stream in self._changed and isinstance(getattr(command, "digest", None), str):
            return replace(command, digest=_NO_DIGEST)
        return command

    def _without_digest_if_changed(self, before: loop.AskedCall, left: loop.AskedCall) -> loop.AskedCall:
        if left.arguments is before.arguments:
            return left
        self._changed.setdefault(self._stream, set()).add(left.id)
        return replace(left, digest=_NO_DIGEST)


_encode = msgspec.msgpack.Encoder().encode


class Redactor:
    """Redacts the rows of one export, which must come in the order of the export."""

    def __init__(self, policy: Redaction, forms: Forms) -> None:
        """Prepare to apply the policy.

        Raises:
            RedactionError: it names a field that does not exist or must be kept, or its key is empty or too long.
            ConfigurationError: one of its patterns is not valid.
        """
        if policy.hash_key is not None and not 1 <= len(policy.hash_key) <= MOST_KEY_BYTES:
            raise RedactionError(f"the key for hashes has {len(policy.hash_key)} bytes; it has 1 to {MOST_KEY_BYTES}")
        finders = [values_in(policy.values), matches_of(policy.patterns), *([known_secrets] if policy.secrets else [])]
        self._texts = Texts(finders, policy.hash_key)
        self._forms = forms
        self._calls = Calls(policy.tools)
        self._remover = Remover(self._texts, self._calls.paths)
        self._paths: dict[str, list[FieldPath]] = {}
        for name, *path in with_causes(with_copies(paths_of(policy.fields, STORED))):
            self._paths.setdefault(name, []).append(tuple(path))
        self._of_commands = _OF_COMMANDS if policy.tools else ()
        self._answered_calls: list[str] = []

    def check_name(self, name: str) -> None:
        """Raise `RedactionError` if the policy finds something in a name that must be kept."""
        self._texts.check_kept(name, "an id")

    def row(self, row: Row, previous: bytes) -> Row:
        """Return the row in the form to export: sealed if something was removed, the row itself if nothing was.

        Deltas, which may hold parts of any content, are not exported.

        Raises:
            RedactionError: the policy would remove something that must be kept.
            LogUnusableError: the row cannot be read.
        """
        self._calls.enter(row.stream)
        events = [self._redacted_event(row, index, *pair) for index, pair in enumerate(events_of(row))]
        encoded = _encode(events) if events else None
        cause = None if row.cause is None else self._redacted_command(row, row.cause)
        feed = None if row.feed is None else self._redacted_feed(row, row.feed, encoded)
        self._calls.forget(self._answered_calls)
        self._answered_calls.clear()
        if (encoded, feed, cause) == (row.events, row.feed, row.cause):
            return row
        return row.replaced(previous, cause=cause, events=encoded, feed=feed, cursor=row.cursor, heard=row.heard)

    def _redacted_event(self, row: Row, index: int, topic: str, state: bytes) -> tuple[str, bytes]:
        recorded_at, event = self._forms.decode(topic, state)
        assert isinstance(event, msgspec.Struct)  # so are all stored forms in a log of sessions
        name = topic.rpartition(":")[0]
        if isinstance(event, SessionBranched):
            self._calls.branch(stream_of(event.origin))
        with _errors_name(f"event {row.version + index} of {row.stream!r}"):
            left = self._calls.without_digests(event, self._remover.struct(event, self._paths.get(name, ()), name))
            if isinstance(event, ResultsRecorded):
                self._answered_calls += (block.tool_use_id for block in event.content)
            return (topic, state) if left is event else self._forms.encode(left, recorded_at)

    def _redacted_command(self, row: Row, stored: bytes) -> bytes:
        """Return the redacted command of a step; its fields in events are redacted there."""
        with _errors_name(f"the command behind event {row.version} of {row.stream!r}"):
            command = read_cause(stored)
            paths = [*self._paths.get(command.name, ()), *self._of_commands]
            there = [path for path in paths if getattr(command.fields, path[0], UNSET) is not UNSET]
            left = self._calls.without_digest(self._remover.struct(command.fields, there, command.name))
            return stored if left is command.fields else replace(command, fields=left).stored()

    def _redacted_feed(self, row: Row, feed: bytes, events: bytes | None) -> bytes:
        what = f"row {row.cursor} of the feed of {row.stream!r}"
        try:
            part = unpack_feed(feed, row.stream, row.events)
        except (ValueError, RecursionError) as error:
            message = f"{what} cannot be decoded ({error})"
            raise LogUnusableError(f"{message}; verify the log, and restore a copy of it") from error
        cursor, changed = row.cursor, False
        with _errors_name(what):
            left: list[tuple[dict[str, str], list[Entry]]] = []
            for segment in part.segments:
                for name in segment.context.values():
                    self.check_name(name)
                entries, cursor, has_changed = self._redacted_entries(segment.entries, cursor)
                left.append((segment.context, entries))
                changed = changed or has_changed
            needs = self._redacted_needs(part, what)
            if not changed and needs is part.needs and events == row.events:
                return feed
            beside = (events or b"") + bytes(needs)
            return pack_feed(pack_segments(left, row.stream, beside), part.version, needs)

    def _redacted_needs(self, part: FeedPart, what: str) -> bytes | msgspec.Raw:
        """Return the redacted `needs` of a row's announcements."""
        if not part.version:
            return part.needs
        needs = version_of(part.version, what).read(part.needs)
        left = self._remover.struct(needs, self._paths.get(NEEDS, ()), NEEDS)
        return part.needs if left is needs else left.stored()

    def _redacted_entries(self, entries: Sequence[Entry], cursor: int) -> tuple[list[Entry], int, bool]:
        """Return the redacted entries from the cursor on, the cursor after them, and whether any has changed."""
        left: list[Entry] = []
        changed = False
        for entry in entries:
            if entry.type in DELTAS:
                first = cursor
                if left and left[-1].type == COMPACTED:
                    first = msgspec.convert(left.pop().data, heard.DeltasCompacted).first_cursor
                left.append(Entry(COMPACTED, entry.at, {"first_cursor": first, "last_cursor": cursor}))
                changed = True
            else:
                if entry.type == COMPACTED:
                    cursor = msgspec.convert(entry.data, heard.DeltasCompacted).last_cursor
                data = self._redacted_data(entry)
                changed = changed or data is not entry.data
                left.append(Entry(entry.type, entry.at, data))
            cursor += 1
        return left, cursor, changed

    def _redacted_data(self, entry: Entry) -> object:
        kind = _HEARD.get(entry.type)
        try:
            said = None if kind is None else msgspec.convert(entry.data, kind)
        except msgspec.ValidationError:
            said = None
        if said is None:  # the meaning of its fields is unknown
            return {REDACTED: self._texts.mark(entry.type, "")}
        left = self._remover.struct(said, self._paths.get(f"@{entry.type}", ()), entry.type)
        return entry.data if left is said else left


@contextmanager
def _errors_name(what: str) -> Generator[None]:
    """Add the record to the messages of errors."""
    try:
        yield
    except RedactionError as error:
        raise RedactionError(f"{what}: {error}") from None
    except (TypeError, ValueError) as error:
        message = f"{what} cannot be read any more without what the policy takes out ({error})"
        raise RedactionError(f"{message}; name other fields") from error
