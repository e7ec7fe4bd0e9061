"""The runners of the `eventsourcing` library, of systems and of projections, run on our logs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from unittest import TestCase
from uuid import UUID

import pytest
from eventsourcing.application import Application, ProcessingEvent
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.domain import Aggregate, DomainEventProtocol, event
from eventsourcing.persistence import Recording, Tracking
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import EventSourcedProjection, EventSourcedProjectionRunner
from eventsourcing.system import (
    MultiThreadedRunner,
    NewMultiThreadedRunner,
    NewSingleThreadedRunner,
    ProcessApplication,
    Runner,
    SingleThreadedRunner,
    System,
)
from eventsourcing.tests.projection import (
    AggregateEventCountersProjectionTestCase,
    EventCountersView,
    EventSourcedProjectionTestCase,
)

from reenact.actors.journal.recorder import JournalFactory, JournalTrackingRecorder
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from reenact.domain.errors import LogLockedError
from tests.journal.server import Server
from tests.journal.support import CODEC

Settings: TypeAlias = dict[str, str]

MODULE = {"PERSISTENCE_MODULE": "reenact.actors.journal.recorder"}
_TIMEOUT = 60.0

_FORKS = """
import os
import sys
import warnings
from reenact.actors.journal.recorder import JournalFactory
from reenact.domain.errors import LogLockedError

warnings.simplefilter("ignore")
factory = JournalFactory({"SQLITE_DBNAME": sys.argv[1]})
factory.application_recorder()
if child := os.fork():
    os.waitpid(child, 0)
    factory.close()
else:
    try:
        JournalFactory({"SQLITE_DBNAME": sys.argv[1]}).application_recorder()
    except LogLockedError as error:
        print(error.pid == os.getppid(), flush=True)
    os._exit(0)
"""

_USES_ITS_PARENTS = """
import json
import os
import sys
import warnings
from uuid import uuid4
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate

warnings.simplefilter("ignore")
application = Application(json.loads(sys.argv[1]))
aggregate = Aggregate()
application.save(aggregate)
if child := os.fork():
    os.waitpid(child, 0)
    aggregate.trigger_event(Aggregate.Event)
    print([recording.notification.id for recording in application.save(aggregate)])
    application.close()
else:
    print(application.repository.get(aggregate.id) == aggregate, flush=True)
    for use in (lambda: application.save(Aggregate()), lambda: application.recorder.subscribe()):
        try:
            use()
        except Exception as error:
            print(type(error).__name__, "after the fork" in str(error), flush=True)
    application.close()
    os._exit(0)
"""


class Account(Aggregate):
    """What the followed application keeps."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.balance = 0

    @event("Deposited")
    def deposit(self, amount: int) -> None:
        self.balance += amount


class Receipt(Aggregate):
    """What is made for each deposit."""


class Accounts(Application[UUID]):
    """Has the accounts."""

    name = "accounts"

    def deposit(self, times: int) -> int:
        """Open an account and deposit so often, each saved by itself; return the position of the last."""
        account = Account("ann")
        last = 0
        for _ in range(times):
            account.deposit(1)
            recordings: list[Recording[UUID]] = self.save(account)
            last = recordings[-1].notification.id
        return last


def _write_receipt(domain_event: object, processing_event: ProcessingEvent[UUID]) -> None:
    if type(domain_event).__qualname__ == "Account.Deposited":
        processing_event.collect_events(Receipt())


class Receipts(ProcessApplication[UUID]):
    """Follows the accounts in a system."""

    name = "receipts"

    @singledispatchmethod
    def policy(self, domain_event: DomainEventProtocol[UUID], processing_event: ProcessingEvent[UUID]) -> None:
        _write_receipt(domain_event, processing_event)


class ReceiptsOfProjection(EventSourcedProjection[UUID]):
    """Follows the accounts as a projection."""

    name = "receipts"

    @singledispatchmethod
    def policy(self, domain_event: DomainEventProtocol[UUID], processing_event: ProcessingEvent[UUID]) -> None:
        _write_receipt(domain_event, processing_event)


@pytest.fixture(params=["a log each", "one log"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Say where the two applications have their logs."""
    if request.param == "one log":
        return {**MODULE, "SQLITE_DBNAME": str(tmp_path / "log.db")}
    return {**MODULE, **{f"{name}_SQLITE_DBNAME": str(tmp_path / f"{name}.db") for name in ("ACCOUNTS", "RECEIPTS")}}


def logs_of(settings: Settings) -> set[str]:
    return {path for key, path in settings.items() if key.endswith("SQLITE_DBNAME")}


def assert_closed(settings: Settings) -> None:
    """Nobody in this process writes the logs any more, and they are whole."""
    for path in logs_of(settings):
        SqliteJournal.open(path, CODEC).close()
        assert verify(path) == []


@pytest.mark.parametrize(
    "make_runner", [SingleThreadedRunner, NewSingleThreadedRunner, MultiThreadedRunner, NewMultiThreadedRunner]
)
def test_a_system_runs(make_runner: Callable[[System, Settings], Runner[UUID]], settings: Settings) -> None:
    with make_runner(System(pipes=[[Accounts, Receipts]]), settings) as runner:
        last = runner.get(Accounts).deposit(5)
        receipts = runner.get(Receipts).recorder
        receipts.wait("accounts", last, timeout=_TIMEOUT)

        recorded = [each.topic.rpartition(":")[2] for each in receipts.select_notifications(1, 100)]

    assert recorded.count("Receipt.Created") == 5
    assert_closed(settings)


def test_a_projection_that_records_events_runs(settings: Settings) -> None:
    with EventSourcedProjectionRunner(
        application_class=Accounts, projection_class=ReceiptsOfProjection, env=settings
    ) as runner:
        runner.wait(runner.app.deposit(5), timeout=_TIMEOUT)
        receipts = runner.projection.recorder

        recorded = [each.topic.rpartition(":")[2] for each in receipts.select_notifications(1, 100)]

    assert recorded.count("Receipt.Created") == 5
    assert_closed(settings)


class View(JournalTrackingRecorder, EventCountersView):
    """Counts in memory, and records how far it has come."""

    created = 0
    subsequent = 0

    def get_created_event_counter(self) -> int:
        return self.created

    def get_subsequent_event_counter(self) -> int:
        return self.subsequent

    def incr_created_event_counter(self, tracking: Tracking) -> None:
        self.created += 1
        self.insert_tracking(tracking)

    def incr_subsequent_event_counter(self, tracking: Tracking) -> None:
        self.subsequent += 1
        self.insert_tracking(tracking)


class _OnFiles(TestCase):
    """Has each application and each projection find its log by its name."""

    @pytest.fixture(autouse=True)
    def _given_logs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("APPLICATION", "COUNTERS", "EVENTCOUNTERS"):
            monkeypatch.setenv(f"{name}_SQLITE_DBNAME", str(tmp_path / f"{name}.db"))
        for key, value in MODULE.items():
            monkeypatch.setenv(key, value)


class _OnAServer(_OnFiles):
    """The same on a server."""

    @pytest.fixture(autouse=True)
    def _given_logs(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("APPLICATION", "COUNTERS", "EVENTCOUNTERS"):
            for key, value in server.settings_of(server.new_log()).items():
                monkeypatch.setenv(f"{name}_{key}", value)
        for key, value in MODULE.items():
            monkeypatch.setenv(key, value)


class TestProjection(_OnFiles, AggregateEventCountersProjectionTestCase):
    view_class = View


class TestProjectionOnAServer(_OnAServer, AggregateEventCountersProjectionTestCase):
    view_class = View


class TestEventSourcedProjection(_OnFiles, EventSourcedProjectionTestCase): ...


class TestEventSourcedProjectionOnAServer(_OnAServer, EventSourcedProjectionTestCase): ...


def test_a_view_of_another_kind_is_told_where_it_belongs(tmp_path: Path) -> None:
    factory = JournalFactory({"SQLITE_DBNAME": str(tmp_path / "log.db")})

    with pytest.raises(TypeError, match="POPOTrackingRecorder is not a subclass of JournalTrackingRecorder"):
        factory.tracking_recorder(POPOTrackingRecorder)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_last_who_closes_a_file_closes_it(path: Path) -> None:
    settings = {"SQLITE_DBNAME": str(path)}
    link = path.with_name("link.db")
    link.symlink_to(path)
    first, second = JournalFactory(settings), JournalFactory({"SQLITE_DBNAME": str(link)})
    first.application_recorder()
    recorder = second.application_recorder()

    first.close()
    first.close()

    assert recorder.max_notification_id() is None
    with pytest.raises(LogLockedError):
        SqliteJournal.open(path, CODEC)
    second.close()
    SqliteJournal.open(path, CODEC).close()


def test_a_file_is_open_for_as_long_as_somebody_has_a_recorder_of_it(path: Path) -> None:
    recorder = JournalFactory({"SQLITE_DBNAME": str(path)}).tracking_recorder()
    assert recorder.max_tracking_id("upstream") is None
    with pytest.raises(LogLockedError):
        SqliteJournal.open(path, CODEC)

    del recorder

    for thread in threading.enumerate():
        if thread.name == "reenact-journal-close":
            thread.join()
    SqliteJournal.open(path, CODEC).close()


def test_a_factory_that_makes_no_recorder_opens_nothing(path: Path) -> None:
    JournalFactory({"SQLITE_DBNAME": str(path)}).mapper()

    assert not path.exists()


def test_who_opens_a_file_again_says_the_same_about_how_durable_it_is(path: Path) -> None:
    first = JournalFactory({"SQLITE_DBNAME": str(path)})
    first.application_recorder()

    with pytest.raises(OSError, match="open in this process with 'FULL'"):
        JournalFactory({"SQLITE_DBNAME": str(path), "SQLITE_SYNCHRONOUS": "NORMAL"}).application_recorder()

    first.close()


def test_a_forked_process_is_another_one(path: Path) -> None:
    program = subprocess.run(
        [sys.executable, "-c", _FORKS, str(path)], capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )

    assert (program.stdout, program.stderr, program.returncode) == ("True\n", "", 0)


@pytest.mark.parametrize("place", ["a file", "a server"])
def test_a_forked_process_reads_from_the_application_of_its_parent_and_cannot_save(
    place: str, path: Path, request: pytest.FixtureRequest
) -> None:
    settings: Settings = {"SQLITE_DBNAME": str(path)}
    if place == "a server":
        server = request.getfixturevalue("server")
        assert isinstance(server, Server)
        settings = server.settings_of(server.new_log())
    program = subprocess.run(
        [sys.executable, "-c", _USES_ITS_PARENTS, json.dumps({**MODULE, **settings})],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )

    assert (program.stdout, program.stderr) == ("True\n" + "OperationalError True\n" * 2 + "[2]\n", "")


del AggregateEventCountersProjectionTestCase, EventSourcedProjectionTestCase
