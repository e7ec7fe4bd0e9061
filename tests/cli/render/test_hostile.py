"""Text that is made to take long, or much memory: both grow as the text does, and no faster."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from enum import Enum
from typing import TypeGuard

import pytest
from rich.console import Console

from reenact.cli.render.markdown import StreamedMarkdown
from tests.examples import some


class Nowhere(io.StringIO):
    """Takes what is written, and forgets it."""

    def write(self, text: str) -> int:
        return len(text)


def prose() -> StreamedMarkdown:
    """Return where Markdown is shown to nobody."""
    return StreamedMarkdown(Console(file=Nowhere(), force_terminal=True, width=80, _environ={}))


def seconds(text: str) -> float:
    """Return how long a text takes that comes in pieces of a few characters."""
    shown, began = prose(), time.process_time()
    for place in range(0, len(text), 6):
        shown.write(text[place : place + 6])
    shown.end()
    return time.process_time() - began


HOSTILE = {
    "stars": "*",
    "opened emphasis": "*a ",
    "emphasis that never fits": "_a *b ",
    "brackets": "[",
    "images": "![",
    "links": "[a](",
    "backticks": "`",
    "backticks of many lengths": "` `` ``` ```` ",
    "tags": "<a ",
    "quotes": ">",
    "quotes with blanks": "> ",
    "dashes": "- ",
    "numbers": "1. ",
    "blanks": " ",
    "line ends": "\n",
    "hashes": "#",
    "pipes": "|",
    "rows": "| a\n",
    "backslashes": "\\",
    "one word": "x",
    "addresses": "http://a.b/",
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", some([*HOSTILE]))
def test_twice_the_text_takes_about_twice_the_time(name: str) -> None:
    unit, size = HOSTILE[name], 3000
    seconds(unit * 100)  # what is imported

    once = min(seconds(unit * (size // len(unit))) for _ in range(2))
    fourfold = seconds(unit * (4 * size // len(unit)))

    assert fourfold < 10 * once + 0.05  # 16 times, if it were quadratic


def is_several(thing: object) -> TypeGuard[Sequence[object]]:
    """Return whether it is a list or a tuple."""
    return isinstance(thing, list | tuple)


def held(thing: object) -> int:
    """Return how many characters a part of this package holds on to, and how many things in lists."""
    if isinstance(thing, str):
        return len(thing)
    if is_several(thing):
        return len(thing) + sum(map(held, thing))
    module = type(thing).__module__
    if isinstance(thing, Enum) or not module.startswith(("reenact.cli.render", "pygments.lexer")):
        return 0
    parts: dict[str, object] = getattr(thing, "__dict__", {})
    return 1 + sum(held(part) for name, part in parts.items() if name != "_lexer")


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("unit", "most"),
    [
        *(
            (unit, 10_000)
            for unit in ("x", "*a ", " ", "\n", "[", "> ", "```\n", "a `b\n", "- a\n  ", "a\\\n", "#", "-")
        ),
        *((unit, 110_000) for unit in ("| a | b |\n", "|---|\n", "| a\n", "|a")),
        ("```js\n" + "x = `${ {\n" * 100, 10_000),
    ],
)
def test_what_is_held_back_does_not_grow_with_the_text(unit: str, most: int) -> None:
    shown = prose()
    shown.write("| a | b |\n" if "|" in unit else "a")

    most_held = 0
    for _ in range(most // 2500):
        shown.write(unit * (3000 // len(unit)))
        most_held = max(most_held, held(shown))

    assert 0 < most_held < most
