"""Python 3.14 evaluates annotations when they are read: those of a user's function may name what is not defined."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table

from reenact import ActorSystem, ConfigurationError, Event, EventSourcedActor, Runtime, tool
from reenact.actors.loop.executors import takes_context
from reenact.projections import Projection, on
from reenact.projections.events import MessageAccepted
from reenact.testing import MockEnvironmentFactory

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated where they are written")


def written(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - this file defers its annotations, as Python 3.11 needs it
    made: Callable[..., Any] = names["look"]
    return made


def test_a_tool_may_return_what_is_not_defined() -> None:
    look = tool(written("def look(name: str) -> Missing: ..."))

    assert look.spec.input_schema["required"] == ["name"]


def test_a_parameter_of_a_type_that_is_not_defined_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="parameter `name` has a type that cannot be resolved: name 'Missing'"):
        tool(written("def look(name: list[Missing]) -> str: ..."))


@pytest.mark.parametrize(
    ("parameters", "taken"), [("context: Missing, state: Missing", True), ("state: Missing", False)]
)
def test_a_runner_may_take_what_is_not_defined(parameters: str, *, taken: bool) -> None:
    assert takes_context(written(f"def look({parameters}) -> Missing: ...")) is taken


class Added(Event, frozen=True):
    by: int


def test_an_actor_may_take_what_is_not_defined() -> None:
    class Sum(EventSourcedActor[int, int, Added]):
        initial = 0
        events = {"added": Added}  # noqa: RUF012 - as users write it
        decide = written("def look(self, state: Missing, command: Missing) -> Missing: return [self.added(command)]")
        added = Added

        @staticmethod
        def evolve(state: int, event: Added) -> int:
            return state + event.by

        def reply(self, command: int, events: object) -> int:
            return self.state

    with ActorSystem.in_memory() as system:
        assert system.actor(Sum, "a").ask(3) == 3


def test_a_projection_may_take_what_is_not_defined() -> None:
    class Words(Projection):
        name = "words"
        tables = MetaData()
        count = on(MessageAccepted)(written("def look(self, write: Missing, event: Missing, row: Missing): ..."))

    Table("words", Words.tables, Column("number", Integer, primary_key=True))
    with Runtime.in_memory(environment=MockEnvironmentFactory(), projections=[Words()]) as runtime:
        runtime.ask("Hello")
        runtime.projections.wait_for()
