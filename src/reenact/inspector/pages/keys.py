"""The keyboard shortcuts, by page."""

from __future__ import annotations

from typing import Final, TypeAlias

from reenact.inspector.addresses import Address
from reenact.inspector.rendering import Page
from reenact.inspector.source import Source

Keys: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]

KEYS: Final[dict[str, Keys]] = {
    "Everywhere": (
        (("j", "k"), "to the next, or the previous one, of what is listed"),
        (("Enter",), "open it"),
        (("/",), "search"),
        (("w",), "what waits for people"),
        (("g", "s"), "one after the other: the sessions"),
        (("g", "c"), "the costs"),
        (("g", "b"), "the branches"),
        (("g", "v"), "what was found wrong, and where today's code decides otherwise"),
        (("y",), "copy the address of this page; whoever has the log can open it with an inspector of their own"),
        (("?",), "this page"),
    ),
    "Sessions, and a session": (
        (("f",), "follow, or hold"),
        (("[", "]"), "earlier, later"),
        (("c",), "the conversation, or the timeline"),
    ),
    "An event": (
        (("←", "→"), "the event before, or behind it, in the log"),
        (("s",), "the state of its session here"),
    ),
    "A state": (
        (("←", "→"), "one event back, or on"),
        (("Shift", "←", "→"), "one message back, or on"),
        (("Home", "End"), "the first, the last"),
        (("d",), "compare with this position from here on"),
        (("Enter",), "why it happened"),
    ),
    "What waits": (
        (("a",), "to the button that approves; only Enter there decides"),
        (("x",), "to the reason, and then to the button that rejects"),
        (("e",), "change the arguments"),
    ),
}


def keys(source: Source, address: Address) -> Page:  # noqa: ARG001 - the page is the same for every log
    """Return the page of keyboard shortcuts."""
    return Page("keys.html", {"pages": KEYS})
