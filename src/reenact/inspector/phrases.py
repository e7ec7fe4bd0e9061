"""What pages of a session say of its events in a few words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from markupsafe import Markup

from reenact.domain.explanation import AnyEvent, sentence
from reenact.domain.messages import instant
from reenact.inspector.stories import Call
from reenact.inspector.text import count, duration, line
from reenact.inspector.values import size_of

_ID = re.compile(r"\b(agt|msg|ses|trn)_[0-9a-z]{12,}([0-9a-z]{6}(?:_\d+)?)\b")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_CACHED = "cache_read_input_tokens"


def with_short_ids(text: str) -> str:
    """Return the sentence with ids of ours shortened to what tells them apart."""
    return _ID.sub(r"\1_…\2", text)


def said_of(event: AnyEvent) -> str:
    """Return what the event says."""
    return with_short_ids(sentence(event))


def tokens_in(usage: Mapping[str, object]) -> int:
    """Return how many tokens the model was given."""
    return sum(_number(usage.get(name)) for name in _INPUT)


def used(usage: Mapping[str, object]) -> str:
    """Say how many tokens an answer took, as far as that is known."""
    if not usage:
        return "tokens unknown"
    cached = _number(usage.get(_CACHED))
    told = f"{count(tokens_in(usage))} tokens in{f', {count(cached)} of them cached' if cached else ''}"
    return f"{told} · {count(_number(usage.get('output_tokens')))} out"


def outcome(call: Call) -> Markup:
    """Say in one line what a call returned."""
    if call.told is None or not call.told.pieces:
        return Markup("nothing")
    text = call.told.text
    if call.is_error or isinstance(call.result, str) or not size_of(call.result):
        return line(text, 160)
    return Markup("{}, {} characters").format(size_of(call.result), count(len(text)))


def second(microseconds: int) -> Markup:
    """Return the time of day here, of so many microseconds after 1970-01-01 UTC, to the second."""
    here = instant(microseconds).astimezone()
    return Markup('<time datetime="{}" title="{:%Y-%m-%d}">{:%H:%M:%S}</time>').format(here.isoformat(), here, here)


def moment(microseconds: int) -> str:
    """Return the day and the minute here, of so many microseconds after 1970-01-01 UTC."""
    return f"{instant(microseconds).astimezone():%d %b %H:%M}"


def percent(number: float) -> str:
    """Return a share of the width."""
    return f"{number:.2f}%"


def brief(seconds: float) -> str:
    """Return a long time in its largest unit."""
    for name, length in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= length:
            return f"{seconds // length:.0f} {name}"
    return duration(seconds)


def _number(value: object) -> int:
    return value if type(value) is int else 0


PHRASES: Mapping[str, Callable[..., object]] = {
    "sentence": said_of,
    "tokens_in": tokens_in,
    "used": used,
    "outcome": outcome,
    "second": second,
    "moment": moment,
    "percent": percent,
    "brief": brief,
    "instant": instant,
}
"""The filters of these pages."""
