"""A log with a short conversation, and a browser at its pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import Image, Runtime
from reenact.inspector import Source
from reenact.testing import MockEnvironmentFactory
from tests.inspector.browsing import Browser, browsing
from tests.inspector.demo import write_demo
from tests.inspector.long import write_long
from tests.logs import log_at


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return where the log is."""
    return log_at(tmp_path / "log.db")


@pytest.fixture
def runtime(log: str) -> Iterator[Runtime]:
    """Return a runtime that writes the log."""
    with Runtime.open(
        log,
        environment=MockEnvironmentFactory(delays=False),
        default_image=Image(id="chat"),
        synchronous="OFF",
    ) as runtime:
        yield runtime


@pytest.fixture
def browser(runtime: Runtime, log: str) -> Iterator[Browser]:
    """Return a browser at the pages of the log, which the runtime goes on writing."""
    runtime.containers.create(container_id="default")
    runtime.sessions.create("default", "chat", session_id="greeting")
    runtime.ask("Hello", session="greeting")
    with Source.open(log) as source, browsing(source) as browser:
        yield browser


@pytest.fixture(scope="session")
def night_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a night of eleven sessions, which nobody writes any more."""
    path = tmp_path_factory.mktemp("night") / "night.db"
    write_demo(path)
    return path


@pytest.fixture
def night_copy(night_log: Path, tmp_path: Path) -> Path:
    """Return a copy of that log, which a test may change."""
    return Path(shutil.copy(night_log, tmp_path / "night.db"))


@pytest.fixture(scope="session")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log in which one session, `long`, has some thousand events."""
    path = tmp_path_factory.mktemp("long") / "long.db"
    write_long(str(path), 3000)
    return path


@pytest.fixture
def night(night_log: Path) -> Iterator[Browser]:
    """Return a browser at the pages of the night."""
    with Source.open(night_log) as source, browsing(source) as browser:
        yield browser


@pytest.fixture
def long(long_log: Path) -> Iterator[Browser]:
    """Return a browser at the pages of the long session."""
    with Source.open(long_log) as source, browsing(source) as browser:
        yield browser
