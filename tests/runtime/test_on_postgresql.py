"""The runtime on PostgreSQL: what opens, who may write, and a server that is not there or lets nobody in."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select

from reenact import (
    AsyncRuntime,
    ConfigurationError,
    Image,
    LogAccessError,
    LogLockedError,
    LogUnreachableError,
    LogUnusableError,
    Runtime,
    StorageError,
)
from reenact._runtime import SharedRuntime
from reenact.audit import Audit, import_log, verify_log
from reenact.domain.errors import SessionLockedError
from reenact.testing import MockEnvironmentFactory
from reenact.testing.clock import wait_until
from tests.journal.guarded import guarded_server, url_of
from tests.journal.server import Server
from tests.runtime.conftest import furnish
from tests.runtime.families import factory, send
from tests.runtime.families import furnish as furnish_families
from tests.runtime.gated import GatedFactory
from tests.runtime.test_projections import Spoken
from tests.runtime.witness import Ears


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for these tests, on which some users may not do everything."""
    yield from guarded_server(tmp_path_factory)


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


@pytest.mark.parametrize("schema", ["a_name_of_one_and_twenty", "a_own"])
def test_a_schema_beside_which_no_tables_can_be_kept_gets_no_log(server: Server, schema: str) -> None:
    url = f"{server.url}&schema={schema}"

    with pytest.raises(ConfigurationError, match="the schema of"):
        open_on(url)

    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall() == []


def test_projections_of_one_s_own_are_in_the_same_database(server: Server, tmp_path: Path) -> None:
    url = server.new_log()
    mock = MockEnvironmentFactory(delays=False)
    with Runtime.open(url, environment=mock, default_image=Image(id="i"), projections=[Spoken()]) as runtime:
        session = runtime.ask("Hello").session_id
        runtime.projections.rebuild(Spoken)
        runtime.projections.wait_for(timeout=60)
        assert [one.name for one in runtime.projections.status()] == ["reenact", "spoken"]
        with runtime.projections.read(Spoken) as connection:
            asked = connection.execute(select(Spoken.spoken)).all()

    assert [row[0] for row in asked] == [f"session/{session}"]
    assert list(tmp_path.iterdir()) == []


def test_an_audit_reads_it_while_it_is_written(server: Server, tmp_path: Path) -> None:
    url = server.new_log()
    with open_on(url) as runtime:
        session = runtime.ask("Hello").session_id
        with Audit.open(url) as audit:
            positions = [entry.position for entry in audit.entries()]
            assert positions == list(range(1, len(positions) + 1))
            assert audit.why(3).text()
            assert "Hello from mock!" in audit.show(session).text()
            assert audit.at(session).session.id == session
            assert [one.divergence for one in audit.replay(session)] == [None]
            audit.checkpoint(tmp_path / "checkpoint")
            verdict = audit.verify(tmp_path / "checkpoint")
            assert (verdict.findings, verdict.read_model) == ((), "agrees")
            exported = audit.export(tmp_path / "log.jsonl")
    copy = server.new_log()
    assert import_log(tmp_path / "log.jsonl", copy).events == exported.events
    with open_on(copy) as runtime:
        assert len(runtime.sessions.messages(session)) == 2


@pytest.mark.parametrize("password", ["sesame", ""])
def test_a_wrong_password_is_a_refusal_that_does_not_show_it(server: Server, password: str) -> None:
    with pytest.raises(LogAccessError, match=r"postgresql://guarded@.* lets nobody in") as refused:
        Runtime.open(url_of(server, "guarded", password, "new"))

    assert "sesame" not in str(refused.value)


def test_a_server_that_is_not_there_is_out_of_reach() -> None:
    with pytest.raises(LogUnreachableError, match=r"postgresql://me@127\.0\.0\.1:1/base cannot be reached") as lost:
        Runtime.open("postgresql://me:secret@127.0.0.1:1/base")

    assert "secret" not in str(lost.value)


def test_missing_rights_are_named(server: Server) -> None:
    with pytest.raises(LogUnusableError, match="permission denied"):
        Runtime.open(url_of(server, "powerless", "", "new"))


def test_the_schema_of_something_else_is_left_as_it_is(server: Server) -> None:
    server.execute("CREATE SCHEMA shop CREATE TABLE log (item text)")

    with pytest.raises(LogUnusableError, match="'shop' is that of something else"):
        Runtime.open(f"{server.url}&schema=shop")

    with psycopg.connect(server.url) as connection:
        relations = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'shop'::regnamespace")
        assert relations.fetchall() == [("log",)]


def test_a_log_that_can_only_be_read_is_not_opened_to_be_written(server: Server) -> None:
    url = server.new_log()
    with open_on(url) as runtime:
        runtime.ask("Hello")

    with pytest.raises(LogUnusableError, match="can only be read here"):
        Runtime.open(f"{url}&options=-c%20default_transaction_read_only%3Don")


@pytest.mark.parametrize(("first", "second"), [(open_on, SharedRuntime.open), (SharedRuntime.open, open_on)])
def test_a_chat_beside_nodes_is_told_who_writes_the_log_and_a_node_beside_chats(
    server: Server, first: Callable[[str], Runtime], second: Callable[[str], Runtime]
) -> None:
    url = server.new_log()
    with first(url):
        with pytest.raises(LogLockedError) as locked:
            second(url)
        assert (locked.value.pid, locked.value.host) == (os.getpid(), None)

    second(url).close()


def test_chats_share_a_log_and_a_session_is_open_in_one_of_them(server: Server) -> None:
    url = server.new_log()
    with SharedRuntime.open(url, environment=MockEnvironmentFactory(delays=False)) as first:
        furnish(first)
        first.sessions.create("c", "i", session_id="s")
        first.sessions.run("s")
        with SharedRuntime.open(url, environment=MockEnvironmentFactory(delays=False)) as second:
            assert second.is_open_elsewhere("s")
            with pytest.raises(SessionLockedError) as locked:
                second.sessions.run("s")
            assert locked.value.pid == os.getpid()
            second.sessions.create("c", "i", session_id="t")
            assert second.is_open_elsewhere("t") is False
            assert first.is_open_elsewhere("t") is True


def test_a_turn_outlives_a_server_that_goes_and_comes_back(server: Server) -> None:
    url, mock = server.new_log(), GatedFactory()
    mock.set_scenario("held")
    with Runtime.open(url, environment=mock, default_image=Image(id="i")) as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "i", session_id="s")
        agent = runtime.sessions.run("s")
        ears = Ears(runtime)
        turn = runtime.agents.receive(agent, "Hello")
        ears.wait("text_delta", turn_id=turn)

        server.stop()
        with pytest.raises(StorageError):
            runtime.agents.receive(agent, "Are you there?")
        mock.gate.open()
        wait_until(lambda: runtime.failure)
        assert isinstance(runtime.failure, LogUnreachableError)
        server.start()

        ears.wait("error", turn_id=turn)
        mock.set_scenario("default")
        again = runtime.agents.receive(agent, "And now?")
        ears.wait("turn_completed", turn_id=again)
        runtime.check_ready(60)
        assert [turn.outcome for turn in runtime.sessions.turns("s")] == ["failed", "completed"]
    assert verify_log(url).is_whole


def test_child_sessions_are_on_the_node_of_the_session_at_their_root(server: Server) -> None:
    url = server.new_log()
    with Runtime.open(url, environment=factory()) as one, Runtime.open(url, environment=factory()) as other:
        furnish_families(one)
        roots = [node.sessions.create("c", "agent").id for node in (one, one, other, other)]
        plan = json.dumps([[("agent", [[("agent", ["deep"])], "middle"])], "top"])

        for asked, root in zip((one, other) * 2, roots, strict=True):
            assert asked.ask(plan, session=root, timeout=60).text == "top"

        for child in one.sessions.list():
            if child.parent is not None:
                assert is_on(one, child.id) == is_on(one, child.parent.root) != is_on(other, child.id)


def test_children_of_a_branch_are_on_the_node_of_the_branch(server: Server) -> None:
    url = server.new_log()
    with (
        Runtime.open(url, environment=factory(), tools=[send]) as one,
        Runtime.open(url, environment=factory(), tools=[send]) as other,
    ):
        furnish_families(one)
        root, branch = (next(id_ for id_ in map(str, count()) if is_on(node, id_)) for node in (one, other))
        one.sessions.create("c", "agent", session_id=root)
        plan = json.dumps([[("agent", [[("send", {"to": "ann"})], "sent"])], "top"])
        assert one.ask(plan, session=root, timeout=60).outcome == "waiting"

        one.sessions.branch(root, new_session_id=branch)
        (child,) = one.sessions.list(parent=branch)
        assert is_on(other, child.id)
        one.agents.approve("c00", session_id=child.id)

        wait_until(lambda: one.sessions.messages(branch)[-1].text == "top", what="the answer in the branch")
        assert [call.session_id for call in other.agents.pending()] == [one.sessions.list(parent=root)[0].id]
    assert verify_log(url).is_whole


def is_on(node: Runtime, session_id: str) -> bool:
    """Return whether the session is on the node."""
    nodes = node._ports.nodes
    assert nodes is not None
    return nodes.may_start(f"session/{session_id}")
