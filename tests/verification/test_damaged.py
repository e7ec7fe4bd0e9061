"""Whatever stands in a log, it is said what is wrong: by findings or by an error of ours, never by a traceback."""

from __future__ import annotations

import io
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact import Retention, Runtime
from reenact._runtime import codec
from reenact.actors.feed.hub import Feed
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.audit import Audit, Filter, export_log, verify_log
from reenact.domain.errors import InvalidInputError, LogUnusableError, SessionNotFoundError, StorageError
from reenact.domain.session.state import SNAPSHOT_VERSION, SessionBranched
from reenact.testing import MockEnvironmentFactory
from tests.journal.support import repack
from tests.verification.conftest import copied
from tests.verification.damages import Damage, damages_of
from tests.verification.tampering import KEYS

EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
"""Whether every damage is done; otherwise some of them, always the same."""
SOME = 3
SESSIONS = ("a", "b", "z")


@pytest.fixture(scope="module")
def full(log: Path) -> Iterator[Path]:
    """The log, with something in every table: also deltas that were not compacted, a snapshot, a timer."""
    with copied(log) as copy:
        mock = MockEnvironmentFactory(delays=False)
        with (
            Runtime.open(copy, environment=mock, synchronous="OFF", retention=Retention(deltas=None)) as runtime,
            runtime.events.subscribe("a", "me") as heard,
        ):
            runtime.agents.receive(runtime.sessions.run("a"), "Again")
            next(event for event in heard if event.type == "turn_completed")
            runtime.sessions.branch("z", new_session_id="y")
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("INSERT INTO timers VALUES ('session/a', 17)")
            topic = f"session:{SNAPSHOT_VERSION}"
            connection.execute("INSERT INTO stored_snapshots VALUES ('session/a', 2, ?, x'80')", (topic,))
            connection.execute("INSERT INTO tracking VALUES ('reader', 3)")
        yield copy


@pytest.mark.parametrize("table", KEYS)
def test_whatever_is_damaged_all_that_reads_a_log_says_so_or_goes_on(full: Path, table: str) -> None:
    damages = [one for one in damages_of(full) if one.table == table]
    chosen = damages if EVERY else random.Random(table).sample(damages, SOME)

    done = sum(survives(full, damage) for damage in chosen)

    assert done


@pytest.mark.parametrize(
    "damage",
    [
        Damage("steps", 5, "", "removed"),
        Damage("steps", 5, "", "turn-failed"),
        Damage("steps", 5, "", "container-created"),
        Damage("steps", 5, "", "exchanged"),
        Damage("steps", 5, "stream", "no text"),
        Damage("steps", 5, "version", "no text"),
        Damage("steps", 5, "position", "the largest number"),
        Damage("steps", 5, "position", "text"),
        Damage("steps", 5, "position", "very long"),
        Damage("steps", 14, "stream", "nothing"),
        Damage("steps", 14, "count", "nothing"),
        Damage("steps", 23, "count", "very long"),
        Damage("steps", 23, "version", "very long"),
        Damage("steps", 26, "", "exchanged"),
        Damage("steps", 5, "number", "the largest number"),
        Damage("steps", 5, "count", "the largest number"),
        Damage("steps", 5, "heard", "the largest number"),
        Damage("steps", 5, "events", "another time"),
        Damage("steps", 5, "feed", "another time"),
        Damage("steps", 5, "feed", "its form alone"),
        Damage("steps", 5, "cursor", "no text"),
        Damage("consumers", 0, "cursor", "text"),
    ],
    ids=lambda damage: " ".join(filter(None, (damage.table, damage.column, damage.what))),
)
def test_what_has_failed_once(full: Path, damage: Damage) -> None:
    assert survives(full, damage)


def test_an_event_that_cannot_have_happened_is_named(full: Path) -> None:
    with copied(full) as copy:
        repack(copy, 5, lambda events: events.pop(0))  # a turn begins, and nothing waits for it
        with Audit.open(copy) as audit, pytest.raises(LogUnusableError, match="of 'session/a' cannot be read"):
            audit.show("a")


def test_the_events_of_a_session_can_be_listed_when_one_of_another_session_is_damaged(full: Path) -> None:
    wanted = Filter(session="z")
    with Audit.open(full) as audit:
        before = list(audit.entries(wanted))
    with copied(full) as copy:
        repack(copy, 5, lambda events: events.append(("turn-started:1", b"")))

        with Audit.open(copy) as audit:
            assert list(audit.entries(wanted)) == before
            with pytest.raises(LogUnusableError, match="of 'session/a'"):
                list(audit.entries(Filter(session="a")))


def test_a_branch_of_itself_is_a_finding(full: Path) -> None:
    with copied(full) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            ((events, digest),) = connection.execute(
                "SELECT events, digest FROM steps WHERE stream = 'session/z' AND version = 1"
            )
            (topic, state), *others = msgspec.msgpack.decode(events)
            at, event = msgspec.msgpack.decode(state, type=tuple[int, SessionBranched])
            itself = msgspec.structs.replace(event, origin="z", version=1, digest=digest.hex())
            connection.execute(
                "UPDATE steps SET events = ? WHERE stream = 'session/z' AND version = 1",
                (msgspec.msgpack.encode([(topic, msgspec.msgpack.encode((at, itself))), *others]),),
            )

        problems = [finding.problem for finding in verify_log(copy).findings if finding.name == "session/y"]

    assert any("branches off from version 1 of 'session/z'" in problem for problem in problems)


def survives(log: Path, damage: Damage) -> bool:
    """Read a damaged copy in every way that there is; return False if the damage changes nothing."""
    with copied(log) as copy:
        if not damage.do(copy):
            return False
        verify_log(copy).text()
        with suppress(StorageError):
            export_log(copy, io.BytesIO())
        with suppress(StorageError), Audit.open(copy) as audit:
            for ask in questions(audit):
                with suppress(
                    StorageError, InvalidInputError, SessionNotFoundError
                ):  # there may be nothing left to ask
                    ask()
        with suppress(StorageError), SqliteJournal.open(str(copy), codec(), read_only=True) as journal:
            follow(journal)
    return True


def questions(audit: Audit) -> Iterator[Callable[[], object]]:
    for session in SESSIONS:
        yield partial(told, audit.show, session)
        yield partial(told, audit.diff, session, 20, "z")
    for position in range(1, 60, 7):
        yield partial(told, audit.why, position)
    yield lambda: [msgspec.json.encode(one) for one in audit.replay()]
    yield lambda: [msgspec.json.encode(one) for one in audit.replay(policies={"add": "always"}, max_steps=1)]
    yield lambda: [msgspec.json.encode(one) for one in audit.entries(Filter(text="hello"))]
    yield lambda: list(audit.entries(Filter(session="z", lineage=True), backwards=True))


def told(ask: Callable[..., Any], *what: str | int) -> str:
    text: str = ask(*what).text()
    return text


def follow(journal: SqliteJournal) -> None:
    feed = Feed(journal, new_id="{}".format, now=lambda: 0)
    try:
        for session in SESSIONS:
            for client, after in (("me", None), (None, 0), (None, 3)):
                with (
                    suppress(StorageError, InvalidInputError, SessionNotFoundError),
                    feed.subscribe(session, client, after) as heard,
                ):
                    while heard.take(7):
                        pass
    finally:
        feed.close()
