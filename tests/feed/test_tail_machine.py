"""Two nodes write the same sessions; answers and notices come late, or never: everybody hears what the log says."""

from __future__ import annotations

import contextlib
from collections import defaultdict

import msgspec
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

from reenact.actors.feed import compaction, replay, tail, topic
from reenact.actors.feed.compaction import Compaction
from reenact.actors.feed.publications import Listener
from reenact.actors.feed.subscription import Subscription
from reenact.domain.errors import StorageError
from reenact.domain.stream.events import DeltasCompacted, Envelope, EventData
from tests.examples import examples
from tests.feed.book import HOUR, completed, created, deltas, started, stopped
from tests.feed.shared_book import SharedBook, SharedNode

SESSIONS = ("a", "b")
sessions = st.sampled_from(SESSIONS)
nodes = st.sampled_from((0, 1))


class Follower:
    """A subscription to a session at one node, and what it has been given behind the cursor where it began."""

    def __init__(self, subscription: Subscription, begin: int) -> None:
        self.subscription = subscription
        self.begin = begin
        self.got: list[Envelope] = []


class Hearer:
    """A listener to some sessions at one node, and what it has heard; the sessions' ends are those when it came."""

    def __init__(self, node: SharedNode, ends: dict[str, int], topics: frozenset[str] | None) -> None:
        self.ends = ends
        self.heard: dict[str, list[Envelope]] = defaultdict(list)
        self.listener = Listener(node.feed.publications, None, node.feed.replay, topics)
        node.feed.publications.join(self.listener)

    def listen(self) -> None:
        for line in self.listener.give(10**9)[0]:
            envelope = msgspec.json.decode(line, type=Envelope)
            self.heard[envelope.context.session_id or ""].append(envelope)


class TailMachine(RuleBasedStateMachine):
    """Write two sessions at two nodes; the model is a list of what was said in each."""

    followers: Bundle[Follower] = Bundle("followers")
    hearers: Bundle[Hearer] = Bundle("hearers")

    @initialize()
    def begin(self) -> None:
        self.book = SharedBook()
        self.nodes = (self.book.node(), self.book.node())
        self.said: dict[str, list[EventData]] = {session: [] for session in SESSIONS}
        self.turns: dict[str, str | None] = dict.fromkeys(SESSIONS)
        self.open: list[Follower] = []
        self.listening: list[Hearer] = []
        self.compaction = Compaction(self.book, lambda: False, self.forget)
        for session in SESSIONS:
            self.commit(0, session, created(session))
            self.nodes[0].answer()

    def forget(self, name: str) -> None:
        for node in self.nodes:
            node.feed.replay.forget(name)

    def commit(self, number: int, session: str, *data: EventData, rows: int = 1) -> None:
        node = self.nodes[number]
        node.answer()
        node.write(session, *data, turn_id=self.turns[session], rows=rows)
        self.said[session] += data

    @rule(
        number=nodes, session=sessions, count=st.integers(1, 4), rows=st.sampled_from((1, 1, 3)), at_once=st.booleans()
    )
    def say(self, number: int, session: str, count: int, rows: int, at_once: bool) -> None:  # noqa: FBT001 - drawn
        if self.turns[session] is None:
            self.turns[session] = turn_id = f"t{len(self.said[session])}"
            self.commit(number, session, started(turn_id))
        begin = len(self.said[session])
        self.commit(number, session, *deltas(*(f"{session}{begin + each}" for each in range(count))), rows=rows)
        if at_once:
            self.nodes[number].answer()

    @rule(number=nodes)
    def say_in_both_together(self, number: int) -> None:
        node = self.nodes[number]
        node.answer()

        def write() -> None:
            for session in SESSIONS:
                self.book.write(session, *deltas(f"{session}{len(self.said[session])}"), turn_id=self.turns[session])
                self.said[session] += deltas(f"{session}{len(self.said[session])}")

        node.commit(write)

    @rule(number=nodes, session=sessions)
    def finish(self, number: int, session: str) -> None:
        turn_id = self.turns[session]
        if turn_id is not None:
            self.commit(number, session, stopped(), completed(turn_id))
            self.turns[session] = None

    @rule(number=nodes)
    def answer(self, number: int) -> None:
        self.nodes[number].answer()

    @rule(number=nodes)
    def lose_the_answer(self, number: int) -> None:
        self.nodes[number].under_way = None

    @rule(number=nodes)
    def notify(self, number: int) -> None:
        self.nodes[number].notify()

    @rule(number=nodes)
    def miss(self, number: int) -> None:
        self.nodes[number].miss()

    @rule(number=nodes, looks=st.booleans())
    def advance(self, number: int, looks: bool) -> None:  # noqa: FBT001 - drawn
        self.nodes[number].tail.advance(looks=looks)

    @rule(number=nodes, reads=st.integers(0, 2))
    def fail(self, number: int, reads: int) -> None:
        node = self.nodes[number]
        node.reads_until_failure = reads
        with contextlib.suppress(StorageError):
            node.tail.advance(looks=True)
        node.reads_until_failure = None

    @rule(target=followers, number=nodes, session=sessions, back=st.integers(0, 9))
    def follow(self, number: int, session: str, back: int) -> Follower:
        after = max(0, len(self.said[session]) - back)
        follower = Follower(self.nodes[number].feed.subscribe(session, None, after), after)
        self.open.append(follower)
        return follower

    @rule(follower=followers, limit=st.integers(1, 7))
    def take(self, follower: Follower, limit: int) -> None:
        if follower in self.open:
            follower.got += follower.subscription.take(limit)

    @rule(follower=consumes(followers))
    def leave(self, follower: Follower) -> None:
        follower.subscription.unsubscribe()
        self.open.remove(follower)

    @rule(target=hearers, number=nodes, heard=st.sampled_from((SESSIONS, None, *((each,) for each in SESSIONS))))
    def hear(self, number: int, heard: tuple[str, ...] | None) -> Hearer:
        ends = {session: len(self.said[session]) for session in heard or SESSIONS}
        topics = None if heard is None else frozenset(f"session/{session}" for session in heard)
        hearer = Hearer(self.nodes[number], ends, topics)
        self.listening.append(hearer)
        return hearer

    @rule(hearer=consumes(hearers))
    def hear_no_more(self, hearer: Hearer) -> None:
        hearer.listen()
        hearer.listener.leave()
        self.listening.remove(hearer)
        self.check_heard(hearer)

    @rule(age=st.integers(0, 1))
    def compact(self, age: int) -> None:
        for node in self.nodes:  # what is compacted is hours old, and was read
            node.answer()
            node.tail.advance(looks=True)
        self.compaction.compact(before=self.book.now + 1 - age * HOUR)

    @rule()
    def time_passes(self) -> None:
        self.book.now += HOUR

    @invariant()
    def nobody_has_anything_twice_or_out_of_order(self) -> None:
        for follower in self.open:
            self.check(follower.subscription.topic, follower.begin, follower.got)
        for hearer in self.listening:
            hearer.listen()
            self.check_heard(hearer)

    def check_heard(self, hearer: Hearer) -> None:
        for session, heard in hearer.heard.items():
            begin = _first(heard[0]) - 1
            assert begin <= hearer.ends[session]
            self.check(session, begin, heard)

    def check(self, session: str, begin: int, got: list[Envelope]) -> int:
        said = self.said[session]
        for envelope in got:
            cursor = envelope.cursor or 0
            assert envelope.id == f"session/{session}:{cursor}"
            if envelope.type == DeltasCompacted.event_type:
                assert _first(envelope) <= begin + 1 <= cursor
            else:
                assert cursor == begin + 1
                assert msgspec.to_builtins(envelope.data) == msgspec.to_builtins(said[begin])
            begin = cursor
        return begin

    def teardown(self) -> None:
        for node in self.nodes:
            node.tail.advance(looks=True)
            node.answer()
            assert node.tail.position == self.book.end
        for follower in self.open:
            follower.got += follower.subscription.take(10_000)
            session = follower.subscription.topic
            assert self.check(session, follower.begin, follower.got) == len(self.said[session])
            follower.subscription.unsubscribe()
        for hearer in self.listening:
            hearer.listen()
            for session, end in hearer.ends.items():
                heard = hearer.heard.get(session)
                assert (heard[-1].cursor if heard else end) == len(self.said[session])
            self.check_heard(hearer)
            hearer.listener.leave()
        for node in self.nodes:
            node.close()


def _first(envelope: Envelope) -> int:
    """Return the first cursor that the event stands for."""
    if envelope.type == DeltasCompacted.event_type:
        return msgspec.convert(msgspec.to_builtins(envelope.data), DeltasCompacted).first_cursor
    return envelope.cursor or 0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything be small, so that little is kept, and pages have few rows."""
    for module, name, size in (
        (tail, "STEP", 2),
        (tail, "MOST_EVENTS", 6),
        (tail, "MOST_TOPICS", 1),
        (topic, "MOST_EVENTS", 16),
        (topic, "FEW_EVENTS", 6),
        (topic, "AT_ONCE", 4),
        (replay, "FIRST_ROWS", 1),
        (replay, "MOST_ROWS", 3),
        (compaction, "MOST_ENTRIES", 4),
        (compaction, "PAGE", 3),
    ):
        monkeypatch.setattr(module, name, size)


@pytest.mark.usefixtures("small")
def test_at_every_node_everybody_hears_what_the_log_says_once_and_in_order() -> None:
    run_state_machine_as_test(TailMachine, settings=settings(max_examples=max(examples(200), settings().max_examples)))
