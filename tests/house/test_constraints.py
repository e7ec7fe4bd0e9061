"""What a development install gets is written down, wherever it is made."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")


@pytest.fixture
def pins(root: Path) -> list[str]:
    lines = (root / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def test_constraints_are_names_and_versions_and_nothing_else(pins: list[str]) -> None:
    assert pins
    assert [line for line in pins if not PIN.fullmatch(line)] == []


def test_constraints_name_each_package_once_and_in_order(pins: list[str]) -> None:
    names = [_normal(line) for line in pins]

    assert names == sorted(set(names))


def test_every_dependency_is_constrained(root: Path, pins: list[str]) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]

    wanted = {_normal(line) for line in [*project["dependencies"], *extras]} - {"reenact"}

    assert wanted - {_normal(line) for line in pins} == set()


def _normal(requirement: str) -> str:
    """Return the name that a requirement begins with, as packaging tools compare it."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
