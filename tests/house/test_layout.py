"""Each class exists once: the core has one home and one name."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CORE = ("actors", "domain", "projections")


@pytest.mark.parametrize("name", CORE)
def test_each_core_folder_is_linked_into_the_package(root: Path, name: str) -> None:
    link = root / "src" / "reenact" / name

    target = link.readlink()

    assert target == Path("../..", name), "a link must be relative, to hold in every checkout"
    assert (root / name / "__init__.py").is_file()


@pytest.mark.parametrize("name", CORE)
def test_core_modules_are_imported_through_the_package(root: Path, name: str) -> None:
    module = importlib.import_module(f"reenact.{name}")

    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == root / name / "__init__.py"


def test_no_core_folder_can_be_imported_by_its_short_name() -> None:
    code = f"from importlib.util import find_spec; print([n for n in {CORE} if find_spec(n)])"

    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout

    assert found.strip() == "[]"


def test_pyright_is_told_of_every_link_because_it_follows_none_by_itself(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text())

    included = set(settings["tool"]["pyright"]["include"])

    assert included >= {f"src/reenact/{name}" for name in CORE}


def test_a_type_checker_of_a_user_sees_our_types(root: Path) -> None:
    assert (root / "src" / "reenact" / "py.typed").read_bytes() == b""
