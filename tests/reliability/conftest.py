"""A runtime whose mock answers out of a tap, and a server for it, both in the process of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.server import Limits, Server
from tests.logs import log_at
from tests.reliability.proxy import Proxy
from tests.reliability.tap import Tap, TapFactory
from tests.runtime.conftest import furnish


@pytest.fixture
def tap() -> Tap:
    return Tap()


@pytest.fixture
def log(tmp_path: Path) -> str:
    (tmp_path / "log").mkdir()
    return log_at(tmp_path / "log" / "agents.db")


@pytest.fixture
def runtime(log: str, tap: Tap) -> Iterator[Runtime]:
    """A runtime with the container `c` and the image `i`."""
    with Runtime.open(log, environment=TapFactory(tap), synchronous="OFF") as runtime:
        furnish(runtime)
        yield runtime


@pytest.fixture
def agent(runtime: Runtime) -> str:
    """The agent of the session `s`."""
    runtime.sessions.create("c", "i", session_id="s")
    return runtime.sessions.run("s")


@pytest.fixture
def server(runtime: Runtime) -> Iterator[Server]:
    """A server that lets each client send as fast as it can."""
    with Server(runtime, limits=Limits(rate=1e6, burst=1_000_000)) as server:
        yield server


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A relay in front of the server."""
    with Proxy(server.url) as proxy:
        yield proxy
