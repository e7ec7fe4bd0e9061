"""SQLAlchemy statements compiled once: what is asked thousands of times a second is not built each time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeAlias

from sqlalchemy import Insert, Select, Update
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.sql.compiler import SQLCompiler

Value: TypeAlias = str | int | float | bytes | None
Values: TypeAlias = tuple[Value, ...]


class Statement:
    """A statement as text with its parameters in order; compiled when first used."""

    def __init__(self, clause: Select[*tuple[Any, ...]] | Insert | Update) -> None:
        self._clause = clause

    @cached_property
    def sql(self) -> str:
        """The text that the driver is given."""
        return str(self._compiled)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of the text."""
        return tuple(self._compiled.positiontup or ())

    def bind(self, values: Mapping[str, Value]) -> Values:
        """Return the values in the order of the text."""
        return tuple([values[name] if name in values else self._fixed[name] for name in self.names])

    @cached_property
    def _fixed(self) -> Mapping[str, Value]:
        return dict(self._compiled.params)

    @cached_property
    def _compiled(self) -> SQLCompiler:
        compiled = self._clause.compile(dialect=SQLiteDialect_pysqlite(paramstyle="qmark"))
        assert isinstance(compiled, SQLCompiler)
        return compiled
