"""Prints what a command has found: JSON that stays on its line, or text that a terminal only shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from reenact.cli.parsing.options import ListFormat
from reenact.domain.legible import harmless, in_ascii

if TYPE_CHECKING:
    from reenact.cli.output.console import Console


_UNSEEN: Final = re.compile(r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""What may stand in JSON as it is, and yet would end a line for some readers, or hide or move what a person sees."""


class Page(Protocol):
    """What people read as text, and programs as JSON."""

    def text(self) -> str:
        """Return it as lines for people."""
        ...


def as_line(value: object) -> str:
    """Return the value as JSON on one line, which every reader takes for one line."""
    return _UNSEEN.sub(lambda found: in_ascii(found[0], ""), msgspec.json.encode(value).decode()) + "\n"


def as_page(page: Page, form: ListFormat, console: Console) -> None:
    """Print the page whole, as text or as one line of JSON."""
    if form is ListFormat.JSON:
        console.write(as_line(page))
    else:
        console.write("".join(f"{harmless(line)}\n" for line in page.text().split("\n")))
