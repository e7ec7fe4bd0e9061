"""A process that applies a log to the read model in PostgreSQL, in small batches, each when it is told to by a line.

`applying.py URL WORDS`: prints how far it is after each batch.
"""

from __future__ import annotations

import sys
from contextlib import closing

from reenact.projections.read_model.postgres_store import PostgresSchemas
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.queries import ReadModelProjection
from reenact.projections.views.schemas import Schemas
from tests.projections.histories import ListLog, World


def words_of(count: int, log: ListLog | None = None) -> World:
    """Return a world in which so many words were said: the same in every process."""
    world = World(log)
    world.create_container("c")
    world.begin("a")
    for number in range(count):
        world.say("a", f"word {number}")
    return world


def said(kept: ReadModelProjection) -> list[str]:
    """Return what the tables say was said."""
    return [message.text for message in kept.model.messages("a")]


def numbered(count: int) -> list[str]:
    """Return what was said in that world."""
    return [f"word {number}" for number in range(count)]


def main(url: str, words: int) -> None:
    """Apply the log of these words."""
    with closing(PostgresSchemas(Schemas.open(url))) as schemas:
        projection = ReadModelTables(words_of(words).log, schemas.store(1))
        while sys.stdin.readline() and projection.advance(2):
            sys.stdout.write(f"{projection.position}\n")
            sys.stdout.flush()
        projection.close(intact=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
