"""The recorders keep the promises that the `eventsourcing` library tests its own recorders for."""

from __future__ import annotations

from pathlib import Path
from unittest import TestCase
from uuid import UUID, uuid4

import pytest
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
from tests.journal.server import Server
from tests.journal.support import Log


class _OnAFile(TestCase):
    """Opens a log for each test, and finds its chain whole afterwards."""

    id_type: IdType = "uuid"
    log: Log

    @pytest.fixture(autouse=True)
    def _given_a_log(self, tmp_path: Path) -> None:
        self.log = Log(str(tmp_path / "log.db"))

    def setUp(self) -> None:
        self.addCleanup(self.assert_whole)
        self.journal = self.log.open(EventCodec(()), synchronous="NORMAL")
        self.addCleanup(self.journal.close)

    def assert_whole(self) -> None:
        # Some of the library's tests take snapshots of what has no events.
        assert [found for found in self.log.verify() if found.kind != "snapshot"] == []

    def new_originator_id(self) -> UUID | str:
        return uuid4() if self.id_type == "uuid" else f"stream-{uuid4()}"


class TestAggregateRecorder(_OnAFile, AggregateRecorderTestCase):
    def create_recorder(self) -> JournalAggregateRecorder:
        return JournalAggregateRecorder(self.journal, id_type=self.id_type)


class TestAggregateRecorderWithTextIds(TestAggregateRecorder):
    id_type: IdType = "text"


class TestAggregateRecorderThatBeginsAtZero(TestAggregateRecorder):
    INITIAL_VERSION = 0


class TestSnapshotRecorder(TestAggregateRecorder):
    def create_recorder(self) -> JournalAggregateRecorder:
        return JournalAggregateRecorder(self.journal, id_type=self.id_type, purpose="snapshots")


class TestApplicationRecorder(_OnAFile, ApplicationRecorderTestCase[JournalApplicationRecorder]):
    def create_recorder(self) -> JournalApplicationRecorder:
        return JournalApplicationRecorder(self.journal, id_type=self.id_type)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderWithTextIds(TestApplicationRecorder):
    id_type: IdType = "text"


class TestTrackingRecorder(_OnAFile, TrackingRecorderTestCase):
    def create_recorder(self) -> JournalTrackingRecorder:
        return JournalTrackingRecorder(self.journal, id_type=self.id_type)


class TestProcessRecorder(_OnAFile, ProcessRecorderTestCase):
    def create_recorder(self) -> JournalProcessRecorder:
        return JournalProcessRecorder(self.journal, id_type=self.id_type)


class TestProcessRecorderWithTextIds(TestProcessRecorder):
    id_type: IdType = "text"


class TestNonInterleavingNotificationIDs(_OnAFile, NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> JournalApplicationRecorder:
        return JournalApplicationRecorder(self.journal, id_type=self.id_type)


class _OnAServer(_OnAFile):
    """The same on a server."""

    @pytest.fixture(autouse=True)
    def _given_a_log(self, server: Server) -> None:
        self.log = Log(server.new_log())


class TestAggregateRecorderOnAServer(_OnAServer, TestAggregateRecorder): ...


class TestAggregateRecorderWithTextIdsOnAServer(_OnAServer, TestAggregateRecorderWithTextIds): ...


class TestAggregateRecorderThatBeginsAtZeroOnAServer(_OnAServer, TestAggregateRecorderThatBeginsAtZero): ...


class TestSnapshotRecorderOnAServer(_OnAServer, TestSnapshotRecorder): ...


class TestApplicationRecorderOnAServer(_OnAServer, TestApplicationRecorder): ...


class TestApplicationRecorderWithTextIdsOnAServer(_OnAServer, TestApplicationRecorderWithTextIds): ...


class TestTrackingRecorderOnAServer(_OnAServer, TestTrackingRecorder): ...


class TestProcessRecorderOnAServer(_OnAServer, TestProcessRecorder): ...


class TestProcessRecorderWithTextIdsOnAServer(_OnAServer, TestProcessRecorderWithTextIds): ...


class TestNonInterleavingNotificationIDsOnAServer(_OnAServer, TestNonInterleavingNotificationIDs): ...


class OtherTrackingRecorder(JournalTrackingRecorder):
    """Named by its topic in the environment."""


class TestFactory(InfrastructureFactoryTestCase[JournalFactory]):
    log_settings: dict[str, str]

    @pytest.fixture(autouse=True)
    def _given_a_log(self, tmp_path: Path) -> None:
        self.log_settings = {"SQLITE_DBNAME": str(tmp_path / "log.db")}

    def setUp(self) -> None:
        module = {InfrastructureFactory.PERSISTENCE_MODULE: "reenact.actors.journal.recorder"}
        self.env = Environment(env=module | self.log_settings)
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


class TestFactoryOnAServer(TestFactory):
    @pytest.fixture(autouse=True)
    def _given_a_log(self, server: Server) -> None:
        self.log_settings = server.settings_of(server.new_log())


del AggregateRecorderTestCase, ApplicationRecorderTestCase, InfrastructureFactoryTestCase
del NonInterleavingNotificationIDsBaseCase, ProcessRecorderTestCase, TrackingRecorderTestCase
