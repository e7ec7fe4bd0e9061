"""Where the checkout is, for the tests that look at it from outside."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).resolve().parent.parent.parent
