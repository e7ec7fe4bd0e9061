"""A TCP balancer: takes new connections to the nodes that say they are ready, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterable
from typing import Self

_LOOK = 0.1
"""Seconds between two looks at whether a node is ready; one that does not answer for five of them is not."""


class Balancer:
    """Listens on a port of its own, on a thread of its own; a connection stays where it was taken to."""

    def __init__(self) -> None:
        self.port = 0
        self._ready: dict[int, None] = {}
        self._turn = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="balancer", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ready(self) -> frozenset[int]:
        """The ports of the nodes that are ready."""
        return frozenset(self._ready)

    def __enter__(self) -> Self:
        self._thread.start()
        self._listens.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def look_at(self, port: int) -> None:
        """Take connections there, too, whenever the node is ready."""
        self._loop.call_soon_threadsafe(self._begin, port)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        listening = self._loop.run_until_complete(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.port = listening.sockets[0].getsockname()[1]
        self._listens.set()
        self._loop.run_forever()
        listening.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
        self._loop.close()

    def _begin(self, port: int) -> None:
        task = self._loop.create_task(self._watch(port))
        self._tasks.add(task)

    async def _watch(self, port: int) -> None:
        while True:
            if await _is_ready(port):
                self._ready[port] = None
            else:
                self._ready.pop(port, None)
            await asyncio.sleep(_LOOK)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            for port in self._in_turn():
                with contextlib.suppress(OSError):
                    node_reader, node_writer = await asyncio.open_connection("127.0.0.1", port)
                    with contextlib.closing(node_writer):
                        copying = [_copy(reader, node_writer), _copy(node_reader, writer)]
                        ways = [asyncio.ensure_future(copy) for copy in copying]
                        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    return

    def _in_turn(self) -> Iterable[int]:
        ready = tuple(self._ready)
        first = next(self._turn)
        return (ready[(first + number) % len(ready)] for number in range(len(ready)))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


async def _is_ready(port: int) -> bool:
    try:
        async with asyncio.timeout(5 * _LOOK):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
