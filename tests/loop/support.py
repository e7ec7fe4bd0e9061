"""Agents that do what a test asks of them, and the calls and models they have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reenact.loop import AgentContext, AgentRuntime, AgentState, StepResult


def a_call(id: str = "c1", name: str = "tool", arguments: Any = "{}") -> dict[str, Any]:  # noqa: A002, ANN401
    """Return a call in OpenAI's shape."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def run_call(call: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the instruction to run the call."""
    return {"type": "call_tool", "tool_call": call}


def run_calls(*calls: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the instruction to run the calls at once."""
    return {"type": "call_tools_batch", "tool_calls": calls}


def ask_about(*calls: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the instruction to ask a person about the calls."""
    return {"type": "request_human_approve", "pending_tool_calls": calls}


def streaming(*chunks: Any) -> Callable[[Any], AsyncIterator[Any]]:  # noqa: ANN401
    """Return a model that yields the chunks; an exception among them is raised."""

    async def model_runtime(payload: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        for chunk in chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk

    return model_runtime


@dataclass
class Scripted:
    """An agent whose runner returns one thing after the other, and whatever is last for ever."""

    script: list[Any] = field(default_factory=list[Any])
    tools: Any = field(default_factory=dict[str, Any])
    executors: Any = field(default_factory=dict[str, Any])
    model_runtime: Any = None
    seen: list[tuple[AgentContext, AgentState]] = field(default_factory=list[tuple[AgentContext, AgentState]])

    def runner(self, context: AgentContext, state: AgentState) -> Any:  # noqa: ANN401
        self.seen.append((context, state))
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


def events_of(result: StepResult) -> Sequence[Any]:
    """Return the events, of whatever type a test expects."""
    return result.events


class Play:
    """A conversation that goes from step to step."""

    def __init__(
        self,
        agent: Scripted,
        config: Mapping[str, Any] | None = None,
        **initial: Any,  # noqa: ANN401
    ) -> None:
        self.agent = agent
        self.runtime = AgentRuntime(agent, config)
        self.initial = AgentRuntime.create_initial_state("s", **initial)
        self.state: Any = self.initial
        self.result = StepResult([], self.initial)  # type: ignore[arg-type]  # nothing has happened yet  # pyright: ignore[reportArgumentType]

    def take(self, result: StepResult) -> StepResult:
        """Go on from this result."""
        self.result, self.state = result, result.new_state
        return result

    def step(self, given: object = None) -> StepResult:
        """Make a step."""
        return self.take(self.runtime.run_step(self.state, given))

    @property
    def kinds(self) -> list[str]:
        """The types of the last step's events."""
        return [event.type for event in self.result.events]

    @property
    def events(self) -> Sequence[Any]:
        """The last step's events, of whatever type a test expects."""
        return self.result.events

    @property
    def event(self) -> Any:  # noqa: ANN401
        """The last step's first event."""
        return self.events[0]

    @property
    def error(self) -> str:
        """The type and the message of the last step's error, which is its last event."""
        info = self.events[-1].error
        return f"{info.type}: {info.message}"

    @property
    def answers(self) -> list[str]:
        """The answers to calls in the conversation."""
        return [message["content"] for message in self.state.messages if message["role"] == "tool"]
