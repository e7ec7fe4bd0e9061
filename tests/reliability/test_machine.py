"""Producers, consumers, acknowledgements, failing commits and crashes in any order: a plain list says what is right."""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from reenact._runtime import codec
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.subscription import Subscription
from reenact.actors.journal.api import Append, Committed, Entry, Outcome, Segment
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.errors import StorageError
from reenact.events import Envelope
from reenact.testing import FaultyJournal, ManualClock
from tests.reliability.wire import PATIENCE

SESSIONS = ("a", "b")
CLIENTS = ("x", "y")
session_ids = st.sampled_from(SESSIONS)
client_ids = st.sampled_from(CLIENTS)

Told = tuple[int, str, Any]
"""What is right of an event: its cursor, its type, its data."""


class Follower:
    """A subscription, and what of the list it has yet to hear."""

    def __init__(self, subscription: Subscription, session_id: str, client_id: str | None, place: int) -> None:
        self.subscription = subscription
        self.session_id = session_id
        self.client_id = client_id
        self.place = place
        """How much of the session's list it has heard, or passed over."""


class DeliveryMachine(RuleBasedStateMachine):
    """Publish, follow, acknowledge, fail, crash, and hold what every follower hears against what was published."""

    followers = Bundle[Follower]("followers")

    def __init__(self) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp())
        self._clock = ManualClock()
        self._numbers = count(1)
        self.published: dict[str, list[Told]] = {session_id: [] for session_id in SESSIONS}
        self.acknowledged: dict[tuple[str, str], int] = {}
        self.here: list[Follower] = []
        self._open()

    @initialize()
    def sessions_begin(self) -> None:
        for session_id in SESSIONS:
            assert self._publish(session_id, ("message_start",))

    @rule(session_id=session_ids, deltas=st.integers(1, 40))
    def say(self, session_id: str, deltas: int) -> None:
        assert self._publish(session_id, ("text_delta",) * deltas)

    @rule(session_id=session_ids, times=st.integers(1, 30))
    def say_bit_by_bit(self, session_id: str, times: int) -> None:
        for _ in range(times):
            assert self._publish(session_id, ("text_delta",))

    @rule(session_id=session_ids)
    def a_commit_fails(self, session_id: str) -> None:
        self._journal.fail_next(StorageError("the disk is gone"))

        assert not self._publish(session_id, ("text_delta",) * 3)

        self._journal.recover(f"session/{session_id}")

    @rule(written=st.booleans(), session_id=session_ids)
    def it_crashes_in_a_commit(self, session_id: str, *, written: bool) -> None:
        if written:
            self._journal.crash_after_next_append()
        else:
            self._journal.crash_before_next_append()

        assert not self._publish(session_id, ("text_delta",) * 3, written=written)

        self._begin_anew()

    @rule()
    def it_is_closed_and_opened(self) -> None:
        self._begin_anew()

    @rule(
        target=followers, session_id=session_ids, client_id=st.none() | client_ids, back=st.none() | st.integers(0, 60)
    )
    def follow(self, session_id: str, client_id: str | None, back: int | None) -> Follower:
        after = None if back is None else max(0, self._end(session_id) - back)
        known = self.acknowledged.get((session_id, client_id), 0) if client_id else 0
        begin = known if after is None else after

        subscription = self._feed.subscribe(session_id, client_id, after)

        assert subscription.cursor == begin
        follower = Follower(subscription, session_id, client_id, begin)
        self.here.append(follower)
        return follower

    @rule(follower=followers, limit=st.integers(1, 50))
    def take(self, follower: Follower, limit: int) -> None:
        if follower in self.here:
            expected = self.published[follower.session_id][follower.place : follower.place + limit]

            assert told(follower.subscription.take(limit)) == expected

            follower.place += len(expected)

    @rule(follower=followers)
    def next_one(self, follower: Follower) -> None:
        if follower in self.here:
            expected = self.published[follower.session_id][follower.place : follower.place + 1]

            event = follower.subscription.next(PATIENCE if expected else 0)

            assert told([event] if event else []) == expected
            follower.place += len(expected)

    @rule(follower=followers, back=st.integers(0, 20))
    def acknowledge(self, follower: Follower, back: int) -> None:
        if follower in self.here and follower.client_id is not None:
            cursor = max(0, follower.subscription.cursor - back)
            key = follower.session_id, follower.client_id

            follower.subscription.ack(cursor)

            self.acknowledged[key] = max(self.acknowledged.get(key, 0), cursor)

    @rule(follower=consumes(followers))
    def leave(self, follower: Follower) -> None:
        follower.subscription.unsubscribe()

        assert follower.subscription.closed
        assert follower.subscription.take() == []
        self.here = [other for other in self.here if other is not follower]

    @invariant()
    def nobody_has_heard_what_was_not_published(self) -> None:
        for follower in self.here:
            assert follower.subscription.cursor == follower.place

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        followed = {f"session/{follower.session_id}" for follower in self.here}
        assert {topic.name for topic in self._feed.topics} <= followed

    def teardown(self) -> None:
        for session_id in SESSIONS:
            with self._feed.subscribe(session_id) as anew:
                assert told(anew.take(100_000)) == self.published[session_id]
        for follower in self.here:
            assert told(follower.subscription.take(100_000)) == self.published[follower.session_id][follower.place :]
        self._close()
        shutil.rmtree(self._directory)

    def _publish(self, session_id: str, types: tuple[str, ...], *, written: bool = False) -> bool:
        """Publish events of these types, in one commit; return whether the journal says that it was made."""
        at = self._clock()
        entries = tuple(Entry(type_, at, _data(type_, next(self._numbers))) for type_ in types)
        segment = Segment({"session_id": session_id}, entries)
        outcomes = SimpleQueue[Outcome]()
        self._journal.append(Append(f"session/{session_id}", None, at, kept=(segment,)), outcomes.put)
        outcome = outcomes.get(timeout=PATIENCE)
        if written or isinstance(outcome, Committed):
            first = self._end(session_id) + 1
            self.published[session_id] += [
                (first + number, entry.type, entry.data) for number, entry in enumerate(entries)
            ]
        return isinstance(outcome, Committed)

    def _end(self, session_id: str) -> int:
        return len(self.published[session_id])

    def _begin_anew(self) -> None:
        self._close()
        self.here = []
        self._open()

    def _open(self) -> None:
        def listen(publications: Any) -> None:  # noqa: ANN401 - passed on as it is
            self._feed.publish(publications)

        journal = SqliteJournal.open(self._directory / "log.db", codec(), listener=listen, synchronous="OFF")
        self._journal = FaultyJournal(journal)
        self._feed = Feed(self._journal, new_id=lambda prefix: f"{prefix}_{next(self._numbers)}", now=self._clock)

    def _close(self) -> None:
        self._feed.close()
        self._journal.close()


def told(events: list[Envelope]) -> list[Told]:
    """Return what the list holds of these events."""
    return [(event.cursor or 0, event.type, msgspec.to_builtins(event.data)) for event in events]


def _data(type_: str, number: int) -> dict[str, str | None]:
    return {"text": str(number)} if type_ == "text_delta" else {"message_id": str(number), "model": None}


TestDelivery = DeliveryMachine.TestCase
