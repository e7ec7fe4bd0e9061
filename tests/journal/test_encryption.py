"""Logs with key rings: nothing of what is recorded can be read without one, and what was forgotten with none."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from eventsourcing.cryptography import AESCipher
from eventsourcing.utils import Environment
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.journal.api import Append, Remembered, Snapshot
from reenact.actors.journal.codec import EventCodec, KeyDestroyedError, StoredForm
from reenact.actors.journal.key_ring import KeyRing, cipher_of
from reenact.actors.journal.opening import open_journal
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import (
    ConfigurationError,
    ConflictError,
    KeyRingError,
    LogEncryptedError,
    LogUnusableError,
    StorageError,
    WrongKeyError,
)
from tests.journal.server import Server
from tests.journal.support import Added, Cleared, Log, commit, said, settle, step

TALK = "session/talk"
OTHER = "session/other"
FORMS = (StoredForm("added", Added), StoredForm("cleared", Cleared))


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing.generate(tmp_path / "ring")


@contextmanager
def opened(log: Log, ring: KeyRing | None, *, read_only: bool = False) -> Generator[StoredJournal]:
    with open_journal(log.url, EventCodec(FORMS), keys=ring, read_only=read_only) as journal:
        yield journal


def words_of(journal: StoredJournal, topic: str) -> list[object]:
    rows = journal.read_feed(topic)
    return [entry.data for row in rows for segment in row.segments for entry in segment.entries]


def said_in(journal: StoredJournal, *words: str) -> None:
    commit(journal, Append(TALK, None, 1, kept=(said(*words),)))


def test_what_is_recorded_is_read_again_with_the_ring(log: Log, ring: KeyRing) -> None:
    snapshot = Snapshot(TALK, 2, "form", b"the state")
    request = Remembered("r1", b"digest of it", b"the note", 1)
    with opened(log, ring) as journal:
        commit(journal, Append(TALK, 0, 1, (Added(1), Cleared()), cause=b"because", remembered=request))
        said_in(journal, "pineapple", "melon")
        commit(journal, Append(TALK, 2, 3, (Added(3),), kept=(said("plum"),), snapshot=snapshot))
        commit(journal, Append("other/actor", 0, 1, (Added(7),)))
    with opened(log, ring, read_only=True) as journal:
        assert [row.event for row in journal.read(TALK)] == [Added(1), Cleared(), Added(3)]
        assert [row.cause for row in journal.read(TALK)] == [b"because", None, None]
        assert [row.event for row in journal.find(since=2)] == [Added(3)]
        assert [row.event for row in journal.read_all()] == [Added(1), Cleared(), Added(3), Added(7)]
        assert words_of(journal, TALK) == [{"word": word} for word in ("pineapple", "melon", "plum")]
        assert journal.snapshot(TALK) == snapshot
        assert journal.remembered("r1") == request
    assert log.verify() == []


def test_names_can_be_read_without_the_ring_and_nothing_else(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1), kept=[said("pineapple")]))
    with opened(log, None, read_only=True) as journal:
        assert journal.head() == 1
        rows = journal.select("SELECT stream, version, position FROM steps", ())
        assert rows == [(TALK, 1, 1)]
        for read in (lambda: journal.read(TALK), lambda: journal.read_feed(TALK), lambda: journal.find(since=0)):
            with pytest.raises(LogEncryptedError):
                read()
    assert log.verify() == []
    with pytest.raises(LogEncryptedError), opened(log, None):
        pass


def test_no_byte_of_what_is_recorded_stands_in_any_file(tmp_path: Path, ring: KeyRing) -> None:
    log = Log(str(tmp_path / "log.db"))
    secret = b"pineapple"
    with opened(log, ring) as journal:
        request = Remembered("r1", secret, secret, 1)
        snapshot = Snapshot(TALK, 1, "form", secret)
        first = Append(TALK, 0, 1, (Added(1),), cause=secret, remembered=request, snapshot=snapshot)
        commit(journal, first)
        said_in(journal, "pineapple", "pineapple again")
        said_in(journal, "pineapple")
        journal.replace_feed(TALK, 1, 2, [said("pineapple", "pine")])
        files = [path for path in tmp_path.iterdir() if path.name.startswith("log.db")]
        assert any(path.name.endswith("-wal") and path.stat().st_size for path in files)
        assert [path for path in files if secret in path.read_bytes()] == []
        assert words_of(journal, TALK)[:2] == [{"word": "pineapple"}, {"word": "pine"}]
    assert secret not in Path(log.url).read_bytes()
    assert log.verify() == []


def test_a_log_that_began_without_a_ring_is_encrypted_from_then_on(log: Log, ring: KeyRing) -> None:
    with log.open() as journal:
        commit(journal, step(TALK, 0, Added(1)))
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 1, Added(2)), step(OTHER, 0, Added(3)))
        assert [row.event for row in journal.read(TALK)] == [Added(1), Added(2)]
        assert not journal.is_encrypted(TALK)
        assert journal.is_encrypted(OTHER)
    assert log.verify() == []


def sealed_and_opened(log: Log, ring: KeyRing, *streams: str) -> list[bytes | None]:
    """Return what another process reads of bytes that this one has encrypted for tables, and has written nowhere."""
    with opened(log, ring) as journal:
        assert journal.codec.vault is not None
        sealed = [journal.codec.vault.seal(stream, b"pineapple") for stream in streams]
    with opened(log, ring, read_only=True) as journal:
        assert journal.codec.vault is not None
        return [journal.codec.vault.opened(one) for one in sealed]


def test_tables_are_encrypted_with_no_key_that_is_not_in_the_log(log: Log, ring: KeyRing) -> None:
    with log.open() as journal:
        commit(journal, step(TALK, 0, Added(1)))

    assert sealed_and_opened(log, ring, TALK, "image/x", OTHER) == [b"pineapple"] * 3


def test_a_key_whose_first_row_was_refused_encrypts_nothing(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal:
        (outcome,) = settle(journal, Append(TALK, 7, 1, (Added(1),)))
        assert isinstance(outcome, ConflictError)
        journal.recover(TALK)
        assert journal.codec.vault is not None
        assert journal.codec.vault.seal(TALK, b"pineapple") == b"pineapple"  # there is nothing in the log to hide
        commit(journal, step(TALK, 0, Added(1)))
        sealed = journal.codec.vault.seal(TALK, b"pineapple")
        assert b"pineapple" not in sealed
    with opened(log, ring) as journal:
        assert journal.codec.vault is not None
        assert journal.codec.vault.opened(sealed) == b"pineapple"
    assert log.verify() == []


def test_the_logs_own_key_is_there_as_soon_as_it_is_opened(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal:
        (key,) = journal.keys()
        assert (key.stream, key.wrapped is None) == ("", False)
    with opened(log, ring) as journal:
        assert journal.keys() == [key]
    with pytest.raises(LogEncryptedError), opened(log, None):
        pass


def test_the_ring_of_another_log_is_refused_at_once(log: Log, ring: KeyRing, tmp_path: Path) -> None:
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)))
    with pytest.raises(WrongKeyError), opened(log, KeyRing.generate(tmp_path / "another")):
        pass
    with opened(log, ring) as journal:
        assert [row.event for row in journal.read(TALK)] == [Added(1)]


class Service:
    """A key ring of somebody's own, which can be down."""

    def __init__(self) -> None:
        self.is_down = False
        self.wrapped = 0

    def wrap(self, key: bytes) -> bytes:
        self.wrapped += 1
        return self._turned(key)

    def unwrap(self, wrapped: bytes) -> bytes:
        return self._turned(wrapped)

    def _turned(self, key: bytes) -> bytes:
        if self.is_down:
            raise ConnectionError("nobody answers")
        return bytes(byte ^ 0x5A for byte in key)


def test_while_the_service_of_the_keys_is_down_nothing_is_lost(log: Log) -> None:
    service = Service()
    ring = KeyRing.custom(service.wrap, service.unwrap)
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)))
        service.is_down = True
        commit(journal, step(TALK, 1, Added(2)))  # its key is known
        (outcome,) = settle(journal, step(OTHER, 0, Added(1)))
        assert isinstance(outcome, KeyRingError)
        service.is_down = False
        assert journal.recover(OTHER) == []
        commit(journal, step(OTHER, 0, Added(1)))
    assert service.wrapped >= 3  # the log's, and one for each session
    with opened(log, ring, read_only=True) as journal:
        service.is_down = True
        with pytest.raises(KeyRingError, match="nobody answers"):
            journal.read(TALK)
        service.is_down = False
        assert [row.event for row in journal.read(TALK)] == [Added(1), Added(2)]
    assert log.verify() == []


def test_a_key_is_unwrapped_once_by_whoever_reads_and_writes(log: Log) -> None:
    unwrapped: list[bytes] = []
    service = Service()

    def unwrap(wrapped: bytes) -> bytes:
        unwrapped.append(wrapped)
        return service.unwrap(wrapped)

    with opened(log, KeyRing.custom(service.wrap, unwrap)) as journal:
        commit(journal, step(TALK, 0, Added(1)), step(OTHER, 0, Added(2)))
    unwrapped.clear()
    with opened(log, KeyRing.custom(service.wrap, unwrap)) as journal:
        for version in (1, 2):
            journal.read(TALK)
            commit(journal, step(TALK, version, Added(3)))
            assert journal.codec.vault is not None
            journal.codec.vault.seal(TALK, b"for a table")

    assert len(unwrapped) <= len(set(unwrapped)) + 1  # one of them was, when the log was opened


@pytest.mark.parametrize("returned", [b"too short", "no bytes"])
def test_a_ring_that_returns_no_key_is_refused(log: Log, returned: object) -> None:
    def unwrap(_: bytes) -> bytes:
        return returned  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    with opened(log, KeyRing.custom(lambda key: key, lambda key: key)) as journal:
        commit(journal, step(TALK, 0, Added(1)))
    with pytest.raises(KeyRingError), opened(log, KeyRing.custom(lambda key: key, unwrap)):
        pass


def forgotten(journal: StoredJournal, *streams: str) -> None:
    journal.forget([Append(stream, None, 9, (Cleared(),)) for stream in streams])


def test_what_was_forgotten_can_be_read_by_nobody(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal:
        snapshot = Snapshot(TALK, 1, "form", b"the state")
        request = Remembered("r1", b"digest", b"note", 1)
        commit(journal, Append(TALK, 0, 1, (Added(1),), (said("pineapple"),), (), snapshot, 5, request, b"why"))
        commit(journal, step(OTHER, 0, Added(2)))
        before = journal.select("SELECT digest FROM steps ORDER BY number", ())
        forgotten(journal, TALK)
        assert [(row.version, row.event) for row in journal.read(TALK)] == [(2, Cleared())]
        assert journal.read(TALK)[0].is_behind_forgotten
        assert journal.read_feed(TALK) == []
        assert journal.snapshot(TALK) is None
        assert journal.next_due(after=0) is None
        with pytest.raises(KeyDestroyedError):
            journal.remembered("r1")
        assert [row.event for row in journal.read(OTHER)] == [Added(2)]
        assert journal.select("SELECT digest FROM steps ORDER BY number", ())[:2] == before
    assert log.verify() == []
    with opened(log, ring, read_only=True) as journal:
        assert [row.event for row in journal.read_all()] == [Added(2), Cleared()]


def test_a_forgotten_key_is_gone_from_the_files(tmp_path: Path, ring: KeyRing) -> None:
    log = Log(str(tmp_path / "log.db"))
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)), step(OTHER, 0, Added(2)))
        wrapped = {stream: key for _, stream, key in journal.select("SELECT id, stream, wrapped FROM keys", ())}
        assert wrapped[TALK] in raw(tmp_path)
        forgotten(journal, TALK)
        assert wrapped[TALK] not in raw(tmp_path)
        assert wrapped[OTHER] in raw(tmp_path)
    assert wrapped[TALK] not in raw(tmp_path)


def test_while_somebody_reads_a_forgotten_key_waits_in_the_write_ahead_log(tmp_path: Path, ring: KeyRing) -> None:
    log = Log(str(tmp_path / "log.db"))
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)), step(OTHER, 0, Added(2)))
        (wrapped,) = (
            key for _, stream, key in journal.select("SELECT id, stream, wrapped FROM keys", ()) if stream == TALK
        )
        with closing(sqlite3.connect(log.url, isolation_level=None)) as connection:
            connection.execute("BEGIN").execute("SELECT count(*) FROM steps").fetchone()
            forgotten(journal, TALK)
            connection.execute("ROLLBACK")
        commit(journal, step(OTHER, 1, Added(3)))
        assert wrapped not in raw(tmp_path)


def raw(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir() if path.name.startswith("log.db"))


def test_a_forgotten_key_is_gone_from_the_tables_of_a_server_when_they_are_written_anew(
    server: Server, ring: KeyRing
) -> None:
    log = Log(server.new_log())
    schema = log.url.rpartition("=")[2]
    with opened(log, ring) as journal:
        for number in range(200):
            commit(journal, step(f"session/{number}", 0, Added(1)))
        commit(journal, step(TALK, 0, Added(1)), step(OTHER, 0, Added(2)))
        rows = journal.select("SELECT id, stream, wrapped FROM keys", ())
        wrapped = {stream: bytes(key) for _, stream, key in rows if isinstance(key, bytes)}
        assert tables_with(server, wrapped[TALK]) != []
        forgotten(journal, TALK)
        assert tables_with(server, wrapped[TALK]) != [], "the old version of the row"

        server.execute(f"VACUUM (FULL) {schema}.keys")

        assert tables_with(server, wrapped[TALK]) == []
        assert tables_with(server, wrapped[OTHER]) != []


def tables_with(server: Server, content: bytes) -> list[str]:
    return [name for name in server.files_with(content) if name.startswith("base/")]


def test_all_are_forgotten_together_or_none(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)), step(OTHER, 0, Added(2)))
        forgotten(journal, TALK, OTHER)
        assert [row.event for row in journal.read_all()] == [Cleared(), Cleared()]
    assert log.verify() == []


def test_if_one_cannot_be_forgotten_none_is(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)), step(OTHER, 0, Added(2)))
        with pytest.raises(StorageError):
            journal.forget([Append(TALK, None, 9, (Cleared(),)), Append(OTHER, None, 9, (object(),))])
        assert [row.event for row in journal.read_all()] == [Added(1), Added(2)]
        commit(journal, step(TALK, 1, Added(3)))
    assert log.verify() == []


def test_nothing_more_is_recorded_in_a_stream_that_was_forgotten(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)))
        forgotten(journal, TALK)
        (stale,) = settle(journal, step(TALK, 1, Added(2)))
        assert isinstance(stale, StorageError)
        journal.recover(TALK)
        for more in (step(TALK, 2, Added(2)), Append(TALK, None, 1, kept=(said("late"),))):
            (outcome,) = settle(journal, more)
            assert isinstance(outcome, StorageError)
            journal.recover(TALK)
        assert [row.event for row in journal.read(TALK)] == [Cleared()]


def test_without_a_ring_nothing_can_be_forgotten(log: Log) -> None:
    with log.open() as journal:
        commit(journal, step(TALK, 0, Added(1)))
        with pytest.raises(StorageError, match="without a key ring"):
            forgotten(journal, TALK)


def test_a_reader_that_knew_a_key_forgets_it_in_a_while(log: Log, ring: KeyRing) -> None:
    with opened(log, ring) as journal, opened(log, ring, read_only=True) as reader:
        commit(journal, step(TALK, 0, Added(1)))
        assert len(reader.read(TALK)) == 1
        forgotten(journal, TALK)
        vault = reader.codec.vault
        assert vault is not None
        vault.age = 0.0
        assert [row.event for row in reader.read(TALK)] == [Cleared()]


@pytest.mark.parametrize("column", ["events", "cause", "feed"])
def test_a_changed_byte_of_what_is_encrypted_is_named(log: Log, ring: KeyRing, column: str) -> None:
    with opened(log, ring) as journal:
        commit(journal, Append(TALK, 0, 1, (Added(1),), (said("pineapple"),), cause=b"why"))
        ((part,),) = journal.select(f"SELECT {column} FROM steps", ())  # noqa: S608 - a column of ours
    log.tamper(f"UPDATE steps SET {column} = ?", part[:-1] + bytes([part[-1] ^ 1]))  # noqa: S608 - likewise
    assert [(finding.name, finding.at) for finding in log.verify()] == [(TALK, 1)]
    with opened(log, ring, read_only=True) as journal, pytest.raises(LogUnusableError, match="was changed"):
        journal.read_feed(TALK) if column == "feed" else journal.read(TALK)


@given(st.binary(), st.binary(min_size=32, max_size=32))
def test_what_the_library_s_cipher_encrypts_is_decrypted_and_the_other_way_round(plain: bytes, key: bytes) -> None:
    ours = cipher_of(key)
    library = AESCipher(Environment("", {AESCipher.CIPHER_KEY: base64.b64encode(key).decode()}))

    assert ours.decrypt(library.encrypt(plain)) == plain
    assert library.decrypt(ours.encrypt(plain)) == plain
    sealed = ours.encrypt(plain)
    assert sealed != ours.encrypt(plain)
    for damaged in (sealed[:-1], bytes([sealed[0] ^ 1]) + sealed[1:], sealed + b"x"):
        with pytest.raises(ValueError, match="tag"):
            ours.decrypt(damaged)


# --- Key rings --------------------------------------------------------------------------------------------------------


_FORKING = """
import os, sys
from reenact.actors.journal.key_ring import cipher_of
cipher = cipher_of(bytes(32))
def draw(count):
    for _ in range(count):
        sys.stdout.buffer.write(cipher.encrypt(b"")[:12])
    sys.stdout.flush()
draw(2000)
child = os.fork()
draw(300)
if child:
    os.waitpid(child, 0)
"""


def test_no_nonce_is_used_twice_not_even_by_a_child_process() -> None:
    drawn = subprocess.run([sys.executable, "-c", _FORKING], check=True, capture_output=True).stdout
    nonces = [drawn[at : at + 12] for at in range(0, len(drawn), 12)]
    assert len(nonces) == 2600
    assert len(set(nonces)) == 2600


def test_a_ring_wraps_with_its_newest_key_and_unwraps_with_all(tmp_path: Path) -> None:
    ring = KeyRing.generate(tmp_path / "ring")
    key = bytes(range(32))
    first = ring.wrap(key)
    ring.rotate()
    second = ring.wrap(key)
    again = KeyRing.file(tmp_path / "ring")
    assert first[:8] != second[:8]
    assert again.unwrap(first) == again.unwrap(second) == key
    assert (tmp_path / "ring").stat().st_mode & 0o777 == 0o600


def test_rotating_a_ring_behind_a_link_leaves_the_link(tmp_path: Path) -> None:
    KeyRing.generate(tmp_path / "ring")
    link = tmp_path / "link"
    link.symlink_to("ring")
    ring = KeyRing.file(link)
    ring.rotate()
    assert link.is_symlink()
    assert KeyRing.file(tmp_path / "ring").unwrap(ring.wrap(bytes(32))) == bytes(32)


def test_a_ring_that_several_rotate_at_once_keeps_the_key_of_each(tmp_path: Path) -> None:
    KeyRing.generate(tmp_path / "ring")

    def rotate(_number: int) -> bytes:
        ring = KeyRing.file(tmp_path / "ring")
        ring.rotate()
        return ring.wrap(bytes(32))

    with ThreadPoolExecutor(8) as pool:
        wrapped = list(pool.map(rotate, range(80)))
    ring = KeyRing.file(tmp_path / "ring")
    assert {ring.unwrap(key) for key in wrapped} == {bytes(32)}
    assert len((tmp_path / "ring").read_text().split()) == 81


def test_a_log_is_read_with_a_ring_that_was_rotated(log: Log, tmp_path: Path) -> None:
    ring = KeyRing.generate(tmp_path / "ring")
    with opened(log, ring) as journal:
        commit(journal, step(TALK, 0, Added(1)))
    ring.rotate()
    with opened(log, KeyRing.file(tmp_path / "ring")) as journal:
        commit(journal, step(TALK, 1, Added(2)), step(OTHER, 0, Added(3)))
        assert [row.event for row in journal.read_all()] == [Added(1), Added(2), Added(3)]
    assert log.verify() == []


def test_a_log_that_is_open_is_read_with_the_key_that_another_process_has_added(log: Log, tmp_path: Path) -> None:
    ring = KeyRing.generate(tmp_path / "ring")
    KeyRing.file(tmp_path / "ring").rotate()
    with opened(log, KeyRing.file(tmp_path / "ring")) as journal:
        commit(journal, step(TALK, 0, Added(1)))
    with opened(log, ring) as journal:
        assert [row.event for row in journal.read_all()] == [Added(1)]


def test_a_ring_whose_file_is_gone_has_the_keys_that_it_had(tmp_path: Path) -> None:
    ring, stranger = KeyRing.generate(tmp_path / "ring"), KeyRing.generate(tmp_path / "stranger")
    wrapped = ring.wrap(bytes(32))
    (tmp_path / "ring").unlink()
    with pytest.raises(WrongKeyError, match="has no key"):
        ring.unwrap(stranger.wrap(bytes(32)))
    assert ring.unwrap(wrapped) == bytes(32)


def test_no_ring_takes_the_place_of_another(tmp_path: Path) -> None:
    KeyRing.generate(tmp_path / "ring")
    with pytest.raises(ConfigurationError, match="exists"):
        KeyRing.generate(tmp_path / "ring")


def _shared(path: Path) -> None:
    KeyRing.generate(path)
    path.chmod(0o640)


def _bytes(path: Path) -> None:
    path.touch(0o600)
    path.write_bytes(b"\xff\xfe")


def _short(path: Path) -> None:
    path.touch(0o600)
    path.write_text(base64.b64encode(b"short").decode())


def _empty(path: Path) -> None:
    path.touch(0o600)


def _directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [_shared, _bytes, _short, _empty, _directory])
def test_a_file_that_is_no_ring_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "ring")
    with pytest.raises(ConfigurationError, match="ring"):
        KeyRing.file(tmp_path / "ring")


def test_a_missing_ring_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"KeyRing\.generate"):
        KeyRing.file(tmp_path / "none")


def test_a_ring_may_be_in_a_variable(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))
    monkeypatch.setenv("RING", old)
    with opened(log, KeyRing.environment("RING")) as journal:
        commit(journal, step(TALK, 0, Added(1)))
    monkeypatch.setenv("RING", f"{old} {new}")
    with opened(log, KeyRing.environment("RING")) as journal:
        assert [row.event for row in journal.read(TALK)] == [Added(1)]
    monkeypatch.setenv("RING", "")
    with pytest.raises(ConfigurationError, match="RING"):
        KeyRing.environment("RING")
