"""A way to a server that can be stopped at any byte, as the process at its one end may be."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

_SOCKET = ".s.PGSQL.5432"
Direction: TypeAlias = Literal["to_server", "to_client"]


class Valve:
    """Lets so many bytes through in one direction, once it is told to, and then none until it is opened."""

    def __init__(self, directory: Path, target: str) -> None:
        self.directory = directory
        self._target = target
        self._changed = threading.Condition()
        self._limit: dict[Direction, int | None] = {"to_server": None, "to_client": None}
        self._passed: dict[Direction, bytearray] = {"to_server": bytearray(), "to_client": bytearray()}
        self._sockets: list[socket.socket] = []
        self._ended: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / _SOCKET))
        self._listener.listen()
        self._start(self._accept)

    def watch(self, direction: Direction = "to_server", limit: int | None = None) -> None:
        """From now on, let so many bytes through; None: all of them."""
        with self._changed:
            for passed in self._passed.values():
                passed.clear()
            self._limit[direction] = limit

    def passed(self, direction: Direction) -> bytes:
        """Return what came through since then."""
        with self._changed:
            return bytes(self._passed[direction])

    def wait(self, direction: Direction, count: int, or_until: Callable[[], bool]) -> None:
        """Return when so many bytes have come through, or when there is something else to go on for."""
        deadline = time.monotonic() + 60
        with self._changed:
            while len(self._passed[direction]) < count and not or_until():
                self._changed.wait(0.01)
                assert time.monotonic() < deadline, (direction, count, len(self._passed[direction]))

    def open(self) -> None:
        """Let everything through."""
        with self._changed:
            self._limit = {"to_server": None, "to_client": None}
            self._changed.notify_all()

    def cut(self) -> None:
        """End the connections, with what has not come through, and let the next ones through."""
        with self._changed:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._ended += self._sockets
            self._sockets.clear()
        self.open()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join()
        for each in (*self._ended, self._listener):
            each.close()

    def _start(self, work: object, *arguments: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            with self._changed:
                self._sockets += [client, server]
            self._start(self._pump, client, server, "to_server")
            self._start(self._pump, server, client, "to_client")

    def _pump(self, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while data:
                    data = self._let_through(data, sink, direction)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _let_through(self, data: bytes, sink: socket.socket, direction: Direction) -> bytes:
        """Forward what may pass, having waited until something may; return the rest."""
        with self._changed:
            self._changed.wait_for(lambda: self._room(direction) > 0)
            now = data[: self._room(direction)]
            sink.sendall(now)
            self._passed[direction] += now
            self._changed.notify_all()
        return data[len(now) :]

    def _room(self, direction: Direction) -> int:
        limit = self._limit[direction]
        return 1 << 30 if limit is None else limit - len(self._passed[direction])


@contextmanager
def valve_before(host: str) -> Generator[Valve]:
    """Stand before the server that has its socket in the directory."""
    directory = Path(tempfile.mkdtemp(prefix="reenact-valve-"))
    valve = Valve(directory, str(Path(host, _SOCKET)))
    try:
        yield valve
    finally:
        valve.close()
        shutil.rmtree(directory, ignore_errors=True)


def places_in(messages: bytes) -> list[int]:
    """Return where a client may stop: before, in and behind each message, and where the driver sends a part of one."""
    places, begin = {0, len(messages)}, 0
    while begin < len(messages):
        end = begin + 1 + int.from_bytes(messages[begin + 1 : begin + 5], "big")
        places |= {begin, begin + 1, (begin + end) // 2, end}
        begin = end
    places.update(range(0, len(messages), 8192))
    return sorted(places)
