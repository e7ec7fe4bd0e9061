"""Whoever follows, from wherever, however slowly, through commits, crashes and compaction: a list says what it has."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from reenact.actors.feed import compaction, replay, topic
from reenact.actors.feed.compaction import Compaction
from reenact.actors.feed.subscription import Subscription
from reenact.domain.errors import InvalidInputError
from reenact.domain.stream.events import DeltasCompacted, Envelope, EventData
from tests.examples import examples
from tests.feed.book import HOUR, Book, completed, created, deltas, started, stopped

SESSIONS = ("a", "b")
sessions = st.sampled_from(SESSIONS)
clients = st.sampled_from(("x", "y"))


class Reader:
    """A subscription, and what it ought to be given."""

    def __init__(self, subscription: Subscription, begin: int) -> None:
        assert subscription.cursor == begin
        self.subscription = subscription
        self.begin = begin
        self.got: list[Envelope] = []


class FeedMachine(RuleBasedStateMachine):
    """Follow two sessions; the model is a list of what was said in each."""

    readers: Bundle[Reader] = Bundle("readers")

    @initialize()
    def begin(self) -> None:
        self.book = Book()
        self.feed = self.book.feed()
        self.said: dict[str, list[EventData]] = {session: [] for session in SESSIONS}
        self.turns: dict[str, list[str]] = {session: [] for session in SESSIONS}
        self.running: dict[str, str | None] = dict.fromkeys(SESSIONS)
        self.acked: dict[tuple[str, str], int] = {}
        self.open: list[Reader] = []
        self.compaction = Compaction(self.book, lambda: False, self.feed.replay.forget)
        for session in SESSIONS:
            self.write(session, created(session))
        self.attend()
        self.publish()

    def attend(self) -> None:
        """Let somebody follow each session who seldom asks, so that there is always a topic."""
        for session in SESSIONS:
            self.stream(session, 0)

    def write(self, session: str, *data: EventData, rows: int = 1) -> None:
        turn_id = self.running[session]
        self.book.write(session, *data, turn_id=turn_id, rows=rows)
        self.said[session] += data
        self.turns[session] += [turn_id or ""] * len(data)

    @rule(session=sessions, count=st.integers(1, 5), rows=st.sampled_from((1, 1, 1, 3)), heard=st.booleans())
    def say(self, session: str, count: int, rows: int, heard: bool) -> None:  # noqa: FBT001 - drawn
        if self.running[session] is None:
            self.running[session] = turn_id = f"t{len(self.said[session])}"
            self.write(session, started(turn_id))
        begin = len(self.said[session])
        self.write(session, *deltas(*(f"{session}{begin + index}" for index in range(count))), rows=rows)
        if heard:
            self.publish()

    @rule(session=sessions)
    def finish(self, session: str) -> None:
        turn_id = self.running[session]
        if turn_id is not None:
            self.write(session, stopped(), completed(turn_id))
            self.running[session] = None

    @rule()
    def publish(self) -> None:
        self.book.publish(self.feed)

    @rule(target=readers, session=sessions, back=st.integers(0, 9))
    def stream(self, session: str, back: int) -> Reader:
        after = max(0, len(self.said[session]) - back)
        return self.added(Reader(self.feed.subscribe(session, None, after), after))

    @rule(target=readers, session=sessions, client=clients)
    def subscribe(self, session: str, client: str) -> Reader:
        return self.added(Reader(self.feed.subscribe(session, client), self.acked.get((session, client), 0)))

    def added(self, reader: Reader) -> Reader:
        self.open.append(reader)
        return reader

    @rule(reader=readers, limit=st.integers(1, 7))
    def take(self, reader: Reader, limit: int) -> None:
        if reader in self.open:
            reader.got += reader.subscription.take(limit)

    @rule(reader=readers)
    def next(self, reader: Reader) -> None:
        if reader in self.open:
            envelope = reader.subscription.next(0)
            reader.got += [] if envelope is None else [envelope]

    @rule(reader=readers, back=st.integers(-1, 3))
    def acknowledge(self, reader: Reader, back: int) -> None:
        subscription, client = reader.subscription, reader.subscription.client_id
        if reader not in self.open:
            return
        key = (subscription.topic, client or "")
        cursor = max(0, subscription.cursor - back)
        if client is None or (cursor > subscription.cursor and cursor > self.acked.get(key, 0)):
            with pytest.raises(InvalidInputError):
                subscription.ack(cursor)
        else:
            subscription.ack(cursor)
            self.acked[key] = max(cursor, self.acked.get(key, 0))

    @rule(reader=consumes(readers))
    def unsubscribe(self, reader: Reader) -> None:
        reader.subscription.unsubscribe()
        if reader in self.open:
            self.open.remove(reader)
        assert reader.subscription.next(0) is None

    @rule()
    def crash(self) -> None:
        self.feed = self.book.feed()
        self.book.unheard.clear()
        self.open.clear()
        self.compaction = Compaction(self.book, lambda: False, self.feed.replay.forget)
        self.attend()

    @rule(age=st.integers(0, 2))
    def compact(self, age: int) -> None:
        self.compaction.compact(before=self.book.now + 1 - age * HOUR)

    @rule(hours=st.integers(-2, 3))
    def time_passes(self, hours: int) -> None:
        self.book.now = max(0, self.book.now + hours * HOUR)

    @invariant()
    def all_was_handed_out_once_and_in_order(self) -> None:
        for reader in self.open:
            self.check(reader.subscription.topic, reader.begin, reader.got)

    @invariant()
    def little_is_kept(self) -> None:
        for kept in self.feed.topics:
            assert kept.kept[0] <= topic.MOST_EVENTS + 5

    def teardown(self) -> None:
        self.publish()
        for reader in self.open:
            reader.got += reader.subscription.take(10_000)
            session = reader.subscription.topic
            self.check(session, reader.begin, reader.got)
            assert reader.subscription.cursor == len(self.said[session])
            reader.subscription.unsubscribe()
        assert not self.feed.topics
        self.feed.close()

    def check(self, session: str, begin: int, got: list[Envelope]) -> None:
        said, turns = self.said[session], self.turns[session]
        for envelope in got:
            cursor = envelope.cursor or 0
            assert envelope.id == f"session/{session}:{cursor}"
            if not isinstance(envelope.data, DeltasCompacted):
                assert (cursor, envelope.data) == (begin + 1, said[begin])
                assert envelope.context.turn_id == (turns[begin] or None)
            else:
                gap = range(envelope.data.first_cursor - 1, envelope.data.last_cursor)
                assert begin in gap
                assert cursor == envelope.data.last_cursor
                assert {said[index].event_type for index in gap} == {"text_delta"}
                assert {turns[index] for index in gap} == {envelope.context.turn_id}
                assert envelope.context.turn_id != self.running[session]
            begin = cursor


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything be small, so that the log is read, and rows are merged, now and then."""
    for module, name, size in (
        (topic, "MOST_EVENTS", 16),
        (topic, "FEW_EVENTS", 6),
        (topic, "AT_ONCE", 4),
        (replay, "FIRST_ROWS", 1),
        (replay, "MOST_ROWS", 3),
        (replay, "SHARED_PAGES", 3),
        (compaction, "MOST_ENTRIES", 4),
        (compaction, "PAGE", 3),
    ):
        monkeypatch.setattr(module, name, size)


@pytest.mark.usefixtures("small")
def test_whatever_happens_each_follower_has_every_event_once_and_in_order() -> None:
    run_state_machine_as_test(FeedMachine, settings=settings(max_examples=max(examples(200), settings().max_examples)))
