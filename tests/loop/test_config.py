"""Agents and configurations, however they are written down; what cannot work is refused before the first step."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from reenact import ConfigurationError
from reenact.loop import AgentRuntime, AgentRuntimeConfig, Finish, Price, fold, from_json, to_json
from tests.loop.support import Play, Scripted, a_call, events_of


class Written:
    """An agent as a class with a method."""

    tools = {"tool": lambda _: 1}  # noqa: RUF012

    def runner(self, context: object, state: object) -> Finish:
        return Finish("written")


@dataclass
class Plain:
    """An agent as a dataclass."""

    runner: Any
    tools: Any = None


@pytest.mark.parametrize(
    "agent",
    [
        Written(),
        Plain(lambda state: Finish("written"), {"tool": lambda _: 1}),
        {"runner": lambda state: Finish("written"), "tools": {"tool": lambda _: 1}, "executors": None},
        SimpleNamespace(runner=lambda context, state: {"type": "finish", "reason": "written"}, tools=Written.tools),
    ],
)
def test_an_agent_may_be_written_in_any_way(agent: object) -> None:
    runtime = AgentRuntime(agent)
    state = AgentRuntime.create_initial_state()

    assert events_of(runtime.run_step(state))[0].reason == "written"
    assert events_of(runtime.run_step(state, a_call()))[0].result == 1


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (object(), "an agent has a `runner"),
        ({"runner": 5}, "an agent has a `runner"),
        ({"runner": print, "executors": 5}, "executors of the agent must be a mapping"),
        ({"runner": print, "executors": {"finish": 5}}, "executor 'finish' of the agent cannot be called: 5"),
        ({"runner": print, "tools": 5}, "the agent's tools must be a mapping of names, not 5"),
        ({"runner": print, "tools": [print]}, "the agent's tools must be a mapping of names"),
        ({"runner": print, "tools": {"tool": 5}}, "tool 'tool' can be called, or has `run` and `spec`"),
        ({"runner": print, "modelRuntime": 5}, "model_runtime must be a function, not 5"),
    ],
)
def test_an_agent_that_cannot_work_is_refused(agent: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        AgentRuntime(agent)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (5, "config must be an `AgentRuntimeConfig` or a mapping, not 5"),
        ({"modelRunTime": print}, "config has no option 'model_run_time'"),
        ({"executors": 5}, "executors of the config must be a mapping"),
        ({"executors": {"finish": 5}}, "executor 'finish' of the config cannot be called"),
        ({"model_runtime": 5}, "model_runtime must be a function"),
        ({"clock": 5}, "clock must be a function"),
        ({"on_tool_error": "cry"}, "on_tool_error must be 'fail' or 'feedback', not 'cry'"),
        ({"appendAssistantMessage": 1}, "append_assistant_message must be true or false, not 1"),
        ({"prices": 5}, "prices must be a mapping of models' names, not 5"),
        ({"prices": {"m": 5}}, "the price of 'm' is a `Price"),
        ({"policies": {"tool": "sometimes"}}, "policies.tool"),
        ({"deny": 5}, "deny"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(config: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        AgentRuntime(Scripted([[]]), config)


def test_a_configuration_may_be_a_value() -> None:
    config = AgentRuntimeConfig(prices={"m": {"input": 1, "output": 2}})

    assert AgentRuntime(Scripted([[]]), config).config is config
    assert config.prices == {"m": Price(1, 2)}


def test_an_agent_that_breaks_between_two_steps_is_an_error() -> None:
    agent = Scripted([[]])
    play = Play(agent)
    agent.tools = 5

    play.step()

    assert (play.state.status, play.error) == (
        "error",
        "ConfigurationError: the agent's tools must be a mapping of names, not 5",
    )


def test_time_comes_from_the_configured_clock_and_is_told_in_utc() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    play = Play(Scripted([[]]), {"clock": lambda: noon}, created_at=datetime(2029, 1, 1, tzinfo=UTC))

    play.step()

    assert play.event.timestamp == play.state.last_modified == noon
    assert play.event.timestamp.tzinfo is UTC
    assert play.state.created_at.year == 2029


def test_a_clock_that_fails_lets_no_step_fail() -> None:
    def broken() -> datetime:
        msg = "no battery"
        raise OSError(msg)

    play = Play(Scripted([Finish()]), {"clock": broken})

    play.step()

    assert (play.kinds, play.event.timestamp) == (["done"], play.initial.last_modified)
    assert fold(play.state.events, play.initial) == play.state


@pytest.mark.parametrize(
    "initial",
    [
        {"session_id": ""},
        {"session_id": 5},
        {"messages": 5},
        {"messages": "hi"},
        {"messages": {"role": "user"}},
        {"messages": ["hi"]},
        {"messages": [{"content": "hi"}]},
        {"messages": [{"role": "user", "content": object()}]},
        {"messages": [{"role": "user", "content": "\ud800"}]},
        {"metadata": 5},
        {"created_at": "now"},
        {"created_at": datetime(2030, 1, 1)},  # noqa: DTZ001
    ],
)
def test_an_initial_state_that_cannot_be_is_refused(initial: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"session_id|message|metadata|created_at"):
        AgentRuntime.create_initial_state(**initial)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "asleep"},
        {"phase": "asleep"},
        {"cost": "much"},
        {"cost": True},
        {"max_steps": 0},
        {"last_modified": None},
        {"pending_prompt": {"prompt": 5}},
        {"interruption": 5},
        {"error": 5},
        {"payload": object()},
        {"usage": 5},
    ],
)
def test_no_state_can_hold_what_it_cannot(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        AgentRuntime.create_initial_state().replace(**change)


def test_a_conversation_may_begin_with_the_messages_of_another() -> None:
    first = AgentRuntime.create_initial_state(messages=[{"role": "user", "content": "hi"}])

    second = AgentRuntime.create_initial_state(messages=first.messages)

    assert second.messages == first.messages
    assert second.session_id != first.session_id


def test_a_state_takes_what_people_write_for_what_it_stands_for() -> None:
    state: Any = AgentRuntime.create_initial_state("s", metadata={"user": 7}).replace(
        events=[], usage=None, cost_limit=3, interruption={"reason": "lunch"}, pending_tool_calls=[a_call()]
    )

    assert (state.events, state.usage, state.cost_limit and state.cost_limit.max_total) == ([], {}, 3)
    assert (state.interruption, state.metadata) == ({"reason": "lunch", "can_resume": True, "step": 0}, {"user": 7})
    assert state.pending_tool_calls[0].name == "tool"
    assert from_json(to_json(state)) == state
