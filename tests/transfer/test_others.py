"""The logs of other actors travel, too, though nobody knows the types of their events."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from reenact import ActorSystem, Event, EventSourcedActor, Image, Runtime
from reenact._runtime import codec
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.recorder import JournalFactory
from reenact.actors.journal.seeking import unpack
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from reenact.audit import Audit, Redaction, export_log, import_log, open_export
from reenact.domain.chain import GENESIS, Row, header_of, part_digest, row_digest
from reenact.domain.errors import ConfigurationError, ExportUnusableError, LogUnusableError
from reenact.projections.log import Progress
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at
from tests.projections.histories import play
from tests.transfer.logs import Line, contents, forged, write


class Added(Event, frozen=True):
    amount: int
    note: str = ""


class Add(msgspec.Struct, frozen=True):
    amount: int
    note: str = ""


Total: TypeAlias = int


class Counter(EventSourcedActor[Total, Add, Added]):
    initial = 0
    events = {"added": Added}  # noqa: RUF012 - as users write it

    @staticmethod
    def decide(_total: Total, command: Add) -> tuple[Added, ...]:
        return (Added(command.amount, command.note),)

    @staticmethod
    def evolve(total: Total, event: Added) -> Total:
        return total + event.amount


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """A log of counters."""
    with ActorSystem.open(tmp_path / "counters.db", synchronous="OFF") as system:
        for amount in range(1, 4):
            system.actor(Counter, "c1").ask(Add(amount, "…"))
    return tmp_path / "counters.db"


def test_counters_go_on_where_they_were_imported(counted: Path, tmp_path: Path) -> None:
    export_log(counted, tmp_path / "a.jsonl", typed=False)
    imported = import_log(tmp_path / "a.jsonl", tmp_path / "b.db", typed=False)

    with ActorSystem.open(tmp_path / "b.db", synchronous="OFF") as system:
        system.actor(Counter, "c1").ask(Add(10))
    assert imported.events == 3
    assert verify(tmp_path / "b.db") == []
    export_log(tmp_path / "b.db", tmp_path / "b.jsonl", typed=False)
    assert contents(tmp_path / "b.jsonl")[:3] == contents(tmp_path / "a.jsonl")
    amounts = [
        msgspec.json.decode(line)["events"][0]["state"]["value"][1][0]
        for line in (tmp_path / "b.jsonl").read_bytes().splitlines()[1:-1]
    ]
    assert amounts == [1, 2, 3, 10]


def test_a_log_into_which_an_import_was_cut_short_is_not_opened(
    counted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(told: Progress) -> None:
        if told.phase == "writing":
            raise KeyboardInterrupt

    export_log(counted, tmp_path / "a.jsonl", typed=False)
    log = tmp_path / "b.db"
    with monkeypatch.context() as patch:
        patch.setattr("reenact._transfer.MOST_RECORDS", 1)
        with pytest.raises(KeyboardInterrupt):
            import_log(tmp_path / "a.jsonl", log, typed=False, progress=cut)

    with pytest.raises(LogUnusableError, match="import the same export again"):
        ActorSystem.open(log)
    with pytest.raises(LogUnusableError, match="import the same export again"):
        JournalFactory({"SQLITE_DBNAME": str(log)}).application_recorder()

    assert import_log(tmp_path / "a.jsonl", log, typed=False).rows_there == 1
    with ActorSystem.open(log) as system:
        system.register(Counter)
        assert [each.version for each in system.journal.read("Counter/c1")] == [1, 2, 3]


def test_events_that_nobody_knows_are_not_taken_for_those_of_sessions(counted: Path, tmp_path: Path) -> None:
    export_log(counted, tmp_path / "a.jsonl", typed=False)

    with pytest.raises(ExportUnusableError, match="unknown type 'added:1'"):
        import_log(tmp_path / "a.jsonl", tmp_path / "b.db")
    with pytest.raises(ExportUnusableError, match="unknown type"):
        open_export(tmp_path / "a.jsonl")
    with pytest.raises(LogUnusableError, match="unknown type"):
        export_log(counted, tmp_path / "c.jsonl")
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["a.jsonl"]


def test_sessions_are_not_imported_into_the_log_of_other_actors(counted: Path, tmp_path: Path) -> None:
    write(play([]).log, tmp_path / "sessions.db")
    export_log(tmp_path / "sessions.db", tmp_path / "a.jsonl")

    with pytest.raises(LogUnusableError, match="the log of other actors"):
        import_log(tmp_path / "a.jsonl", counted)


def test_what_needs_types_is_refused_without_them(counted: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="types of events are known"):
        export_log(counted, tmp_path / "a.jsonl", typed=False, sessions=["a"])
    with pytest.raises(ConfigurationError, match="types of events are known"):
        export_log(counted, tmp_path / "a.jsonl", typed=False, redaction=Redaction())


def test_bytes_that_no_json_says_travel_as_base64(tmp_path: Path) -> None:
    with SqliteJournal.open(tmp_path / "a.db", EventCodec(())) as journal:
        for version, state in enumerate((b"\xc1", b"\xca\x00\x00\x00\x00", b"\x82\xa1a\x01\xa1a\x02", b"\xc4\x01a"), 1):
            _take(journal, version, state)

    export_log(tmp_path / "a.db", tmp_path / "a.jsonl", typed=False)
    import_log(tmp_path / "a.jsonl", tmp_path / "b.db", typed=False)

    lines = [msgspec.json.decode(line) for line in (tmp_path / "a.jsonl").read_bytes().splitlines()]
    said = [line["events"][0]["state"]["bytes"] for line in lines[1:-1]]
    assert said == ["wQ==", "ygAAAAA=", "gqFhAaFhAg==", "xAFh"]
    assert _states(tmp_path / "b.db") == [b"\xc1", b"\xca\x00\x00\x00\x00", b"\x82\xa1a\x01\xa1a\x02", b"\xc4\x01a"]


@pytest.mark.parametrize(
    "value", [{"$time": "2026-11-21T00:00:00Z"}, {"$time": "never"}, {"$time": 1}, {"$time": None}]
)
def test_what_only_looks_like_a_time_stays_what_it_is(tmp_path: Path, value: object) -> None:
    for number, state in enumerate(([value], [value, datetime(2026, 11, 21, tzinfo=UTC)]), 1):
        log = tmp_path / f"{number}.db"
        with SqliteJournal.open(log, EventCodec(())) as journal:
            _take(journal, 1, msgspec.msgpack.encode(state))
        export_log(log, log.with_suffix(".jsonl"), typed=False)

        import_log(log.with_suffix(".jsonl"), log.with_suffix(".again.db"), typed=False)

        assert verify(log.with_suffix(".again.db")) == []


def _take(journal: SqliteJournal, version: int, state: bytes, *, topic: str = "any:1") -> None:
    end = journal.stream_end("s")
    previous = GENESIS if end is None else end[2]
    events = msgspec.msgpack.encode([(topic, state)])
    header = header_of(b"s", 0, version=version, count=1, cursor=0, heard=0)
    digest = row_digest(previous, (part_digest(None), part_digest(events), part_digest(None)), header)
    row = Row(0, "s", 0, version, 1, 1, 0, 0, None, 0, digest, None, None, None, events, None)
    journal.import_rows(rows=[row])


def _states(log: Path) -> list[bytes]:
    with SqliteJournal.open(log, EventCodec(()), read_only=True) as journal:
        rows = journal.select("SELECT events FROM steps ORDER BY number", ())
    return [state for (events,) in rows for _, state in unpack(events)]


def test_a_session_is_exported_from_an_audit(tmp_path: Path) -> None:
    with Runtime.open(log_at(tmp_path / "a.db"), environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        container = runtime.containers.create()
        for number in range(2):
            image = runtime.images.register(Image(id=f"i{number}"))
            runtime.sessions.create(container.id, image.id, session_id=f"s{number}")

        with Audit.open(tmp_path / "a.db") as audit:
            exported = audit.export(tmp_path / "a.jsonl", sessions=["s1"], feeds=False)

    held = open_export(tmp_path / "a.jsonl")
    assert (exported.sessions, exported.events, exported.rows) == (("s1",), 3, 3)
    assert sorted(held.streams()) == [f"container/{container.id}", "image/i1", "session/s1"]
    import_log(tmp_path / "a.jsonl", tmp_path / "b.db")
    with SqliteJournal.open(tmp_path / "b.db", codec(), read_only=True) as journal:
        assert journal.read_feed("session/s1") == []


def test_an_event_of_an_older_form_travels_as_it_is(tmp_path: Path) -> None:
    shorter = msgspec.msgpack.encode((1, ["trn_1", "msg_1", [{"type": "text", "text": "Hi"}], 5]))
    with SqliteJournal.open(tmp_path / "a.db", EventCodec(())) as journal:
        _take(journal, 1, shorter, topic="message-accepted:1")
    export_log(tmp_path / "a.db", tmp_path / "a.jsonl")

    import_log(tmp_path / "a.jsonl", tmp_path / "b.db")

    def as_it_was_shown_before_there_was_the_field(lines: list[Line]) -> None:
        assert lines[1]["events"][0]["fields"].pop("request_id", "") is None

    forged(tmp_path / "a.jsonl", as_it_was_shown_before_there_was_the_field)
    import_log(tmp_path / "a.jsonl", tmp_path / "c.db")
    for name in ("b.db", "c.db"):
        assert _states(tmp_path / name) == [shorter]
