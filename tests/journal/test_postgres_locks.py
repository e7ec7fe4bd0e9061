"""Who may write a log on a server: alone, beside others, and what becomes of it when the locks are lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator

import psycopg
import pytest

from reenact.actors.journal.api import Committed
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.lock import Owner
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.journal import PostgresJournal
from reenact.actors.journal.postgres.locks import PostgresLocks, _key_of, writer_of
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import LogLockedError, LogUnusableError, RuntimeClosedError, StorageError
from tests.journal.server import Server
from tests.journal.support import CODEC, Added, Cleared, Log, commit, said, settle, step, words_of
from tests.journal.test_lock import another_writer

_LOCKS = "FROM pg_stat_activity WHERE application_name LIKE 'reenact %@%'"


@pytest.fixture
def log(server: Server) -> Log:
    return Log(server.new_log())


@pytest.fixture
def sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes what was lost again before something is to be appended."""
    monkeypatch.setattr("reenact.actors.journal.postgres.locks._FIRST_PAUSE", 3600.0)


def lose_locks(server: Server) -> None:
    """End the connections that hold locks."""
    server.execute(f"SELECT pg_terminate_backend(pid, 10000) {_LOCKS}")


# The log


def test_a_second_process_is_told_who_writes_the_log(log: Log) -> None:
    with another_writer(log) as owner:
        for shared in (False, True):
            with pytest.raises(LogLockedError, match=f"process {owner.pid};") as caught:
                log.open(shared=shared)
            assert (caught.value.path, caught.value.pid, caught.value.host) == (
                address_of(log.url).name,
                owner.pid,
                None,
            )


def test_a_journal_has_the_log_for_itself_unless_it_shares_it(log: Log) -> None:
    with PostgresJournal.open(log.url, CODEC) as alone:
        for shared in (False, True, None):
            with pytest.raises(LogLockedError) as caught:
                log.open(shared=shared)
            assert caught.value.pid == os.getpid()
        commit(alone, step("s1", 0, Added(1)))

    with log.open(shared=True) as first, log.open() as second:
        with pytest.raises(LogLockedError):
            PostgresJournal.open(log.url, CODEC)
        commit(first, step("s1", 1, Added(2)))
        commit(second, step("s1", 2, Added(3)))


def test_whoever_writes_a_log_can_be_seen_from_outside(log: Log) -> None:
    assert writer_of(log.url) is None
    for shared in (False, True):
        with log.open(shared=shared):
            assert writer_of(log.url) == Owner(os.getpid())


def test_an_owner_on_another_machine_is_told_by_its_name(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = iter(["elsewhere", "here", "here"])
    monkeypatch.setattr("reenact.actors.journal.postgres.locks._host", lambda: next(hosts))

    with (
        log.open(shared=False),
        pytest.raises(LogLockedError, match=f"process {os.getpid()} on elsewhere;") as caught,
    ):
        log.open(shared=False)

    assert caught.value.host == "elsewhere"


def test_an_owner_that_is_no_journal_is_told_by_what_it_calls_itself(log: Log, server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True, application_name="maintenance") as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_key_of(address_of(log.url), "writer"),))

        with pytest.raises(LogLockedError, match="another process on maintenance;") as caught:
            log.open()

    assert caught.value.pid is None


def test_a_log_that_cannot_be_opened_is_not_left_locked(log: Log, server: Server) -> None:
    schema = address_of(log.url).schema
    server.execute(f"CREATE SCHEMA {schema} CREATE TABLE notes (text text)")
    with pytest.raises(LogUnusableError):
        log.open(shared=False)
    server.execute(f"DROP TABLE {schema}.notes")

    log.open(shared=False).close()


def test_a_closed_table_refuses_a_log_that_others_have_begun(log: Log) -> None:
    known = EventCodec([StoredForm("cleared", Cleared)])
    log.open(known, closed=True).close()
    with log.open(closed=True) as journal:
        commit(journal, step("s1", 0, Added(1)))

    with pytest.raises(LogUnusableError, match="begins with an event of type 'added:1'"):
        log.open(known, closed=True, shared=False)
    log.open(closed=True, shared=False).close()
    log.open(known, shared=False).close()


# A lock that is lost


def test_locks_that_are_lost_are_taken_again_at_once(log: Log, server: Server) -> None:
    with log.open(shared=False) as journal:
        commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
        lose_locks(server)
        commit(journal, step("s1", 1, Added(2), kept=[said("b")]))

        with pytest.raises(LogLockedError):
            log.open(shared=False)
        lose_locks(server)
        server.wait_for_none(f"SELECT 1 WHERE NOT EXISTS (SELECT 1 {_LOCKS})")
        commit(journal, step("s1", None, kept=[said("c")]))
    assert log.verify() == []


@pytest.mark.usefixtures("sleepy")
def test_whoever_has_lost_the_log_to_another_appends_nothing_until_it_has_it_again(log: Log, server: Server) -> None:
    with log.open(shared=False) as journal:
        commit(journal, step("s1", 0, Added(1)), step("s2", 0, Added(2)))
        lose_locks(server)
        with log.open(shared=False) as other:
            for _ in range(2):
                (refused,) = settle(journal, step("s1", None, kept=[said("a")]))
                assert isinstance(refused, LogLockedError)
                assert refused.pid == os.getpid()
            commit(other, step("s1", 1, Added(3)))

        # Whoever goes on as if nothing had happened is refused, also where the other one did nothing.
        journal.recover("s1")
        stale, fresh = settle(journal, step("s2", None, kept=[said("b")]), step("s1", 2, Added(4)))

        assert isinstance(stale, StorageError)
        assert "may have written" in str(stale)
        assert fresh == Committed(3, 4)
        assert [each.event for each in journal.recover("s2")] == [Added(2)]
        commit(journal, step("s2", None, kept=[said("c")]))
        (unheard,) = settle(journal, step("s3", None, kept=[said("d")]))
        assert isinstance(unheard, StorageError)
        assert words_of(journal, "s2") == {1: "c"}
    assert log.verify() == []


@pytest.mark.usefixtures("sleepy")
def test_a_log_that_another_had_and_did_not_write_is_as_it_was(log: Log, server: Server) -> None:
    for appends in (False, True):
        with log.open(shared=False) as journal:
            if appends:
                commit(journal, step("s1", 0, Added(1)))
            lose_locks(server)
            with log.open(shared=False) as other:
                assert other.head() == int(appends)

            commit(journal, step("s1", None, kept=[said("a")]))


def test_an_append_that_finds_the_locks_gone_is_refused_by_the_server(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(_locks: PostgresLocks) -> tuple[int, int]:
        return 12345, 0

    with log.open(shared=False) as journal:
        commit(journal, step("s1", 0, Added(1)))
        with monkeypatch.context() as patch:
            patch.setattr(PostgresLocks, "hold", held)
            refused, behind = settle(journal, step("s1", 1, Added(2)), step("s1", 2, Added(3)))
        assert isinstance(refused, StorageError)
        assert "the locks were lost" in str(refused)
        assert isinstance(behind, StorageError)
        assert len(journal.recover("s1")) == 1

        holds = iter([(12345, 0)])
        hold = PostgresLocks.hold

        def held_once(locks: PostgresLocks) -> tuple[int, int]:
            return next(holds, None) or hold(locks)

        with monkeypatch.context() as patch:
            patch.setattr(PostgresLocks, "hold", held_once)
            commit(journal, step("s1", 1, Added(4)))


# Streams


@pytest.fixture
def locks(log: Log) -> Generator[PostgresLocks]:
    locks = PostgresLocks.share(log.url)
    yield locks
    locks.close()


@pytest.fixture
def theirs(log: Log, journal: StoredJournal) -> Generator[PostgresLocks]:
    """The locks of another process."""
    assert journal.head() == 0
    locks = PostgresLocks.share(log.url)
    yield locks
    locks.close()


@pytest.fixture
def journal(log: Log, locks: PostgresLocks) -> Generator[StoredJournal]:
    with locks.opening(), log.open(shared=True, locks=locks) as journal:
        yield journal


def test_a_stream_has_one_owner_at_a_time(locks: PostgresLocks, theirs: PostgresLocks) -> None:
    assert locks.claim("s1")
    assert locks.claim("s1")
    assert theirs.claim("s2")

    assert not theirs.claim("s1")
    assert theirs.owner_of("s1") == Owner(os.getpid())
    assert (locks.owner_of("s1"), locks.owner_of("s2"), theirs.owner_of("s3")) == (None, Owner(os.getpid()), None)

    locks.release("s1")
    locks.release("s1")
    assert theirs.owner_of("s1") is None
    assert theirs.claim("s1")
    theirs.close()
    theirs.close()
    assert locks.claim("s1")
    with pytest.raises(RuntimeClosedError):
        theirs.claim("s3")


def test_one_process_at_a_time_opens_the_log(log: Log) -> None:
    entered, order = threading.Event(), list[str]()
    first, second = PostgresLocks.share(log.url), PostgresLocks.share(log.url)

    def enter() -> None:
        entered.set()
        with second.opening():
            order.append("second")

    thread = threading.Thread(target=enter)
    with first.opening():
        thread.start()
        assert entered.wait(60)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    first.close()
    second.close()


@pytest.mark.usefixtures("sleepy")
def test_streams_that_are_lost_are_written_by_whoever_claims_them_next(
    locks: PostgresLocks, theirs: PostgresLocks, journal: StoredJournal, log: Log, server: Server
) -> None:
    assert locks.claim("s1")
    commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
    lose_locks(server)
    with log.open(locks=theirs) as other:
        assert theirs.claim("s1")
        commit(other, step("s1", 1, Added(2), kept=[said("b")]))

        (late,) = settle(journal, step("s1", None, kept=[said("late")]))

        assert isinstance(late, StorageError)
        assert "may have written" in str(late)
        assert not locks.claim("s1")
        theirs.release("s1")
        assert locks.claim("s1")
        assert [each.event for each in journal.recover("s1")] == [Added(1), Added(2)]
        commit(journal, step("s1", 2, Added(3), kept=[said("c")]))
        assert words_of(journal, "s1") == {1: "a", 2: "b", 3: "c"}


@pytest.mark.usefixtures("sleepy")
def test_whoever_shares_and_has_no_stream_loses_nothing_with_the_locks(log: Log, server: Server) -> None:
    with log.open(shared=True) as journal, log.open(shared=True) as other:
        commit(journal, step("s1", 0, Added(1)))
        commit(other, step("s1", 1, Added(2)))
        lose_locks(server)

        commit(journal, step("s1", 2, Added(3)))


@pytest.mark.usefixtures("sleepy")
def test_a_stream_is_let_go_of_when_the_connection_is_lost_meanwhile(
    locks: PostgresLocks, theirs: PostgresLocks, server: Server
) -> None:
    assert locks.claim("s1")
    assert theirs.claim("s2")
    lose_locks(server)
    locks.release("s1")
    assert theirs.claim("s1")
    assert locks.claim("s2")


def test_a_stream_that_cannot_be_claimed_for_sure_is_not_had(
    locks: PostgresLocks, theirs: PostgresLocks, journal: StoredJournal, log: Log, server: Server
) -> None:
    assert journal.head() == 0
    log.tamper("ALTER TABLE log RENAME TO elsewhere")
    with pytest.raises(LogUnusableError):
        locks.claim("s1")
    server.execute(f"ALTER TABLE {address_of(log.url).schema}.elsewhere RENAME TO log")

    assert theirs.claim("s1")
