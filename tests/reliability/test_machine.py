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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
from tests.examples import examples
from tests.jsons import object_at
from tests.reliability.wire import PATIENCE

SESSIONS: Final = ("a", "b")
CLIENTS: Final = ("x", "y")
HOUR: Final = 3_600
session_ids = st.sampled_from(SESSIONS)
client_ids = st.sampled_from(CLIENTS)
positions = st.none() | st.integers(0, 60)
"""How far before the end to begin; None leaves it to what is acknowledged."""
picks = st.integers(0, 11)
"""Which of those who are there, in turn."""


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
    """A subscription by itself, or one in the group under this name, and up to where it has heard its session."""

    def __init__(self, session_id: str, client_id: str | None, place: int, of: Subscription | str) -> None:
        self.session_id = session_id
        self.client_id = client_id
        self.place = place
        self.subscription = of if isinstance(of, Subscription) else None
        self.name = of if isinstance(of, str) else ""


def anybody_is_here(machine: DeliveryMachine) -> bool:
    return bool(machine.here)


class DeliveryMachine(RuleBasedStateMachine):
    """Do anything, and hold what every follower hears against the lists."""

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
        self.here: list[Follower] = []
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

    @rule(session_id=session_ids, how=st.sampled_from(["closed", "killed before a commit", "killed behind a commit"]))
    def it_is_started_anew(self, session_id: str, how: str) -> None:
        match how:
            case "closed":
                for follower in tuple(self.here):
                    self._leave(follower)
            case "killed before a commit":
                self._journal.crash_before_next_append()
                assert not self._publish(session_id, *["text_delta"] * 3)
            case _:
                self._journal.crash_after_next_append()
                assert not self._publish(session_id, *["text_delta"] * 3, written=True)

        self._close()
        self._open()

    # What is let go of.

    @rule(after=st.sampled_from(["nothing", "the ends of all turns, long ago"]))
    def old_deltas_are_compacted(self, after: str) -> None:
        if after != "nothing":
            for session_id in SESSIONS:
                self.a_turn_ends(session_id)
            self._clock.advance(49 * HOUR)
        before = self._clock() - 48 * HOUR * 1_000_000

        dropped = self._compaction.compact(before=before)

        old = {turn for turn, at in self.over_at.items() if at < before}
        going = old - self.gone
        assert dropped == sum(
            event.turn in going and event.told.type == "text_delta"
            for told in self.published.values()
            for event in told
        )
        self.gone |= old

    @rule(after=st.sampled_from([0, 7, 25]))
    def consumers_are_forgotten(self, after: int) -> None:
        self._clock.advance(after * HOUR)
        before = self._clock() - 24 * HOUR * 1_000_000
        for follower in self.here:
            self._is_seen(follower)

        forgotten = self._feed.consumers.forget(before=before)

        away = [key for key, at in self.seen_at.items() if at < before]
        assert forgotten == len(away)
        for key in away:
            del self.seen_at[key]
            self.acknowledged.pop(key, None)

    # Who follows.

    @rule(session_id=session_ids, client_id=st.none() | client_ids, back=positions)
    def follow(self, session_id: str, client_id: str | None, back: int | None) -> None:
        after, begin = self._begin(session_id, client_id, back)

        subscription = self._feed.subscribe(session_id, client_id, after)

        assert subscription.cursor == begin
        self._comes(Follower(session_id, client_id, begin, subscription))

    @rule(session_id=session_ids, client_id=st.none() | client_ids, back=positions)
    def join_the_group(self, session_id: str, client_id: str | None, back: int | None) -> None:
        after, begin = self._begin(session_id, client_id, back)
        name = f"follower {next(self._numbers)}"

        assert self._loop.run(self._group.add(name, session_id, client_id, after)).after == begin

        self._comes(Follower(session_id, client_id, begin, name))

    @precondition(anybody_is_here)
    @rule(pick=picks, limit=st.integers(1, 50))
    def take(self, pick: int, limit: int) -> None:
        follower = self._pick(pick)
        if follower.subscription is None:
            if self._is_behind():
                self._take_in_group(100 * limit)
            return
        heard = _told(follower.subscription.take(limit))

        self._check(follower, heard)
        assert len(heard) == limit or follower.place == self._end(follower.session_id)

    @precondition(anybody_is_here)
    @rule(pick=picks)
    def next_one(self, pick: int) -> None:
        follower = self._pick(pick)
        if follower.subscription is not None:
            is_more = follower.place < self._end(follower.session_id)

            event = follower.subscription.next(PATIENCE if is_more else 0)

            assert (event is not None) == is_more
            self._check(follower, _told([event] if event else []))

    @precondition(anybody_is_here)
    @rule(pick=picks, back=st.integers(0, 20))
    def acknowledge(self, pick: int, back: int) -> None:
        follower = self._pick(pick)
        if follower.client_id is not None:
            cursor = max(0, follower.place - back)

            if follower.subscription is None:
                self._loop.run(self._group.ack(follower.name, cursor))
            else:
                follower.subscription.ack(cursor)

            key = follower.session_id, follower.client_id
            self.acknowledged[key] = max(self.acknowledged.get(key, 0), cursor)

    @precondition(anybody_is_here)
    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        follower = self._pick(pick)

        self._leave(follower)

        if follower.subscription is not None:
            assert follower.subscription.closed
            assert follower.subscription.take() == []

    @invariant()
    def a_subscription_stands_where_it_has_heard_to(self) -> None:
        for follower in self.here:
            assert follower.subscription is None or follower.subscription.cursor == follower.place

    def teardown(self) -> None:
        while self._is_behind():
            self._take_in_group(100_000)
        for follower in self.here:
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
                Published(Told(first + number, entry.type, _data_of(entry)), turn)
                for number, entry in enumerate(entries)
            ]
        return isinstance(outcome, Committed)

    def _end(self, session_id: str) -> int:
        return len(self.published[session_id])

    def _begin(self, session_id: str, client_id: str | None, back: int | None) -> tuple[int | None, int]:
        """Return from where a follower asks to begin, and where it is to begin."""
        if back is not None:
            return max(0, self._end(session_id) - back), max(0, self._end(session_id) - back)
        return None, self.acknowledged.get((session_id, client_id), 0) if client_id else 0

    def _comes(self, follower: Follower) -> None:
        self.here.append(follower)
        self._is_seen(follower)

    def _pick(self, pick: int) -> Follower:
        return self.here[pick % len(self.here)]

    def _leave(self, follower: Follower) -> None:
        self.here.remove(follower)
        if follower.subscription is None:
            self._group.remove(follower.name)
        else:
            follower.subscription.unsubscribe()
        self._is_seen(follower)

    def _is_seen(self, follower: Follower) -> None:
        if follower.client_id is not None:
            self.seen_at[follower.session_id, follower.client_id] = self._clock()

    def _is_behind(self) -> bool:
        """Tell whether somebody in the group has yet to hear something."""
        return any(one.subscription is None and one.place < self._end(one.session_id) for one in self.here)

    def _take_in_group(self, limit: int) -> None:
        async def take() -> list[tuple[str, list[bytes]]]:
            async with asyncio.timeout(PATIENCE):
                return [(batch.id, batch.events) for batch in await self._group.take(limit)]

        by_name = {follower.name: follower for follower in self.here}
        for name, lines in self._loop.run(take()):
            self._check(by_name[name], _told(msgspec.json.decode(line, type=_Line) for line in lines))

    def _open(self) -> None:
        def listen(publications: Any) -> None:  # noqa: ANN401 - passed on as it is
            self._feed.publish(publications)

        journal = SqliteJournal.open(self._directory / "log.db", codec(), listener=listen, synchronous="OFF")
        self._journal = FaultyJournal(journal)
        self._feed = Feed(self._journal, new_id=lambda prefix: f"{prefix}_{next(self._numbers)}", now=self._clock)
        self._compaction = Compaction(self._journal, replaced=self._feed.replay.forget, is_over=lambda: False)
        self._group: Group = Group(self._feed, self._loop.get_loop())

    def _close(self) -> None:
        self.here = []
        self._group.close()
        self._feed.close()
        self._journal.close()


class _Line(msgspec.Struct):
    """What matters of an event in JSON."""

    cursor: int
    type: str
    data: dict[str, Any]


def _told(events: Iterable[Envelope | _Line]) -> list[Told]:
    return [Told(event.cursor or 0, event.type, msgspec.to_builtins(event.data)) for event in events]


def _data(type_: str, turn: int, number: int) -> dict[str, Any]:
    match type_:
        case "text_delta":
            return {"text": str(number)}
        case "message_start":
            return {"message_id": str(number), "model": None}
        case "message_stop":
            return {"stop_reason": str(number), "stop_sequence": None, "stop_details": None}
        case _:
            data: dict[str, Any] = msgspec.to_builtins(
                TurnCompleted(turn_id=f"{turn}", outcome="completed", duration=float(number))
            )
            return data


TestDelivery = DeliveryMachine.TestCase
TestDelivery.settings = settings(max_examples=examples(80), stateful_step_count=80)


def _data_of(entry: Entry) -> dict[str, Any]:
    return object_at(entry.data)
