"""Spans as values: an operation that has ended, its place in a trace, and ids that are computed from the log."""

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
"""Characters of a span's name, and of attributes that are not content: a model may call a tool by any name."""


class Context(msgspec.Struct, frozen=True):
    """The ids of a trace and of a span in it."""

    trace_id: int
    span_id: int


class Link(msgspec.Struct, frozen=True):
    """A related span, and the kind of relation."""

    context: Context
    attributes: Mapping[str, Value]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that has ended. Times are microseconds since 1970-01-01 UTC.

    `error` is an error class, if it has failed; `message` is the error's text, which counts as content.
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
        """The duration in seconds."""
        return (self.end - self.start) / 1_000_000


def trace_id_of(row: Row) -> int:
    """Return the id of the trace that begins with the event.

    It is computed from the version and time, which are the same in each copy of the log, unlike the position; the time
    also distinguishes the session from one of the same name in another log.
    """
    return _number(f"{row.stream}\0{row.version}\0{row.recorded_at}", 16)


def span_id_of(row: Row, kind: str, call_id: str = "") -> int:
    """Return the id of the span of this kind that begins with the event, and belongs to this call if there is one."""
    return _number(f"{row.stream}\0{row.version}\0{row.recorded_at}\0{kind}\0{call_id}", 8)


def brief(text: str) -> str:
    """Return the text cut to the length of a name, and without characters that some databases do not accept."""
    return clean(text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…")


def clean(text: str) -> str:
    """Return the text without NUL, also in its JSON form: databases behind collectors do not accept it."""
    return text.replace("\0", "\ufffd").replace("\\u0000", "\\ufffd")


def _number(text: str, size: int) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest()) or 1
