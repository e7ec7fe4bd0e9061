"""The page of a value that is too long for other pages: a part at a time, or all of it as a file."""

from __future__ import annotations

from reenact.inspector.addresses import Address
from reenact.inspector.pages.session import record_of
from reenact.inspector.rendering import File, Page
from reenact.inspector.source import Source
from reenact.inspector.text import within
from reenact.inspector.values import value_at, value_of
from reenact.projections.explain.entries import fields_of, row_at, session_of
from reenact.projections.log import name_of

PART = 64 * 1024
"""Bytes of a page for a part."""


def value(source: Source, address: Address) -> Page | File:
    """Return the page of a value of the event at a position, or of the whole record if no value is named."""
    at, path, start = address.number("at") or 0, address.text("of"), address.number("start") or 0
    row = row_at(source.log, at)
    found = value_of(at, path, value_at(fields_of(row.event), path)) if path else record_of(row)
    text = found.text
    part, length = within(text[start : start + PART], PART)
    if address.choice("as", ("page", "file"), "page") == "file":
        return File(f"position-{at}.{'txt' if path else 'json'}", text)
    return Page(
        "value.html",
        {
            "row": row,
            "name": name_of(row.event),
            "id": session_of(row.stream),
            "path": path,
            "part": part,
            "size": len(text.encode()),
            "start": start,
            "end": min(start, len(text)) + length,
            "length": len(text),
            "cut": PART,
        },
    )
