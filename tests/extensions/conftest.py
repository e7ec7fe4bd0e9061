"""A user and a project, each with a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extensions.written import Written


@pytest.fixture
def user(tmp_path: Path) -> Written:
    (tmp_path / "home").mkdir()
    return Written(tmp_path / "home")


@pytest.fixture
def project(tmp_path: Path) -> Written:
    (tmp_path / "project").mkdir()
    return Written(tmp_path / "project")
