"""What the recorders promise beyond the library's own tests: our events, and settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import (
    IntegrityError,
    OperationalError,
    StoredEvent,
    Tracking,
)

from reenact.actors.journal.recorder import (
    JournalAggregateRecorder,
    JournalApplicationRecorder,
    JournalFactory,
    JournalProcessRecorder,
)
from reenact.actors.journal.seeking import PAGE, Cells
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import verify
from tests.journal.support import Added, Cleared, Log, commit, step


class Counter(Aggregate):
    """A stock aggregate."""

    def __init__(self) -> None:
        self.total = 0

    @event("Added")
    def add(self, amount: int) -> None:
        self.total += amount


Environment = dict[str, str]


@pytest.fixture
def env(path: Path) -> Environment:
    return {
        "PERSISTENCE_MODULE": "reenact.actors.journal.recorder",
        "SQLITE_DBNAME": str(path),
        "IS_SNAPSHOTTING_ENABLED": "yes",
    }


def _stored(originator_id: UUID | str, version: int) -> StoredEvent:
    return StoredEvent(originator_id, version, "topic:1", b"state")


def test_an_application_of_the_library_lives_on_a_log(env: Environment, path: Path) -> None:
    application = Application[UUID](env=env)
    counter = Counter()
    counter.add(2)
    application.save(counter)
    application.take_snapshot(counter.id)
    counter.add(3)
    application.save(counter)
    application.close()

    again = Application[UUID](env=env)
    found: Counter = again.repository.get(counter.id)
    again.close()

    assert (found.total, found.version) == (5, 3)
    assert verify(path) == []


@pytest.mark.parametrize("versions", [(2,), (0, 2), (1, 3), (1, 1), (1, 0)])
def test_versions_follow_each_other(journal: StoredJournal, versions: tuple[int, ...]) -> None:
    recorder = JournalApplicationRecorder(journal)
    originator_id = uuid4()

    with pytest.raises(IntegrityError):
        recorder.insert_events([_stored(originator_id, version) for version in versions])

    assert recorder.select_events(originator_id) == []


def test_a_stream_of_the_library_and_one_of_ours_are_the_same(journal: StoredJournal) -> None:
    recorder = JournalApplicationRecorder(journal, id_type="text")
    commit(journal, step("s1", 0, Added(1)))

    with pytest.raises(IntegrityError):
        recorder.insert_events([_stored("s1", 1)])
    assert recorder.insert_events([_stored("s1", 2)]) == [2]

    commit(journal, step("s1", 2, Added(3)))


def test_streams_of_actors_have_their_names_among_the_ids_of_aggregates(journal: StoredJournal) -> None:
    recorder = JournalApplicationRecorder(journal)
    originator_id = uuid4()
    recorder.insert_events([_stored(originator_id, 1)])
    commit(journal, step("counter/a", 0, Added(1)))

    assert [each.originator_id for each in recorder.select_notifications(1, 10)] == [originator_id, "counter/a"]


def test_the_last_event_of_a_long_aggregate_is_read_without_the_first_ones(
    journal: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = JournalAggregateRecorder(journal, id_type="text")
    for version in range(1, 3 * PAGE):
        recorder.insert_events([_stored("s1", version)])
    read: list[int] = []
    select = journal.select

    def counted(query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        rows = select(query, parameters)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(journal, "select", counted)

    assert recorder.select_events("s1", desc=True, limit=1) == [_stored("s1", 3 * PAGE - 1)]
    assert recorder.select_events("s1", limit=2) == [_stored("s1", 1), _stored("s1", 2)]
    assert read == [PAGE, PAGE]


def test_snapshots_stand_at_any_version(journal: StoredJournal) -> None:
    snapshots = JournalAggregateRecorder(journal, id_type="text", purpose="snapshots")
    snapshots.insert_events([_stored("s1", 50)])
    snapshots.insert_events([_stored("s1", 10), _stored("s1", 70)])

    assert [each.originator_version for each in snapshots.select_events("s1", desc=True)] == [70, 50, 10]
    assert journal.head() == 0


def test_progress_is_recorded_with_its_events_or_not_at_all(journal: StoredJournal) -> None:
    recorder = JournalProcessRecorder(journal, id_type="text")
    recorder.insert_events([_stored("s1", 1)], tracking=Tracking("upstream", 5))

    with pytest.raises(IntegrityError):
        recorder.insert_events([_stored("s1", 1)], tracking=Tracking("upstream", 6))
    with pytest.raises(IntegrityError, match="of 'upstream', notification 5 was processed before: 5 is the last"):
        recorder.insert_events([_stored("s1", 2)], tracking=Tracking("upstream", 5))
    with pytest.raises(TypeError, match="must be a Tracking"):
        recorder.insert_events([_stored("s1", 2)], tracking=("upstream", 6))

    assert recorder.max_tracking_id("upstream") == 5
    assert recorder.max_notification_id() == 1


def test_a_subscription_sees_what_the_journal_itself_appends(journal: StoredJournal) -> None:
    recorder = JournalApplicationRecorder(journal, id_type="text")
    with recorder.subscribe(gt=0, topics=["added:1"]) as subscription:
        for version in range(5):
            commit(journal, step("s1", version * 2, Added(version), Cleared()))
            assert next(subscription).originator_version == version * 2 + 1


def test_what_the_journal_cannot_do_is_an_error_of_the_library(log: Log, journal: StoredJournal) -> None:
    recorder = JournalProcessRecorder(journal, id_type="text")
    with pytest.raises(OperationalError):
        recorder.insert_events([_stored("\ud800", 1)])
    log.tamper("DROP TABLE tracking")
    with pytest.raises(OperationalError):
        recorder.max_tracking_id("upstream")

    journal.close()

    with pytest.raises(OperationalError, match="closed"):
        recorder.insert_events([_stored("s1", 1)])
    with pytest.raises(OperationalError, match="closed"):
        recorder.select_events("s1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("SQLITE_DBNAME", ""),
        ("SQLITE_DBNAME", ":memory:"),
        ("SQLITE_DBNAME", "file:log.db"),
        ("ORIGINATOR_ID_TYPE", "integer"),
        ("SQLITE_SYNCHRONOUS", "SOMETIMES"),
    ],
)
def test_a_setting_that_cannot_work_is_named(env: Environment, key: str, value: str) -> None:
    with pytest.raises(OSError, match=key):
        JournalFactory(env | {key: value})


def test_a_factory_makes_what_it_is_asked_for(env: Environment) -> None:
    factory = JournalFactory(env | {"APPLICATION_RECORDER_TOPIC": f"{__name__}:Counter", "SQLITE_SYNCHRONOUS": "OFF"})
    try:
        with pytest.raises(OSError, match="not a subclass of JournalApplicationRecorder"):
            factory.application_recorder()
        with pytest.raises(ValueError, match="no 'dreams'"):
            factory.aggregate_recorder("dreams")
    finally:
        factory.close()
