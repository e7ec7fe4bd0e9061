"""The stored procedure that appends a batch: fence, checks, positions, rows and commit in one call.

No lock on the log is held across a round trip: a client that stops in the middle of an append, wherever that is, does
not block others. The procedure commits itself, so that not even the end of the message is awaited. It is created when a
log is opened for writing, under a name derived from its content: different versions of Reenact that write the same log
each have their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import TypeAlias

import msgspec
import psycopg
from msgspec.structs import asdict

from reenact.actors.journal.fence import Epochs
from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.connecting import Connection, channel_of, spell
from reenact.actors.journal.store import LAST, LAST_OF_ALL, STEP, Changes, Values
from reenact.domain.chain import BEGINNING, End, Row

_Column: TypeAlias = Sequence[int | str | bytes | None] | None
_Parameter: TypeAlias = _Column | int | str | bool

VALUE_LIMIT = 500_000_000
"""The most bytes in one batch; the server accepts one gigabyte at a time."""

_TEXTS = frozenset({"stream", "key"})
_NUMBERS = frozenset({"recorded_at", "version", "position", "count", "cursor", "heard", "epoch"})
# Row numbers are assigned in the order of the rows; each of these arrays has one element per row.
_COLUMNS = Row.__struct_fields__[1:]


def _type_of(column: str) -> str:
    return "text" if column in _TEXTS else "bigint" if column in _NUMBERS else "bytea"


# Milliseconds that an append waits for rows that another, stopped client has locked, while it blocks others itself.
_PATIENCE = 2000
# Each group of parameters is NULL if it is empty.
_PARAMETERS = (
    ("me", "text"),
    ("presence", "bigint"),
    ("owner", "text"),
    ("held_shards", "integer[]"),
    ("held_epochs", "bigint[]"),
    ("knows", "boolean"),
    ("end_streams", "text[]"),
    ("end_versions", "bigint[]"),
    ("end_cursors", "bigint[]"),
    ("end_digests", "bytea[]"),
    *((f"row_{name}", f"{_type_of(name)}[]") for name in _COLUMNS),
    ("event_count", "bigint"),
)
# Most appends need none of these.
_OPTIONAL_PARAMETERS = (
    ("replaced", "bigint[]"),
    ("replaced_seals", "bytea[]"),
    ("gone", "bigint[]"),
    ("sealed", "bigint[]"),
    ("sealed_cursors", "bigint[]"),
    ("sealed_heard", "bigint[]"),
    ("sealed_originals", "bytea[]"),
    ("sealed_seals", "bytea[]"),
    ("sealed_feeds", "bytea[]"),
    ("purges", "boolean"),
    ("snapshots_of", "text[]"),
    ("snapshot_streams", "text[]"),
    ("snapshot_versions", "bigint[]"),
    ("snapshot_topics", "text[]"),
    ("snapshot_states", "bytea[]"),
    ("timer_streams", "text[]"),
    ("timer_dues", "bigint[]"),
    ("timers_gone", "text[]"),
    ("readers", "text[]"),
    ("reader_positions", "bigint[]"),
    ("readers_before", "bigint[]"),
    ("mark_topics", "text[]"),
    ("mark_clients", "text[]"),
    ("mark_cursors", "bigint[]"),
    ("mark_times", "bigint[]"),
    ("request_ids", "text[]"),
    ("request_digests", "bytea[]"),
    ("request_notes", "bytea[]"),
    ("request_times", "bigint[]"),
    ("request_proofs", "bytea[]"),
    ("key_ids", "text[]"),
    ("key_streams", "text[]"),
    ("keys_wrapped", "bytea[]"),
    ("forgotten", "text[]"),
)

UPSERT_MARKS = """
    INSERT INTO consumers AS known (topic, client_id, cursor, seen_at)
    SELECT * FROM unnest({}, {}, {}, {})
    ON CONFLICT (topic, client_id) DO UPDATE
    SET cursor = greatest(known.cursor, excluded.cursor), seen_at = greatest(known.seen_at, excluded.seen_at)
"""

_WRITTEN = LAST_OF_ALL.replace(" FROM", " INTO written_number, written_position FROM", 1)
_MOVED = {"position": "position - end_position + last_position", "epoch": "coalesce(epoch, 0)"}
_BODY = f"""
#variable_conflict use_column
DECLARE
    last_number bigint;
    last_position bigint;
    last_writer text;
    written_number bigint;
    written_position bigint;
    rows_moved bigint := coalesce(cardinality(row_stream), 0);
BEGIN
    SELECT number, position, writer INTO last_number, last_position, last_writer FROM log FOR UPDATE;
    IF NOT FOUND THEN
        RAISE undefined_table USING MESSAGE = 'the row that says where it ends is gone';
    END IF;
    -- Whoever can have this lock shows that nobody holds it: the caller has lost its locks.
    IF pg_try_advisory_xact_lock_shared(presence) THEN
        stale := 'locks';
    ELSIF NOT knows OR (last_number, last_position, last_writer) IS DISTINCT FROM (end_number, end_position, me) THEN
        -- Somebody else may have written; it may even be somebody who has not moved this row.
        {_WRITTEN};
        last_number := greatest(last_number, written_number);
        last_position := greatest(last_position, written_position);
        IF end_streams IS NULL THEN
            stale := 'ends';
        ELSIF EXISTS (
            SELECT FROM unnest(end_streams, end_versions, end_cursors, end_digests)
                AS known (name, known_version, known_cursor, known_digest)
            LEFT JOIN LATERAL ({LAST.replace("?", "name")}) AS last (last_version, last_cursor, last_digest) ON true
            WHERE (known_version, known_cursor, known_digest) IS DISTINCT FROM (last_version, last_cursor, last_digest)
        ) THEN
            stale := 'ends';
        END IF;
    END IF;
    IF stale IS NULL AND replaced IS NOT NULL AND EXISTS (
        SELECT FROM unnest(replaced, replaced_seals) AS known (known_number, known_seal)
        LEFT JOIN steps ON number = known_number
        WHERE number IS NULL OR seal IS DISTINCT FROM known_seal
    ) THEN
        stale := 'rows';
    END IF;
    IF stale IS NULL AND request_ids IS NOT NULL AND EXISTS (SELECT FROM requests WHERE id = ANY (request_ids)) THEN
        stale := 'request';
    END IF;
    IF stale IS NULL AND readers IS NOT NULL AND EXISTS (
        SELECT FROM unnest(readers, readers_before) AS known (name, known_position)
        LEFT JOIN tracking ON application_name = name WHERE notification_id IS DISTINCT FROM known_position
    ) THEN
        stale := 'reader';
    END IF;
    IF stale IS NOT NULL THEN
        ROLLBACK;
        RETURN;
    END IF;
    IF owner IS NOT NULL THEN
        PERFORM check_epochs(owner, held_shards, held_epochs);
    END IF;
    IF mark_topics IS NOT NULL OR request_ids IS NOT NULL THEN
        -- Others delete such rows without the lock above, and keep whoever has it waiting for no longer than this.
        PERFORM set_config('lock_timeout', '{_PATIENCE}', true);
    END IF;
    IF gone IS NOT NULL THEN
        DELETE FROM steps WHERE number = ANY (gone);
    END IF;
    IF sealed IS NOT NULL THEN
        UPDATE steps
        SET cursor = new_cursor, heard = new_heard, original = new_original, seal = new_seal, feed = new_feed
        FROM unnest(sealed, sealed_cursors, sealed_heard, sealed_originals, sealed_seals, sealed_feeds)
            AS new (new_number, new_cursor, new_heard, new_original, new_seal, new_feed)
        WHERE number = new_number;
    END IF;
    IF rows_moved > 0 THEN
        INSERT INTO steps (number, {", ".join(_COLUMNS)})
        SELECT last_number + place, {", ".join(_MOVED.get(name, name) for name in _COLUMNS)}
        FROM unnest({", ".join(f"row_{name}" for name in _COLUMNS)}) WITH ORDINALITY
            AS new ({", ".join(_COLUMNS)}, place);
    END IF;
    IF purges THEN
        DELETE FROM stored_snapshots;
    END IF;
    IF snapshots_of IS NOT NULL THEN
        DELETE FROM stored_snapshots WHERE originator_id = ANY (snapshots_of);
    END IF;
    IF snapshot_streams IS NOT NULL THEN
        INSERT INTO stored_snapshots (originator_id, originator_version, topic, state)
        SELECT * FROM unnest(snapshot_streams, snapshot_versions, snapshot_topics, snapshot_states);
    END IF;
    IF timer_streams IS NOT NULL THEN
        INSERT INTO timers (stream, due) SELECT * FROM unnest(timer_streams, timer_dues)
        ON CONFLICT (stream) DO UPDATE SET due = excluded.due;
    END IF;
    IF timers_gone IS NOT NULL THEN
        DELETE FROM timers WHERE stream = ANY (timers_gone);
    END IF;
    IF readers IS NOT NULL THEN
        INSERT INTO tracking (application_name, notification_id) SELECT * FROM unnest(readers, reader_positions)
        ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id;
    END IF;
    IF mark_topics IS NOT NULL THEN
        {UPSERT_MARKS.format("mark_topics", "mark_clients", "mark_cursors", "mark_times")};
    END IF;
    IF request_ids IS NOT NULL THEN
        INSERT INTO requests (id, digest, note, at, proof)
        SELECT * FROM unnest(request_ids, request_digests, request_notes, request_times, request_proofs);
    END IF;
    IF key_ids IS NOT NULL THEN
        INSERT INTO keys (id, stream, wrapped) SELECT * FROM unnest(key_ids, key_streams, keys_wrapped)
        ON CONFLICT (id) DO UPDATE SET wrapped = NULL WHERE excluded.wrapped IS NULL;
    END IF;
    IF forgotten IS NOT NULL THEN
        UPDATE keys SET wrapped = NULL WHERE stream = ANY (forgotten);
        DELETE FROM stored_snapshots WHERE originator_id = ANY (forgotten);
        DELETE FROM timers WHERE timers.stream = ANY (forgotten);
    END IF;
    end_number := last_number + rows_moved;
    end_position := last_position + coalesce(event_count, 0);
    UPDATE log SET number = end_number, position = end_position, writer = me;
    IF rows_moved > 0 THEN
        -- As `listening` reads it: the last row, who wrote it, and where the log's events end if there are new ones.
        PERFORM pg_notify(
            '{{channel}}', concat_ws(' ', end_number, me, CASE WHEN event_count > 0 THEN end_position END)
        );
    END IF;
    COMMIT;
END
"""  # noqa: S608 - ours

_BODY_HASH = blake2b(repr((_BODY, _PARAMETERS, _OPTIONAL_PARAMETERS)).encode(), digest_size=6).hexdigest()
_NAME = f"append_{_BODY_HASH}"
_INOUT = (("end_number", "bigint"), ("end_position", "bigint"), ("stale", "text"))

_STREAM = STEP.index("stream")

_PROCEDURE_EXISTS = """
    SELECT 1 FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = %s AND proname = %s
"""


class Stale(msgspec.Struct, frozen=True):
    """A mismatch between the log and the caller's assumption, named by `what`: nothing was written."""

    what: str


class Replaced(msgspec.Struct, frozen=True):
    """A row to replace, the rows that it replaces in turn, and all the rows on which that is based."""

    row: Row
    gone: Sequence[Row]
    read: Sequence[Row]


class Procedure:
    """Calls the procedure in one schema."""

    def __init__(self, address: Address) -> None:
        """Use the schema of the address."""
        self._call, self._long_call = (
            f"CALL {address.schema}.{_NAME}({', '.join(f'%s::{kind}' for _, kind in parameters)})".encode()
            for parameters in ((*_INOUT, *_PARAMETERS), (*_INOUT, *_PARAMETERS, *_OPTIONAL_PARAMETERS))
        )

    def run(
        self,
        connection: Connection,
        changes: Changes,
        *,
        me: str,
        presence: int,
        end: tuple[int, int],
        knows: bool,
        with_ends: bool,
        replaced: Sequence[Replaced] = (),
        before: Mapping[str, int | None],
    ) -> tuple[int, int] | Stale:
        """Write the changes after the last row and position, which the caller assumes to be `end`.

        With `knows`, no stream ends are checked if the log ends there and `me` was the last writer. Otherwise each
        stream must end as `changes.ends` says. `before` are the previous positions of readers. Return the new end of
        the log.

        Raises:
            psycopg.errors.CheckViolation: another node owns a shard; nothing was written.
            psycopg.Error: nothing was written, or the connection is lost and the outcome is unknown.
        """
        columns: tuple[_Parameter, ...] = (
            *end,
            None,
            me,
            presence,
            *_held(changes.epochs),
            knows,
            *(_ends(changes.ends) if with_ends else _nulls(4)),
            *_rows(changes),
            changes.position - end[1],
        )
        more: tuple[_Parameter, ...] = (
            *_replacements(replaced),
            changes.purges or None,
            changes.replaced or None,
            *_columns_of(changes.snapshots, 4),
            *_timers(changes.due),
            *_readers(changes.tracking, before),
            *_columns_of(changes.marks, 4),
            *_columns_of(changes.remembered, 5),
            *_columns_of(changes.keys, 3),
            list(changes.destroyed) or None,
        )
        call = self._call
        if any(column is not None for column in more):
            call, columns = self._long_call, columns + more
        if sum(map(_text_length, columns)) > VALUE_LIMIT:
            raise psycopg.DataError(f"it has more than {VALUE_LIMIT} bytes")
        number, position, stale = connection.execute(call, columns, binary=True).fetchone() or (0, 0, "nothing")
        return (number, position) if stale is None else Stale(stale)


def has_procedure(connection: Connection, address: Address) -> bool:
    """Return whether the schema has this version of the procedure."""
    return connection.execute(_PROCEDURE_EXISTS, (address.schema, _NAME)).fetchone() is not None


def create_procedure(connection: Connection, address: Address) -> None:
    """Create this version of the procedure."""
    parameters = ", ".join(
        [f"INOUT {name} {kind}" for name, kind in _INOUT]
        + [f"{name} {kind}" for name, kind in _PARAMETERS]
        + [f"{name} {kind} DEFAULT NULL" for name, kind in _OPTIONAL_PARAMETERS]
    )
    body = spell(_BODY, address.schema).replace("{channel}", channel_of(address))
    procedure = f"CREATE PROCEDURE {address.schema}.{_NAME}({parameters}) LANGUAGE plpgsql AS $append${body}$append$"
    connection.execute(procedure.encode())


def _nulls(columns: int) -> Sequence[None]:
    return [None] * columns


def _columns_of(values: Values, columns: int) -> Sequence[_Column]:
    """Return the columns of a table's rows."""
    return [values[column::columns] for column in range(columns)] if values else _nulls(columns)


def _ends(ends: Mapping[str, End]) -> Sequence[_Column]:
    # A stream without rows has no end in the database.
    found = [(None, None, None) if end == BEGINNING else end for end in ends.values()]
    return [list(ends), *([end[column] for end in found] for column in range(3))]


def _replacements(replaced: Sequence[Replaced]) -> Sequence[_Column]:
    if not replaced:
        return _nulls(9)
    read = {row.number: row.seal for each in replaced for row in each.read}
    rows = [each.row for each in replaced]
    return [
        list(read),
        list(read.values()),
        [row.number for each in replaced for row in each.gone],
        [row.number for row in rows],
        [row.cursor for row in rows],
        [row.heard for row in rows],
        [row.original for row in rows],
        [row.seal for row in rows],
        [row.feed for row in rows],
    ]


def _held(epochs: Epochs | None) -> Sequence[_Parameter]:
    if epochs is None or not epochs.held:
        return _nulls(3)
    return [epochs.owner, list(epochs.held), list(epochs.held.values())]


def _rows(changes: Changes) -> Sequence[_Column]:
    steps, width, epochs = changes.steps, len(STEP), changes.epochs
    if not changes.rows:
        if not steps:
            return _nulls(len(_COLUMNS))
        written: dict[str, _Column] = {name: steps[column::width] for column, name in enumerate(STEP)}
        if epochs is not None:
            written["epoch"] = [epochs.of(str(stream)) for stream in steps[_STREAM::width]]
        return [written.get(name) for name in _COLUMNS]
    given: list[dict[str, int | str | bytes | None]] = [asdict(row) for row in changes.rows]
    given += [dict(zip(STEP, steps[start : start + width], strict=True)) for start in range(0, len(steps), width)]
    given.sort(key=itemgetter("number"))
    if epochs is not None:
        for cells in given:
            cells["epoch"] = epochs.of(str(cells["stream"]))
    return [[cells.get(name) for cells in given] for name in _COLUMNS]


def _timers(due: Mapping[str, int | None]) -> Sequence[_Column]:
    if not due:
        return _nulls(3)
    set_to = {stream: at for stream, at in due.items() if at is not None}
    never = [stream for stream, at in due.items() if at is None]
    return [list(set_to) or None, list(set_to.values()) or None, never or None]


def _readers(tracking: Mapping[str, int], before: Mapping[str, int | None]) -> Sequence[_Column]:
    if not tracking:
        return _nulls(3)
    return [list(tracking), list(tracking.values()), [before[name] for name in tracking]]


def _text_length(column: _Parameter) -> int:
    return sum(len(each) for each in column if isinstance(each, str | bytes)) if isinstance(column, list) else 0
