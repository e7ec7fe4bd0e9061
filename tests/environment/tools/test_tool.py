"""Functions of every kind become tools, or are told why they do not."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.tool import Tool, tool
from reenact.domain.errors import ConfigurationError
from tests.jsons import object_at

CONTEXT = ToolContext(session_id="ses_1", agent_id="agt_1", turn_id="trn_1", call_id="toolu_1", idempotency_key="key")
WHERE = contextvars.ContextVar("WHERE", default="nowhere")


def run(one: Tool[..., Any], context: ToolContext | None = None, /, **arguments: object) -> object:
    """Return what the tool returns when it is called with these arguments."""
    result: object = asyncio.run(one.run(arguments, context))
    return result


@tool
def double(number: int) -> int:
    """Return the double."""
    return 2 * number


@tool(name="half", description="Return the half.", idempotent=True, timeout=5, intervention="first", cost=0.01)
async def halve(number: int) -> float:
    """Divide."""
    return number / 2


class Counter:
    """Counts."""

    def __init__(self, by: int) -> None:
        self.by = by

    @tool
    def count(self, number: int) -> int:
        """Count on."""
        return number + self.by

    @tool
    async def count_later(self, number: int) -> int:
        return number + self.by

    def plain(self, number: int) -> int:
        """Count plainly."""
        return number + self.by

    def __call__(self, number: int) -> int:
        """Count at once."""
        return number + self.by

    @staticmethod
    def fixed(number: int) -> int:
        return number + 1

    @classmethod
    def of_class(cls, number: int) -> str:
        return f"{cls.__name__} {number}"


class Later:
    async def __call__(self, number: int) -> int:
        return number


def test_a_tool_stays_the_function_that_it_was() -> None:
    assert double(4) == 8
    assert (double.__name__, double.__doc__, double.__module__) == ("double", "Return the double.", __name__)
    assert list(inspect.signature(double).parameters) == ["number"]
    assert repr(double) == "<tool double>"


def test_a_tool_is_told_by_its_name_and_its_docstring() -> None:
    assert (double.spec.name, double.spec.description) == ("double", "Return the double.")
    assert (double.spec.idempotent, double.spec.timeout, double.spec.intervention, double.spec.cost) == (
        False,
        None,
        None,
        None,
    )


def test_what_is_said_of_a_tool_comes_before_what_it_says() -> None:
    spec = halve.spec

    assert (spec.name, spec.description) == ("half", "Return the half.")
    assert (spec.idempotent, spec.timeout, spec.intervention, spec.cost) == (True, 5, "first", 0.01)


def test_a_function_can_be_made_a_tool_where_it_stands() -> None:
    made = tool(Counter.fixed, name="add_one", timeout=1.5)

    assert (made.spec.name, made.spec.timeout) == ("add_one", 1.5)
    assert run(made, number=1) == 2


def test_a_tool_can_be_made_of_another_under_another_name() -> None:
    made = tool(double, name="twice")

    assert (made.spec.name, made.spec.description, double.spec.name) == ("twice", "Return the double.", "double")
    assert (run(made, number=4), run(tool(halve), number=4), run(tool(Counter(1).count), number=4)) == (8, 2.0, 5)


def test_a_plain_function_runs_on_a_thread_of_its_own() -> None:
    @tool
    def where() -> str:
        return threading.current_thread().name

    assert run(where) == "reenact-tool-where"


def test_a_coroutine_function_runs_on_the_loop() -> None:
    @tool
    async def where() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    assert run(where) is True
    assert run(halve, number=3) == 1.5


def test_both_see_what_the_caller_has_set_and_set_nothing_for_it() -> None:
    @tool
    def plain() -> str:
        seen = WHERE.get()
        WHERE.set("in the thread")
        return seen

    @tool
    async def later() -> str:
        return WHERE.get()

    async def both() -> list[object]:
        WHERE.set("here")
        return [await plain.run({}), await later.run({}), WHERE.get()]

    assert asyncio.run(both()) == ["here", "here", "here"]


def test_a_plain_function_may_return_something_to_wait_for() -> None:
    async def later(number: int) -> int:
        return number + 1

    @tool
    def soon(number: int) -> object:
        return later(number)

    assert run(soon, number=1) == 2
    assert run(tool(functools.partial(later), name="partial"), number=1) == 2
    assert run(tool(Later(), name="later"), number=1) == 1


def test_a_method_is_a_tool_of_its_instance() -> None:
    one, ten = Counter(1), Counter(10)

    assert (run(one.count, number=5), run(ten.count, number=5), run(ten.count_later, number=5)) == (6, 15, 15)
    assert one.count(5) == 6
    assert list(object_at(one.count.spec.input_schema, "properties")) == ["number"]
    assert one.count.spec.description == "Count on."


def test_a_bound_method_can_be_made_a_tool() -> None:
    assert run(tool(Counter(10).plain), number=5) == 15
    assert run(tool(Counter.of_class), number=5) == "Counter 5"


def test_a_method_without_its_instance_is_refused_when_it_runs() -> None:
    with pytest.raises(ConfigurationError, match="tool count is a method: give the one of an instance"):
        run(Counter.count, number=5)


def test_a_tool_in_a_class_that_is_no_method_is_a_tool_as_it_is() -> None:
    class Tools:
        twice = double

        @tool
        def triple(number: int) -> int:  # noqa: N805 # pyright: ignore[reportGeneralTypeIssues] - a function among others
            return 3 * number

    assert run(Tools().twice, number=4) == 8
    assert run(Tools.triple, number=4) == 12


def test_a_function_in_a_function_may_have_a_parameter_of_any_name() -> None:
    @tool
    def call(self: str) -> str:
        return self

    assert run(call, self="me") == "me"


def test_an_object_that_can_be_called_is_a_tool() -> None:
    made = tool(Counter(10), name="count")

    assert (made.spec.name, made.spec.description) == ("count", "Count at once.")
    assert tool(Counter(1)).spec.name == "Counter"
    assert run(made, number=5) == 15


def test_what_a_partial_function_has_been_given_is_hidden_from_the_model() -> None:
    def greet(greeting: str, name: str, end: str = "!") -> str:
        """Greet."""
        return f"{greeting} {name}{end}"

    made = tool(functools.partial(greet, "Hello", end="."))

    assert (made.spec.name, made.spec.description) == ("greet", "Greet.")
    assert list(object_at(made.spec.input_schema, "properties")) == ["name"]
    assert run(made, name="you") == "Hello you."


def test_a_wrapped_function_has_the_signature_of_what_it_wraps() -> None:
    def logged(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> int:
            return function(*args, **kwargs) + 100

        return call

    def triple(number: int) -> int:
        """Triple."""
        return 3 * number

    made = tool(logged(triple))

    assert (made.spec.name, made.spec.description) == ("triple", "Triple.")
    assert run(made, number=1) == 103


def test_attributes_of_a_function_do_not_become_those_of_the_tool() -> None:
    def odd(number: int) -> int:
        return number

    odd.spec = "mine"  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]

    assert tool(odd).spec.name == "odd"


def test_a_tool_that_wants_to_know_whose_call_it_runs_is_told() -> None:
    @tool
    def who(ctx: ToolContext, number: int = 0) -> ToolContext:
        return ctx

    @tool
    async def who_later(number: int = 0, *, whose: Annotated[ToolContext, "the caller"]) -> ToolContext:
        return whose

    @tool
    def who_perhaps(ctx: ToolContext | None = None) -> ToolContext | None:
        return ctx

    @tool
    def who_else(ctx: Annotated[ToolContext | None, "the caller"] = None) -> ToolContext | None:
        return ctx

    for one in (who, who_later, who_perhaps, who_else):
        assert run(one, CONTEXT) == CONTEXT
        assert run(one) == ToolContext()
        assert not set(object_at(one.spec.input_schema, "properties")) - {"number"}


def test_a_list_of_contexts_is_given_by_the_model() -> None:
    @tool
    def look(past: list[ToolContext]) -> int:
        return len(past)

    assert list(object_at(look.spec.input_schema, "properties")) == ["past"]
    assert run(look, past=[{"call_id": "toolu_1"}]) == 1


def numbers(to: int) -> Iterator[int]:
    yield from range(to)


async def numbers_later(to: int) -> AsyncIterator[int]:
    for number in range(to):
        yield number


class Yields:
    def __call__(self, to: int) -> Iterator[int]:
        yield to


@pytest.mark.parametrize(
    "function",
    [numbers, numbers_later, functools.partial(numbers, 3), Yields()],
    ids=["sync", "async", "partial", "call"],
)
def test_what_yields_is_refused(function: Callable[..., object]) -> None:
    with pytest.raises(ConfigurationError, match=r"yields: let it return a list of all, or their text"):
        tool(function)


STRANGE: list[object] = [Counter, 5, "double", None, vars(Counter)["fixed"], vars(Counter)["of_class"]]


@pytest.mark.parametrize("strange", STRANGE)
def test_what_is_no_function_is_refused(strange: Any) -> None:  # noqa: ANN401 - anything may be given
    with pytest.raises(ConfigurationError):
        tool()(strange)


def test_a_static_method_is_made_a_tool_outside_of_its_class() -> None:
    with pytest.raises(ConfigurationError, match=r"write `tool\(TheClass.the_function\)` below it"):
        tool(vars(Counter)["fixed"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "look up"}, "a name has 1 to 64 letters"),
        ({"timeout": 0}, "`timeout` must be a number of seconds above 0"),
        ({"timeout": "5"}, "`$.timeout`"),
        ({"cost": -1}, "`cost` must be an amount of 0 or more"),
        ({"intervention": "often"}, "`intervention` must be one of"),
        ({"description": "\ud800"}, "not valid Unicode"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        tool(**settings)(double)

    assert message in str(refused.value)
