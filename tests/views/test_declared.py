"""A projection that cannot work as it is written is refused when it is given, and the message says what to change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ARRAY, Column, Connection, ForeignKey, Integer, MetaData, Table

from reenact import ActorSystem, ConfigurationError, ProjectionMistakeError, Projections, Runtime
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.domain.history.stored import STORED
from reenact.events import SessionCreated as HeardOfSessionCreated
from reenact.projections import Projection, Row, events, on
from reenact.projections.views.declared import functions_of
from tests.projections.histories import ListLog
from tests.views.support import Forgot, Said, Words

TABLES = MetaData()
Table("numbers", TABLES, Column("number", Integer, primary_key=True))
IN_A_SCHEMA = MetaData()
Table("numbers", IN_A_SCHEMA, Column("number", Integer), schema="elsewhere")
LIKE_OURS = MetaData()
Table("reenact_progress", LIKE_OURS, Column("number", Integer))


def tables_with(*columns: Column[Any], name: str = "odd") -> MetaData:
    tables = MetaData()
    Table(name, tables, *columns)
    return tables


class Fine(Projection):
    """Nothing is wrong with it."""

    name = "fine"
    tables = TABLES

    @on(Said)
    def hear(self, write: Connection, event: Said, row: Row) -> None:
        """Do nothing."""


def refusal(*projections: Any, log: ListLog | None = None, place: Path) -> str:  # noqa: ANN401 - or what is none
    with pytest.raises(ProjectionMistakeError) as refused:
        Projections.open(place, log or ListLog(), projections)
    assert isinstance(refused.value, ConfigurationError)
    assert not place.exists()
    return str(refused.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, 'has no name; give it one, such as name = "words"'),
        ({"name": "Not a name"}, "small letters"),
        ({"name": "a" * 31}, "at most 30"),
        ({"name": "reenact"}, "that of the runtime's own tables"),
        ({"name": "tracing"}, "that of the runtime's own tables"),
        ({"name": 7}, "has the name 7"),
        ({"version": 0}, "a number from 1 on"),
        ({"version": True}, "a number from 1 on"),
        ({"version": "2"}, "has the version '2'"),
        ({"tables": MetaData()}, "has no tables"),
        ({"tables": None}, "has no tables"),
        ({"tables": IN_A_SCHEMA}, "in a schema"),
        ({"tables": LIKE_OURS}, "that of its position"),
        ({"tables": tables_with(Column("x"), name="Reenact_Progress")}, "that of its position"),
        ({"tables": tables_with(Column("x"))}, "cannot be made in sqlite: CompileError: (in table 'odd', column 'x')"),
        ({"tables": tables_with(Column("x", ARRAY(Integer)))}, "can't render element of type ARRAY"),
        ({"tables": tables_with(Column("x", Integer, ForeignKey("y.z")))}, "could not find table 'y'"),
        ({"hear": None}, "does not say for which events"),
    ],
)
def test_what_a_class_says_of_itself_must_make_sense(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    kind = type("Changed", (Fine,), changes)

    assert words in refusal(kind(), place=tmp_path / "views")


def test_a_class_without_functions_is_refused(tmp_path: Path) -> None:
    class Deaf(Projection):
        name = "deaf"
        tables = TABLES

    assert "write @on(SomeEvent) above one" in refusal(Deaf(), place=tmp_path / "views")


def test_a_class_in_place_of_an_instance_is_refused(tmp_path: Path) -> None:
    assert "give an instance: Fine()" in refusal(Fine, place=tmp_path / "views")


def test_something_else_in_place_of_a_projection_is_refused(tmp_path: Path) -> None:
    assert "'fine' is not a projection" in refusal("fine", place=tmp_path / "views")


def test_two_of_the_same_name_are_refused(tmp_path: Path) -> None:
    assert "as another has" in refusal(Fine(), Words(), Fine(), place=tmp_path / "views")


async def hear_later(self: Projection, write: Connection, event: Said, row: Row) -> None:
    """Come too late."""


async def hear_again_and_again(self: Projection, write: Connection, event: Said, row: Row) -> AsyncIterator[None]:
    yield


def hear_when_asked(self: Projection, write: Connection, event: Said, row: Row) -> Iterator[None]:
    yield


def hear_half(self: Projection, write: Connection, event: Said) -> None:
    """Want too little."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (hear_later, "the async function 'hear'"),
        (hear_again_and_again, "the async function 'hear'"),
        (hear_when_asked, "the generator 'hear'"),
        (hear_half, "cannot be called with (write, event, row)"),
    ],
)
def test_a_function_that_would_not_work_is_refused(function: Callable[..., object], words: str, tmp_path: Path) -> None:
    kind = type("Changed", (Fine,), {"hear": on(Said)(function)})

    assert words in refusal(kind(), place=tmp_path / "views")


@pytest.mark.parametrize("given", [("said",), (None,), (Said("a"),), ()])
def test_what_is_no_class_of_events_is_refused_where_it_is_written(given: tuple[Any, ...]) -> None:
    with pytest.raises(ProjectionMistakeError, match="@on takes the classes of events"):
        on(*given)


class CodedLog(ListLog):
    """A log that knows what it can hold."""

    codec = EventCodec([StoredForm("said", Said)])


def test_an_event_that_the_log_cannot_hold_is_refused_by_its_name(tmp_path: Path) -> None:
    said = refusal(Words(), log=CodedLog(), place=tmp_path / "views")

    assert "'forget' for tests.views.support.Forgot, which the log does not hold" in said


def test_what_subscribers_hear_is_no_event_of_the_log() -> None:
    class Mistaken(Fine):
        @on(HeardOfSessionCreated)
        def hear_of_it(self, write: Connection, event: HeardOfSessionCreated, row: Row) -> None:
            """Wait in vain."""

    with pytest.raises(ProjectionMistakeError, match=r"in reenact\.projections\.events"):
        Runtime.in_memory(projections=[Mistaken()])


def test_the_events_of_a_runtime_s_log_can_be_named() -> None:
    assert {getattr(events, name) for name in events.__all__} == set(STORED.values())


def test_functions_are_found_by_the_exact_type_of_an_event_and_in_their_order() -> None:
    class Talker(Fine):
        @on(Forgot, Said, Said)
        def also(self, write: Connection, event: Said | Forgot, row: Row) -> None:
            """Do nothing."""

    found = functions_of(Talker())

    assert {event: [function.__name__ for function in of] for event, of in found.items()} == {
        Said: ["hear", "also"],
        Forgot: ["also"],
    }


def test_a_file_is_no_place_for_tables(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"")

    with pytest.raises(ConfigurationError, match=r"is a file; projections are kept in a directory, such as .*\.views"):
        Projections.open(tmp_path / "log.db", ListLog(), [Fine()])


def test_another_kind_of_place_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="projections are kept in no mysql"):
        Projections.open("mysql://host/db", ListLog(), [Fine()])


def test_a_system_is_not_taken_for_its_log(tmp_path: Path) -> None:
    with ActorSystem.in_memory() as system:
        no_log: Any = system

        with pytest.raises(TypeError, match="projections follow a log, such as the `journal` of an ActorSystem, and"):
            Projections.open(tmp_path / "views", no_log, [Fine()])

    assert not (tmp_path / "views").exists()
