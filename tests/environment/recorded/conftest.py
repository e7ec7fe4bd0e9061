"""What tests of recordings share: a file to record to, and runtimes that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reenact import Runtime
from tests.logs import log_at

Open = Callable[..., Runtime]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recording.json"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens runtimes, on the test's own log unless another is named, and closes them in the end."""
    with ExitStack() as stack:

        def open_(environment: Any, log: str | Path = tmp_path / "agents.db", **settings: Any) -> Runtime:  # noqa: ANN401 - what `Runtime.open` takes
            where = log if isinstance(log, str) else log_at(log)
            runtime = Runtime.open(where, environment=environment, synchronous="OFF", **settings)
            stack.callback(runtime.close)
            return runtime

        yield open_
