"""A log that is furnished already."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crashes.world import furnished_in
from tests.logs import copy_directory


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the log of a container, an image and a session."""
    return furnished_in(tmp_path_factory.mktemp("furnished"))


@pytest.fixture(scope="session")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one, whose log is encrypted."""
    return furnished_in(tmp_path_factory.mktemp("encrypted"), is_encrypted=True)


@pytest.fixture
def home(furnished: Path, tmp_path: Path) -> Path:
    """A copy of it, for the test alone."""
    return copy_directory(furnished, tmp_path / "home")
