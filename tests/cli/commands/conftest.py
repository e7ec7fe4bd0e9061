"""A log in which somebody has talked once."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Json, Run


@pytest.fixture
def talk(run: Run) -> Json:
    """Talk once, about apples, and return what came of it."""
    return run("-p", "About apples", "--output-format", "json").result
