"""A relay on loopback between clients and a server, which does to their connections what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from tests.reliability.splitter import Piece, Splitter

T = TypeVar("T")
Towards: TypeAlias = Literal["client", "server"]

PATIENCE: Final = 60.0
_CHUNK: Final = 65_536
_AHEAD: Final = 16
"""So many chunks are read before they can be written; behind them the sender is held up, as by any network."""

_Relayed: TypeAlias = tuple[float, list[Piece]] | None


class Proxy:
    """Relays every connection that is made to `url` to the target, on a thread of its own.

    A fault that counts (`cut_after`, `cut_inside`, `duplicate`) is a trap for what is relayed from now on, over
    whichever connection, and snaps once. The others hold from now on, also for the connections that are there.
    """

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._listener: asyncio.Server | None = None
        self._open: set[_Connection] = set()
        self.port = 0
        self.accepted = 0
        """How many connections there have been."""
        self.duplicated = 0
        """How many frames were sent twice."""
        self.faults = _Faults()

    def __enter__(self) -> Self:
        self._thread.start()
        self.accept()
        return self

    def __exit__(self, *exc: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._open)

    def refuse(self) -> None:
        """Listen no more: who connects is refused at once."""
        self._do(self._refuse())

    def accept(self) -> None:
        """Listen, on the same port as before."""
        self._do(self._accept())

    def cut(self) -> int:
        """Reset every connection; return how many there were."""
        return self._do(self._cut())

    def cut_after(self, count: int, towards: Towards) -> None:
        """Reset the connection over which the `count`th byte from now on is relayed, right behind it."""
        self._set(lambda faults: faults.bytes_left.update({towards: count}))

    def cut_inside(self, towards: Towards, containing: bytes = b"") -> None:
        """Relay the first half of the next frame that contains this, then reset its connection."""
        self._set(lambda faults: faults.inside.update({towards: containing}))

    def duplicate(self, containing: bytes, times: int = 1) -> None:
        """Relay the next frame of a client that contains this twice, and so on with the next ones: so many in all."""
        self._set(lambda faults: faults.duplicate(containing, times))

    def delay(self, seconds: float) -> None:
        """Let everything arrive later by so much, in both directions."""
        self._set(lambda faults: setattr(faults, "delay", seconds))

    def trickle(self, count: int, seconds: float) -> None:
        """Relay at most so many bytes at a time, with a pause between."""
        self._set(lambda faults: setattr(faults, "trickle", (count, seconds)))

    def hold(self) -> None:
        """Relay nothing, and keep every connection open: neither side is told that the other is gone."""
        self._set(lambda faults: faults.flowing.clear())

    def let_go(self) -> None:
        """Relay again, also what was held."""
        self._set(lambda faults: faults.flowing.set())

    def _set(self, change: Callable[[_Faults], object]) -> None:
        async def make() -> None:
            change(self.faults)

        self._do(make())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _accept(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=_CHUNK)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _cut(self) -> int:
        cut = len(self._open)
        for connection in tuple(self._open):
            connection.reset()
        return cut

    async def _end(self) -> None:
        await self._refuse()
        await self._cut()
        for connection in tuple(self._open):
            await connection.over.wait()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            server = await asyncio.open_connection(*self._target, limit=_CHUNK)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(self, (reader, writer), server)
        self._open.add(connection)
        try:
            await connection.relay()
        finally:
            self._open.discard(connection)
            connection.over.set()


class _Faults:
    """What is to go wrong."""

    def __init__(self) -> None:
        self.bytes_left: dict[Towards, int] = {}
        self.inside: dict[Towards, bytes] = {}
        self.twice: list[bytes] = []
        self.delay = 0.0
        self.trickle: tuple[int, float] | None = None
        self.flowing = asyncio.Event()
        self.flowing.set()

    def duplicate(self, containing: bytes, times: int) -> None:
        self.twice += [containing] * times

    def doubles(self, piece: Piece) -> bool:
        """Tell whether the piece is to be sent twice; if so, that has happened."""
        if piece.payload is None or not self.twice or self.twice[0] not in piece.payload:
            return False
        self.twice.pop(0)
        return True

    def left_of(self, piece: Piece, towards: Towards) -> int | None:
        """Return how many bytes of the piece are relayed before its connection is reset, if it is."""
        if piece.payload is not None and towards in self.inside and self.inside[towards] in piece.payload:
            del self.inside[towards]
            return len(piece.data) // 2
        if towards in self.bytes_left:
            left = self.bytes_left[towards]
            self.bytes_left[towards] = left - len(piece.data)
            if self.bytes_left[towards] <= 0:
                del self.bytes_left[towards]
                return left
        return None


_Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: _Ends, server: _Ends) -> None:
        self._proxy = proxy
        self._faults = proxy.faults
        self._ends: dict[Towards, _Ends] = {"client": client, "server": server}
        self._tasks: list[asyncio.Task[None]] = []
        self.over = asyncio.Event()

    async def relay(self) -> None:
        """Return when both directions have ended, or the connection was reset."""
        self._tasks = [task for towards in self._ends for task in self._start(towards)]
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        self.reset()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self) -> None:
        """End both connections at once; what is under way is lost."""
        for _, writer in self._ends.values():
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()

    def _start(self, towards: Towards) -> list[asyncio.Task[None]]:
        queue: asyncio.Queue[_Relayed] = asyncio.Queue(_AHEAD)
        return [asyncio.create_task(self._read(towards, queue)), asyncio.create_task(self._write(towards, queue))]

    async def _read(self, towards: Towards, queue: asyncio.Queue[_Relayed]) -> None:
        reader, _ = self._ends["server" if towards == "client" else "client"]
        splitter = Splitter()
        while chunk := await reader.read(_CHUNK):
            await queue.put((self._now() + self._faults.delay, splitter.split(chunk)))
        await queue.put((self._now() + self._faults.delay, splitter.rest()))
        await queue.put(None)

    async def _write(self, towards: Towards, queue: asyncio.Queue[_Relayed]) -> None:
        _, writer = self._ends[towards]
        while (relayed := await queue.get()) is not None:
            due, pieces = relayed
            await asyncio.sleep(max(0.0, due - self._now()))
            for piece in pieces:
                await self._faults.flowing.wait()
                await self._pass_on(piece, towards, writer)
        with contextlib.suppress(OSError):
            writer.write_eof()

    async def _pass_on(self, piece: Piece, towards: Towards, writer: asyncio.StreamWriter) -> None:
        if towards == "server" and self._faults.doubles(piece):
            self._proxy.duplicated += 1
            await self._send(piece.data, writer)
        left = self._faults.left_of(piece, towards)
        await self._send(piece.data[:left], writer)
        if left is not None:
            await _flushed(writer)
            raise ConnectionResetError

    async def _send(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self._faults.trickle is None:
            writer.write(data)
            await writer.drain()
            return
        count, seconds = self._faults.trickle
        for begin in range(0, len(data), count):
            writer.write(data[begin : begin + count])
            await writer.drain()
            await asyncio.sleep(seconds)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


async def _flushed(writer: asyncio.StreamWriter) -> None:
    """Return when the system has taken what was written: an abort forgets what it has not."""
    writer.transport.set_write_buffer_limits(high=0)
    await writer.drain()
