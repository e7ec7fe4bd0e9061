"""The `py` blocks of a page are the steps of one program: they run in order, and print what the page says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks
from tests.docs.test_readme import run
from tests.started.programs import Programs

STEP = "py"
END = "\x1e"
"""What the program prints after each step."""


def is_step(block: Block) -> bool:
    return block.language == STEP


def program(page: Path) -> str:
    """Return the steps as one program, each on the lines that it has on the page, so that a traceback leads there."""
    lines = [""] * page.read_text(encoding="utf-8").count("\n")
    for block in filter(is_step, blocks(page)):
        text = block.text.splitlines()
        lines[block.line : block.line + len(text) + 1] = [*text, f"print({END!r}, end='', flush=True)"]
    return "\n".join(lines) + "\n"


def outputs(page: Path) -> dict[str, str]:
    """Return what each step prints, as the page says it: in the block of text right below."""
    shown: dict[str, str] = {}
    for block, following in pairwise((*blocks(page), Block(page, 0, "", "", "the end"))):
        if is_step(block):
            prints = following.language == "text" and not following.follows.strip()
            shown[str(block)] = following.text if prints else ""
    return shown


TUTORIAL = ROOT / "docs" / "tutorial.md"
STEPPED = [page for page in PAGES if any(map(is_step, blocks(page)))]


def test_the_tutorial_has_steps() -> None:
    assert TUTORIAL in STEPPED


@pytest.mark.parametrize("page", STEPPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_step_prints_what_the_page_says(page: Path, programs: Programs, tmp_path: Path) -> None:
    said = outputs(page)

    ran = run(programs, program(page), tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    *printed, rest = ran.stdout.split(END)
    assert dict(zip(said, printed, strict=True)) == said
    assert rest == ""
