"""A bare WebSocket server of the library that ours stands on: no log, no cursors; it sends bytes to whoever is there.

Orders: `{"broadcast": {"rate", "count", "each", "size"}}` sends so many events a second in frames of `each` events of
`size` bytes to all clients; `{"replay": FILE}` sends the frames of the file to all clients; `{"resident": true}` asks
for its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

from bench.children import order, report, resident

_EVENT: Final = '{{"type":"text_delta","data":{{"text":"{now} "}},"rest":"{rest}"}}'
_SAMPLE: Final = len(_EVENT.format(now=10**18, rest=""))


async def main() -> None:
    """Serve until standard input ends."""
    async with serve(_greet, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        report(url=f"http://127.0.0.1:{port}")
        while (told := await asyncio.to_thread(order)) is not None:
            match told:
                case {"broadcast": how}:
                    report(sent=await _broadcast(server.connections, **how))
                case {"replay": file}:
                    frames = _frames(file)
                    for connection in server.connections:
                        for frame in frames:
                            await connection.send(frame, text=True)
                    report(sent=len(frames))
                case _:
                    report(resident=resident())


def _frames(file: str) -> list[bytes]:
    return msgspec.msgpack.decode(Path(file).read_bytes(), type=list[bytes])


async def _greet(connection: ServerConnection) -> None:
    """Confirm each subscription, and do nothing else."""
    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            asked = msgspec.json.decode(message)
            if asked["type"] == "subscribe":
                await connection.send(f'{{"type":"subscribed","id":"{asked["id"]}"}}')


async def _broadcast(connections: Any, rate: float, count: int, each: int, size: int) -> int:  # noqa: ANN401 - a set that changes
    rest = "x" * max(0, size - _SAMPLE)
    due = time.perf_counter()
    for sent in range(0, count, each):
        now = time.monotonic_ns()
        events = ",".join(_EVENT.format(now=now, rest=rest) for _ in range(min(each, count - sent)))
        broadcast(connections, f'{{"type":"events","batches":[{{"events":[{events}]}}]}}')
        due += each / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    return count


if __name__ == "__main__":
    asyncio.run(main())
