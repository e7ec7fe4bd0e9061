"""The programs in examples/ are whole, short, and print what they say at their top that they print."""

from __future__ import annotations

import ast
import shutil
import textwrap
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_readme import run
from tests.started.programs import Programs

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = 160
"""Lines."""


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_what_it_says(example: Path, programs: Programs, tmp_path: Path) -> None:
    for other in EXAMPLES:  # they may import each other
        shutil.copy(other, tmp_path)

    ran = run(programs, example.read_text(encoding="utf-8"), tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == promised(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_the_documents_name_every_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")

    assert [
        path.name for path in (ROOT / "examples").iterdir() if path.is_file() and f"/{path.name})" not in page
    ] == []


def promised(example: Path) -> str:
    said = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    return textwrap.dedent(said.partition("It prints:\n\n")[2]) + "\n"
