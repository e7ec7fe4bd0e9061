"""Keys that go over several of the pieces in which an answer came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from reenact.actors.environment.recorded.form import Exchange, Spoken
from reenact.actors.environment.recorded.hiding import Veil
from reenact.domain.events import (
    InputJsonDelta,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
)

_FIELD: Final = {
    TextDelta.event_type: "text",
    ThinkingDelta.event_type: "text",
    InputJsonDelta.event_type: "partial_json",
}
"""The events that are pieces, and where their text stands."""
_ENDS: Final = frozenset(
    {MessageStart.event_type, ThinkingStart.event_type, ThinkingEnd.event_type, ToolCall.event_type}
)
"""What stands between two texts, so that a piece behind it does not go on with one before it."""


def without_keys(exchange: Exchange, veil: Veil) -> Exchange:
    """Return the exchange with the keys hidden that go over several events, and with digests of those in its request.

    There are as many events as before; one that held nothing but a part of a key is a piece without text.
    """
    if not veil.secrets:
        return exchange
    hidden = dict.fromkeys((*exchange.hidden, *veil.digests((exchange.setting, exchange.messages))))
    events = list(exchange.events)
    for places in _texts(events):
        field = _FIELD[events[places[0]].type]
        told = [str(events[place].data[field]) for place in places]
        for place, before, after in zip(places, told, veil.pieces(told), strict=True):
            if before != after:
                data = {**events[place].data, field: after}
                events[place] = msgspec.structs.replace(events[place], data=data)
    return msgspec.structs.replace(exchange, events=tuple(events), hidden=tuple(hidden))


def _texts(events: Sequence[Spoken]) -> list[list[int]]:
    """Return the places of the pieces of each text."""
    texts: list[list[int]] = []
    open_: dict[tuple[str, object], list[int]] = {}
    for place, one in enumerate(events):
        if one.type in _FIELD:
            of = (one.type, one.data.get("id"))
            if of not in open_:
                open_[of] = []
                texts.append(open_[of])
            open_[of].append(place)
        elif one.type in _ENDS:
            open_.clear()
    return texts
