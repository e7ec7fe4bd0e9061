"""A log that is furnished already."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crashes.world import World, furnish
from tests.logs import copy_directory


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the log of a container, an image and a session."""
    directory = tmp_path_factory.mktemp("furnished")
    with World(directory) as world, world.opened() as runtime:
        furnish(runtime, world)
    return directory


@pytest.fixture
def home(furnished: Path, tmp_path: Path) -> Path:
    """A copy of it, for the test alone."""
    return copy_directory(furnished, tmp_path / "home")
