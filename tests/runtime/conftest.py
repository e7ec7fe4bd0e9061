"""Runtimes that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reenact import Image, Runtime
from tests.runtime.gated import GatedFactory

Open = Callable[..., Runtime]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def mock() -> GatedFactory:
    return GatedFactory()


@pytest.fixture
def opened(path: Path, mock: GatedFactory) -> Iterator[Open]:
    """Opens runtimes on the mock, on the test's own file unless another is named, and closes them in the end."""
    with ExitStack() as stack:

        def open_(log: Path = path, **settings: Any) -> Runtime:  # noqa: ANN401 - what `Runtime.open` takes
            if "llm_provider" not in settings:
                settings.setdefault("environment", mock)
            runtime = Runtime.open(log, synchronous="OFF", **settings)
            stack.callback(runtime.close)
            return runtime

        yield open_


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
