"""The declaration of a user's projection as a class, and the checks of it before the first event."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

from sqlalchemy import Connection, MetaData, Table
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable

from reenact._signature import signature_of
from reenact.projections.errors import ProjectionMistakeError, error_text
from reenact.projections.generations import RESERVED
from reenact.projections.log import Row
from reenact.projections.views.transactions import PROGRESS

Function: TypeAlias = Callable[[Connection, object, Row], object]
"""A function for an event: its arguments are a connection for writing, the event, and its row."""

Functions: TypeAlias = Mapping[type, Sequence[Function]]

_F = TypeVar("_F", bound=Callable[..., object])
_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")
_EVENTS = "__reenact_events__"
_ARGUMENTS = ("write", "event", "row")


class Projection:
    """Tables that follow a log. Subclass it with a `name`, `tables`, and a function for each type of event.

    ```python
    class Words(Projection):
        name = "words"
        tables = MetaData()
        words = Table("words", tables, Column("word", Text, primary_key=True), Column("times", Integer))

        @on(MessageAccepted)
        def count(self, write: Connection, event: MessageAccepted, row: Row) -> None: ...
    ```

    The writes of a function and the position of its event are committed in one transaction, perhaps with other events.
    The function may be called again with an event whose transaction was rolled back, so it must only write to its
    tables.
    """

    name: ClassVar[str] = ""
    """The name on disk and in messages: small letters, digits and `_`, a letter first, at most 30 characters."""

    version: ClassVar[int] = 1
    """Increase it with every change to the tables or to what the functions write: the tables are then rebuilt."""

    tables: ClassVar[MetaData] = MetaData()
    """The tables, without a schema."""


def on(*events: type) -> Callable[[_F], _F]:
    """Decorate a function of a projection, so that it is called with each event of exactly these types.

    Its arguments are `(self, write, event, row)`: `write` is a connection in a transaction that the caller ends; `row`
    has the event's place in the log.

    Raises:
        ProjectionMistakeError: an argument is not a class.
    """
    given: Sequence[object] = list[object](events)
    wrong = [repr(one) for one in given if not isinstance(one, type)]
    if wrong or not given:
        what = wrong[0] if wrong else "nothing"
        raise ProjectionMistakeError(f"@on takes the classes of events, not {what}; write @on(MessageAccepted)")

    def mark(function: _F) -> _F:
        setattr(function, _EVENTS, (*getattr(function, _EVENTS, ()), *events))
        return function

    return mark


@runtime_checkable
class Storing(Protocol):
    """Knows which types of events a log can hold."""

    def stores(self, event_type: type) -> bool:
        """Return whether the log can hold such events."""
        ...


def check(projections: Sequence[object], storing: Storing | None, dialect: Dialect) -> None:
    """Raise for the first mistake in these projections, with tables in a database of this dialect.

    Raises:
        ProjectionMistakeError: there is a mistake.
    """
    names: set[str] = set()
    for projection in projections:
        if isinstance(projection, type):
            raise ProjectionMistakeError(f"{projection.__name__} is a class; give an instance: {projection.__name__}()")
        if not isinstance(projection, Projection):
            message = f"{projection!r} is not a projection; its class must be one of Projection's subclasses"
            raise ProjectionMistakeError(message)
        for problem in _problems(projection, names, storing, dialect):
            raise ProjectionMistakeError(f"the projection {type(projection).__name__} {problem}")
        names.add(projection.name)


def functions_of(projection: Projection) -> Functions:
    """Return the functions for each type of event, in the order in which the class defines them."""
    found: dict[type, list[Function]] = {}
    for name, events in _marked(type(projection)):
        for event in dict.fromkeys(events):
            found.setdefault(event, []).append(getattr(projection, name))
    return found


def shape_of(projection: Projection, dialect: Dialect) -> str:
    """Return a digest of the tables as readers see them: names, columns, types and keys."""
    described: list[str] = []
    for table in sorted(projection.tables.tables.values(), key=lambda one: one.name):
        columns = [
            f"{column.name} {column.type.compile(dialect)} {column.nullable} {column.primary_key}"
            for column in table.columns
        ]
        indexes = sorted(str(index.name) for index in table.indexes)
        described.append(f"{table.name} {columns} {indexes}")
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]


def _problems(
    projection: Projection, names: Collection[str], storing: Storing | None, dialect: Dialect
) -> Iterator[str]:
    name, version, tables = (_declared(projection, one) for one in ("name", "version", "tables"))
    if not name:
        yield 'has no name; give it one, such as name = "words"'
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"has the name {name!r}; a name has small letters, digits and '_', a letter first, and at most 30"
    elif name in RESERVED:
        yield f"has the name {name!r}, which is that of the runtime's own tables; take another"
    elif name in names:
        yield f"has the name {name!r}, as another has; give it one of its own"
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        yield f"has the version {version!r}; a version is a number from 1 on"
    if not isinstance(tables, MetaData) or not tables.tables:
        yield "has no tables; give it tables = MetaData(), and Table objects in that"
    else:
        for table in tables.tables.values():
            if table.schema is not None:
                yield f"has the table {table.name!r} in a schema; its place is not for the class to say"
            if table.name.lower() == PROGRESS.name:
                yield f"has a table {table.name!r}, which is that of its position; take another name"
            yield from _problems_of_table(table, dialect)
    marked = list(_marked(type(projection)))
    if not marked:
        yield "has no function; write @on(SomeEvent) above one"
    for function, events in marked:
        yield from _problems_of_function(projection, function)
        for event in events:
            if storing is not None and not storing.stores(event):
                where = f"{event.__module__}.{event.__qualname__}"
                yield (
                    f"has {function!r} for {where}, which the log does not hold; the events of a runtime's log are in "
                    "reenact.projections.events, and those of actors of your own are known once their class is "
                    "registered"
                )


def _problems_of_table(table: Table, dialect: Dialect) -> Iterator[str]:
    try:
        CreateTable(table).compile(dialect=dialect)
    except SQLAlchemyError as error:
        yield f"has the table {table.name!r}, which cannot be made in {dialect.name}: {error_text(error)}"


def _declared(projection: Projection, attribute: str) -> object:
    value: object = getattr(projection, attribute)
    return value


def _problems_of_function(projection: Projection, name: str) -> Iterator[str]:
    function = _declared(projection, name)
    if not callable(function):
        yield f"has {name!r}, which cannot be called"
        return
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield f"has the async function {name!r}; rows are written by a plain one"
    if inspect.isgeneratorfunction(function):
        yield f"has the generator {name!r}, which would do nothing; rows are written by a function"
    try:
        signature_of(function).bind(*_ARGUMENTS)
    except TypeError as error:
        yield f"has {name!r}, which cannot be called with (write, event, row): {error}"


def _marked(kind: type[Projection]) -> Iterator[tuple[str, Collection[type]]]:
    """Yield the names of the functions and their events, in the order of definition, base classes first."""
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    for name in names:
        events: tuple[type, ...] | None = getattr(inspect.getattr_static(kind, name), _EVENTS, None)
        if events is not None:
            yield name, events
        elif any(hasattr(vars(base).get(name), _EVENTS) for base in kind.__mro__):
            raise ProjectionMistakeError(
                f"{kind.__name__} overrides {name!r}, and does not say for which events; write @on(…) above it, too"
            )
