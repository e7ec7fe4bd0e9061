"""Selects rows of the read model for statistics, in SQL that SQLite and PostgreSQL both accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from reenact.domain.errors import ContainerNotFoundError, ImageNotFoundError, InvalidInputError, SessionNotFoundError
from reenact.domain.messages import microseconds_of
from reenact.projections.log import AuditedLog, has_stream
from reenact.projections.read_model.rows import DAY, Value

Counted: TypeAlias = Literal["answers", "turn_ends", "call_ends", "decisions", "calls"]
"""The tables whose rows are counted."""

_CONDITIONS: Final[Mapping[str, str]] = {
    "since": "{at} >= :since",
    "until": "{at} < :until",
    "container_id": "s.container_id = :container_id",
    "image_id": "s.image_id = :image_id",
    "session_id": "s.id = :session_id",
}


class Tables(Protocol):
    """The read model's tables, open for reading."""

    def query(self, statement: str, /, **values: Value) -> list[tuple[Value, ...]]:
        """Return the rows of a statement."""
        ...

    def position(self) -> int:
        """Return the position of the last event in the tables."""
        ...


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The rows to count: from a time on, up to a time, and of one container, image or session."""

    since: datetime | None = None
    until: datetime | None = None
    container_id: str | None = None
    image_id: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInputError` if a time has no time zone."""
        for name, time in (("since", self.since), ("until", self.until)):
            if time is not None and getattr(time, "tzinfo", None) is None:
                raise InvalidInputError(f"`{name}` needs a time zone: datetime(…, tzinfo=UTC)")

    def values(self) -> dict[str, Value]:
        """Return the given values by their names in the conditions."""
        given: dict[str, Value | datetime] = msgspec.structs.asdict(self)
        return {
            name: microseconds_of(one) if isinstance(one, datetime) else one
            for name, one in given.items()
            if one is not None
        }

    def statement(self, table: Counted, columns: str, sums: str = "", *conditions: str) -> str:
        """Return the query for columns of the selected rows, or for sums over the rows with equal columns.

        In the columns, `f` is the table, `s` the session and `a` the answer.
        """
        at = "f.asked_at" if table == "calls" else "f.at"
        where = [*conditions, *(_CONDITIONS[name].format(at=at) for name in self.values())]
        if table == "answers" and self.since is not None:
            where.append(f"f.day >= :since / {DAY}")  # they are indexed by day
        said = " ".join([columns, *where])
        statement = f"SELECT {', '.join(filter(None, (columns, sums)))} FROM {table} f"  # noqa: S608 - ours
        if "s." in said:
            statement += " JOIN sessions s ON s.position = f.session"
        if "a." in said:
            statement += f" JOIN answers a ON a.position = f.{'position' if table == 'calls' else 'answer'}"
        if where:
            statement += f" WHERE {' AND '.join(where)}"
        if sums and columns:
            statement += f" GROUP BY {columns}"
        return statement

    def rows(
        self,
        tables: Tables,
        table: Counted,
        columns: str,
        sums: str = "",
        *,
        conditions: Sequence[str] = (),
        end: str = "",
    ) -> list[tuple[Value, ...]]:
        """Return the rows of the `statement`; `end` is what follows in it, such as an order."""
        return tables.query(f"{self.statement(table, columns, sums, *conditions)} {end}", **self.values())


ALL: Final = Selection()


def check_selection(log: AuditedLog, selection: Selection) -> None:
    """Check that the log has what is selected; its tables may be behind.

    Raises:
        NotFoundError: it has no such container, image or session; the subclass says which.
    """
    for category, id_, missing in (
        ("container", selection.container_id, ContainerNotFoundError),
        ("image", selection.image_id, ImageNotFoundError),
        ("session", selection.session_id, SessionNotFoundError),
    ):
        if id_ is not None and not has_stream(log, f"{category}/{id_}"):
            raise missing(id_)
