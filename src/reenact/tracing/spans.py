"""Spans as values: what came to its end, where it belongs, and ids that the log decides."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from reenact.projections.log import Row

Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]
Kind: TypeAlias = Literal["invoke_agent", "chat", "execute_tool", "wait"]

LONGEST_NAME = 200
"""Characters of a span's name, and of the attributes that are not content: a model may ask for a tool of any name."""


class Context(msgspec.Struct, frozen=True):
    """Which span of which trace."""

    trace_id: int
    span_id: int


class Link(msgspec.Struct, frozen=True):
    """Another span that has to do with this one, and what."""

    context: Context
    attributes: Mapping[str, Value]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has ended. Times are microseconds since 1970-01-01 UTC.

    `error` is a class of errors, if it has failed; `message` says more of that, and is content.
    """

    name: str
    kind: Kind
    context: Context
    parent: Context | None
    start: int
    end: int
    attributes: Attributes
    links: tuple[Link, ...] = ()
    error: str | None = None
    message: str | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / 1_000_000


def trace_id_of(row: Row) -> int:
    """Return the id of the trace that begins with the event.

    Version and time are those of any copy of the log, whatever the positions in it; the time also tells the session
    from one of the same name in another log.
    """
    return _number(f"{row.stream}\0{row.version}\0{row.recorded_at}", 16)


def span_id_of(row: Row, kind: str, call_id: str = "") -> int:
    """Return the id of the span of this kind that begins with the event; a call's, if the event is about several."""
    return _number(f"{row.stream}\0{row.version}\0{row.recorded_at}\0{kind}\0{call_id}", 8)


def brief(text: str) -> str:
    """Return the text as it may stand in names: bounded, and without what some databases do not take."""
    return clean(text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…")


def clean(text: str) -> str:
    """Return the text without NUL, also as JSON has it: databases behind collectors do not take it."""
    return text.replace("\0", "\ufffd").replace("\\u0000", "\\ufffd")


def _number(text: str, size: int) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest()) or 1
