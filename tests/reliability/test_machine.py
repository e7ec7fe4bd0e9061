"""Producers, consumers, acknowledgements, failing commits, crashes and compaction, in any order, on a real log.

A plain list for each session says what is right: what was published, of which the deltas of turns that are long over
may be gone, if that is told.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from reenact._runtime import codec
from reenact.actors.feed.compaction import Compaction
from reenact.actors.feed.group import Group
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.subscription import Subscription
from reenact.actors.journal.api import Append, Committed, Entry, Outcome, Segment
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from reenact.domain.errors import StorageError
from reenact.events import Envelope, TurnCompleted
from reenact.testing import FaultyJournal, ManualClock
from tests.reliability.wire import PATIENCE

SESSIONS: Final = ("a", "b")
CLIENTS: Final = ("x", "y")
HOUR: Final = 3_600
session_ids = st.sampled_from(SESSIONS)
client_ids = st.sampled_from(CLIENTS)
positions = st.none() | st.integers(0, 60)
"""How far before the end to begin; None leaves it to what is acknowledged."""


class Told(NamedTuple):
    """An event as a follower hears it."""

    cursor: int
    type: str
    data: dict[str, Any]


class Published(NamedTuple):
    """An event as it was published, and the turn that it belongs to."""

    told: Told
    turn: int


class Follower:
    """A subscription by itself or in the group, and up to where it has heard its session."""

    def __init__(self, session_id: str, client_id: str | None, place: int, subscription: Subscription | None) -> None:
        self.session_id = session_id
        self.client_id = client_id
        self.place = place
        self.subscription = subscription


class DeliveryMachine(RuleBasedStateMachine):
    """Do anything, and hold what every follower hears against the lists."""

    followers = Bundle[Follower]("followers")

    def __init__(self) -> None:
        super().__init__()
        self._directory = Path(tempfile.mkdtemp())
        self._clock = ManualClock()
        self._loop = asyncio.Runner()
        self._numbers = count(1)
        self.published: dict[str, list[Published]] = {session_id: [] for session_id in SESSIONS}
        self.turns = {session_id: next(self._numbers) for session_id in SESSIONS}
        self.over_at: dict[int, int] = {}
        self.gone: set[int] = set()
        """Turns whose deltas may be gone."""
        self.acknowledged: dict[tuple[str, str], int] = {}
        self.seen_at: dict[tuple[str, str], int] = {}
        self.here: dict[str, Follower] = {}
        self._open()

    @initialize()
    def sessions_begin(self) -> None:
        for session_id in SESSIONS:
            assert self._publish(session_id, "message_start")

    # What happens in the sessions.

    @rule(session_id=session_ids, deltas=st.integers(1, 40))
    def say(self, session_id: str, deltas: int) -> None:
        assert self._publish(session_id, *["text_delta"] * deltas)

    @rule(session_id=session_ids, times=st.integers(1, 30))
    def say_bit_by_bit(self, session_id: str, times: int) -> None:
        for _ in range(times):
            assert self._publish(session_id, "text_delta")

    @rule(session_id=session_ids)
    def a_turn_ends(self, session_id: str) -> None:
        assert self._publish(session_id, "message_stop", "turn_completed")

        self.over_at[self.turns[session_id]] = self._clock()
        self.turns[session_id] = next(self._numbers)

    @rule(hours=st.sampled_from([7, 25, 49]))
    def time_passes(self, hours: int) -> None:
        self._clock.advance(hours * HOUR)

    # What goes wrong.

    @rule(session_id=session_ids)
    def a_commit_fails(self, session_id: str) -> None:
        self._journal.fail_next(StorageError("the disk is gone"))

        assert not self._publish(session_id, *["text_delta"] * 3)

        self._journal.recover(f"session/{session_id}")

    @rule(written=st.booleans(), session_id=session_ids)
    def it_crashes_in_a_commit(self, session_id: str, *, written: bool) -> None:
        if written:
            self._journal.crash_after_next_append()
        else:
            self._journal.crash_before_next_append()

        assert not self._publish(session_id, *["text_delta"] * 3, written=written)

        self._close()
        self._open()

    @rule()
    def it_is_closed_and_opened(self) -> None:
        for name in list(self.here):
            self._leave(name)
        self._close()
        self._open()

    # What is let go of.

    @rule()
    def old_deltas_are_compacted(self) -> None:
        before = self._clock() - 48 * HOUR * 1_000_000

        dropped = Compaction(self._feed.journal, lambda: False).compact(before=before)

        old = {turn for turn, at in self.over_at.items() if at < before}
        going = old - self.gone
        assert dropped == sum(
            event.turn in going and event.told.type == "text_delta"
            for told in self.published.values()
            for event in told
        )
        self.gone |= old

    @rule()
    def consumers_are_forgotten(self) -> None:
        before = self._clock() - 24 * HOUR * 1_000_000
        for follower in self.here.values():
            self._is_seen(follower)

        forgotten = self._feed.consumers.forget(before=before)

        away = [key for key, at in self.seen_at.items() if at < before]
        assert forgotten == len(away)
        for key in away:
            del self.seen_at[key]
            self.acknowledged.pop(key, None)

    # Who follows.

    @rule(target=followers, session_id=session_ids, client_id=st.none() | client_ids, back=positions)
    def follow(self, session_id: str, client_id: str | None, back: int | None) -> Follower:
        after, begin = self._begin(session_id, client_id, back)

        subscription = self._feed.subscribe(session_id, client_id, after)

        assert subscription.cursor == begin
        return self._comes(Follower(session_id, client_id, begin, subscription))

    @rule(target=followers, session_id=session_ids, client_id=st.none() | client_ids, back=positions)
    def join_the_group(self, session_id: str, client_id: str | None, back: int | None) -> Follower:
        after, begin = self._begin(session_id, client_id, back)
        follower = Follower(session_id, client_id, begin, None)

        assert self._loop.run(self._group.add(_name(follower), session_id, client_id, after)) == begin

        return self._comes(follower)

    @rule(follower=followers, limit=st.integers(1, 50))
    def take(self, follower: Follower, limit: int) -> None:
        if self._is_here(follower) and follower.subscription is not None:
            heard = _told(follower.subscription.take(limit))

            self._check(follower, heard)
            assert len(heard) == limit or follower.place == self._end(follower.session_id)

    @rule(follower=followers)
    def next_one(self, follower: Follower) -> None:
        if self._is_here(follower) and follower.subscription is not None:
            is_more = follower.place < self._end(follower.session_id)

            event = follower.subscription.next(PATIENCE if is_more else 0)

            assert (event is not None) == is_more
            self._check(follower, _told([event] if event else []))

    @rule(limit=st.integers(1, 20_000), times=st.integers(1, 5))
    def the_group_takes(self, limit: int, times: int) -> None:
        for _ in range(times):
            if not self._group_is_behind():
                break
            self._take_in_group(limit)

    @rule(follower=followers, back=st.integers(0, 20))
    def acknowledge(self, follower: Follower, back: int) -> None:
        if self._is_here(follower) and follower.client_id is not None:
            cursor = max(0, follower.place - back)

            if follower.subscription is None:
                self._loop.run(self._group.ack(_name(follower), cursor))
            else:
                follower.subscription.ack(cursor)

            key = follower.session_id, follower.client_id
            self.acknowledged[key] = max(self.acknowledged.get(key, 0), cursor)

    @rule(follower=consumes(followers))
    def leave(self, follower: Follower) -> None:
        if self._is_here(follower):
            self._leave(_name(follower))
            if follower.subscription is not None:
                assert follower.subscription.closed
                assert follower.subscription.take() == []

    @invariant()
    def a_subscription_stands_where_it_has_heard_to(self) -> None:
        for follower in self.here.values():
            assert follower.subscription is None or follower.subscription.cursor == follower.place

    def teardown(self) -> None:
        while self._group_is_behind():
            self._take_in_group(100_000)
        for follower in self.here.values():
            if follower.subscription is not None:
                self._check(follower, _told(follower.subscription.take(100_000)))
                assert follower.place == self._end(follower.session_id)
        self._close()
        self._open()
        for session_id in SESSIONS:
            with self._feed.subscribe(session_id) as anew:
                heard = _told(anew.take(100_000))
            self._check(Follower(session_id, None, 0, anew), heard)
            kept = {told.cursor for told in heard if told.type == "text_delta"}
            assert kept == {
                event.told.cursor
                for event in self.published[session_id]
                if event.told.type == "text_delta" and event.turn not in self.gone
            }
        self._close()
        self._loop.close()
        assert verify(self._directory / "log.db") == []
        shutil.rmtree(self._directory)

    def _check(self, follower: Follower, heard: Iterable[Told]) -> None:
        """Hold what the follower has heard against what comes next in its session, and take note that it has it."""
        published = self.published[follower.session_id]
        for told in heard:
            if told.type == "deltas_compacted":
                first, last = told.data["first_cursor"], told.data["last_cursor"]
                assert first <= follower.place + 1 <= last == told.cursor
                covered = published[first - 1 : last]
                assert {event.told.type for event in covered} == {"text_delta"}
                assert {event.turn for event in covered} <= self.gone
            else:
                assert told == published[follower.place].told
            follower.place = told.cursor

    def _publish(self, session_id: str, *types: str, written: bool = False) -> bool:
        """Publish events of these types, in one commit; return whether the journal says that it was made."""
        at, turn = self._clock(), self.turns[session_id]
        entries = tuple(Entry(type_, at, _data(type_, turn, next(self._numbers))) for type_ in types)
        segment = Segment({"session_id": session_id, "turn_id": f"{turn}"}, entries)
        outcomes = SimpleQueue[Outcome]()
        self._journal.append(Append(f"session/{session_id}", None, at, kept=(segment,)), outcomes.put)
        outcome = outcomes.get(timeout=PATIENCE)
        if written or isinstance(outcome, Committed):
            first = self._end(session_id) + 1
            self.published[session_id] += [
                Published(Told(first + number, entry.type, entry.data), turn) for number, entry in enumerate(entries)
            ]
        return isinstance(outcome, Committed)

    def _end(self, session_id: str) -> int:
        return len(self.published[session_id])

    def _begin(self, session_id: str, client_id: str | None, back: int | None) -> tuple[int | None, int]:
        """Return from where a follower asks to begin, and where it is to begin."""
        if back is not None:
            return max(0, self._end(session_id) - back), max(0, self._end(session_id) - back)
        return None, self.acknowledged.get((session_id, client_id), 0) if client_id else 0

    def _comes(self, follower: Follower) -> Follower:
        self.here[_name(follower)] = follower
        self._is_seen(follower)
        return follower

    def _leave(self, name: str) -> None:
        follower = self.here.pop(name)
        if follower.subscription is None:
            self._group.remove(name)
        else:
            follower.subscription.unsubscribe()
        self._is_seen(follower)

    def _is_here(self, follower: Follower) -> bool:
        return _name(follower) in self.here

    def _is_seen(self, follower: Follower) -> None:
        if follower.client_id is not None:
            self.seen_at[follower.session_id, follower.client_id] = self._clock()

    def _group_is_behind(self) -> bool:
        return any(
            follower.subscription is None and follower.place < self._end(follower.session_id)
            for follower in self.here.values()
        )

    def _take_in_group(self, limit: int) -> None:
        async def take() -> list[tuple[str, list[bytes]]]:
            async with asyncio.timeout(PATIENCE):
                return [(batch.id, batch.events) for batch in await self._group.take(limit)]

        for name, lines in self._loop.run(take()):
            self._check(self.here[name], _told(msgspec.json.decode(line, type=_Line) for line in lines))

    def _open(self) -> None:
        def listen(publications: Any) -> None:  # noqa: ANN401 - passed on as it is
            self._feed.publish(publications)

        journal = SqliteJournal.open(self._directory / "log.db", codec(), listener=listen, synchronous="OFF")
        self._journal = FaultyJournal(journal)
        self._feed = Feed(self._journal, new_id=lambda prefix: f"{prefix}_{next(self._numbers)}", now=self._clock)
        self._group: Group = self._feed.group(self._loop.get_loop())

    def _close(self) -> None:
        self.here = {}
        self._group.close()
        self._feed.close()
        self._journal.close()


class _Line(msgspec.Struct):
    """What matters of an event in JSON."""

    cursor: int
    type: str
    data: dict[str, Any]


def _name(follower: Follower) -> str:
    return str(id(follower))


def _told(events: Iterable[Envelope | _Line]) -> list[Told]:
    return [Told(event.cursor or 0, event.type, msgspec.to_builtins(event.data)) for event in events]


def _data(type_: str, turn: int, number: int) -> dict[str, Any]:
    match type_:
        case "text_delta":
            return {"text": str(number)}
        case "message_start":
            return {"message_id": str(number), "model": None}
        case "message_stop":
            return {"stop_reason": str(number)}
        case _:
            data: dict[str, Any] = msgspec.to_builtins(
                TurnCompleted(turn_id=f"{turn}", outcome="completed", duration=float(number))
            )
            return data


TestDelivery = DeliveryMachine.TestCase
TestDelivery.settings = settings(max_examples=40, stateful_step_count=40)
