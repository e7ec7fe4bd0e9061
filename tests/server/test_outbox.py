"""What goes out over one connection, frame by frame."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.feed.group import Batch, Group
from reenact.domain.stream.frames import Acked
from reenact.server.answers import PIECE
from reenact.server.limits import Counts, Unread
from reenact.server.outbox import BATCH, PACE, ClientSubscription, Outbox, _frame_parts
from reenact.server.transports import _pieces_of


class Spring(Group):
    """Has always one more event, of so many bytes; an old one, if it is behind."""

    def __init__(self, size: int, *, is_behind: bool) -> None:
        self._size = size
        self._old = is_behind

    @property
    def is_behind(self) -> bool:
        return self._old

    async def take(self, limit_bytes: int = BATCH) -> list[Batch]:
        return [Batch("1", [b"1" * self._size])]


class Socket:
    """Takes frames, each when the loop has done something else, and says when it has taken so many."""

    def __init__(self, wanted: int) -> None:
        self.taken: list[tuple[float, bytes]] = []
        self._wanted = wanted
        self._has_them = asyncio.Event()

    async def send(self, parts: Sequence[bytes]) -> None:
        self.taken.append((asyncio.get_running_loop().time(), b"".join(parts)))
        if len(self.taken) >= self._wanted:
            self._has_them.set()
        await asyncio.sleep(0)

    async def full(self) -> None:
        async with asyncio.timeout(60):
            await self._has_them.wait()

    def pauses(self) -> list[float]:
        return [later - sooner for (sooner, _), (later, _) in pairwise(self.taken)]


def sending(size: int, socket: Socket, *, is_behind: bool = False) -> Outbox:
    subscription = ClientSubscription("sub", "1")
    outbox = Outbox(Spring(size, is_behind=is_behind), socket.send, Counts(), Unread())
    outbox.follow(subscription)
    outbox.confirm(subscription)
    return outbox


async def send(outbox: Outbox) -> None:
    await asyncio.gather(outbox.send_frames(), outbox.send_events())


def test_few_events_at_a_time_are_sent_in_few_frames() -> None:
    async def play(socket: Socket) -> None:
        sender = asyncio.create_task(send(sending(100, socket)))
        await socket.full()
        sender.cancel()

    socket = Socket(5)
    asyncio.run(play(socket))

    pauses = socket.pauses()
    assert sum(pauses) >= PACE * (len(pauses) - 1) * 0.9  # the first one ends at the next moment for all connections


@pytest.mark.parametrize(("size", "is_behind"), [(BATCH, False), (100, True)])
def test_many_events_at_a_time_and_old_ones_are_sent_without_a_pause(size: int, *, is_behind: bool) -> None:
    async def play(socket: Socket) -> None:
        sender = asyncio.create_task(send(sending(size, socket, is_behind=is_behind)))
        await socket.full()
        sender.cancel()

    socket = Socket(50)
    asyncio.run(play(socket))

    assert min(socket.pauses()) < PACE / 2


def test_an_answer_does_not_wait_for_the_next_events() -> None:
    async def play(first: Socket, outbox: Outbox) -> None:
        sender = asyncio.create_task(send(outbox))
        outbox.put(Acked(id="sub", cursor=1))
        await first.full()
        outbox.put(Acked(id="sub", cursor=2))
        await asyncio.sleep(0)
        sender.cancel()

    socket = Socket(2)
    asyncio.run(play(socket, sending(100, socket)))

    kinds = [b"acked" in frame for _, frame in socket.taken]
    assert kinds == [True, False, True]


@given(
    st.lists(st.sampled_from([0, 1, 100, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE]), min_size=1, max_size=8).filter(any)
)
def test_a_frame_goes_out_in_pieces_of_which_none_is_too_large_and_one_is_the_last(sizes: list[int]) -> None:
    parts = [bytes([place]) * size for place, size in enumerate(sizes)]

    pieces = [*_pieces_of(parts)]

    assert b"".join(piece for piece, _ in pieces) == b"".join(parts)
    assert max(len(piece) for piece, _ in pieces) <= PIECE
    assert [is_last for _, is_last in pieces] == [*(len(pieces) - 1) * [False], True]


EVENTS = (b"1", b'"two"', b"[3]", b'"%b"' % (b"4" * BATCH))


@given(st.lists(st.lists(st.integers(0, len(EVENTS) - 1), min_size=1, max_size=4), max_size=3))
def test_a_frame_has_the_events_of_each_subscription_in_their_order(of_each: list[list[int]]) -> None:
    events = [[EVENTS[number] for number in numbers] for numbers in of_each]
    batches = [Batch(f"name {number}", each) for number, each in enumerate(events)]
    wanted = {batch.id: ClientSubscription(str(number), batch.id) for number, batch in enumerate(batches)}

    parts, count = _frame_parts([*batches, Batch("forgotten", [b"1"])], wanted)
    frame = b"".join(parts)

    told = [{"id": str(number), "events": [*map(json.loads, each)]} for number, each in enumerate(events)]
    assert (json.loads(frame) if frame else None) == ({"type": "events", "batches": told} if told else None)
    assert count == sum(map(len, events))
