"""What goes out over one connection, frame by frame."""

from __future__ import annotations

import asyncio

import msgspec

from reenact.domain.frames import Acked
from reenact.server.counts import Counts
from reenact.server.outbox import BATCH, PACE, Followed, Outbox


class Taken(msgspec.Struct):
    id: str
    events: list[bytes]
    ended: str | None = None


class Spring:
    """Has always one more event, of so many bytes."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def take(self, limit_bytes: int = BATCH) -> list[Taken]:
        return [Taken("1", [b"1" * self._size])]


class Socket:
    """Takes frames, each when the one before has been taken for so long as it takes the loop to do something else."""

    def __init__(self) -> None:
        self.frames: list[tuple[float, bytes]] = []

    async def send(self, frame: bytes) -> None:
        self.frames.append((asyncio.get_running_loop().time(), frame))
        await asyncio.sleep(0)

    async def has(self, count: int) -> list[float]:
        """Return when so many frames were sent, once they are."""
        async with asyncio.timeout(10):
            while len(self.frames) < count:
                await asyncio.sleep(0.001)
        return [at for at, _ in self.frames[:count]]


def sending(size: int, socket: Socket) -> Outbox:
    followed = Followed("sub", "1")
    followed.told.set()
    outbox = Outbox(Spring(size), socket.send, Counts())
    outbox.follow(followed)
    return outbox


def test_few_events_at_a_time_are_sent_in_few_frames() -> None:
    async def play() -> list[float]:
        socket = Socket()
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(sending(100, socket).run())
            times = await socket.has(5)
            sender.cancel()
        return times

    times = asyncio.run(play())

    assert min(later - sooner for sooner, later in zip(times, times[1:], strict=False)) >= PACE * 0.9


def test_many_events_at_a_time_are_sent_without_a_pause() -> None:
    async def play() -> list[float]:
        socket = Socket()
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(sending(BATCH, socket).run())
            times = await socket.has(50)
            sender.cancel()
        return times

    times = asyncio.run(play())

    assert min(later - sooner for sooner, later in zip(times, times[1:], strict=False)) < PACE / 2


def test_an_answer_does_not_wait_for_the_next_events() -> None:
    async def play() -> tuple[float, bytes]:
        socket = Socket()
        async with asyncio.TaskGroup() as group:
            outbox = sending(100, socket)
            sender = group.create_task(outbox.run())
            await socket.has(1)
            outbox.put(Acked(id="sub", cursor=1))
            await socket.has(2)
            sender.cancel()
        return socket.frames[1]

    _, frame = asyncio.run(play())

    assert b"acked" in frame
