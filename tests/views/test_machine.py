"""Whatever happens, in whatever order, what is read is what a naive count over the log says at its position."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from typing import ClassVar, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import Connection, select

from reenact.actors.journal.opening import private_directory
from reenact.domain.errors import StorageError
from reenact.projections import Row, on
from reenact.projections.errors import ProjectionFailedError, ReadModelError
from reenact.projections.runner import ProjectionTables
from reenact.projections.views import transactions
from reenact.projections.views.files import Files
from reenact.projections.views.hosted import UserProjection
from tests.examples import examples
from tests.projections.histories import FaultyLog
from tests.views.support import DoubleWords, Forgot, LastWords, Said, Words, expected, say

Kind = type[Words] | type[LastWords]


class CrashedError(BaseException):
    """The process is gone."""


class Mood:
    """What the functions do besides counting."""

    shuns: ClassVar[bool] = False
    crashes_in: ClassVar[int] = 0


class Moody(Words):
    """Counts, unless it is in no mood to."""

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        super().count(write, event, row)
        if Mood.shuns and event.word == "c":
            raise ValueError("c is not said")
        if Mood.crashes_in:
            Mood.crashes_in -= 1
            if not Mood.crashes_in:
                raise CrashedError


KINDS: Final[dict[int, Kind]] = {1: Moody, 2: DoubleWords, 3: LastWords}


class ProjectionMachine(RuleBasedStateMachine):
    """One projection: events, batches, rebuilds, versions, readers that stay, faults, and crashes between all that."""

    def __init__(self) -> None:
        super().__init__()
        Mood.shuns, Mood.crashes_in = False, 0
        self.kept = ExitStack()
        self.directory = private_directory(self.kept)
        self.log = FaultyLog()
        self.version = 1
        self.reached = 0
        self.successor: ProjectionTables | None = None
        self.reading = ExitStack()
        self.reader: Connection | None = None
        self.reader_at = 0
        self.open()

    def open(self) -> None:
        self.directory_of_files = Files(self.directory)
        self.place = self.directory_of_files.of("words")
        self.hosted = UserProjection(KINDS[self.version](), self.place, self.log)

    @rule(words=st.text("abc", min_size=1, max_size=4), then_forget=st.sampled_from("abcddd"))
    def say(self, words: str, then_forget: str) -> None:
        say(self.log, *words)
        if then_forget != "d":
            self.log.append("talk", Forgot(then_forget))

    @rule(limit=st.integers(1, 4))
    def project(self, limit: int) -> None:
        runner = self.hosted._runner
        if runner is not None:
            with contextlib.suppress(ReadModelError):
                runner._projection.advance(limit)

    def project_all(self) -> None:
        if self.hosted._runner is not None:
            self.hosted._runner.catch_up()

    @rule()
    def catch_up(self) -> None:
        self.hosted.retry()
        with contextlib.suppress(ReadModelError):
            self.project_all()

    @precondition(lambda self: self.successor is None)
    @rule()
    def begin_to_rebuild(self) -> None:
        with contextlib.suppress(StorageError):
            self.successor = self.hosted._begin_or_resume()

    @precondition(lambda self: self.successor is not None)
    @rule(limit=st.integers(1, 5))
    def rebuild_a_little(self, limit: int) -> None:
        assert self.successor is not None
        try:
            self.successor.advance(limit)
        except ProjectionFailedError:
            self.hosted._discard(self.successor)
            self.successor = None
        except ReadModelError:
            pass

    @precondition(lambda self: self.successor is not None)
    @rule()
    def swap(self) -> None:
        successor, self.successor = self.successor, None
        assert successor is not None
        try:
            self.hosted._make_live(successor)
        except ProjectionFailedError:
            self.hosted._discard(successor)
        except ReadModelError:
            successor.close(intact=True)

    @precondition(lambda self: self.successor is None)
    @rule()
    def rebuild_at_once(self) -> None:
        with contextlib.suppress(StorageError):
            self.hosted.rebuild()

    @rule(broken=st.sampled_from([False, False, True]), shuns=st.sampled_from([False, False, True]))
    def fare(self, *, broken: bool, shuns: bool) -> None:
        self.log.error, Mood.shuns = StorageError("the disk does not answer") if broken else None, shuns

    @rule(after=st.integers(1, 3), version=st.sampled_from([1, 1, 2, 3]))
    def crash_in_the_midst(self, after: int, version: int) -> None:
        Mood.crashes_in = after
        with contextlib.suppress(CrashedError, ReadModelError):
            self.project_all() if self.successor is None else self.successor.advance()
        Mood.crashes_in = 0
        self.begin_anew(version, in_order=False)

    @precondition(lambda self: self.successor is not None)
    @rule(version=st.sampled_from([1, 2, 3]))
    def crash_at_the_swap(self, version: int) -> None:
        assert self.successor is not None
        if self.successor.position >= self.reached:
            self.place.settle(self.successor.number)
            self.hosted._take_over(self.successor)
        self.begin_anew(version, in_order=False)

    @rule(version=st.sampled_from([1, 2, 3]), in_order=st.booleans())
    def begin_anew(self, version: int, *, in_order: bool) -> None:
        """Begin another process, after this one ended or without a word, perhaps with other code."""
        self.reader = None
        self.reading.close()
        if self.successor is not None:
            self.successor.close(intact=True)
            self.successor = None
        if in_order:
            self.hosted.close()
        elif self.hosted._runner is not None:
            self.hosted._runner._projection.close(intact=False)
        self.directory_of_files.close()
        self.log.error = None
        self.version = version
        self.open()

    @rule()
    def read_for_a_while(self) -> None:
        self.reading.close()
        self.reader = self.reading.enter_context(self.place.reading())
        self.reader_at = self.check(self.reader)

    @invariant()
    def what_is_read_is_what_the_log_says_at_its_position(self) -> None:
        with self.place.reading() as connection:
            position = self.check(connection)
        assert position >= self.reached
        self.reached = position
        if self.reader is not None:
            assert self.check(self.reader) == self.reader_at

    def check(self, connection: Connection) -> int:
        found = transactions.read_progress(connection)
        kind = KINDS[found.version]
        rows: dict[str, int] = dict(connection.execute(select(kind.words)).all())
        assert rows == expected(kind, self.log.rows[: found.position])
        return found.position

    def teardown(self) -> None:
        self.log.error, Mood.shuns = None, False
        self.begin_anew(self.version, in_order=True)
        self.hosted.rebuild()
        self.project_all()
        self.what_is_read_is_what_the_log_says_at_its_position()
        assert self.reached == self.log.head()
        assert len(self.place.numbers()) == 1
        self.hosted.close()
        self.directory_of_files.close()
        self.kept.close()


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def trust(_descriptor: int) -> None:
        """Take what is written for durable."""

    monkeypatch.setattr("reenact.projections.generations.os.fsync", trust)


TestProjections = ProjectionMachine.TestCase
TestProjections.settings = settings(max_examples=examples(40), stateful_step_count=30)
