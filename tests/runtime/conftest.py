"""Runtimes that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from reenact import Image, Runtime
from reenact.domain.errors import LogUnusableError
from tests.logs import log_at, read_log
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import check_decisions

Open = Callable[..., Runtime]


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A log that has not begun yet."""
    return log_at(tmp_path / "agents.db")


@pytest.fixture
def mock() -> GatedFactory:
    return GatedFactory()


@pytest.fixture
def decided_otherwise() -> None:
    """What the test records cannot be decided once more as it was: it is damaged, or depends on links."""


@pytest.fixture
def opened(log: str, mock: GatedFactory, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens runtimes on the mock, on the test's own log unless another is named, and closes them in the end.

    Then what they have recorded is decided once more, unless the test uses `decided_otherwise`.
    """
    own, logs = log, set[str]()
    with ExitStack() as stack:

        def open_(log: str = own, **settings: Any) -> Runtime:  # noqa: ANN401 - what `Runtime.open` takes
            if "llm_provider" not in settings:
                settings.setdefault("environment", mock)
            runtime = Runtime.open(log, synchronous="OFF", **settings)
            logs.add(log)
            stack.callback(runtime.close)
            return runtime

        yield open_
    for each in logs if "decided_otherwise" not in request.fixturenames else ():
        with suppress(LogUnusableError), read_log(each) as journal:
            check_decisions(journal)


@pytest.fixture
def runtime(opened: Open) -> Runtime:
    """A runtime with the container `c` and the image `i`."""
    runtime = opened()
    furnish(runtime)
    return runtime


def furnish(runtime: Runtime) -> None:
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i"))


@pytest.fixture
def agent(runtime: Runtime) -> str:
    """The agent of the session `s`."""
    runtime.sessions.create("c", "i", session_id="s")
    return runtime.sessions.run("s")
