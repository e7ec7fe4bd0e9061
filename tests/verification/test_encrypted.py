"""An encrypted log is verified with its keys and without them: nothing is found in it unless it was changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reenact import ActorSystem, Event, EventSourcedActor, Image, KeyRing, Runtime
from reenact.audit import verify_log
from reenact.domain.errors import LogUnusableError
from reenact.testing import MockEnvironmentFactory
from tests.verification.forging import rewrite_feed


class Deposited(Event, frozen=True):
    amount: int


class Account(EventSourcedActor[int, int, Deposited]):
    category = "account"
    events = {"deposited": Deposited}  # noqa: RUF012 - as users write it
    initial = 0
    snapshot_every = 1

    @staticmethod
    def decide(_balance: int, amount: int) -> tuple[Deposited, ...]:
        return (Deposited(amount),)

    @staticmethod
    def evolve(balance: int, event: Deposited) -> int:
        return balance + event.amount


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing.generate(tmp_path / "ring.keys")


@pytest.fixture
def accounts(tmp_path: Path, ring: KeyRing) -> Path:
    """An encrypted log of actors with snapshots."""
    log = tmp_path / "accounts.db"
    with ActorSystem.open(log, keys=ring) as system:
        for name, amount in (("ada", 3), ("bob", 4)):
            system.actor(Account, name).ask(amount)
    return log


@pytest.fixture
def talks(tmp_path: Path, ring: KeyRing) -> Path:
    """An encrypted log of two sessions, of which one has a message to come."""
    log = tmp_path / "talks.db"
    with Runtime.open(log, environment=MockEnvironmentFactory(delays=False), keys=ring, synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        for session_id in ("a", "b"):
            runtime.sessions.create("c", "i", session_id=session_id)
            runtime.ask("Hello", session=session_id)
        runtime.agents.schedule("a", "Later", at=datetime.now(UTC) + timedelta(days=1))
    return log


def change(log: Path, statement: str) -> None:
    with closing(sqlite3.connect(log)) as connection, connection:
        connection.execute(statement)


def test_snapshots_are_compared_with_the_events_if_there_are_keys(accounts: Path, ring: KeyRing) -> None:
    for keys in (ring, None):
        assert verify_log(accounts, keys=keys, actors=[Account]).findings == ()

    change(accounts, "UPDATE stored_snapshots SET state = (SELECT max(state) FROM stored_snapshots)")
    exchanged = verify_log(accounts, keys=ring, actors=[Account]).findings
    change(accounts, "UPDATE stored_snapshots SET state = CAST(state || x'00' AS BLOB)")
    changed = verify_log(accounts, keys=ring, actors=[Account]).findings

    assert [found.kind for found in exchanged] == ["snapshot"]
    assert [(found.kind, found.problem) for found in changed] == [("snapshot", "what was encrypted was changed")] * 2


def test_a_message_to_come_is_no_finding_without_the_keys(talks: Path, ring: KeyRing) -> None:
    for keys in (ring, None):
        assert verify_log(talks, keys=keys).findings == ()

    change(talks, "UPDATE timers SET due = due + 1")

    assert [found.kind for found in verify_log(talks, keys=ring).findings] == ["timer"]


def test_a_key_that_was_destroyed_although_nothing_was_forgotten_is_found(talks: Path, ring: KeyRing) -> None:
    with Runtime.open(talks, keys=ring) as runtime:
        runtime.sessions.forget("a", by="ada")
    for keys in (ring, None):
        assert verify_log(talks, keys=keys).findings == ()

    change(talks, "UPDATE keys SET wrapped = NULL WHERE stream = 'session/b'")

    for keys in (ring, None):
        found = {finding.name: finding.problem for finding in verify_log(talks, keys=keys).findings}
        assert found["session/b"] == "its key was destroyed, and no event says that it was forgotten"


def test_something_else_in_the_place_of_a_key_is_found(talks: Path, ring: KeyRing) -> None:
    change(talks, "UPDATE keys SET wrapped = 'x' WHERE stream = 'session/b'")

    for keys in (ring, None):
        (found,) = verify_log(talks, keys=keys).findings
        assert found.name == "session/b"
        assert "another value in place of the key" in found.problem
    with pytest.raises(LogUnusableError, match="another value in place of the key"):
        Runtime.open(talks, keys=ring).close()


def test_what_subscribers_received_is_found_to_be_changed_whoever_computed_the_digests_again(
    talks: Path, ring: KeyRing
) -> None:
    with closing(sqlite3.connect(talks)) as connection, connection:
        ((number,),) = connection.execute("SELECT max(number) FROM steps WHERE stream = 'session/a'").fetchall()
        rewrite_feed(connection, "session/a", number)

    assert verify_log(talks).findings == ()  # it is as it was written, as far as anybody can tell without the keys
    (found,) = verify_log(talks, keys=ring).findings
    assert (found.name, "what was encrypted was changed" in found.problem) == ("session/a", True)
