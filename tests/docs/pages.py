"""The pages that users read, and the code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").rglob("*.md")))

DATABASE = "postgresql://reenact@database/reenact"
"""Where programs on pages have a log that they need a server for."""

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `follows` is the text between the block before and this one."""

    page: Path
    line: int
    language: str
    text: str
    follows: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Example:
    """A program on a page, and what the page says that it prints."""

    program: Block
    output: str | None

    def __str__(self) -> str:
        return str(self.program)


def needs_database(example: Example) -> bool:
    """Return whether the program has its log on a server."""
    return DATABASE in example.program.text


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    content = page.read_text(encoding="utf-8")
    end = 0
    for found in _FENCED.finditer(content):
        line = content.count("\n", 0, found.start()) + 1
        yield Block(page, line, found[1], found[2], content[end : found.start()])
        end = found.end()


def examples(page: Path) -> Iterator[Example]:
    """Yield the Python programs of a page; the output of one is the block of text right below it."""
    found = list(blocks(page))
    for block, following in zip(found, [*found[1:], None], strict=False):
        if block.language == "python":
            printed = following is not None and following.language == "text" and not following.follows.strip()
            yield Example(block, following.text if following is not None and printed else None)
