"""What is kept beside the rows of a projection, in the same transaction: how far they are, and what made them."""

from __future__ import annotations

from typing import Final

import msgspec
from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, Table, Text, insert, select, update

from reenact.projections.generations import Kept, kept_of
from reenact.projections.log import Row
from reenact.projections.projection import mark
from reenact.projections.status import ProjectionFailure

OWN: Final = MetaData()

PROGRESS: Final = Table(
    "reenact_progress",
    OWN,
    Column("position", BigInteger, nullable=False),
    Column("mark", Text, nullable=False),  # which event stands at that position: tells one log from another
    Column("version", Integer, nullable=False),
    Column("shape", Text, nullable=False),  # a digest of what the tables are like
    Column("failure", Text),  # why they do not move on, as JSON
)


def begin(connection: Connection, version: int, shape: str) -> None:
    """Note that the tables hold nothing yet."""
    connection.execute(insert(PROGRESS).values(position=0, mark="", version=version, shape=shape))


def look(connection: Connection) -> Kept:
    """Return what is kept.

    Raises:
        sqlalchemy.exc.DBAPIError: there is no such table, or it cannot be read.
        sqlalchemy.exc.NoResultFound: nobody has finished making the tables.
    """
    return kept_of(*connection.execute(select(PROGRESS)).one())


def move(connection: Connection, origin: int, last: Row) -> bool:
    """Note that the tables come to the row; return False, if they are not at the origin: somebody has moved them."""
    moved = update(PROGRESS).where(PROGRESS.c.position == origin)
    values = {"position": last.position, "mark": mark(last), "failure": None}
    return connection.execute(moved.values(values)).rowcount == 1


def note(connection: Connection, failure: ProjectionFailure) -> None:
    """Note why the tables do not move on."""
    connection.execute(update(PROGRESS).values(failure=msgspec.json.encode(failure).decode()))
