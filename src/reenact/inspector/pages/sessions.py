"""The page of sessions: those that match a filter, the newest first, fifty on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from reenact.actors.kernel.timetable import microseconds
from reenact.domain.errors import InvalidInputError
from reenact.inspector.rendering import Address, Page, whole_number
from reenact.inspector.source import Source
from reenact.inspector.strips import axis_around, strip_of
from reenact.projections.read_model.rows import ActivityState
from reenact.projections.read_model.session_list import (
    Filters,
    Search,
    SessionLine,
    images,
    lines_of,
    newer,
    page,
    search,
    totals,
    turns_of,
)

SIZE: Final = 50
SECONDS: Final = 0.1
"""The most seconds of a search, apart from the step that it has begun."""
STATES: Final[Mapping[ActivityState, str]] = {
    "waits": "Waits",
    "live": "Live",
    "failed": "Failed",
    "idle": "Idle",
    "new": "New",
}
OUTCOMES: Final = {
    "completed": "completed",
    "waiting": "waits for a person",
    "interrupted": "interrupted",
    "failed": "failed",
}
SINCE: Final = {
    "1h": ("Last hour", 1),
    "12h": ("Last 12 hours", 12),
    "24h": ("Last 24 hours", 24),
    "7d": ("Last 7 days", 7 * 24),
    "30d": ("Last 30 days", 30 * 24),
}
_MOST_TEXT = 200
_HOUR = 3_600_000_000


def list_sessions(source: Source, address: Address) -> Page:
    """Return the page of sessions."""
    source.tables.refresh()
    now, filters, text = microseconds(), _filters(address), _text(address)
    before, after = address.number("before"), address.number("after")
    found: Search | None = None
    if text:
        found = search(source.tables, filters, text, before=before, limit=SIZE, seconds=SECONDS)
        lines, has_more, has_newer = lines_of(source.tables, found.found), found.until is not None, before is not None
    else:
        lines = page(source.tables, filters, SIZE + 1, before=before, after=after)
        is_full = len(lines) > SIZE
        has_more, has_newer = (is_full, before is not None) if after is None else (True, is_full)
        lines = lines[:SIZE] if after is None else lines[-SIZE:]
    older = found.until if found is not None else lines[-1].key if lines else None
    return Page(
        "sessions.html",
        {
            **_shown(source, filters, lines, now),
            "states": STATES,
            "outcomes": OUTCOMES,
            "periods": {name: title for name, (title, _) in SINCE.items()},
            "images": images(source.tables, filters.image),
            "text": text,
            "found": found,
            "is_filtered": bool(text) or filters != Filters(),
            "older": older if has_more else None,
            "newer": lines[0].key if lines and has_newer and not text else None,
            "is_first": before is None and after is None,
            "new": 0,
        },
    )


def list_changed(source: Source, address: Address) -> Page:
    """Return the changed parts of the page: the sessions that it shows, and the number of newer ones."""
    source.tables.refresh()
    filters, keys = _filters(address), _keys(address)
    lines = lines_of(source.tables, keys)
    top = address.number("top")
    new = newer(source.tables, filters, top) if top is not None and not _text(address) else 0
    shown = _shown(source, filters, lines, microseconds())
    return Page("sessions_rows.html", {**shown, "states": STATES, "new": new, "is_first": top is not None})


def _shown(source: Source, filters: Filters, lines: Sequence[SessionLine], now: int) -> dict[str, object]:
    """Return the values of both the page and its changed parts."""
    turns = {line.key: turns_of(source.tables, line.key) for line in lines}
    is_run = source.location.has_writer()
    working = is_run and any(line.state == "live" for line in lines)
    axis = axis_around(turns.values(), now, is_open=working or any(line.state == "waits" for line in lines))
    strips = (
        {}
        if axis is None
        else {
            line.key: strip_of(
                turns[line.key],
                axis,
                now if is_run else line.last_at,
                waits_until=now if line.state == "waits" else None,
            )
            for line in lines
        }
    )
    return {
        "lines": lines,
        "axis": axis,
        "strips": strips,
        "filters": filters,
        "totals": totals(source.tables, filters),
        "micros": now,
        "is_run": is_run,
    }


def _filters(address: Address) -> Filters:
    state = address.choice("state", ("", *STATES), "")
    since = address.choice("since", ("", *SINCE), "")
    return Filters(
        state=next((one for one in STATES if one == state), None),
        image=address.query.get("image") or None,
        outcome=address.choice("outcome", ("", *OUTCOMES), "") or None,
        since=microseconds() - SINCE[since][1] * _HOUR if since else None,
    )


def _text(address: Address) -> str:
    """Return the words to look for, without invisible characters."""
    return "".join(filter(str.isprintable, address.text("text")))[:_MOST_TEXT]


def _keys(address: Address) -> list[int]:
    found = [whole_number(word) for word in address.text("keys").split(",") if word]
    keys = [key for key in found if key is not None]
    if len(found) > SIZE or len(keys) < len(found):
        raise InvalidInputError(f"keys are at most {SIZE} numbers with commas between them")
    return keys
