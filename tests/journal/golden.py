"""Makes the logs that stand for a format for ever: `python -m tests.journal.golden` writes the files of today's."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from reenact.actors.journal.api import Append, Entry, Mark, Remembered, Segment, Snapshot
from reenact.actors.journal.postgres import schema as postgres
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect, spelled
from reenact.actors.journal.records import open_records
from reenact.actors.journal.schema import APPLICATION_ID, FORMAT_VERSION
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.chain import Row
from tests.journal.server import running_server
from tests.journal.support import CODEC, Added, Cleared, Log, acknowledge, announced, commit, said

DATA: Final = Path(__file__).parent / "data"
MADE_AT: Final = 1_700_000_000_000_000
CAUSE: Final = b"\x81\xa1a\x01"
TWO: Final = Added(2, "zwei – 二")  # noqa: RUF001 - more than ASCII on purpose
GONE: Final = Segment({"agent": "a1"}, (Entry("gone", 5, {"word": "…"}),))
DELTAS: Final = Segment(
    {"agent": "a1"},
    (Entry("text_delta", MADE_AT, {"text": "de"}), Entry("text_delta", MADE_AT + 1, {"text": "lta"})),
)
BYE: Final = announced("ses_1", MADE_AT + 2, Cleared(), agent="a2")
SECRET: Final = Added(3, "secret")
LESS: Final = Added(3, "[redacted: value]")
STEPS: Final = (
    Append("ses_1", 0, MADE_AT, (Added(1, "hello world"), TWO), (said("hello", " world"),), cause=CAUSE),
    Append("ses_1", None, MADE_AT + 1, (), (DELTAS,)),
    Append("ses_2", 0, MADE_AT + 1, (Added(-(2**40)),)),
    Append("ses_1", 2, MADE_AT + 2, (Cleared(),), BYE, due=MADE_AT + 60_000_000),
    Append("ses_2", None, MADE_AT + 3, (), (said("a", "b"),)),
    Append("ses_2", None, MADE_AT + 3, (), (said("c", "d"),)),
    Append("ses_2", 1, MADE_AT + 4, (SECRET,), announced("ses_2", MADE_AT + 4, SECRET), due=MADE_AT + 500),
    Append("ses_2", None, MADE_AT + 5, (), (said("g"),)),
)
"""What a log was made of. Of `ses_2`, deltas were put together then, and the secret was taken out.

What `ses_1` announces stands in its rows once, and is derived once; what `ses_2` does is derived.
"""
REQUEST: Final = Remembered("req_1", bytes(range(32)), b"\x81\xa1a\x01", MADE_AT + 1)
_TABLES: Final = ("log", "steps", "stored_snapshots", "tracking", "timers", "consumers", "requests")


def fill(journal: StoredJournal) -> None:
    """Write a log with something of everything."""
    with tempfile.TemporaryDirectory() as directory:
        source = Log(str(Path(directory, "source.db")))
        with source.open() as written:
            for each in STEPS:
                commit(written, each)
            written.replace_feed("ses_2", 1, 5, [GONE])
        with open_records(source.url) as records:
            rows, timers = list(records.rows()), list(records.timers())
    journal.import_rows(rows=[_without_secret(row, rows) for row in rows], timers=timers)
    commit(journal, Append("ses_1", 3, 0, snapshot=Snapshot("ses_1", 3, "sum:1", b"\x93\x00\x01\xff")))
    acknowledge(journal, Mark("ses_1", "phone", 3, MADE_AT + 4), Mark("ses_2", "desk", 6, MADE_AT + 5))
    commit(journal, Append("ses_2", None, MADE_AT + 6, (), (said("h"),), remembered=REQUEST))


def _without_secret(row: Row, rows: list[Row]) -> Row:
    if row.events is None or b"secret" not in row.events:
        return row
    *_, previous = (each.digest for each in rows if each.stream == row.stream and each.number < row.number)
    events = msgspec.msgpack.encode([CODEC.encode(LESS, row.recorded_at)])
    return row.replaced(previous, cause=None, events=events, feed=row.feed, cursor=row.cursor, heard=row.heard)


def sqlite_script() -> Iterator[str]:
    """Yield the statements that make such a file."""
    with tempfile.TemporaryDirectory() as directory:
        log = Log(str(Path(directory, "log.db")))
        with log.open() as journal:
            fill(journal)
        with closing(sqlite3.connect(log.url)) as connection:
            yield from connection.iterdump()
    yield f"PRAGMA application_id = {APPLICATION_ID};"
    yield f"PRAGMA user_version = {FORMAT_VERSION};"


def postgres_script(url: str) -> Iterator[str]:
    """Yield the statements that make such tables in a schema, from a log that is made at the URL."""
    with Log(url).open() as journal:
        fill(journal)
    for statement in postgres._TABLES:
        yield f"{statement.strip()};"
    address = address_of(url)
    with connect(address) as connection:
        for table in _TABLES:
            for row in connection.execute(spelled(f"SELECT * FROM {table}", address.schema)):  # noqa: S608 - ours
                yield f"INSERT INTO {table} VALUES ({', '.join(map(_literal, row))});"  # noqa: S608 - ours


def _literal(cell: object) -> str:
    match cell:
        case None:
            return "NULL"
        case bytes():
            return f"'\\x{cell.hex()}'"
        case bool() | int():
            return str(cell)
        case _:
            return "'{}'".format(str(cell).replace("'", "''"))


def write() -> None:
    """Write the files of today's format."""
    DATA.mkdir(exist_ok=True)
    file = DATA / f"log-format-{FORMAT_VERSION}.sql"
    file.write_text("\n".join(sqlite_script()) + "\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as runtime, running_server(Path(runtime)) as server:
        file = DATA / f"log-postgresql-format-{FORMAT_VERSION}.sql"
        file.write_text("\n".join(postgres_script(server.new_log())) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
