"""Questions as SQLite's text, with their parameters in order: what is asked thousands of times is not built anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Value: TypeAlias = str | int | float | bytes | None
Values: TypeAlias = tuple[Value, ...]


class Statement:
    """A question's text, and the names of its parameters in the order of the text; `compiled` holds those there are."""

    def __init__(self, sql: str, names: tuple[str, ...] = ()) -> None:
        self.sql = sql
        self.names = names

    def bind(self, values: Mapping[str, Value]) -> Values:
        """Return the values in the order of the text."""
        return tuple([values[name] for name in self.names])
