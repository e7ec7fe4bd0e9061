"""A stage for each test, on which one failure happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.testing import FakeMessagesAPI
from tests.cli.failures.stage import Stage


@pytest.fixture
def stage(tmp_path: Path, api: FakeMessagesAPI, no_backoff: None, environ: dict[str, str]) -> Iterator[Stage]:
    """Return a stage, whose API is asked again without a pause."""
    stage = Stage(tmp_path, api, environ)
    with stage.exits:
        yield stage
