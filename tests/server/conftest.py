"""A runtime with a mock, and servers of it in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest

from reenact import Image, Runtime
from reenact.server import Limits, Server
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at
from tests.server.talk import Talk, greeted

Serve: TypeAlias = Callable[..., Server]
TOKEN = "a-token-of-this-test"  # noqa: S105 - it opens nothing else


@pytest.fixture
def mock() -> MockEnvironmentFactory:
    """Return what answers, without delays."""
    return MockEnvironmentFactory(delays=False)


@pytest.fixture
def runtime(mock: MockEnvironmentFactory, tmp_path: Path) -> Iterator[Runtime]:
    """Return a runtime with an image `chat`."""
    with Runtime.open(
        log_at(tmp_path / "log.db"), environment=mock, default_image=Image(id="chat"), synchronous="OFF"
    ) as runtime:
        yield runtime


@pytest.fixture
def serve(runtime: Runtime) -> Iterator[Serve]:
    """Return what starts a server: `serve(tokens=[…], message_size=…)`; limits are given by their names."""
    with ExitStack() as servers:

        def serve(**settings: Any) -> Server:  # noqa: ANN401 - those of servers and limits
            limits = {name: settings.pop(name) for name in tuple(settings) if name in Limits.__dataclass_fields__}
            return servers.enter_context(Server(runtime, limits=Limits(**limits), **settings))

        yield serve


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server that anybody may use."""
    return serve()


@pytest.fixture
def talk(server: Server) -> Iterator[Talk]:
    """Return a client that has been welcomed."""
    with greeted(server) as talk:
        yield talk


@pytest.fixture
def http(server: Server) -> Iterator[httpx2.Client]:
    """Return a client of the JSON API."""
    with httpx2.Client(base_url=server.url) as client:
        yield client


@pytest.fixture
def session_id(runtime: Runtime) -> str:
    """Return a session in which nothing has been said."""
    runtime.containers.create(container_id="room")
    return runtime.sessions.create("room", "chat", session_id="talks").id
