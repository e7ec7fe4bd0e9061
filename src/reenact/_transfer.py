"""Exports a log to a file that is protected against changes, and imports it into a log again."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from reenact._files import replacing, translated
from reenact._location import LogLocation, location_of
from reenact._runtime import codec
from reenact._version import version
from reenact.actors.journal.api import Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.records import open_records
from reenact.actors.journal.seeking import Cells
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.vault import Vault
from reenact.actors.kernel.timetable import microseconds
from reenact.domain.chain import DataKey, Row, Timer
from reenact.domain.errors import ConfigurationError, LogEncryptedError, LogUnusableError
from reenact.domain.messages import instant
from reenact.domain.session.state import SessionBranched
from reenact.projections.log import InMemoryLog, OnProgress, Progress, stream_of, stretches
from reenact.projections.transfer.exporting import Export, Exported
from reenact.projections.transfer.importing import ExportReader, File, Item, MissingRows, compare_with_log, log_of
from reenact.projections.transfer.lines import Forms
from reenact.projections.transfer.policy import Redaction
from reenact.projections.transfer.redacting import Redactor

Place: TypeAlias = str | os.PathLike[str] | File
"""A file, by its path or open in binary mode."""

MOST_RECORDS = 1000
MOST_BYTES = 16 * 1024 * 1024
"""The approximate size of one transaction."""
_BRANCHED = ("session-branched",)


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import: how many events and rows were added, and how many existed already."""

    events: int
    rows: int
    events_there: int
    rows_there: int
    position: int


def export_log(
    log: str | os.PathLike[str],
    to: Place,
    *,
    sessions: Sequence[str] | None = None,
    redaction: Redaction | None = None,
    feeds: bool = True,
    family: bool = False,
    typed: bool = True,
    keys: KeyRing | None = None,
    progress: OnProgress | None = None,
) -> Exported:
    """Write the content of the log at a path or URL to a file, which is complete, or not there if this raises.

    Encrypted content is exported encrypted, together with its wrapped keys. With a redaction it is exported in plain
    text, except for what the redaction removes, and can be read by anybody: `Redaction(secrets=False)` removes nothing.

    Args:
        log: the log; another process may be writing it.
        to: the file.
        sessions: only these, with all that they depend on; everything if None.
        redaction: what to remove; removed content is marked, and the record that held it is sealed.
        feeds: whether the events that subscribers saw are included.
        family: whether the sessions' parents and all of their child sessions are included.
        typed: False for a log of other actors: its events are exported without the names of their fields.
        keys: decrypt what is encrypted, if sessions are chosen or content is removed.
        progress: receives progress reports.

    Raises:
        LogEncryptedError: decryption is necessary, and there are no keys.
        KeyRingError: the keys cannot be used now, or are those of another log.
        ConfigurationError: the log or the file cannot be used, or something is asked for that needs types.
        RedactionError: the policy names something that does not exist, or would remove something that has to stay.
        SessionNotFoundError: a session is not in the log.
        LogTooNewError: a newer version of Reenact has written the log.
        LogUnusableError: it is not a log, or has been changed.
        StorageFullError: there is no space for the file.
        StorageError: the log cannot be read.
    """
    if not typed and (sessions is not None or redaction is not None):
        raise ConfigurationError("sessions are chosen, and fields taken out, only where the types of events are known")
    forms = codec()
    location = location_of(log, keys)
    with ExitStack() as parts:
        if typed:
            parts.enter_context(location.open(forms, read_only=True))  # checks that the keys are those of the log
        records = parts.enter_context(open_records(location.url))
        # The keys are read at the same moment as the records: meanwhile, sessions may be forgotten.
        cipher = Vault(location.keys, records.ask, name=records.name) if records.has_keys else None
        export = Export(
            records,
            forms=forms if typed else None,
            software=f"reenact {version()}",
            exported_at=instant(microseconds()),
            sessions=sessions,
            redacting=None if redaction is None else Redactor(redaction, forms),
            feeds=feeds,
            family=family,
            progress=progress,
            cipher=cipher,
        )
        with _to(to, location) as file:
            for line in export.lines():
                file.write(line)
        return export.result


def import_log(
    source: Place,
    log: str | os.PathLike[str],
    *,
    typed: bool = True,
    synchronous: Synchronous = "FULL",
    keys: KeyRing | None = None,
    progress: OnProgress | None = None,
) -> Imported:
    """Add the content of a file to a log, or create the log; the whole file is verified before anything is written.

    Content that the log has already is skipped. An import that was cut short is continued by repeating it.

    Args:
        source: the file, as `export_log` has written it.
        log: the log, by its path or URL.
        typed: False for an export of other actors' events, whose types are not known here.
        synchronous: SQLite's setting, as for `Runtime.open`.
        keys: the keys of the log; encrypted content of the file must have the same keys.
        progress: receives progress reports.

    Raises:
        ExportUnusableError: the file is not a complete and unchanged export; the message names the line and the record.
        LogEncryptedError: the file or the log is encrypted, and there are no keys.
        KeyRingError: the keys cannot be used now, or are not those of the file or of the log.
        HistoryDiffersError: the log has other events in the same places.
        LogLockedError: another process is writing the log.
        LogTooNewError: a newer version of Reenact has written it.
        LogUnusableError: it is not a log, is that of other actors, has been changed, has a branch of a session that the
            import forgets, or the import of another export into it was cut short.
        StorageFullError: there is no space; free some and import again, to go on.
        ConfigurationError: the log or the file cannot be used.
    """
    forms = codec() if typed else None
    location = location_of(log, keys)
    _check_files(source, location)
    with _from(source) as (file, name):
        first = _reader(file, name)
        _check_keys(first, location.keys)
        # A file that is refused leaves no log behind.
        missing = None if location.exists() else compare_with_log(_reader(file, name, forms, progress), None)
        known = EventCodec(()) if forms is None else forms
        with location.open(known, synchronous=synchronous, closed=typed, keyed=first.header.keys > 0) as journal:
            if missing is None or journal.head():
                missing = compare_with_log(_reader(file, name, forms, progress), journal)
            _check_unfinished(journal, missing, name)
            if typed:
                _check_branches(journal, _destroyed_keys(_reader(file, name)))
            return _write_missing(_reader(file, name), journal, missing, progress)


def open_export(source: Place, *, keys: KeyRing | None = None, progress: OnProgress | None = None) -> InMemoryLog:
    """Return the content of a file as a log in memory, whose events can be read; the keys decrypt what is encrypted.

    Raises:
        LogEncryptedError: it is encrypted, and there are no keys.
        KeyRingError: the keys cannot be used now, or are not those of the file.
        ExportUnusableError: the file is not a complete and unchanged export; the message names the line and the record.
        ConfigurationError: there is no such file.
    """
    with _from(source) as (file, name):
        vault = Vault(keys, _no_rows, name=name)
        forms = codec(vault)
        return log_of(_reader(file, name, forms, progress), forms, vault)


def _no_rows(_query: str, _parameters: Sequence[str | int | bytes]) -> list[Cells]:
    return []


def _reader(file: File, name: str, forms: Forms | None = None, progress: OnProgress | None = None) -> ExportReader:
    file.seek(0)
    return ExportReader(file, name, forms=forms, progress=progress)


def _write_missing(
    reader: ExportReader, journal: StoredJournal, missing: MissingRows, progress: OnProgress | None
) -> Imported:
    header = reader.header
    total = header.rows + header.timers
    done = events = rows = 0
    position = journal.head()
    for batch in _batches(reader):
        new = [item for item in batch if isinstance(item, Row) and missing.lacks(item)]
        timers = [item for item in batch if isinstance(item, Timer) and item.stream not in missing.ahead]
        keys = [item for item in batch if isinstance(item, DataKey)]
        done += len(batch) - len(keys)
        if new or timers or keys:
            position = journal.import_rows(rows=new, timers=timers, keys=keys, more=done < total)
        events, rows = events + sum(row.count for row in new), rows + len(new)
        if progress is not None:
            progress(Progress("writing", done, total))
    if journal.is_unfinished():  # the last batches had nothing new
        journal.import_rows()
    return Imported(
        events=events,
        rows=rows,
        events_there=header.events - events,
        rows_there=header.rows - rows,
        position=position,
    )


def _check_keys(reader: ExportReader, ring: KeyRing | None) -> None:
    """Check that the key ring is that of the file, if the file is encrypted."""
    for key in _keys_of(reader):
        if key.wrapped is not None:
            if ring is None:
                raise LogEncryptedError(reader.name)
            ring.unwrap(key.wrapped)
            return


def _keys_of(reader: ExportReader) -> Iterator[DataKey]:
    """Yield the keys, with which a file begins."""
    for item in reader.items():
        if not isinstance(item, DataKey):
            return
        yield item


def _destroyed_keys(reader: ExportReader) -> set[str]:
    """Return the streams whose keys the import destroys."""
    return {key.stream for key in _keys_of(reader) if key.wrapped is None}


def _check_branches(journal: StoredJournal, destroyed: set[str]) -> None:
    """Refuse to destroy the key of a session of which the log has a branch that goes on."""
    vault = journal.codec.vault
    if vault is None or not any(key.stream in destroyed and key.wrapped is not None for key in vault.all()):
        return
    for after, until in stretches(journal, 0, journal.head()):
        for row in journal.find(after=after, until=until, names=_BRANCHED, limit=until - after):
            match row.event:
                case SessionBranched(session_id=branch, origin=origin) if (
                    stream_of(origin) in destroyed and row.stream not in destroyed
                ):
                    problem = f"session {origin!r} was forgotten, and its branch {branch!r} here would miss it"
                    raise LogUnusableError(f"{journal.name}: {problem}; forget the branch first")
                case _:
                    pass


def _check_unfinished(journal: StoredJournal, missing: MissingRows, name: str) -> None:
    """Refuse an export that would leave the unfinished import of another one unfinished."""
    left = journal.unfinished() - (missing.rows.keys() - missing.ahead)
    if left:
        message = f"an import into {journal.name} was cut short, and {name} does not go on with {min(left)!r}"
        raise LogUnusableError(f"{message}; import the same export again first")


def _batches(reader: ExportReader) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in reader.items():
        batch.append(item)
        size += len(item.events or b"") + len(item.feed or b"") if isinstance(item, Row) else 0
        if len(batch) >= MOST_RECORDS or size >= MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _check_files(source: Place, location: LogLocation) -> None:
    if isinstance(source, str | os.PathLike):
        location.outside(source, "name an export")
    owner = location.owner()
    if owner is not None:
        raise ConfigurationError(f"{location.name} belongs to the log {owner}; name another file for the import")


@contextmanager
def _to(to: Place, location: LogLocation) -> Generator[File]:
    if not isinstance(to, str | os.PathLike):
        with translated("what was to be written to"):
            yield to
            to.flush()
        return
    with replacing(location.outside(Path(to), "name another file for the export")) as file:
        yield file


@contextmanager
def _from(source: Place) -> Generator[tuple[File, str]]:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        with translated(str(path)), path.open("rb") as file:
            yield file, str(path)
        return
    name = str(getattr(source, "name", "the input"))
    if source.seekable():
        yield source, name
        return
    # A stream can be read only once, but is read twice: to verify it, and to import it.
    with translated(name), tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(source, kept)
        yield kept, name
