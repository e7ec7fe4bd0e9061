"""Rows as they may leave: each decoded, redacted by the policy, encoded again and sealed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
from msgspec import UNSET

from reenact.domain import events as heard
from reenact.domain.agent import ResultsRecorded
from reenact.domain.announce import version_of
from reenact.domain.causes import read_cause
from reenact.domain.chain import Row
from reenact.domain.errors import LogUnusableError, RedactionError
from reenact.domain.feed import FeedPart, pack_feed
from reenact.domain.marks import REDACTED
from reenact.domain.session import SessionBranched
from reenact.domain.stored import STORED
from reenact.projections.audit.approvals import Approvals
from reenact.projections.audit.called import Called
from reenact.projections.audit.copies import NEEDS, Path, with_causes, with_copies
from reenact.projections.audit.exporting import events_of
from reenact.projections.audit.forms import Forms
from reenact.projections.audit.history import stream_of
from reenact.projections.audit.paths import paths_of
from reenact.projections.audit.redaction import Redaction, check_redaction
from reenact.projections.audit.saying import COMPACTED, DELTAS
from reenact.projections.audit.secrets import Finder, KnownSecrets, Patterns, Texts, Values
from reenact.projections.audit.taking import Taking

_HEARD: Final = {kind.event_type: kind for kind in heard.NOTIFICATIONS}
_OF_CALLS: Final[tuple[Path, ...]] = (("arguments",), ("value",), ("result",))
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
        self._paths: dict[str, list[Path]] = {}
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
