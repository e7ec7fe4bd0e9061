"""Whatever is appended in whatever order, with crashes between: the log is what a naive reading says."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest
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

from reenact.actors.journal.api import Append, Committed, Mark, Outcome, Publication, Remembered, Snapshot
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ConflictError, RequestReusedError, StorageError
from tests.examples import examples
from tests.journal.server import Server
from tests.journal.support import Added, Log, Unregistered, copy_files, said, step, words_of
from tests.jsons import at

STREAMS = ("s1", "s2", "s3")
CLIENTS = ("c1", "c2")
REQUESTS = ("r1", "r2", "r3")

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
        self.less: dict[str, dict[int, str | None]] = {stream: {} for stream in STREAMS}
        self.sealed: dict[str, set[int]] = {stream: set() for stream in STREAMS}
        self.marks: dict[tuple[str, str], Mark] = {}
        self.requests: dict[str, Remembered] = {}
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
        snapshot = Snapshot(stream, version, "sum:1", bytes([version % 256])) if version else None  # nothing to sum up
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.journal.append(Append(stream, version - lag, 0, snapshot=snapshot, due=due), outcomes.put)
        if stream in self.fenced or lag:
            self.fenced.add(stream)
            self.waiting.append(lambda: self.expect_refusal(outcomes))
            return
        if snapshot is not None:
            self.snapshots[stream] = snapshot
        self.due.pop(stream, None)
        if due is not None:
            self.due[stream] = due
        self.expect_commit(stream, outcomes)

    @rule(stream=streams, request_id=st.sampled_from(REQUESTS), at=st.integers(0, 9), kept=words)
    def append_what_is_carried_out_once(self, stream: str, request_id: str, at: int, kept: list[str]) -> None:
        version = len(self.events[stream])
        request = Remembered(request_id, b"digest", stream.encode(), at)
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.journal.append(Append(stream, version, 0, (Added(at),), (said(*kept),), remembered=request), outcomes.put)
        if stream in self.fenced:
            self.waiting.append(lambda: self.expect_refusal(outcomes))
        elif request_id in self.requests:
            self.waiting.append(lambda: self.expect_reuse(request_id, outcomes))
        else:
            self.requests[request_id] = request
            self.remember(stream, [Added(at)], kept)
            self.expect_commit(stream, outcomes)

    @precondition(lambda self: not self.waiting)
    @rule(before=st.integers(0, 10))
    def forget_requests(self, before: int) -> None:
        old = [request_id for request_id, request in self.requests.items() if request.at < before]

        assert self.journal.forget_requests(before=before) == len(old)

        for request_id in old:
            del self.requests[request_id]

    @rule(
        said_so=st.lists(
            st.builds(Mark, streams, st.sampled_from(CLIENTS), st.integers(0, 9), st.integers(0, 9)), max_size=3
        )
    )
    def acknowledge(self, said_so: list[Mark]) -> None:
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.journal.acknowledge(said_so, outcomes.put)
        for mark in said_so:
            key = (mark.topic, mark.client_id)
            known = self.marks.get(key, mark)
            self.marks[key] = Mark(*key, max(known.cursor, mark.cursor), max(known.at, mark.at))
        position = len(self.order)
        self.waiting.append(lambda: self.expect_position(position, outcomes))

    @precondition(lambda self: not self.waiting)
    @rule(before=st.integers(0, 10), keep=st.sets(st.tuples(streams, st.sampled_from(CLIENTS))))
    def forget_marks(self, before: int, keep: set[tuple[str, str]]) -> None:
        old = [key for key, mark in self.marks.items() if mark.at < before and key not in keep]

        assert self.journal.forget_marks(before=before, keep=keep) == len(old)

        for key in old:
            del self.marks[key]

    @rule(stream=streams, one=st.integers(0, 9), other=st.integers(0, 9), count=st.integers(0, 3))
    def replace_rows(self, stream: str, one: int, other: int, count: int) -> None:
        # What shares a commit is one row, so where rows begin is known only once they are there.
        end = self.journal.feed_end(stream)
        starts = [row.first_cursor for row in self.journal.read_feed(stream) if row.first_cursor <= end]
        if not starts:
            return
        begin, behind = sorted((one % len(starts), other % len(starts)))
        first, last = starts[begin], [*starts[1:], end + 1][behind] - 1
        says = ["less"] * min(count, last - first + 1)
        if self.has_events_before(stream, first, last):
            with pytest.raises(ValueError, match="no rows"):
                self.journal.replace_feed(stream, first, last, [said(*says)])
            return

        self.journal.replace_feed(stream, first, last, [said(*says)])

        self.less[stream] |= dict.fromkeys(range(first, last + 1))
        self.less[stream] |= dict(enumerate(says, first))
        self.sealed[stream] -= set(range(first, last + 1))
        self.sealed[stream].add(first)

    def has_events_before(self, stream: str, first: int, last: int) -> bool:
        """Return whether a row with events stands before the last of those that hold the cursors."""
        query = """
            SELECT sum(count) FROM steps WHERE stream = ?
            AND number >= (SELECT number FROM steps WHERE stream = ? AND heard > 0 AND cursor = ?)
            AND number < (SELECT number FROM steps WHERE stream = ? AND heard > 0 AND cursor + heard - 1 = ?)
        """
        return bool(self.journal.select(query, (stream, stream, first, stream, last))[0][0])

    @rule(stream=streams, first=st.integers(-1, 20), last=st.integers(-1, 20))
    def replace_what_are_no_rows(self, stream: str, first: int, last: int) -> None:
        end = self.journal.feed_end(stream)
        starts = {row.first_cursor for row in self.journal.read_feed(stream)}
        if last > end or (first in starts and (last == end or last + 1 in starts) and first <= last):
            return

        with pytest.raises(ValueError, match="no rows"):
            self.journal.replace_feed(stream, first, last, [])

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
            assert outcomes.get(timeout=60) == expected

        self.waiting.append(check)

    def expect_position(self, position: int, outcomes: SimpleQueue[Outcome]) -> None:
        assert outcomes.get(timeout=60) == Committed(0, position)

    def expect_reuse(self, request_id: str, outcomes: SimpleQueue[Outcome]) -> None:
        outcome = outcomes.get(timeout=60)
        assert isinstance(outcome, RequestReusedError)
        assert outcome.request_id == request_id

    def expect_refusal(self, outcomes: SimpleQueue[Outcome]) -> None:
        outcome = outcomes.get(timeout=60)
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
        # These steps acknowledge what was never said.
        assert {found.kind for found in self.log.verify()} <= {"consumer"}
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
        assert [journal.remembered(each) for each in REQUESTS] == [self.requests.get(each) for each in REQUESTS]
        stale = Counter(topic for _, topic, _ in journal.stale_feeds(after=0))
        heard = list(self.heard)
        for stream in STREAMS:
            assert [each.event for each in journal.read(stream)] == self.events[stream]
            expected = dict(enumerate(self.words[stream], 1))
            left = {cursor: word for cursor, word in (expected | self.less[stream]).items() if word is not None}
            assert words_of(journal, stream) == left
            assert journal.feed_end(stream) == len(expected)
            starts = {row.first_cursor for row in journal.read_feed(stream)}
            assert self.sealed[stream] <= starts
            assert stale[stream] == len(starts) - len(self.sealed[stream])
            assert journal.marks(stream) == [
                self.marks[stream, client_id] for client_id in CLIENTS if (stream, client_id) in self.marks
            ]
            live = [
                (p.first_cursor + offset, at(str, entry.data, "word"))
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
        ServerMachine,
        settings=settings(settings.default or settings(), max_examples=examples(10), stateful_step_count=25),
    )
