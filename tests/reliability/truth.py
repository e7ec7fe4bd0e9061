"""What was to be delivered, as the log alone tells it; and what was delivered, told in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from reenact import Runtime
from reenact.events import Envelope
from tests.domain.stream.grammar import Heard
from tests.logs import read_log
from tests.reliability.wire import Event
from tests.runtime.witness import heard_of, journal_of


def kept(runtime: Runtime, session_id: str = "s") -> list[Heard]:
    """Return the session's events as the log of the runtime holds them."""
    return heard_of(journal_of(runtime), session_id)


def kept_in(log: str, session_id: str = "s") -> list[Heard]:
    """Return the session's events as a log holds them that nobody has open."""
    with read_log(log) as journal:
        return heard_of(journal, session_id)


def received(events: Iterable[Event]) -> list[Heard]:
    """Return the events that came over a wire."""
    return [Heard(event["cursor"], event["type"], event["context"].get("turn_id"), event["data"]) for event in events]


def taken(events: Iterable[Envelope]) -> list[Heard]:
    """Return the events that a subscription has handed out."""
    return received(json.loads(msgspec.json.encode(list(events))))


def deltas_of(events: Iterable[Heard]) -> list[str]:
    """Return the text of the deltas."""
    return [event.data["text"] for event in events if event.type == "text_delta"]
