"""The runtime on PostgreSQL: what opens, who may write, and a server that is not there or lets nobody in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from reenact import (
    AsyncRuntime,
    Image,
    LogAccessError,
    LogUnreachableError,
    LogUnusableError,
    Runtime,
)
from reenact.testing import MockEnvironmentFactory
from tests.journal.server import Server, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for these tests, on which the user `guarded` has a password."""
    runtime = tmp_path_factory.getbasetemp().parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with running_server(runtime) as server:
        ask_for_password(server, "guarded", "secret")
        server.execute("CREATE ROLE powerless LOGIN")
        yield server


def ask_for_password(server: Server, user: str, password: str) -> None:
    """Have the server ask this user for a password."""
    host = str(conninfo_to_dict(server.url)["host"])
    rules = Path(host, "pg_hba.conf")
    rules.write_text(f"local all {user} scram-sha-256\n{rules.read_text()}")
    server.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
    server.stop()  # to ask it to read its rules again returns before it has
    server.start()


def at(server: Server, user: str, password: str, schema: str = "reenact") -> str:
    """Return the URL of a log as this user opens it."""
    host = str(conninfo_to_dict(server.url)["host"])
    return f"postgresql://{user}:{password}@/postgres?host={host}&schema={schema}"


def open_on(url: str) -> Runtime:
    return Runtime.open(url, environment=MockEnvironmentFactory(delays=False), default_image=Image(id="i"))


def test_what_was_said_is_there_when_it_is_opened_again(server: Server) -> None:
    url = server.new_log()
    with open_on(url) as runtime:
        session = runtime.ask("Hello").session_id
        messages = runtime.sessions.messages(session)

    async def read() -> object:
        async with AsyncRuntime.open(url, environment=MockEnvironmentFactory(delays=False)) as again:
            return await again.sessions.messages(session)

    assert len(messages) == 2
    assert asyncio.run(read()) == messages


@pytest.mark.parametrize("password", ["sesame", ""])
def test_a_wrong_password_is_a_refusal_that_does_not_show_it(server: Server, password: str) -> None:
    with pytest.raises(LogAccessError, match=r"postgresql://guarded@.* lets nobody in") as refused:
        Runtime.open(at(server, "guarded", password))

    assert "sesame" not in str(refused.value)


def test_a_server_that_is_not_there_is_out_of_reach() -> None:
    with pytest.raises(LogUnreachableError, match=r"postgresql://me@127\.0\.0\.1:1/base cannot be reached") as lost:
        Runtime.open("postgresql://me:secret@127.0.0.1:1/base")

    assert "secret" not in str(lost.value)


def test_missing_rights_are_named(server: Server) -> None:
    with pytest.raises(LogUnusableError, match="permission denied"):
        Runtime.open(at(server, "powerless", "", "new"))


def test_the_schema_of_something_else_is_left_as_it_is(server: Server) -> None:
    server.execute("CREATE SCHEMA shop CREATE TABLE log (item text)")

    with pytest.raises(LogUnusableError, match="'shop' is that of something else"):
        Runtime.open(f"{server.url}&schema=shop")

    with psycopg.connect(server.url) as connection:
        relations = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'shop'::regnamespace")
        assert relations.fetchall() == [("log",)]
