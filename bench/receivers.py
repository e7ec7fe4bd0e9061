"""WebSocket clients that follow sessions and measure delays, in a process of their own.

Arguments: the `url`, how many `clients`, which `topics` each follows (none: it listens to everything), how many
`deltas` each waits for, a file to `keep` the first client's frames in, if any, and whether they `stall`, that is, read
nothing. They report when they follow, and at the end the figures. A delta's text begins with the monotonic time at
which it was made, in nanoseconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from bench.children import given, report


class _Data(msgspec.Struct, gc=False):
    text: str = ""


class _Event(msgspec.Struct, gc=False):
    type: str
    data: _Data


class _Batch(msgspec.Struct, gc=False):
    events: list[_Event]


class _Frame(msgspec.Struct, gc=False):
    type: str
    batches: tuple[_Batch, ...] = ()


class Client:
    """One connection: the events that it received, and their delays."""

    def __init__(self, topics: Sequence[str], deltas: int) -> None:
        self._topics = topics
        self._left = deltas
        self.kept: list[bytes] = []
        self.events = self.frames = self.bytes = 0
        self.latencies: list[int] = []
        self.began = self.ended = 0.0

    async def follow(self, connection: ClientConnection) -> None:
        """Subscribe to all topics, and return when all subscriptions are confirmed."""
        await connection.send('{"type":"hello"}')
        self.began = time.perf_counter()
        if not self._topics:
            await connection.send('{"type":"listen","id":"all"}')
        for topic in self._topics:
            await connection.send(f'{{"type":"subscribe","id":"{topic}","topic":"{topic}","after":0}}')

    async def receive(self, connection: ClientConnection, *, keep: bool, following: asyncio.Event) -> None:
        """Return when all deltas have arrived."""
        decoder, standing = msgspec.json.Decoder(_Frame), 0
        while self._left > 0:
            data = await connection.recv(decode=False)
            now = time.monotonic_ns()
            frame = decoder.decode(data)
            if frame.type == "subscribed":
                standing += 1
                if standing == max(1, len(self._topics)):
                    following.set()
            elif frame.type == "events":
                self.frames += 1
                self.bytes += len(data)
                if keep:
                    self.kept.append(bytes(data))
                for batch in frame.batches:
                    self._count(batch.events, now)
            elif frame.type == "error":
                raise RuntimeError(bytes(data))
        self.ended = time.perf_counter()

    def _count(self, events: list[_Event], now: int) -> None:
        self.events += len(events)
        for event in events:
            if event.type == "text_delta":
                self._left -= 1
                self.latencies.append(now - int(event.data.text[:19]))


async def main(
    url: str, clients: int, topics: list[str], deltas: int, keep: str | None = None, *, stall: bool = False
) -> None:
    """Follow, receive, and report the figures."""
    address = f"{url.replace('http', 'ws', 1)}/ws"
    many = [Client(topics, deltas) for _ in range(clients)]
    connections = [
        await connect(address, proxy=None, compression=None, ping_interval=None, max_queue=1 if stall else 64)
        for _ in many
    ]
    for client, connection in zip(many, connections, strict=True):
        await client.follow(connection)
    if stall:
        report(following=True)
        await asyncio.to_thread(sys.stdin.read)
        for connection in connections:
            connection.transport.abort()
        return
    following = [asyncio.Event() for _ in many]
    receiving = [
        asyncio.create_task(client.receive(connection, keep=keep is not None and client is many[0], following=stands))
        for client, connection, stands in zip(many, connections, following, strict=True)
    ]
    for stands in following:
        await stands.wait()
    report(following=True)
    await asyncio.gather(*receiving)
    if keep is not None:
        _keep(keep, many[0].kept)
    latencies = [one for client in many for one in client.latencies]
    percent = quantiles(latencies, n=100) if len(latencies) > 1 else [0.0] * 99
    report(
        events=sum(client.events for client in many),
        frames=sum(client.frames for client in many),
        bytes=sum(client.bytes for client in many),
        p50=percent[49] / 1e6,
        p99=percent[98] / 1e6,
        seconds=max(client.ended for client in many) - min(client.began for client in many),
    )
    for connection in connections:
        connection.transport.abort()


def _keep(file: str, frames: list[bytes]) -> None:
    Path(file).write_bytes(msgspec.msgpack.encode(frames))


if __name__ == "__main__":
    asyncio.run(main(**given()))
