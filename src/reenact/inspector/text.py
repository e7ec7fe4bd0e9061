"""Formats values for pages: text with all characters visible, times, durations, counts, costs and sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from markupsafe import Markup, escape

from reenact.domain.legible import seen
from reenact.domain.messages import instant

CUT = 16 * 1024
"""The most bytes of a page for a value; the rest has a page of its own."""
_PLAIN = re.compile(r"[\n\t -~]*")
_RUN = re.compile(r"(?:[\n\t -~\u2010-\u2027]|(?![\u115f\u1160\u3164\uffa0])[^\W_])+|[\s\S]")
"""A run of characters that are shown unchanged, or one character that has to be checked."""
_MARKED = 4
"""The number of characters after a letter from which on a mark does not belong to it."""
_NARROW = "\u202f"
_DASH = "\u2013"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SMALLEST, _LARGE = 0.0001, 100
_SHORT = 20


class _Run(NamedTuple):
    """A part of a text, with the text that is shown for it, and its HTML."""

    text: str
    shown: str
    html: str

    @property
    def size(self) -> int:
        """Its size in bytes of a page."""
        return len(self.html.encode())


def visible(text: object) -> Markup:
    """Return the text as HTML, with invisible or active characters replaced by marked escapes.

    Line ends and tabs stay. Nothing in the text is treated as markup, unless it is a `Markup` already.
    """
    if isinstance(text, Markup):
        return text
    whole = str(text)
    return escape(whole) if _PLAIN.fullmatch(whole) else _written(_runs(whole))


def line(text: object, width: int = 200) -> Markup:
    """Return the beginning of the text on one line; each character of an escape counts towards the width."""
    beginning = " ".join(str(text)[: 4 * width].split())
    if _PLAIN.fullmatch(beginning):
        return escape(beginning if len(beginning) <= width else f"{beginning[: width - 1]}…")
    runs = list(_runs(beginning))
    if sum(len(run.shown) for run in runs) <= width:
        return _written(runs)
    return _written(_until(runs, width - 1, lambda run: len(run.shown))) + "…"


def plain(text: object, width: int = 200) -> str:
    """Do the same as `line` for an attribute or a title, where escapes cannot be marked."""
    return str(line(text, width).striptags())


def within(text: str, size: int) -> tuple[Markup, int]:
    """Return as much of the text, formatted by `visible`, as fits into `size` bytes, and the length of that part."""
    runs = list(_until(_runs(text[: max(0, size)]), size, lambda run: run.size))
    return _written(runs), sum(len(run.text) for run in runs)


def _runs(text: str) -> Iterator[_Run]:
    before = ""
    for found in _RUN.finditer(text):
        part = found[0]
        is_shown = len(part) > 1 or part in '\n\t"\\'
        shown = part if is_shown else seen(part, before)
        if shown == part:
            yield _Run(part, part, escape(part))
            before = _letter_before(before, part)
        else:
            yield _Run(part, shown, f'<span class="esc">{escape(shown)}</span>')
            before = ""


def _letter_before(before: str, part: str) -> str:
    """Return the last letter and the characters after it."""
    for place in reversed(range(max(0, len(part) - _MARKED), len(part))):
        if part[place] in "\n\t":
            return part[place + 1 :]
        if part[place].isalnum():
            return part[place:]
    return (before + part)[: 2 * _MARKED]


def _until(runs: Iterable[_Run], room: int, measure: Callable[[_Run], int]) -> Iterator[_Run]:
    """Yield the runs that fit, and the beginning of the first one that does not."""
    for run in runs:
        length = measure(run)
        if length <= room:
            room -= length
            yield run
            continue
        rest = run
        while rest.shown == rest.text and measure(rest) > room:
            text = rest.text[: min(room, len(rest.text) * room // measure(rest))]
            rest = _Run(text, text, escape(text))
        if rest.text and rest.shown == rest.text:
            yield rest
        return


def _written(runs: Iterable[_Run]) -> Markup:
    return Markup("".join(run.html for run in runs))  # noqa: S704 - each run is escaped


def as_json(value: object) -> str:
    """Return the value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def as_visible_json(value: object) -> str:
    """Return the value as editable JSON, with invisible or active characters as JSON escapes."""
    return "".join(
        character if character in '\n"\\' or seen(character, "") == character else json.dumps(character)[1:-1]
        for character in as_json(value)
    )


def count(number: int | None) -> str:
    """Return a number with separated thousands, or a dash for None."""
    return _DASH if number is None else f"{number:,}".replace(",", _NARROW)


def brief_count(number: float) -> Markup:
    """Return a large number in few characters, with the full number as its title."""
    for unit, factor in (("M", 1_000_000), ("k", 1_000)):
        if number >= 10 * factor:
            whole = f"{number / factor:.1f}".removesuffix(".0")
            return Markup('<span title="{}">{}{}{}</span>').format(count(round(number)), whole, _NARROW, unit)
    return Markup("{}").format(count(round(number)))


def cost(amount: float | None) -> str:
    """Return an amount with its significant digits; None is "unknown", not 0."""
    if amount is None:
        return "unknown"
    if abs(amount) >= _LARGE:
        return f"{amount:.2f}"
    return f"{amount:.4f}" if amount == 0 or abs(amount) >= _SMALLEST else f"{amount:.2g}"


def size(length: int) -> str:
    """Return a number of bytes with its unit."""
    for unit, factor in (("MB", 1_000_000), ("kB", 1_000)):
        if length >= factor:
            return f"{length / factor:.1f} {unit}"
    return f"{length} bytes"


def size_in_bytes(html: str) -> int:
    """Return the size of the HTML in bytes."""
    return len(html.encode())


def duration(seconds: float | timedelta | None) -> str:
    """Return a duration, in its two largest units."""
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
    """Return the local time of day, with the date unless it is that of `now`."""
    here = time.astimezone()
    shown = (
        f"{here:%H:%M:%S}"
        if now is not None and now.astimezone().date() == here.date()
        else f"{here:%Y-%m-%d %H:%M:%S}"
    )
    return Markup('<time datetime="{}">{}</time>').format(time.isoformat(), shown)


def when(microseconds: int) -> Markup:
    """Return the local time of day, to the millisecond, for microseconds since 1970-01-01 UTC."""
    return _time(microseconds, f"%H:%M:%S.{microseconds // 1000 % 1000:03}")


def second(microseconds: int) -> Markup:
    """Return the local time of day, to the second, for microseconds since 1970-01-01 UTC."""
    return _time(microseconds, "%H:%M:%S")


def day(microseconds: int) -> Markup:
    """Return the local date and time of day, for microseconds since 1970-01-01 UTC."""
    return clock(instant(microseconds))


def lately(microseconds: int, now: int) -> Markup:
    """Return a recent time in few characters: with seconds if it is today, otherwise with the date."""
    here, today = instant(microseconds).astimezone(), instant(now).astimezone()
    form = "%H:%M:%S" if here.date() == today.date() else "%-d %b, %H:%M" if here.year == today.year else "%-d %b %Y"
    return _time(microseconds, form, "%Y-%m-%d %H:%M:%S")


def _time(microseconds: int, form: str, title: str = "%Y-%m-%d") -> Markup:
    here = instant(microseconds).astimezone()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        here.isoformat(), here.strftime(title), here.strftime(form)
    )


def ago(microseconds: int, now: int) -> str:
    """Return how long before `now` it was."""
    seconds = (now - microseconds) / 1_000_000
    return "now" if seconds < 1 else f"{duration(seconds)} ago"


def short(text: str) -> str:
    """Return a long id with its middle left out."""
    return text if len(text) <= _SHORT else f"{text[:8]}…{text[-4:]}"


FILTERS: Sequence[Callable[..., object]] = (
    *(ago, as_json, brief_count, clock, cost, count, day, duration),
    *(lately, line, plain, second, short, size, size_in_bytes, visible, when),
)
"""The template filters of all pages, named as the functions are."""
