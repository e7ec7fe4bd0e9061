"""The page of a session's state at a position, and of its differences from another position."""

from __future__ import annotations

import msgspec

from reenact.domain.session.agent import MessageAccepted
from reenact.inspector.conversation import Speech, conversation_of
from reenact.inspector.differences import Moment, changes_between
from reenact.inspector.pages.session import state_now, values_of
from reenact.inspector.phrases import moment, sentence_about
from reenact.inspector.relations import Relations
from reenact.inspector.rendering import Address, Page
from reenact.inspector.source import Source
from reenact.inspector.strips import Label
from reenact.inspector.timeline import Colour, colour_of
from reenact.inspector.values import ROOM, room_of, value_of
from reenact.inspector.windows import AROUND, History
from reenact.projections.explain.entries import fields_of
from reenact.projections.explain.history import event_of

DRAWN = 400
"""The most events for which the slider has one tick each; for a longer session it has some times."""
TALK = 60
"""The number of last events whose messages are shown."""
FAR = 400
"""The most events between two positions whose calls and messages are compared."""
AT_ONCE = 10_000
"""The most events that are read for a state at once."""
SECONDS = 0.1
"""Seconds that further ones are read before a page shows the progress."""
TIMES = 5
"""The number of times under the slider of a long session."""


class Tick(msgspec.Struct, frozen=True):
    """An event under the slider, in percent of its width."""

    x: float
    number: int
    colour: Colour


def state(source: Source, address: Address) -> Page:
    """Return the page of a session at a position, or at one of its events by number."""
    session_id = address.required("id")
    history = History(source.log, session_id)
    number = min(address.number("n") or _number(history, address, "at") or history.count, history.count)
    left = _number(history, address, "left") or max(1, number - 1)
    right = _number(history, address, "right") or number
    is_part = address.choice("part", ("page", "moment"), "page") == "moment"
    if not is_part and (page := folding(source, history, max(number, left, right))) is not None:
        return page
    here = _moment(source, history, number)
    said = conversation_of(here.relations, history.between(max(1, number - TALK + 1), number, behind=0))
    low, high = sorted((left, right))
    is_near = high - low <= FAR
    since = low if is_near else None  # then both sides know the same calls
    before, after = (_moment(source, history, one, since) for one in (left, right))
    added: list[Speech] = []
    if is_near and left < right:
        added = conversation_of(after.relations, after.window.part(left + 1, right))
    changes = changes_between(before, after, added, has_calls=is_near)
    rules = None if here.session.rules is None else value_of(0, "", fields_of(here.session.rules))
    pending = here.pending
    return Page(
        "state_part.html" if is_part else "state.html",
        {
            "id": session_id,
            "container": here.session.container_id,
            "state_now": state_now(source, history),
            "here": here,
            "says": sentence_about(event_of(here.row)),
            "count": history.count,
            "first": history.row(1).position,
            "last": history.row(history.count).position,
            "back": history.row(number - 1).position if number > 1 else None,
            "on": history.row(number + 1).position if number < history.count else None,
            "turn_before": _message(history, number, -1),
            "turn_behind": _message(history, number, 1),
            "ticks": _ticks(history),
            "labels": _labels(history) if history.count > DRAWN else [],
            "band": (_percent(low, history), _percent(high, history)),
            "said": said,
            "pending": pending,
            "rules": rules,
            "before": before,
            "after": after,
            "changes": changes,
            "events_between": high - low,
            "is_near": is_near,
            "compared": "left" in address.query or "right" in address.query,
            "room": room_of(list(values_of(said)), ROOM // 2),
        },
    )


def folding(source: Source, history: History, number: int) -> Page | None:
    """Return a page that shows progress if too many events have to be read for the state; otherwise None.

    The page reloads itself, and each time more has been read.
    """
    if source.states.ahead(history, number) <= AT_ONCE:
        return None
    done = source.states.advance(history, number, SECONDS)
    return (
        None if done == number else Page("folding.html", {"id": history.session_id, "done": done, "total": number}, 503)
    )


def _number(history: History, address: Address, name: str) -> int | None:
    """Return the number of the event at the position that the address names."""
    at = address.number(name)
    return None if at is None else history.number_at(at)


def _moment(source: Source, history: History, number: int, since: int | None = None) -> Moment:
    first = max(1, number - TALK + 1 if since is None else since)
    window = history.between(min(first, number), number, behind=0)
    return Moment(number, window.rows[-1], source.states.at(history, number), Relations(window.rows), window)


def _message(history: History, number: int, step: int) -> int | None:
    """Return the number of the next message event, forwards or backwards; None if it is far."""
    first, last = (number + 1, number + AROUND) if step > 0 else (number - AROUND, number - 1)
    first, last = max(1, first), min(history.count, last)
    if first > last:
        return None
    numbers = [at for at, row in enumerate(history.rows(first, last), first) if isinstance(row.event, MessageAccepted)]
    return None if not numbers else numbers[0] if step > 0 else numbers[-1]


def _ticks(history: History) -> list[Tick]:
    if history.count > DRAWN:
        return []
    rows = history.rows(1, history.count)
    return [Tick(_percent(number, history), number, colour_of(row)) for number, row in enumerate(rows, 1)]


def _labels(history: History) -> list[Label]:
    numbers = [1 + round((history.count - 1) * place / (TIMES - 1)) for place in range(TIMES)]
    anchors = {1: "start", history.count: "end"}
    return [
        Label(_percent(one, history), moment(history.row(one).recorded_at), anchors.get(one, "middle"))
        for one in numbers
    ]


def _percent(number: int, history: History) -> float:
    return 0.0 if history.count == 1 else 100 * (number - 1) / (history.count - 1)
