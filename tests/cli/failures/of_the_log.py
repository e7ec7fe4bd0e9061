"""What is wrong with the log, and with the places where things are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from reenact import Runtime
from reenact.testing import MockEnvironmentFactory
from tests.cli.failures.command_line import HELLO
from tests.cli.failures.rows import Call, Row, Section, asks, error
from tests.cli.failures.stage import Stage
from tests.logs import log_at, written_elsewhere
from tests.started.disks import mounted

DB: Final = ("--db", "log.db")
LARGE: Final = "x" * 1_200_000
"""At once, so that it is what the log has no room for, and nothing that follows from it."""


def spoiled(spoil: Callable[[Path], None]) -> Callable[[Stage], Call]:
    """Return what asks in a log that was whole until something was done to it."""

    def happens(stage: Stage) -> Call:
        path = stage.directory / "log.db"
        with Runtime.open(path, environment=MockEnvironmentFactory(delays=False)) as runtime:
            runtime.containers.create()
        spoil(path)
        return Call(arguments=("-p", "Hello", *DB))

    return happens


def truncated(path: Path) -> None:
    """Leave the first half."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 // 4096 * 4096])


def overwritten(path: Path) -> None:
    """Write something else into the middle."""
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 4096] = b"success " * ((len(content) - 12288) // 8)
    path.write_bytes(content)


def of_the_future(path: Path) -> None:
    """Have it written by a version that is to come."""
    with closing(sqlite3.connect(path)) as connection, connection:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        connection.execute(f"PRAGMA user_version = {version + 1000}")


def of_others(stage: Stage) -> Call:
    """Ask in the database of another program."""
    with closing(sqlite3.connect(stage.directory / "log.db")) as connection, connection:
        connection.execute("CREATE TABLE shopping (what TEXT)")
    return Call(arguments=("-p", "Hello", *DB))


def locked(stage: Stage) -> Call:
    """Ask in a log that another process writes."""
    stage.exits.enter_context(written_elsewhere(log_at(stage.directory / "log.db")))
    return Call(arguments=("-p", "Hello", *DB))


def sealed(mode: int, *, directory: bool = False) -> Callable[[Stage], Call]:
    """Return what asks in a log that has this mode, or whose directory has, as a user for whom modes count."""

    def happens(stage: Stage) -> Call:
        Path(stage.directory, "own").mkdir()
        with Runtime.open(log_at(stage.directory / "own" / "log.db"), environment=MockEnvironmentFactory(delays=False)):
            pass
        path = stage.directory / "own" if directory else stage.directory / "own" / "log.db"
        before = path.stat().st_mode
        path.chmod(mode)
        stage.exits.callback(path.chmod, before)
        return Call(
            arguments=("-p", "Hello", "--db", "own/new.db" if directory else "own/log.db"), before=("powerless",)
        )

    return happens


def full(stage: Stage) -> Call:
    """Ask where a disk has no room for a log."""
    small = stage.exits.enter_context(mounted(stage.directory / "small", "-t", "tmpfs", "-o", "size=64k", "tmpfs"))
    Path(small, "ballast").write_bytes(b"x" * 60_000)
    return Call(arguments=("-p", "Hello", "--db", "small/log.db"))


def filling(stage: Stage) -> Call:
    """Ask for an answer that is larger than the log may become."""
    stage.api.reply(deltas=["This much", LARGE])
    return Call(arguments=("-p", "Hello", *DB), before=("cramped", "calm"))


LOG = Section(
    "The log",
    (
        Row(
            what="a log in a directory that does not exist",
            happens=asks("--db", "missing/log.db"),
            code=2,
            type="log_unusable",
            says=error("…missing/log.db cannot be opened here: No such file or directory; choose another place"),
        ),
        Row(
            what="a directory instead of a log",
            happens=asks("--db", "."),
            code=2,
            type="log_unusable",
            says=error("… cannot be opened here: Is a directory; choose another place"),
        ),
        Row(
            what="an address of another kind, with a password",
            happens=asks("--db", "mysql://me:secret@host/base"),
            code=2,
            type="invalid_configuration",
            says=error("a mysql URL names no file; give one, or a sqlite:/// or postgresql:// URL"),
        ),
        Row(
            what="an address of PostgreSQL that cannot be read, with a password",
            happens=asks("--db", "postgresql://me:sec/ret@host/base"),
            code=2,
            type="invalid_configuration",
            says=error("this is not a PostgreSQL URL: write postgresql://user:password@host:port/database?…"),
        ),
        Row(
            what="a log in PostgreSQL without a server",
            happens=asks("--db", "postgresql://me:secret@127.0.0.1:1/base"),
            code=4,
            type="log_unreachable",
            says=error("postgresql://me@127.0.0.1:1/base cannot be reached (…); check the URL and the server, …"),
        ),
        Row(
            what="a file that is not a database",
            happens=lambda stage: Call(
                arguments=("-p", "x", "--db", stage.file("list.txt", "a shopping list\n" * 999))
            ),
            code=2,
            type="log_unusable",
            says=error("…list.txt is not a log; choose another file, or import it if it is an export"),
        ),
        Row(
            what="the database of another program",
            happens=of_others,
            code=2,
            type="log_unusable",
            says=error("…log.db is the database of something else; choose another file"),
        ),
        Row(
            what="a log that was cut off",
            happens=spoiled(truncated),
            code=2,
            type="log_unusable",
            says=error("…log.db is truncated: … bytes instead of …; restore a copy of it"),
        ),
        Row(
            what="a log with other bytes in its middle",
            happens=spoiled(overwritten),
            code=2,
            type="log_unusable",
            says=error("…log.db is not a log or is damaged (…); restore a copy of it, or choose another file"),
        ),
        Row(
            what="a log of a newer version",
            happens=spoiled(of_the_future),
            code=2,
            type="log_too_new",
            says=error("…log.db has format …, newer than …; upgrade to read it"),
        ),
        Row(
            what="a log that another process writes",
            happens=locked,
            code=2,
            type="log_locked",
            says=error(
                "…log.db is being written by process …; close it there, open a copy, or share it: `reenact serve` and "
                "Runtime.connect"
            ),
        ),
        Row(
            what="a log that may not be read",
            happens=sealed(0o000),
            code=2,
            type="log_unusable",
            says=error("…log.db cannot be opened here: Permission denied; choose another place"),
        ),
        Row(
            what="a log that may not be written",
            happens=sealed(0o400),
            code=2,
            type="log_unusable",
            says=error("…log.db cannot be opened here (…); check that file and directory are writable"),
        ),
        Row(
            what="a directory in which a log must not be created",
            happens=sealed(0o500, directory=True),
            code=2,
            type="log_unusable",
            says=error("…new.db cannot be opened here: Permission denied; choose another place"),
        ),
        Row(
            what="a disk that is full from the beginning",
            happens=full,
            code=1,
            type="storage_full",
            says=error("no space is left for …log.db; free some and try again"),
        ),
        Row(
            what="a disk, or a quota, that has no room for the answer",
            happens=filling,
            code=1,
            type="storage_error",
            says=error(
                "the log could not be written; the rest of the answer is lost",
                "check whether the disk that the log is on is full or failing",
            ),
            out="…",
            asked=True,
        ),
    ),
)

PLACES = Section(
    "Directories",
    (
        Row(
            what="a working directory that is gone",
            happens=lambda stage: Call(before=("nowhere",)),
            code=0,
            out=HELLO,
            asked=True,
        ),
        Row(
            what="a home directory that cannot be written",
            happens=asks(HOME="/dev/null"),
            code=2,
            type="invalid_configuration",
            says=error("/dev/null/.local/share/reenact cannot be made (Not a directory); name a log with --db"),
        ),
        Row(
            what="no `HOME`, and the system knows none either",
            happens=lambda stage: Call(unset=("HOME",), before=("homeless",)),
            code=2,
            type="invalid_configuration",
            says=error("/dev/null/home/.local/share/reenact cannot be made (Not a directory); name a log with --db"),
        ),
        Row(
            what="no `HOME`, but `--db` names a log",
            happens=lambda stage: Call(arguments=("-p", "Hello", *DB), unset=("HOME",), before=("homeless",)),
            code=0,
            out=HELLO,
            asked=True,
        ),
    ),
)
SECTIONS = (LOG, PLACES)
