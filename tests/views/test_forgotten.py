"""Projections of users' own over an encrypted log: they are plain, and hear that a session was forgotten."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import Column, Connection, MetaData, Table, Text, delete, insert, select

from reenact import Image, KeyRing, Runtime
from reenact.domain.messages import text_of
from reenact.projections import Projection, Row, on
from reenact.projections.events import MessageAccepted, SessionCreated, SessionDeleted, SessionForgotten
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at, stands_in

SECRET = "pineapple"  # noqa: S105 - of a story


class Asked(Projection):
    """What was asked in each session, until that is forgotten."""

    name = "asked"
    version = 1
    tables = MetaData()
    asked = Table("asked", tables, Column("session", Text), Column("text", Text))
    heard: ClassVar[list[str]] = []

    @on(SessionCreated, SessionDeleted)
    def hears(self, write: Connection, event: SessionCreated | SessionDeleted, row: Row) -> None:
        self.heard.append(f"{type(event).__name__} of {row.stream}")

    @on(MessageAccepted)
    def accepted(self, write: Connection, event: MessageAccepted, row: Row) -> None:
        write.execute(insert(self.asked).values(session=row.stream, text=text_of(event.content)))

    @on(SessionForgotten)
    def forgotten(self, write: Connection, event: SessionForgotten, row: Row) -> None:
        self.heard.append(f"forgotten by {event.by}")
        write.execute(delete(self.asked).where(self.asked.c.session == row.stream))


class Keeping(Asked):
    """The same, but that nobody has thought of what is forgotten."""

    name = "keeping"
    tables = MetaData()
    asked = Table("asked", tables, Column("session", Text), Column("text", Text))

    @on(SessionForgotten)
    def forgotten(self, write: Connection, event: SessionForgotten, row: Row) -> None:
        pass


@contextmanager
def opened(directory: Path, *projections: Projection) -> Generator[Runtime]:
    ring = directory / "ring.keys"
    keys = KeyRing.file(ring) if ring.exists() else KeyRing.generate(ring)
    Asked.heard.clear()
    with Runtime.open(
        log_at(directory / "agents.db"),
        environment=MockEnvironmentFactory(),
        synchronous="OFF",
        keys=keys,
        projections=projections,
    ) as runtime:
        yield runtime


def talk(runtime: Runtime) -> None:
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i"))
    for session_id in ("kept", "forgotten"):
        runtime.sessions.create("c", "i", session_id=session_id)
        runtime.ask(f"The {SECRET} of {session_id}", session=session_id)


def rows(runtime: Runtime, projection: type[Asked]) -> list[tuple[str, str]]:
    runtime.projections.wait_for()
    with runtime.projections.read(projection) as connection:
        return [(stream, said) for stream, said in connection.execute(select(projection.asked))]


KEPT = ("session/kept", f"The {SECRET} of kept")
FORGOTTEN = ("session/forgotten", f"The {SECRET} of forgotten")


def test_they_are_plain_until_they_let_go_themselves(tmp_path: Path) -> None:
    with opened(tmp_path, Asked(), Keeping()) as runtime:
        talk(runtime)
        before = rows(runtime, Asked), rows(runtime, Keeping)
        runtime.sessions.forget("forgotten", by="ada")
        after = rows(runtime, Asked), rows(runtime, Keeping)
        heard = [*Asked.heard]

    assert before == ([KEPT, FORGOTTEN], [KEPT, FORGOTTEN])
    assert after == ([KEPT], [KEPT, FORGOTTEN])
    assert heard.count("forgotten by ada") == 1
    assert stands_in(SECRET.encode(), log_at(tmp_path / "agents.db"))


@pytest.mark.parametrize("kind", [Asked, Keeping])
def test_made_anew_they_have_nothing_of_what_was_forgotten(tmp_path: Path, kind: type[Asked]) -> None:
    with opened(tmp_path, kind()) as runtime:
        talk(runtime)
        runtime.sessions.forget("forgotten", by="ada")
        runtime.projections.rebuild(kind.name)

        assert rows(runtime, kind) == [KEPT]


def test_one_that_comes_later_hears_of_a_forgotten_session_its_last_event_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as runtime:
        talk(runtime)
        runtime.sessions.forget("forgotten", by="ada")
    with opened(tmp_path, Asked()) as runtime:
        assert rows(runtime, Asked) == [KEPT]
        assert Asked.heard == ["SessionCreated of session/kept", "forgotten by ada"]
