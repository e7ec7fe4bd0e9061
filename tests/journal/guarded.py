"""Users of a server who have a password, or no rights, and their URLs of logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.journal.server import Server, running_server

SECRET = "shush"  # noqa: S105 - that of a user who is gone with the server


def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server of one's own on which some users may not do everything."""
    runtime = tmp_path_factory.getbasetemp().parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with running_server(runtime) as server:
        add_users(server)
        yield server


def add_users(server: Server) -> None:
    """Let `guarded` make schemas, with the password, and `powerless` none; the server is started anew."""
    rules = Path(_host(server), "pg_hba.conf")
    rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
    server.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'")
    server.execute("GRANT CREATE ON DATABASE postgres TO guarded")
    server.execute("CREATE ROLE powerless LOGIN")
    server.stop()  # whoever asks it to read its rules again is not told when it has
    server.start()


def url_of(server: Server, user: str, password: str, schema: str) -> str:
    """Return the URL of a log as this user opens it."""
    return f"postgresql://{user}:{password}@/postgres?host={_host(server)}&schema={schema}"


def _host(server: Server) -> str:
    return str(conninfo_to_dict(server.url)["host"])
