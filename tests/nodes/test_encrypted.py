"""Nodes on one encrypted log: what they tell each other is encrypted, and each can forget what any other has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

from reenact import (
    Image,
    KeyRing,
    KeyRingError,
    LogEncryptedError,
    Runtime,
    SessionForgottenError,
    SessionInUseError,
    WrongKeyError,
)
from reenact.audit import verify_log
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.journal.server import Server
from tests.journal.test_encryption import Service

SECRET = "pineapple"  # noqa: S105 - of a story
Start: TypeAlias = Callable[..., Runtime]


@pytest.fixture
def url(server: Server) -> str:
    return server.new_log()


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing.generate(tmp_path / "ring.keys")


@pytest.fixture
def start(url: str, ring: KeyRing) -> Iterator[Start]:
    """Starts nodes, which end with the test."""
    with ExitStack() as stack:

        def start(keys: KeyRing | None = ring) -> Runtime:
            return stack.enter_context(
                Runtime.open(
                    url, environment=MockEnvironmentFactory(delays=False), default_image=Image(id="chat"), keys=keys
                )
            )

        yield start


def two(start: Start, keys: KeyRing | None = None) -> tuple[Runtime, Runtime]:
    """Return two nodes, each of which owns its share."""
    nodes = (start(), start()) if keys is None else (start(keys), start(keys))
    wait_until(lambda: all(node._node is not None and node._node.owns_share for node in nodes), what="shares")
    nodes[0].containers.create(container_id="home")
    return nodes


def session_at(node: Runtime) -> str:
    """Return a new session that the node owns."""
    assert node._node is not None
    id_ = next(id_ for number in count() if node._node.region.may_start(f"session/{(id_ := f's-{number}')}"))
    return node.sessions.create("home", "chat", session_id=id_).id


def hears_only(node: Runtime, session_id: str, type_: str) -> bool:
    """Say whether all that is heard of the session at the node is one event, of the type."""
    return [event.type for event in node.events.stream(session_id)] == [type_]


def told(server: Server, url: str) -> Callable[[], list[bytes]]:
    """Have what nodes tell each other kept from now on; return what returns it."""
    schema = url.rpartition("=")[2]
    insert = f"INSERT INTO public.told_{schema} VALUES (new.body)"  # noqa: S608 - a schema of the test
    function = f"CREATE FUNCTION tell_{schema}() RETURNS trigger LANGUAGE plpgsql"
    trigger = f"CREATE TRIGGER tells AFTER INSERT ON {schema}.messages"
    server.execute(f"CREATE TABLE told_{schema} (body bytea)")
    server.execute(f"{function} AS $$ BEGIN {insert}; RETURN new; END $$")
    server.execute(f"{trigger} FOR EACH ROW EXECUTE FUNCTION tell_{schema}()")

    def bodies() -> list[bytes]:
        query = f"SELECT body FROM told_{schema}"  # noqa: S608 - likewise
        with psycopg.connect(server.url) as connection:
            return [bytes(body) for (body,) in connection.execute(query.encode())]

    return bodies


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_what_nodes_tell_each_other_is_encrypted_with_the_logs_key(
    start: Start, server: Server, url: str, ring: KeyRing, *, is_encrypted: bool
) -> None:
    keys = ring if is_encrypted else None
    nodes = start(keys), start(keys)
    bodies = told(server, url)
    wait_until(lambda: all(node._node is not None and node._node.owns_share for node in nodes), what="shares")
    here, there = nodes
    here.containers.create(container_id="home")

    here.ask(f"The {SECRET}", session=session_at(there))

    assert bodies() != []
    assert any(SECRET.encode() in body for body in bodies()) == (not is_encrypted)


def test_a_session_is_forgotten_through_a_node_that_does_not_have_it(
    start: Start, url: str, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.actors.journal.postgres.journal.AGE", 0.1)  # after which a key is looked for again
    monkeypatch.setattr("reenact.actors.feed.replay.SHARED_SECONDS", 0.1)
    here, there = two(start)
    session_id, other = session_at(there), session_at(here)
    for one in (session_id, other):
        there.ask(f"The {SECRET}", session=one)
    for node in (here, there):
        assert SECRET in node.sessions.messages(session_id)[0].text  # so that both know the key

    (forgotten,) = here.sessions.forget(session_id, by="ada", why="asked for")

    for node in (here, there):
        assert node.sessions.get(session_id) == forgotten
        with pytest.raises(SessionForgottenError):
            node.sessions.messages(session_id)
        with pytest.raises(SessionForgottenError):
            node.ask("Hello", session=session_id)
        wait_until(partial(hears_only, node, session_id, "session_deleted"), what="nothing else is heard of it")
        assert SECRET in node.sessions.messages(other)[0].text
    assert there.sessions.forget(session_id, by="bob") == []
    verdict = verify_log(url, keys=ring)
    assert (verdict.findings, verdict.read_model) == ((), "agrees")
    assert verdict.forgotten > 0


def test_a_family_on_both_nodes_is_forgotten_in_one_step(start: Start) -> None:
    here, there = two(start)
    origin = session_at(here)
    here.ask(f"The {SECRET}", session=origin)
    branches = [there.sessions.branch(origin).id for _ in range(4)]

    with pytest.raises(SessionInUseError) as refused:
        there.sessions.forget(origin, by="ada")
    forgotten = there.sessions.forget(origin, by="ada", family=True)

    assert set(refused.value.dependents) == {*branches}
    assert {one.id for one in forgotten} == {origin, *branches}
    assert all(node.sessions.get(one.id) == one for node in (here, there) for one in forgotten)


def test_a_node_needs_the_keys_of_the_log(start: Start, tmp_path: Path) -> None:
    here = start()
    here.containers.create(container_id="home")

    with pytest.raises(LogEncryptedError):
        start(None)
    with pytest.raises(WrongKeyError):
        start(KeyRing.generate(tmp_path / "other.keys"))

    there = start(KeyRing.file(tmp_path / "ring.keys"))
    assert [container.id for container in there.containers.list()] == ["home"]


def test_while_the_service_of_the_keys_is_down_nodes_go_on_with_what_they_know(start: Start) -> None:
    service = Service()
    here, there = two(start, KeyRing.custom(service.wrap, service.unwrap))
    session_id = session_at(there)
    here.ask("One", session=session_id)
    for node in (here, there):
        node.sessions.messages(session_id)  # so that either can bring up the tables

    service.is_down = True
    with pytest.raises(KeyRingError, match="nobody answers"):
        here.sessions.create("home", "chat", session_id="new")
    here.ask("Two", session=session_id)
    service.is_down = False

    here.sessions.create("home", "chat", session_id="new")
    assert [message.text for message in there.sessions.messages(session_id)][::2] == ["One", "Two"]
