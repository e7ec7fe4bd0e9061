"""How values stand in pages: all text as text, whatever is in it; times, durations, counts, costs and sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import msgspec
from markupsafe import Markup, escape

from reenact.domain.legible import seen
from reenact.domain.messages import instant

CUT = 16 * 1024
"""Characters of a value that a page shows; the rest has an address of its own."""
_PLAIN = re.compile(r"[\n\t -~]*")
_NARROW = "\u202f"
_DASH = "\u2013"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SMALLEST, _LARGE = 0.0001, 100
_SHORT = 20


def visible(text: object) -> Markup:
    """Return the text as it stands, with what cannot be seen, or would act, as escapes that are marked as such.

    Lines and tabs stay. Nothing in it becomes markup.
    """
    whole = str(text)
    if _PLAIN.fullmatch(whole):
        return escape(whole)
    parts: list[str] = []
    before = ""
    for character in whole:
        if character in "\n\t":
            parts.append(character)
            before = ""
            continue
        written = character if character in '"\\' else seen(character, before)
        if written == character:
            parts.append(str(escape(character)))
            before = before + character if before and not character.isalnum() else character
        else:
            parts.append(f'<span class="esc">{escape(written)}</span>')
            before = ""
    return Markup("".join(parts))  # noqa: S704 - each part is escaped


def line(text: object, width: int = 200) -> Markup:
    """Return the beginning of the text on one line."""
    beginning = " ".join(str(text)[: 4 * width].split())
    return visible(beginning if len(beginning) <= width else f"{beginning[: width - 1]}…")


def as_json(value: object) -> str:
    """Return the value as JSON that people read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def as_visible_json(value: object) -> str:
    """Return the value as JSON that can be changed: what cannot be seen, or would act, stands in it as an escape."""
    return "".join(
        character if character in '\n"\\' or seen(character, "") == character else json.dumps(character)[1:-1]
        for character in as_json(value)
    )


def count(number: int | None) -> str:
    """Return a number with its thousands apart, a dash for none."""
    return _DASH if number is None else f"{number:,}".replace(",", _NARROW)


def brief_count(number: float) -> Markup:
    """Return a large number in few characters, with all of it beside it."""
    for unit, factor in (("M", 1_000_000), ("k", 1_000)):
        if number >= 10 * factor:
            whole = f"{number / factor:.1f}".removesuffix(".0")
            return Markup('<span title="{}">{}{}{}</span>').format(count(round(number)), whole, _NARROW, unit)
    return Markup("{}").format(count(round(number)))


def cost(amount: float | None) -> str:
    """Return an amount with as many digits as say something; what is unknown is never 0."""
    if amount is None:
        return "unknown"
    if abs(amount) >= _LARGE:
        return f"{amount:.2f}"
    return f"{amount:.4f}" if amount == 0 or abs(amount) >= _SMALLEST else f"{amount:.2g}"


def size(length: int) -> str:
    """Return so many bytes as people say it."""
    for unit, factor in (("MB", 1_000_000), ("kB", 1_000)):
        if length >= factor:
            return f"{length / factor:.1f} {unit}"
    return f"{length} bytes"


def duration(seconds: float | timedelta | None) -> str:
    """Return a time that something took, in its two largest units."""
    if seconds is None:
        return _DASH
    length = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if length < 1:
        return f"{length * 1000:.0f} ms"
    if length < 10:  # noqa: PLR2004 - more digits say nothing
        return f"{length:.1f} s"
    whole = round(length)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02} h"


def clock(time: datetime, now: datetime | None = None) -> Markup:
    """Return the time of day here, with the day unless it is that of `now`."""
    here = time.astimezone()
    shown = (
        f"{here:%H:%M:%S}"
        if now is not None and now.astimezone().date() == here.date()
        else f"{here:%Y-%m-%d %H:%M:%S}"
    )
    return Markup('<time datetime="{}">{}</time>').format(time.isoformat(), shown)


def when(microseconds: int) -> Markup:
    """Return the time of day here, of so many microseconds after 1970-01-01 UTC, to the millisecond."""
    here = instant(microseconds).astimezone()
    text = f"{here:%H:%M:%S}.{here.microsecond // 1000:03}"
    return Markup('<time datetime="{}" title="{:%Y-%m-%d}">{}</time>').format(here.isoformat(), here, text)


def day(microseconds: int) -> Markup:
    """Return the day and the time of day here, of so many microseconds after 1970-01-01 UTC."""
    return clock(instant(microseconds))


def lately(microseconds: int, now: int) -> Markup:
    """Return a time not long ago in few characters: the day stands in the place of the seconds unless it is today."""
    here, today = instant(microseconds).astimezone(), instant(now).astimezone()
    form = "%H:%M:%S" if here.date() == today.date() else "%-d %b, %H:%M" if here.year == today.year else "%-d %b %Y"
    return Markup('<time datetime="{}" title="{:%Y-%m-%d %H:%M:%S}">{}</time>').format(
        here.isoformat(), here, here.strftime(form)
    )


def ago(microseconds: int, now: int) -> str:
    """Return how long before now it was."""
    seconds = (now - microseconds) / 1_000_000
    return "now" if seconds < 1 else f"{duration(seconds)} ago"


def short(text: str) -> str:
    """Return an id that nobody reads as a whole with its middle left out."""
    return text if len(text) <= _SHORT else f"{text[:8]}…{text[-4:]}"


FILTERS: Mapping[str, Callable[..., object]] = {
    "ago": ago,
    "lately": lately,
    "short": short,
    "visible": visible,
    "line": line,
    "json": as_json,
    "brief_count": brief_count,
    "count": count,
    "cost": cost,
    "size": size,
    "duration": duration,
    "clock": clock,
    "when": when,
    "day": day,
}
