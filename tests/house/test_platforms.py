"""Where Reenact runs is said in one place, and where it does not, it says so itself."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ON_WINDOWS = "import sys; sys.platform = 'win32'; import {module}"


@pytest.fixture
def page(root: Path) -> dict[str, list[str]]:
    """The table of supported versions: each row's versions, by what they are of."""
    rows = re.findall(r"^\| (\w+) \| ([^|]+) \|", (root / "docs" / "supported.md").read_text(), re.MULTILINE)
    return {name: versions.split(", ") for name, versions in rows}


@pytest.mark.parametrize("module", ["reenact", "reenact.testing", "reenact.terminal"])
def test_on_windows_the_import_says_why_and_what_to_do(module: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS.format(module=module)], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        "ImportError: Reenact does not run on Windows: its logs are locked with fcntl, which Windows lacks. "
        "Use the Windows Subsystem for Linux, or a server elsewhere (docs/supported.md)."
    )


def test_the_supported_pythons_are_those_of_the_package(root: Path, page: dict[str, list[str]]) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    classified = [found for one in project["classifiers"] for found in re.findall(r":: Python :: (3\.\d+)$", one)]

    assert page["Python"] == classified
    assert project["requires-python"] == f">={page['Python'][0]}"


def test_the_supported_pythons_are_those_that_are_tested(root: Path, page: dict[str, list[str]]) -> None:
    workflow = root / ".github" / "workflows" / "tests.yml"
    if not workflow.exists():
        pytest.skip("an sdist has no workflows")

    (matrix,) = re.findall(r"python: \[(.+)\]", workflow.read_text())

    assert re.findall(r"[\d.]+", matrix) == page["Python"]


def test_this_python_and_this_sqlite_are_supported(page: dict[str, list[str]]) -> None:
    (oldest,) = re.findall(r"(\d+)\.(\d+) or newer", page["SQLite"][0])

    assert "{}.{}".format(*sys.version_info) in page["Python"]
    assert sqlite3.sqlite_version_info >= tuple(map(int, oldest))


def test_the_supported_databases_are_those_that_are_said_to_be_tested(root: Path, page: dict[str, list[str]]) -> None:
    (said,) = re.findall(r"PostgreSQL (\d+) to (\d+)", (root / "docs" / "durability.md").read_text())

    assert page["PostgreSQL"] == [str(version) for version in range(int(said[0]), int(said[1]) + 1)]
