"""Where a log is, in a user's words."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from reenact._location import location_of
from reenact.actors.journal.api import Journal, Publication, Synchronous
from reenact.actors.journal.opening import file_of, is_postgres, open_journal, private_directory, without_password
from reenact.actors.journal.postgres.journal import PostgresJournal
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from reenact.domain.errors import ConfigurationError, LogUnusableError
from tests.journal.server import Server
from tests.journal.support import CODEC, Added, Log, commit, said, step


def _used(journal: Journal) -> None:
    try:
        commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
    finally:
        journal.close()


@pytest.mark.parametrize("make", [str, Path, "sqlite:///{}".format], ids=["text", "path", "URL"])
def test_a_file_is_opened_by_its_path_or_its_url(path: Path, make: type[str]) -> None:
    heard: list[Publication] = []

    _used(open_journal(make(path), CODEC, listener=heard.extend))

    with SqliteJournal.open(path, CODEC, read_only=True) as reader:
        assert reader.head() == 1
    assert heard == [Publication("s1", 1, said("a"))]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_database_is_opened_by_its_url(server: Server, scheme: str) -> None:
    url = server.new_log().replace("postgresql", scheme, 1)
    heard: list[Publication] = []

    journal = open_journal(url, CODEC, listener=heard.extend, synchronous="NORMAL")
    assert isinstance(journal, PostgresJournal)
    _used(journal)

    with Log(url).open(read_only=True) as reader:
        assert reader.head() == 1
    assert heard == [Publication("s1", 1, said("a"))]


@pytest.mark.parametrize("url", ["", ":memory:", "sqlite:///", "sqlite:///:memory:", "mysql://host/db", "sqlite://x"])
def test_what_is_no_log_is_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"give one|needs a file"):
        open_journal(url, CODEC)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("in_use", [False, True])
def test_nothing_is_left_beside_the_database_of_something_else(
    path: Path, mode: str, *, read_only: bool, in_use: bool
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE notes (text)")
        if not in_use:
            connection.close()
        before = set(path.parent.iterdir())

        with pytest.raises(LogUnusableError, match="the database of something else"):
            open_journal(path, CODEC, read_only=read_only)
        with pytest.raises(LogUnusableError, match="the database of something else"):
            location_of(path).lock_streams()

        assert set(path.parent.iterdir()) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_pipe_in_the_place_of_a_log_is_refused_at_once(path: Path, *, read_only: bool) -> None:
    os.mkfifo(path)

    with pytest.raises(LogUnusableError, match="is a pipe, which keeps nothing; choose a file"):
        open_journal(path, CODEC, read_only=read_only)
    with pytest.raises(LogUnusableError, match="is a pipe, which keeps nothing; choose a file"):
        verify(path)

    assert list(path.parent.iterdir()) == [path]


def test_a_device_in_the_place_of_a_log_is_refused() -> None:
    with pytest.raises(LogUnusableError, match="is a device, which keeps nothing; choose a file"):
        open_journal("/dev/null", CODEC)

    assert not Path("/dev/null.lock").exists()


def test_a_database_is_no_file() -> None:
    with pytest.raises(ConfigurationError, match="names no file"):
        file_of("postgresql://host/db")


def test_a_durability_that_there_is_not_is_refused(path: Path) -> None:
    sometimes: Synchronous = "SOMETIMES"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType] - the point

    with pytest.raises(ConfigurationError, match="SOMETIMES"):
        open_journal(path, CODEC, synchronous=sometimes)

    assert not path.exists()


@pytest.mark.parametrize(
    ("url", "file"),
    [("log.db", "log.db"), ("sqlite:///log.db", "log.db"), ("sqlite:////tmp/log.db", "/tmp/log.db")],  # noqa: S108
)
def test_a_url_names_a_file_as_sqlalchemy_has_it(url: str, file: str) -> None:
    assert file_of(url) == file
    assert not is_postgres(url)


def test_a_private_directory_is_gone_in_the_end_with_all_that_is_in_it() -> None:
    with ExitStack() as undo:
        directory = private_directory(undo)
        (directory / "log.db").write_text("x")
        assert directory.stat().st_mode & 0o777 == 0o700

    assert not directory.exists()


WITHOUT_DRIVER = """
import sys
from pathlib import Path

for name in ("psycopg", "psycopg_pool", "psycopg_binary"):
    sys.modules[name] = None

from reenact.actors.journal.opening import open_journal, without_password
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.verify import verify
from reenact.domain.errors import ConfigurationError

open_journal(sys.argv[1], EventCodec(())).close()
assert verify(sys.argv[1]) == []
for use in (lambda: open_journal("postgresql://host/db", EventCodec(())), lambda: verify("postgres://host/db")):
    try:
        use()
    except ConfigurationError as error:
        print(error)
"""

LOADED = """
import sys
from reenact.actors.journal.opening import open_journal, without_password
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal import recorder, verify

open_journal(sys.argv[1], EventCodec(())).close()
print([name for name in sys.modules if name.startswith("psycopg")])
"""


def _run(script: str, path: Path) -> str:
    return subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True).stdout


def test_without_the_driver_files_work_and_a_database_says_what_to_install(path: Path) -> None:
    lines = _run(WITHOUT_DRIVER, path).splitlines()

    assert len(lines) == 2
    assert all("pip install 'reenact[postgresql]'" in line for line in lines)


def test_whoever_has_a_file_loads_no_driver(path: Path) -> None:
    assert _run(LOADED, path) == "[]\n"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("logs/a:b@c.db", "logs/a:b@c.db"),
        ("postgresql://me:hush@host:1/base?schema=s", "postgresql://me@host:1/base?schema=s"),
        ("postgresql://me:hu%40sh?x@/base?sslpassword=hush&host=/run&password=hush", "postgresql://me@/base?host=/run"),
        ("postgresql://me@host", "postgresql://me@host"),
        ("postgres://host/base?password=hush", "postgres://host/base"),
    ],
)
def test_a_url_can_be_told_without_its_password(url: str, told: str) -> None:
    assert without_password(url) == told
