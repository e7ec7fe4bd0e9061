"""No step raises, and every state can be written and read again, whatever values tools, models and runners give."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none
# ruff: noqa: ANN401 - what runners, tools and models give is anybody's

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.loop import (
    AgentRuntime,
    CallLLM,
    Done,
    HumanPromptRequired,
    LLMResult,
    ToolResult,
    fold,
    from_json,
    to_json,
)
from tests.loop.support import Play, Scripted, a_call, ask_about, run_call, run_calls, streaming


def nested(levels: int, inside: Callable[[Any], Any]) -> Any:
    value: Any = None
    for _ in range(levels):
        value = inside(value)
    return value


ODD: list[Any] = [
    10**5000,
    -(10**5000),
    float("inf"),
    float("nan"),
    datetime(2026, 1, 1),  # noqa: DTZ001 - that is what is odd
    Decimal("1.5"),
    b"bytes",
    "\ud800",
    object(),
    {1: 2, None: {3}},
    nested(5_000, lambda value: [value]),
    nested(5_000, lambda value: {"a": value}),
]
FIELDS: list[tuple[type[Any], dict[str, Any]]] = [
    (ToolResult, {"id": "x", "result": None, "cost": None}),
    (LLMResult, {"result": {}, "usage": None, "cost": None, "model": "m"}),
    (HumanPromptRequired, {"session_id": "s", "prompt": "?", "metadata": None}),
    (Done, {"reason": "over"}),
]
PLACES: dict[str, Callable[[Any], Any]] = {
    "returned by the runner": lambda odd: Scripted([odd]),
    "in a list of the runner's": lambda odd: Scripted([[odd]]),
    "the result of a tool": lambda odd: Scripted([run_call(a_call())], tools={"tool": lambda _: odd}),
    "one of two results": lambda odd: Scripted(
        [run_calls(a_call("a"), a_call("b", "other"))],
        tools={"tool": lambda _: odd, "other": lambda _: 1},
    ),
    "the arguments of a call": lambda odd: Scripted(
        [run_call(a_call(arguments={"a": odd}))], tools={"tool": lambda _: None}
    ),
    "the payload for a model": lambda odd: Scripted([CallLLM({"a": odd})], model_runtime=streaming({"content": "x"})),
    "a chunk of a model's": lambda odd: Scripted(
        [CallLLM({})], model_runtime=streaming({"content": "x", "usage": odd})
    ),
    "the reason of an end": lambda odd: Scripted([{"type": "finish", "reason": odd}]),
    "the detail of an end": lambda odd: Scripted([{"type": "finish", "reason": "x", "reason_detail": odd}]),
    "an event as a mapping": lambda odd: Scripted(
        [{"type": "z"}], executors={"z": lambda *_: ([{"type": "q", "a": odd}], None)}
    ),
    "the metadata of a state": lambda odd: Scripted(
        [{"type": "z"}], executors={"z": lambda _, state, __: ([], state.replace(metadata={"a": odd}))}
    ),
}


def telling(kind: type[Any], fields: dict[str, Any], name: str) -> Callable[[Any], Scripted]:
    """Return what makes an agent whose executor returns an event with something odd in the field."""
    return lambda odd: Scripted([{"type": "z"}], executors={"z": lambda *_: ([kind(**{**fields, name: odd})], None)})


PLACES.update({f"{name} of {kind.__name__}": telling(kind, fields, name) for kind, fields in FIELDS for name in fields})


@pytest.mark.parametrize("place", PLACES)
def test_no_step_raises_and_every_state_can_be_written_and_read_whatever_comes(place: str) -> None:
    for odd in [*ODD, None]:
        play = Play(PLACES[place](odd))
        play.step()

        assert from_json(to_json(play.state)) == play.state
        assert fold(play.state.events, play.initial) == play.state
        if place == "one of two results":
            assert [(event.id, event.result) for event in play.events][1] == ("b", 1)
        handed_in = Play(Scripted([[]], tools={"tool": lambda _: None}))
        handed_in.step(odd)
        assert from_json(to_json(handed_in.state)) == handed_in.state


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0, 10**400])
def test_a_cost_that_is_no_amount_does_not_switch_a_limit_off(cost: Any) -> None:
    told = {"z": lambda *_: ([ToolResult(id="x", cost=cost)], None)}
    spec = SimpleNamespace(name="tool", cost=cost, intervention=None, timeout=None)
    play = Play(Scripted([{"type": "z"}], executors=told), cost_limit=1)
    play.step()

    assert play.state.cost == 0.0
    with pytest.raises(InvalidInputError, match="cost must be an amount"):
        play.state.replace(cost=cost)
    with pytest.raises(ConfigurationError, match="the cost of tool 'tool' must be an amount"):
        AgentRuntime(Scripted([[]], tools={"tool": SimpleNamespace(spec=spec, run=print)}))


def test_asking_about_many_calls_takes_time_in_proportion() -> None:
    def steps_of(calls: int) -> int:
        """Return how many lines of the rounds are run for it."""
        play, lines = (
            Play(Scripted([ask_about(*map(a_call, map(str, range(calls))))])),
            0,
        )

        def count(frame: FrameType, event: str, _: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return count if frame.f_code.co_filename.endswith(("rounds.py", "folding.py", "instructions.py")) else None

        before = sys.gettrace()
        sys.settrace(count)
        try:
            play.step()
        finally:
            sys.settrace(before)
        assert len(play.state.pending_tool_calls) == calls
        return lines

    assert steps_of(400) < 2.5 * steps_of(200)
