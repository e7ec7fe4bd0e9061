"""A host for the client, and a server whose answers come out of a tap, with a relay in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact import Runtime
from reenact.server import Limits, Server
from tests.browsers import Chromium
from tests.clients_js.hosts import FILES, POLICY, Host, in_node, in_page, serving_pages
from tests.reliability.conftest import agent, log, proxy, runtime, tap

__all__ = ["agent", "log", "proxy", "runtime", "tap"]


@pytest.fixture(scope="session")
def origin() -> Iterator[str]:
    """Where pages with the client are from."""
    with serving_pages(FILES, POLICY) as origin:
        yield origin


@pytest.fixture(scope="session", params=["node", "chromium"])
def browser(request: pytest.FixtureRequest) -> Chromium | None:
    """What shows pages, or nothing. For the whole run, so that it is not among what a test leaves running."""
    if request.param == "node":
        return None
    chromium: Chromium = request.getfixturevalue("chromium")
    return chromium


@pytest.fixture
def host(browser: Chromium | None, origin: str) -> Iterator[Host]:
    """What runs the client: Node, or a page."""
    if browser is None:
        with in_node() as host:
            yield host
    else:
        tab = browser.tab()
        yield in_page(tab, origin)
        tab.close()


@pytest.fixture
def server(runtime: Runtime, origin: str) -> Iterator[Server]:
    """A server that lets each client send as fast as it can, pages too."""
    with Server(runtime, origins=[origin], limits=Limits(rate=1e6, burst=1_000_000)) as server:
        yield server
