"""Scripted servers, real ones, and runtimes that are connected to them; all end with the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reenact import Image, Runtime
from reenact.client.dialing import Reconnect
from reenact.client.runtime import RemoteRuntime
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory
from tests.client.scripted import Beyond, Line, Scripted
from tests.logs import log_at

TOKEN = "only-for-these-tests"  # noqa: S105 - it opens nothing else
Connect = Callable[..., RemoteRuntime]


class Waits:
    """The time between attempts to connect: it passes at once, or when the test says so."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.at_once = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        self.asked.append(seconds)
        if self.at_once:
            return
        self._loop = asyncio.get_running_loop()
        self._waiting = self._loop.create_future()
        await self._waiting

    def pass_(self) -> None:
        """Let the present wait be over."""
        loop, waiting = self._loop, self._waiting
        assert loop is not None
        assert waiting is not None
        loop.call_soon_threadsafe(self._over, waiting)

    @staticmethod
    def _over(waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_result(None)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def reconnect(waits: Waits) -> Reconnect:
    """Reconnecting without chance, and without time."""
    return Reconnect(first=1.0, longest=8.0, chance=lambda: 1.0, wait=waits.wait)


@pytest.fixture
def beyond() -> Iterator[Beyond]:
    beyond = Beyond()
    yield beyond
    beyond.join()


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.stop()


@pytest.fixture
def connect(reconnect: Reconnect) -> Iterator[Connect]:
    """Connects runtimes, and closes them in the end."""
    with ExitStack() as stack:

        def connect(url: str, **settings: Any) -> RemoteRuntime:  # noqa: ANN401 - what `Runtime.connect` takes
            given: dict[str, Any] = {"reconnect": reconnect, "timeout": 60.0, **settings}
            runtime = Runtime.connect(url, **given)
            stack.callback(runtime.close)
            return runtime

        yield connect


@pytest.fixture
def talk(scripted: Scripted, connect: Connect, beyond: Beyond) -> Callable[..., tuple[RemoteRuntime, Line]]:
    """Connects a runtime to the scripted server; gives both ends."""

    def talk(**settings: Any) -> tuple[RemoteRuntime, Line]:  # noqa: ANN401 - what `Runtime.connect` takes
        connecting = beyond.call(lambda: connect(scripted.url, **settings))
        line = scripted.line()
        return connecting.result(), line

    return talk


@pytest.fixture
def mock() -> MockEnvironmentFactory:
    return MockEnvironmentFactory(delays=False)


@pytest.fixture
def local(mock: MockEnvironmentFactory, tmp_path: Path) -> Iterator[Runtime]:
    """A runtime in this process, with the container `c`, the image `i` and its session `s`."""
    with Runtime.open(log_at(tmp_path / "log.db"), environment=mock, synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="s")
        yield runtime


@pytest.fixture
def server(local: Runtime) -> Iterator[Server]:
    with Server(local, tokens=[TOKEN]) as server:
        yield server


@pytest.fixture
def remote(server: Server, connect: Connect) -> RemoteRuntime:
    """The same runtime, from the other end of a connection."""
    return connect(server.url, token=TOKEN)
