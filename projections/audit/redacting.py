"""Records as they may leave: each decoded, redacted by the policy, encoded again and sealed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NoReturn

import msgspec
from msgspec import UNSET

from reenact.domain import events as heard
from reenact.domain.agent import ResultsRecorded
from reenact.domain.causes import read_cause
from reenact.domain.chain import FeedRecord, Record
from reenact.domain.errors import LogUnusableError, RedactionError
from reenact.domain.marks import REDACTED
from reenact.domain.session import SessionBranched
from reenact.domain.stored import STORED
from reenact.projections.audit.approvals import Approvals
from reenact.projections.audit.called import Called
from reenact.projections.audit.copies import Path, with_causes, with_copies
from reenact.projections.audit.forms import Forms
from reenact.projections.audit.history import stream_of
from reenact.projections.audit.paths import paths_of
from reenact.projections.audit.redaction import Redaction, check_redaction
from reenact.projections.audit.secrets import Finder, KnownSecrets, Patterns, Texts, Values
from reenact.projections.audit.taking import Taking

_DELTAS: Final = frozenset(kind.event_type for kind in (heard.TextDelta, heard.ThinkingDelta, heard.InputJsonDelta))
_COMPACTED: Final = heard.DeltasCompacted.event_type
_OF_CALLS: Final[tuple[Path, ...]] = (("arguments",), ("value",), ("result",))
"""What of a command may be a call's own, and stands in none of its events."""
_HEARD: Final = {kind.event_type: kind for kind in heard.NOTIFICATIONS}


class _Entry(msgspec.Struct, array_like=True, gc=False):
    type: str
    at: int
    data: Any


_decode = msgspec.msgpack.Decoder(list[tuple[dict[str, str], list[_Entry]]]).decode
_encode = msgspec.msgpack.Encoder().encode


class Redactor:
    """Takes out of the records of one export what a policy says; they come in the order of an export."""

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
        self._topic: str | None = None

    def check_name(self, name: str) -> None:
        """Raise `RedactionError` if the policy finds something in a name that has to stay."""
        found = self._found_in(name)
        if found is not None:
            message = f"what the policy calls {found!r} stands in a name that has to stay: an id"
            raise RedactionError(
                f"{message}; export the other sessions, or let the policy say more exactly what it means"
            )

    def event(self, record: Record, previous: bytes) -> Record:
        """Return the event as it may leave: sealed if something was taken out, itself if nothing was.

        Raises:
            RedactionError: something would have to be taken out of what must stay.
            LogUnusableError: the event cannot be read.
        """
        recorded_at, event = self._forms.decode(record.topic, record.state)
        name = record.topic.rpartition(":")[0]
        self._called.enter(record.stream)
        if isinstance(event, SessionBranched):
            self._called.branch(record.stream, stream_of(event.origin))
            self._approvals.branch(record.stream, stream_of(event.origin))
        try:
            left = self._approvals.without_digests(
                record.stream, event, self._taking.struct(event, self._paths.get(name, ()), name)
            )
            if isinstance(event, ResultsRecorded):
                self._called.forget(block.tool_use_id for block in event.content)
            cause = None if record.cause is None else self._cause(record.stream, record.cause)
            if left is event and cause == record.cause:
                return record
            changed = self._forms.encode(left, recorded_at) if left is not event else (record.topic, record.state)
        except RedactionError as error:
            raise RedactionError(f"event {record.version} of {record.stream!r}: {error}") from None
        except (TypeError, ValueError) as error:
            self._refuse(f"event {record.version} of {record.stream!r}", error)
        return record.redacted(previous, *changed, cause)

    def _cause(self, stream: str, stored: bytes) -> bytes:
        """Return the command of a step as it may leave; what its events say is taken out of them."""
        command = read_cause(stored)
        paths = [*self._paths.get(command.name, ()), *self._of_calls]
        there = [path for path in paths if getattr(command.fields, path[0], UNSET) is not UNSET]
        left = self._approvals.without_digest(stream, self._taking.struct(command.fields, there, command.name))
        return stored if left is command.fields else msgspec.structs.replace(command, fields=left).stored()

    def row(self, record: FeedRecord, previous: bytes) -> FeedRecord:
        """Return the row of a feed as it may leave, likewise. Deltas, which may hold parts of anything, do not.

        Raises:
            RedactionError: something would have to be taken out of what must stay.
            LogUnusableError: the row cannot be read.
        """
        if record.topic != self._topic:
            self._topic = record.topic
            self._called.begin(record.topic)
        try:
            segments = _decode(record.segments)
        except (ValueError, RecursionError) as error:
            message = f"row {record.first_cursor} of the feed of {record.topic!r} cannot be decoded ({error})"
            raise LogUnusableError(f"{message}; verify the log, and restore a copy of it") from error
        cursor, changed = record.first_cursor, False
        try:
            for context, entries in segments:
                for name in context.values():
                    self.check_name(name)
                cursor, has_changed = self._clean(record.topic, entries, cursor)
                changed = changed or has_changed
            return record.redacted(previous, _encode(segments)) if changed else record
        except RedactionError as error:
            raise RedactionError(f"row {record.first_cursor} of the feed of {record.topic!r}: {error}") from None
        except (TypeError, ValueError) as error:
            self._refuse(f"row {record.first_cursor} of the feed of {record.topic!r}", error)

    def _clean(self, topic: str, entries: list[_Entry], cursor: int) -> tuple[int, bool]:
        """Clean the entries of a segment, which begin at the cursor; return the one behind, and if any has changed."""
        left: list[_Entry] = []
        changed = False
        for entry in entries:
            if entry.type in _DELTAS:
                first = cursor
                if left and left[-1].type == _COMPACTED:
                    first = left.pop().data["first_cursor"]
                left.append(_Entry(_COMPACTED, entry.at, {"first_cursor": first, "last_cursor": cursor}))
                changed = True
            else:
                if entry.type == _COMPACTED:
                    cursor = entry.data["last_cursor"]
                data = self._said(topic, entry)
                changed = changed or data is not entry.data
                left.append(_Entry(entry.type, entry.at, data))
            cursor += 1
        entries[:] = left
        return cursor, changed

    def _said(self, topic: str, entry: _Entry) -> Any:  # noqa: ANN401 - data of any type
        kind = _HEARD.get(entry.type)
        try:
            said = None if kind is None else msgspec.convert(entry.data, kind)
        except msgspec.ValidationError:
            said = None
        if said is None:  # nobody can say what stands in which of its fields
            return {REDACTED: self._texts.mark(entry.type, "")}
        left = self._approvals.without_digests(
            topic, said, self._taking.struct(said, self._paths.get(f"@{entry.type}", ()), entry.type)
        )
        return entry.data if left is said else left

    def _refuse(self, what: str, error: Exception) -> NoReturn:
        message = f"{what} cannot be read any more without what the policy takes out ({error})"
        raise RedactionError(f"{message}; name other fields") from error
