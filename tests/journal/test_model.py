"""Whatever is appended in whatever order, with crashes between: the log is what a naive reading says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from reenact.actors.journal.api import Append, Committed, Outcome, Publication, Snapshot
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ConflictError, StorageError
from tests.journal.server import Server
from tests.journal.support import Added, Log, Unregistered, copy_files, said, step, words_of

STREAMS = ("s1", "s2", "s3")

streams = st.sampled_from(STREAMS)
words = st.lists(st.sampled_from("ab"), max_size=3)


class JournalMachine(RuleBasedStateMachine):
    """Hand steps over in bursts, so that they share a commit; the model is a few dicts and a set."""

    def new_log(self) -> Log:
        """Return a log that has not begun."""
        raise NotImplementedError

    def log_after_crash(self) -> Log:
        """Return what a crash at this moment leaves of the log."""
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.events: dict[str, list[Added]] = {stream: [] for stream in STREAMS}
        self.order: list[str] = []
        self.words: dict[str, list[str]] = {stream: [] for stream in STREAMS}
        self.snapshots: dict[str, Snapshot] = {}
        self.due: dict[str, int] = {}
        self.fenced: set[str] = set()
        self.waiting: list[Callable[[], None]] = []
        self.heard: list[Publication] = []
        self.open(self.new_log())

    def open(self, log: Log) -> None:
        self.log = log
        self.journal: StoredJournal = log.open(synchronous="OFF", listener=self.heard.extend)

    @rule(
        stream=streams,
        lag=st.sampled_from([0, 0, 0, 1, -1]),
        amounts=st.lists(st.integers(0, 9), max_size=3),
        kept=words,
    )
    def append_events(self, stream: str, lag: int, amounts: list[int], kept: list[str]) -> None:
        after = len(self.events[stream]) - lag
        added = [Added(amount) for amount in amounts]
        refused = stream in self.fenced or lag != 0
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.journal.append(step(stream, after, *added, kept=[said(*kept)]), outcomes.put)
        if refused:
            self.fenced.add(stream)
            self.waiting.append(lambda: self.expect_refusal(outcomes))
        else:
            self.remember(stream, added, kept)
            self.expect_commit(stream, outcomes)

    @rule(stream=streams, kept=words)
    def append_words(self, stream: str, kept: list[str]) -> None:
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.journal.append(step(stream, None, kept=[said(*kept)]), outcomes.put)
        if stream in self.fenced:
            self.waiting.append(lambda: self.expect_refusal(outcomes))
        else:
            self.remember(stream, [], kept)
            self.expect_commit(stream, outcomes)

    @rule(stream=streams, lag=st.sampled_from([0, 0, 1]), due=st.none() | st.integers(1, 9))
    def append_what_is_beside_the_events(self, stream: str, lag: int, due: int | None) -> None:
        version = len(self.events[stream])
        snapshot = Snapshot(stream, version, "sum:1", bytes([version % 256]))
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.journal.append(Append(stream, version - lag, 0, snapshot=snapshot, due=due), outcomes.put)
        if stream in self.fenced or lag:
            self.fenced.add(stream)
            self.waiting.append(lambda: self.expect_refusal(outcomes))
            return
        self.snapshots[stream] = snapshot
        self.due.pop(stream, None)
        if due is not None:
            self.due[stream] = due
        self.expect_commit(stream, outcomes)

    @rule()
    def delete_snapshots(self) -> None:
        self.journal.delete_snapshots()
        self.snapshots.clear()

    @rule(stream=streams)
    def append_what_cannot_be_stored(self, stream: str) -> None:
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.journal.append(step(stream, len(self.events[stream]), Added(1), Unregistered()), outcomes.put)
        self.fenced.add(stream)
        self.waiting.append(lambda: self.expect_refusal(outcomes))

    def remember(self, stream: str, added: list[Added], kept: list[str]) -> None:
        self.events[stream] += added
        self.order += [stream] * len(added)
        self.words[stream] += kept

    def expect_commit(self, stream: str, outcomes: SimpleQueue[Outcome]) -> None:
        expected = Committed(len(self.events[stream]), len(self.order))

        def check() -> None:
            assert outcomes.get(timeout=30) == expected

        self.waiting.append(check)

    def expect_refusal(self, outcomes: SimpleQueue[Outcome]) -> None:
        outcome = outcomes.get(timeout=30)
        assert isinstance(outcome, StorageError)
        if isinstance(outcome, ConflictError):
            assert outcome.expected != outcome.actual

    @rule(stream=streams)
    def recover(self, stream: str) -> None:
        assert [each.event for each in self.journal.recover(stream)] == self.events[stream]
        self.fenced.discard(stream)

    @rule()
    def wait(self) -> None:
        for check in self.waiting:
            check()
        self.waiting.clear()

    @rule()
    def close_and_reopen(self) -> None:
        self.journal.close()
        self.wait()
        self.check_reading()
        assert self.log.verify() == []
        self.fenced.clear()
        self.open(self.log)

    @precondition(lambda self: not self.waiting)
    @rule()
    def crash(self) -> None:
        remains = self.log_after_crash()
        self.journal.close()
        self.fenced.clear()
        self.open(remains)

    @invariant()
    def what_is_acknowledged_is_readable(self) -> None:
        if not self.waiting:
            self.check_log(self.journal)

    def check_reading(self) -> None:
        with self.log.open(read_only=True) as reader:
            self.check_log(reader)

    def check_log(self, journal: StoredJournal) -> None:
        assert [each.stream for each in journal.read_all()] == self.order
        assert journal.head() == len(self.order)
        assert {each.stream: each for each in journal.snapshots()} == self.snapshots
        assert dict(journal.due(after=0, until=9)) == self.due
        heard = list(self.heard)
        for stream in STREAMS:
            assert [each.event for each in journal.read(stream)] == self.events[stream]
            expected = dict(enumerate(self.words[stream], 1))
            assert words_of(journal, stream) == expected
            live = [
                (p.first_cursor + offset, entry.data["word"])
                for p in heard
                if p.topic == stream and p.first_cursor is not None
                for offset, entry in enumerate(p.segment.entries)
            ]
            assert live == list(expected.items())

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()


class FileMachine(JournalMachine):
    """A crash leaves a copy of the files."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()

    def new_log(self) -> Log:
        return Log(str(Path(self.directory.name, "log.db")))

    def log_after_crash(self) -> Log:
        directory = Path(tempfile.mkdtemp(dir=self.directory.name), "copy")
        return Log(str(copy_files(Path(self.log.url), directory)))

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


TestFileMachine = FileMachine.TestCase


def test_a_log_on_a_server_is_what_a_naive_reading_says(server: Server) -> None:
    class ServerMachine(JournalMachine):
        """A crash ends the connections, and the next writer begins beside what is left of them."""

        def new_log(self) -> Log:
            return Log(server.new_log())

        def log_after_crash(self) -> Log:
            server.terminate()
            return self.log

    run_state_machine_as_test(
        ServerMachine, settings=settings(settings.default or settings(), max_examples=10, stateful_step_count=25)
    )
