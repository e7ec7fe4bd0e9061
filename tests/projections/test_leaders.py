"""Of several processes on one log one keeps the read model; the others read it, help it on, and take it over."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack

import pytest

from reenact.projections.errors import ReadModelBehindError, ReadModelError
from reenact.projections.read_model.opening import open_read_model
from reenact.projections.read_model.postgres_store import PostgresSchemas
from reenact.projections.read_model.queries import ReadModelProjection
from reenact.testing import wait_until
from tests.journal.server import Server
from tests.projections.applying import numbered, said, words_of
from tests.projections.histories import World
from tests.projections.opened import tables_of

Open = Callable[[str], ReadModelProjection]


class Role:
    """Who keeps the tables: nobody, or the process of this name."""

    leader = ""


@pytest.fixture
def world() -> World:
    return words_of(20)


@pytest.fixture
def role() -> Role:
    return Role()


@pytest.fixture
def opened(url: str, world: World, role: Role) -> Generator[Open]:
    """Open the tables as the process of this name would, and close them in the end."""
    with ExitStack() as undo:

        def open_one(name: str) -> ReadModelProjection:
            kept = open_read_model(url, world.log, lambda: role.leader == name)
            undo.callback(kept.model.close)
            undo.callback(kept.close)
            return kept

        yield open_one


def looks_of(kept: ReadModelProjection, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how far the tables were found to be, at each look."""
    found: list[int] = []
    tables = tables_of(kept.runner)
    look = tables.adopt_position

    def noted() -> None:
        look()
        found.append(tables.position)

    monkeypatch.setattr(tables, "adopt_position", noted)
    return found


def test_who_is_not_the_leader_projects_nothing_by_itself(
    opened: Open, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened("other")
    before = world.log.head()
    looks = looks_of(other, monkeypatch)

    other.notify(world.say("a", "word 20"))
    wait_until(lambda: len(looks) >= 2, what="two looks")

    assert set(looks) == {before}
    assert said(other) == numbered(20)
    assert other.runner.lag == world.log.head() - before


def test_who_is_not_the_leader_sees_how_far_that_is(opened: Open, world: World, role: Role) -> None:
    role.leader = "one"
    one, other = opened("one"), opened("other")

    position = world.say("a", "word 20")
    for kept in (one, other):
        kept.notify(position)

    wait_until(lambda: other.runner.lag == 0, what="the look")
    assert said(other) == numbered(21)


def test_who_waits_where_the_leader_is_not_helps(opened: Open, world: World, role: Role) -> None:
    role.leader = "one"
    one, other = opened("one"), opened("other")
    for number in range(20, 60, 2):
        other.wait_for(world.say("a", f"word {number}"), timeout=60)
        assert said(other) == numbered(number + 1)
        one.wait_for(world.say("a", f"word {number + 1}"), timeout=60)
        assert said(one) == numbered(number + 2)


def test_who_waits_with_little_time_where_the_leader_is_not_is_helped_by_the_thread(opened: Open, world: World) -> None:
    other = opened("other")

    other.wait_for(world.say("a", "word 20"), timeout=5)

    assert said(other) == numbered(21)


def test_the_next_leader_goes_on_where_the_tables_are_though_it_heard_of_nothing(
    opened: Open, world: World, role: Role
) -> None:
    role.leader = "one"
    one, other = opened("one"), opened("other")
    one.notify(world.say("a", "word 20"))
    wait_until(lambda: one.runner.lag == 0, what="the leader")
    role.leader = ""
    world.say("a", "word 21")

    role.leader = "other"

    wait_until(lambda: other.runner.position == world.log.head(), what="the next leader")
    assert said(other) == numbered(22)
    role.leader = "one"
    one.notify(world.say("a", "word 22"))
    wait_until(lambda: one.runner.position == world.log.head(), what="the first one")
    assert said(one) == said(other) == numbered(23)


def test_who_closes_projects_what_is_left_as_the_leader_may_be_gone(opened: Open, world: World) -> None:
    other = opened("other")
    other.notify(world.say("a", "word 20"))

    other.close()

    assert other.runner.position == world.log.head()


def test_tables_that_the_leader_has_made_anew_are_what_the_others_look_at(
    opened: Open, world: World, role: Role
) -> None:
    role.leader = "one"
    one, other = opened("one"), opened("other")
    one.rebuild()

    position = world.say("a", "word 20")
    for kept in (one, other):
        kept.notify(position)

    wait_until(lambda: other.runner.lag == 0, what="the look")
    assert other.runner.number == one.runner.number == 2


def test_tables_that_were_replaced_and_are_still_there_are_looked_at_no_more(
    opened: Open, world: World, role: Role, schemas: PostgresSchemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.read_model.queries._PATIENCE", 0.0)
    monkeypatch.setattr("reenact.projections.views.schemas.PATIENCE", 1)
    role.leader = "one"
    one, other = opened("one"), opened("other")
    with schemas.reading():
        one.rebuild()
        assert schemas.numbers() == [1, 2]
        position = world.say("a", "word 20")
        for kept in (one, other):
            kept.notify(position)

        wait_until(lambda: other.runner.lag == 0, what="the look")
        assert other.runner.number == 2


def test_a_look_finds_the_server_again(opened: Open, world: World, role: Role, server: Server) -> None:
    role.leader = "one"
    one, other = opened("one"), opened("other")
    tables = tables_of(other.runner)
    tables._connection.close()

    with pytest.raises(ReadModelError, match="cannot be read"):
        tables.adopt_position()

    one.wait_for(world.say("a", "word 20"), timeout=60)
    tables.adopt_position()
    assert other.runner.position == world.log.head()


def test_who_waits_for_what_never_comes_where_the_leader_is_not_is_told(opened: Open, world: World) -> None:
    other = opened("other")

    with pytest.raises(ReadModelBehindError):
        other.wait_for(world.log.head() + 1, timeout=0.05)
