"""Rows as they may leave: each decoded, redacted by the policy, encoded again and sealed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from reenact.domain import events as heard
from reenact.domain.agent import ResultsRecorded
from reenact.domain.announce import Call, version_of
from reenact.domain.causes import read_cause
from reenact.domain.chain import Row
from reenact.domain.errors import LogUnusableError, RedactionError
from reenact.domain.feed import FeedPart, pack_feed
from reenact.domain.loop import events as loop
from reenact.domain.marks import REDACTED, mark
from reenact.domain.messages import ToolResultBlock, ToolUseBlock
from reenact.domain.session import SessionBranched
from reenact.domain.stored import STORED
from reenact.projections.explain.history import stream_of
from reenact.projections.transfer.exporting import events_of
from reenact.projections.transfer.lines import Forms
from reenact.projections.transfer.policy import (
    NEEDS,
    FieldPath,
    Redaction,
    ToolRedaction,
    check_redaction,
    paths_of,
    with_causes,
    with_copies,
)
from reenact.projections.transfer.taking import FIELD, Finder, KnownSecrets, Paths, Patterns, Taking, Texts, Values
from reenact.projections.verification.answer_check import COMPACTED, DELTAS


class Called:
    """What is to be taken out of calls. A call of which only the id is told, and that nobody has seen, may be any."""

    def __init__(self, tools: Sequence[ToolRedaction]) -> None:
        """Take what a policy says of tools."""
        self._tools = [(tool, [tuple(path.split(".")) for path in tool.arguments]) for tool in tools]
        self._streams: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}

    def enter(self, stream: str) -> None:
        """Take note that what comes is a row of this stream."""
        if self._tools:
            self._names = self._streams.setdefault(stream, {})

    def branch(self, origin: str) -> None:
        """Take note that the row's stream goes on with the calls of another one."""
        if self._tools:
            self._names.update(self._streams.get(origin, {}))

    def forget(self, stream: str, ids: Iterable[str]) -> None:
        """Take note that these calls are answered."""
        for each in ids:
            self._streams.get(stream, {}).pop(each, None)

    def paths(self, value: msgspec.Struct) -> Paths:
        """Return what is to be taken out of the value."""
        if not self._tools:
            return ()
        match value:
            case ToolUseBlock(id=call_id, name=name):
                self._names[call_id] = name
                return self._arguments(name, "input", and_whole=("extra",))
            case heard.ToolCall(id=call_id, name=name):
                if call_id is not None:
                    self._names[call_id] = name
                return self._arguments(name, "input")
            case loop.AskedCall(name=name):
                return self._arguments(name, "arguments", and_whole=("original", "reason"))
            case _:
                return self._of_known(value)

    def _of_known(self, value: msgspec.Struct) -> Paths:
        """Return the same for what names a call by its id."""
        match value:
            case Call(id=call_id):
                return self._arguments(self._names.get(call_id), "arguments")
            case loop.ToolEdited(id=call_id):
                return self._arguments(self._names.get(call_id), "original", "edited")
            case loop.HumanPromptRequired(id=known):
                return self._arguments(self._name_of(known), and_whole=("prompt", "metadata"))
            case loop.HumanSelectRequired(id=known):
                return self._arguments(self._name_of(known), and_whole=("prompt", "options", "metadata"))
            case loop.ToolResult(id=call_id, name=name):
                return self._result(name or self._names.get(call_id), "result")
            case heard.ToolResult(id=known, name=called):
                return self._result(called or self._name_of(known), "result")
            case loop.HumanResponded(id=known):
                return self._result(self._name_of(known), "value")
            case ToolResultBlock(tool_use_id=call_id):
                return self._result(self._names.get(call_id), "content")
            case _:
                return ()

    def _name_of(self, call_id: str | None) -> str | None:
        return None if call_id is None else self._names.get(call_id)

    def _arguments(self, name: str | None, *fields: str, and_whole: Sequence[str] = ()) -> Paths:
        found: list[FieldPath] = []
        for tool, arguments in self._tools:
            if arguments and (name is None or fnmatchcase(name, tool.name)):
                found += ((field, *path) for field in fields for path in arguments)
                found += ((field,) for field in and_whole)
        return found

    def _result(self, name: str | None, field: str) -> Paths:
        return [(field,) for tool, _ in self._tools if tool.result and (name is None or fnmatchcase(name, tool.name))]


_NO_DIGEST: Final = mark(FIELD)  # without the key: nobody has to recognise a digest


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Approvals:
    """Follows the calls that people are asked about, as they were and as they leave, in the order of an export."""

    def __init__(self) -> None:
        self._changed: dict[str, set[str]] = {}

    def branch(self, stream: str, origin: str) -> None:
        """Take note that the stream goes on with the calls of another one."""
        if origin in self._changed:
            self._changed[stream] = set(self._changed[origin])

    def without_digests(self, stream: str, before: msgspec.Struct, left: msgspec.Struct) -> msgspec.Struct:
        """Return what is left of an event without digests of calls that have changed."""
        match left:
            case loop.HumanApproveRequired() if isinstance(before, loop.HumanApproveRequired):
                if before is not left:
                    calls = [self._asked(stream, *pair) for pair in zip(before.calls, left.calls, strict=True)]
                    return msgspec.structs.replace(left, calls=tuple(calls))
            case loop.ToolEdited() if isinstance(before, loop.ToolEdited):
                if before.edited is not left.edited:
                    self._changed.setdefault(stream, set()).add(left.id)
            case loop.ToolApproved() if left.id in self._changed.get(stream, ()):
                return msgspec.structs.replace(left, digest=_NO_DIGEST)
            case _:
                pass
        return left

    def without_digest(self, stream: str, command: _Struct) -> _Struct:
        """Return what is left of a command, without the digest that it names if it may be that of such a call."""
        if stream in self._changed and isinstance(getattr(command, "digest", None), str):
            return msgspec.structs.replace(command, digest=_NO_DIGEST)
        return command

    def _asked(self, stream: str, before: loop.AskedCall, left: loop.AskedCall) -> loop.AskedCall:
        if left.arguments is before.arguments:
            return left
        self._changed.setdefault(stream, set()).add(left.id)
        return msgspec.structs.replace(left, digest=_NO_DIGEST)


_HEARD: Final = {kind.event_type: kind for kind in heard.NOTIFICATIONS}
_OF_CALLS: Final[tuple[FieldPath, ...]] = (("arguments",), ("value",), ("result",))
"""What of a command may be a call's own, and stands in none of its events."""


class _Entry(msgspec.Struct, array_like=True, gc=False):
    type: str
    at: int
    data: Any


_Segment: TypeAlias = tuple[dict[str, str], list[_Entry]]
_decode = msgspec.msgpack.Decoder(FeedPart[_Segment]).decode
_encode = msgspec.msgpack.Encoder().encode


class Redactor:
    """Takes out of the rows of one export what a policy says; they come in the order of an export."""

    def __init__(self, policy: Redaction, forms: Forms) -> None:
        """Prepare to carry the policy out.

        Raises:
            RedactionError: it names what there is not, or what has to stay.
            ConfigurationError: one of its patterns cannot be read.
        """
        check_redaction(policy)
        finders: list[Finder] = [Values(policy.values), Patterns(policy.patterns)]
        if policy.secrets:
            finders.append(KnownSecrets())
        self._texts = Texts(finders, policy.hash_key)
        self._forms = forms
        self._called = Called(policy.tools)
        self._approvals = Approvals()
        self._taking = Taking(self._texts, self._called.paths)
        self._paths: dict[str, list[FieldPath]] = {}
        for name, *path in with_causes(with_copies(paths_of(policy.fields, STORED))):
            self._paths.setdefault(name, []).append(tuple(path))
        self._of_calls = _OF_CALLS if policy.tools else ()
        self._found_in = lru_cache(maxsize=10_000)(self._texts.found_in)
        self._answered: list[str] = []

    def check_name(self, name: str) -> None:
        """Raise `RedactionError` if the policy finds something in a name that has to stay."""
        found = self._found_in(name)
        if found is not None:
            message = f"what the policy calls {found!r} stands in a name that has to stay: an id"
            raise RedactionError(
                f"{message}; export the other sessions, or let the policy say more exactly what it means"
            )

    def row(self, row: Row, previous: bytes) -> Row:
        """Return the row as it may leave: sealed if something was taken out, itself if nothing was.

        Deltas, which may hold parts of anything, do not leave.

        Raises:
            RedactionError: something would have to be taken out of what must stay.
            LogUnusableError: the row cannot be read.
        """
        self._called.enter(row.stream)
        events = [self._event(row, index, *pair) for index, pair in enumerate(events_of(row))]
        encoded = _encode(events) if events else None
        cause = None if row.cause is None else self._cause(row, row.cause)
        feed = None if row.feed is None else self._feed(row, row.feed)
        self._called.forget(row.stream, self._answered)
        self._answered.clear()
        if (encoded, feed, cause) == (row.events, row.feed, row.cause):
            return row
        return row.replaced(previous, cause=cause, events=encoded, feed=feed, cursor=row.cursor, heard=row.heard)

    def _event(self, row: Row, index: int, topic: str, state: bytes) -> tuple[str, bytes]:
        what = f"event {(row.version or 0) + index} of {row.stream!r}"
        recorded_at, event = self._forms.decode(topic, state)
        name = topic.rpartition(":")[0]
        if isinstance(event, SessionBranched):
            self._called.branch(stream_of(event.origin))
            self._approvals.branch(row.stream, stream_of(event.origin))
        try:
            left = self._approvals.without_digests(
                row.stream, event, self._taking.struct(event, self._paths.get(name, ()), name)
            )
            if isinstance(event, ResultsRecorded):
                self._answered += (block.tool_use_id for block in event.content)
            return (topic, state) if left is event else self._forms.encode(left, recorded_at)
        except RedactionError as error:
            raise RedactionError(f"{what}: {error}") from None
        except (TypeError, ValueError) as error:
            self._refuse(what, error)

    def _cause(self, row: Row, stored: bytes) -> bytes:
        """Return the command of a step as it may leave; what its events say is taken out of them."""
        what = f"the command behind event {row.version} of {row.stream!r}"
        try:
            command = read_cause(stored)
            paths = [*self._paths.get(command.name, ()), *self._of_calls]
            there = [path for path in paths if getattr(command.fields, path[0], UNSET) is not UNSET]
            left = self._approvals.without_digest(row.stream, self._taking.struct(command.fields, there, command.name))
            return stored if left is command.fields else msgspec.structs.replace(command, fields=left).stored()
        except RedactionError as error:
            raise RedactionError(f"{what}: {error}") from None
        except (TypeError, ValueError) as error:
            self._refuse(what, error)

    def _feed(self, row: Row, feed: bytes) -> bytes:
        what = f"row {row.cursor} of the feed of {row.stream!r}"
        try:
            part = _decode(feed)
        except (ValueError, RecursionError) as error:
            message = f"{what} cannot be decoded ({error})"
            raise LogUnusableError(f"{message}; verify the log, and restore a copy of it") from error
        cursor, changed = row.cursor or 0, False
        try:
            for context, entries in part.segments:
                for name in context.values():
                    self.check_name(name)
                cursor, has_changed = self._clean(entries, cursor)
                changed = changed or has_changed
            needs = self._needs(part, what)
            return pack_feed(part.segments, part.version, needs) if changed or needs is not part.needs else feed
        except RedactionError as error:
            raise RedactionError(f"{what}: {error}") from None
        except (TypeError, ValueError) as error:
            self._refuse(what, error)

    def _needs(self, part: FeedPart[_Segment], what: str) -> bytes | msgspec.Raw:
        """Return what a row needs to announce its events, as it may leave."""
        if not part.version:
            return part.needs
        needs = version_of(part.version, what).read(part.needs)
        left = self._taking.struct(needs, self._paths.get(NEEDS, ()), NEEDS)
        return part.needs if left is needs else left.stored()

    def _clean(self, entries: list[_Entry], cursor: int) -> tuple[int, bool]:
        """Clean the entries of a segment, which begin at the cursor; return the one behind, and if any has changed."""
        left: list[_Entry] = []
        changed = False
        for entry in entries:
            if entry.type in DELTAS:
                first = cursor
                if left and left[-1].type == COMPACTED:
                    first = left.pop().data["first_cursor"]
                left.append(_Entry(COMPACTED, entry.at, {"first_cursor": first, "last_cursor": cursor}))
                changed = True
            else:
                if entry.type == COMPACTED:
                    cursor = entry.data["last_cursor"]
                data = self._said(entry)
                changed = changed or data is not entry.data
                left.append(_Entry(entry.type, entry.at, data))
            cursor += 1
        entries[:] = left
        return cursor, changed

    def _said(self, entry: _Entry) -> Any:  # noqa: ANN401 - data of any type
        kind = _HEARD.get(entry.type)
        try:
            said = None if kind is None else msgspec.convert(entry.data, kind)
        except msgspec.ValidationError:
            said = None
        if said is None:  # nobody can say what stands in which of its fields
            return {REDACTED: self._texts.mark(entry.type, "")}
        left = self._taking.struct(said, self._paths.get(f"@{entry.type}", ()), entry.type)
        return entry.data if left is said else left

    def _refuse(self, what: str, error: Exception) -> NoReturn:
        message = f"{what} cannot be read any more without what the policy takes out ({error})"
        raise RedactionError(f"{message}; name other fields") from error
