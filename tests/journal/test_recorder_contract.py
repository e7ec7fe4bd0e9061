"""The recorders keep the promises that the `eventsourcing` library tests its own recorders for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import TestCase
from uuid import UUID, uuid4

from eventsourcing.persistence import InfrastructureFactory
from eventsourcing.tests.persistence import (
    AggregateRecorderTestCase,
    ApplicationRecorderTestCase,
    InfrastructureFactoryTestCase,
    NonInterleavingNotificationIDsBaseCase,
    ProcessRecorderTestCase,
    TrackingRecorderTestCase,
)
from eventsourcing.utils import Environment

from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.recorder import (
    IdType,
    JournalAggregateRecorder,
    JournalApplicationRecorder,
    JournalFactory,
    JournalProcessRecorder,
    JournalTrackingRecorder,
)
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify


class _OnALog(TestCase):
    """Opens a log for each test, and finds its chain whole afterwards."""

    id_type: IdType = "uuid"

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = Path(directory.name, "log.db")
        self.addCleanup(self.assert_whole, path)
        self.journal = SqliteJournal.open(path, EventCodec(()), synchronous="NORMAL")
        self.addCleanup(self.journal.close)

    def assert_whole(self, path: Path) -> None:
        assert verify(path) == []

    def new_originator_id(self) -> UUID | str:
        return uuid4() if self.id_type == "uuid" else f"stream-{uuid4()}"


class TestAggregateRecorder(_OnALog, AggregateRecorderTestCase):
    def create_recorder(self) -> JournalAggregateRecorder:
        return JournalAggregateRecorder(self.journal, id_type=self.id_type)


class TestAggregateRecorderWithTextIds(TestAggregateRecorder):
    id_type: IdType = "text"


class TestAggregateRecorderThatBeginsAtZero(TestAggregateRecorder):
    INITIAL_VERSION = 0


class TestSnapshotRecorder(TestAggregateRecorder):
    def create_recorder(self) -> JournalAggregateRecorder:
        return JournalAggregateRecorder(self.journal, id_type=self.id_type, purpose="snapshots")


class TestApplicationRecorder(_OnALog, ApplicationRecorderTestCase[JournalApplicationRecorder]):
    def create_recorder(self) -> JournalApplicationRecorder:
        return JournalApplicationRecorder(self.journal, id_type=self.id_type)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderWithTextIds(TestApplicationRecorder):
    id_type: IdType = "text"


class TestTrackingRecorder(_OnALog, TrackingRecorderTestCase):
    def create_recorder(self) -> JournalTrackingRecorder:
        return JournalTrackingRecorder(self.journal, id_type=self.id_type)


class TestProcessRecorder(_OnALog, ProcessRecorderTestCase):
    def create_recorder(self) -> JournalProcessRecorder:
        return JournalProcessRecorder(self.journal, id_type=self.id_type)


class TestProcessRecorderWithTextIds(TestProcessRecorder):
    id_type: IdType = "text"


class TestNonInterleavingNotificationIDs(_OnALog, NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> JournalApplicationRecorder:
        return JournalApplicationRecorder(self.journal, id_type=self.id_type)


class OtherTrackingRecorder(JournalTrackingRecorder):
    """Named by its topic in the environment."""


class TestFactory(InfrastructureFactoryTestCase[JournalFactory]):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.env = Environment(
            env={
                InfrastructureFactory.PERSISTENCE_MODULE: "reenact.actors.journal.recorder",
                JournalFactory.SQLITE_DBNAME: str(Path(directory.name, "log.db")),
            }
        )
        super().setUp()

    def expected_factory_class(self) -> type[JournalFactory]:
        return JournalFactory

    def expected_aggregate_recorder_class(self) -> type[JournalAggregateRecorder]:
        return JournalAggregateRecorder

    def expected_application_recorder_class(self) -> type[JournalApplicationRecorder]:
        return JournalApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[JournalTrackingRecorder]:
        return JournalTrackingRecorder

    def tracking_recorder_subclass(self) -> type[JournalTrackingRecorder]:
        return OtherTrackingRecorder

    def expected_process_recorder_class(self) -> type[JournalProcessRecorder]:
        return JournalProcessRecorder


del AggregateRecorderTestCase, ApplicationRecorderTestCase, InfrastructureFactoryTestCase
del NonInterleavingNotificationIDsBaseCase, ProcessRecorderTestCase, TrackingRecorderTestCase
