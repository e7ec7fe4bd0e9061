"""What a new user does first works as the page says, and the property test finds what it is there to find."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.test_readme import surroundings

PAGE = ROOT / "docs" / "first-steps.md"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the programs of the page, under the names that it gives them."""
    for block in blocks(PAGE):
        if named := re.search(r"(?:Put this|and this) into `(\w+\.py)`", block.follows):
            (tmp_path / named[1]).write_text(block.text, encoding="utf-8")
    return tmp_path


def run_in(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=dict(surroundings(directory)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_program_of_the_page_has_a_name(directory: Path) -> None:
    assert {path.name for path in directory.iterdir()} == {"hello.py", "plants.py", "test_plants.py"}


def test_the_property_test_of_the_page_passes(directory: Path) -> None:
    ran = run_in(directory, "-m", "pytest", "-p", "no:cacheprovider", "test_plants.py")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def test_the_property_test_of_the_page_finds_a_plant_that_drowns(directory: Path) -> None:
    plants = directory / "plants.py"
    plants.write_text(plants.read_text(encoding="utf-8").replace("litres + more <= 10", "litres + more <= 11"))
    test = directory / "test_plants.py"
    no_shrinking = "max_examples=20, phases=[Phase.generate])"
    changed = test.read_text(encoding="utf-8").replace("max_examples=20)", no_shrinking)
    test.write_text(changed.replace("import settings", "import Phase, settings"))

    ran = run_in(directory, "-m", "pytest", "-p", "no:cacheprovider", "test_plants.py")

    assert ran.returncode == 1
    assert "assert 11 <= 10" in ran.stdout
