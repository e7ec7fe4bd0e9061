"""The built-in executors: each does what its instruction asks for, and returns what has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, assert_never

from reenact.actors.loop.calling import chunks, run
from reenact.actors.loop.config import AgentRuntimeConfig, AgentView, prices_of
from reenact.domain.loop.assembling import Assembly, model_of
from reenact.domain.loop.calls import ToolCall
from reenact.domain.loop.compressing import compressed, part_to_replace, request_for_summary
from reenact.domain.loop.events import (
    Done,
    HumanPromptRequired,
    HumanSelectRequired,
    LLMResult,
    LLMStart,
    LLMStream,
    LoopEvent,
    Options,
    ToolResult,
)
from reenact.domain.loop.faults import NoModelError
from reenact.domain.loop.instructions import (
    CallLLM,
    CallTool,
    CallToolsBatch,
    CompressContext,
    Finish,
    Instruction,
    RequestHumanApprove,
    RequestHumanPrompt,
    RequestHumanSelect,
)
from reenact.domain.loop.ledger import cost_of, price_of
from reenact.domain.loop.people import in_order, plan
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.state import AgentState
from reenact.domain.loop.values import Frozen, portrayed

Happened: TypeAlias = list[LoopEvent]


class UsedError(Exception):
    """A failure after which something was used, and is to be paid: what failed, and what is recorded of it."""

    def __init__(self, cause: BaseException, **told: Any) -> None:  # noqa: ANN401 - fields of the event
        super().__init__(str(cause))
        self.cause = cause
        self.told = told


@dataclass(frozen=True)
class Hands:
    """What the built-in executors work with: the agent as it is now, the configuration, the rules that hold."""

    agent: AgentView
    config: AgentRuntimeConfig
    rules: Rules
    executors: Mapping[str, Callable[..., Any]]
    now: Callable[[], datetime]


async def execute(hands: Hands, instruction: Instruction, state: AgentState) -> Happened:
    """Return what happens when a built-in executor does what the instruction asks for."""
    match instruction:
        case CallLLM():
            return await _call_llm(hands, instruction)
        case CallTool():
            return await _call_tool(hands, instruction.tool_call, state)
        case CallToolsBatch():
            return await _call_tools_batch(hands, instruction, state)
        case RequestHumanApprove():
            asked, _ = plan(state, instruction.pending_tool_calls, hands.rules, ask_always=True)
            return [*asked]
        case RequestHumanPrompt():
            return [
                HumanPromptRequired(
                    session_id=state.session_id, prompt=instruction.prompt, metadata=instruction.metadata
                )
            ]
        case RequestHumanSelect():
            return [
                HumanSelectRequired(
                    session_id=state.session_id,
                    prompt=instruction.prompt,
                    options=Options(instruction.options),
                    multi=instruction.multi,
                    metadata=instruction.metadata,
                )
            ]
        case Finish():
            return [Done(reason=instruction.reason, reason_detail=instruction.reason_detail)]
        case CompressContext():
            return await _compress_context(hands, instruction, state)
        case _:
            assert_never(instruction)


async def run_approved(hands: Hands, call: ToolCall) -> Happened:
    """Return what happens when a call runs that may run.

    Raises:
        UsedError: it failed, and a failure is an error of the step.
    """
    answer, failure = await run(hands.agent.tools, call)
    if failure is None or hands.config.on_tool_error == "feedback":
        return [answer]
    used: dict[str, Any] = {"tool": call.name, "cost": answer.cost} if answer.ran else {}
    raise UsedError(failure, **used)


async def _call_llm(hands: Hands, instruction: CallLLM) -> Happened:
    started = LLMStart(payload=portrayed(instruction.payload), timestamp=hands.now())
    happened: Happened = [started]
    result, used = await _answer(hands, instruction.payload, happened)
    appended = hands.config.append_assistant_message
    return [*happened, LLMResult(result=result, appended=appended, timestamp=hands.now(), **used)]


async def _call_tool(hands: Hands, call: ToolCall, state: AgentState) -> Happened:
    if call.name in hands.agent.tools:
        held, to_run = plan(state, (call,), hands.rules)
        if not to_run:
            return [*held]
    return await run_approved(hands, call)


async def _call_tools_batch(hands: Hands, instruction: CallToolsBatch, state: AgentState) -> Happened:
    calls: list[ToolCall] = list(instruction.tool_calls)
    tools = hands.agent.tools
    held, planned = plan(state, [call for call in calls if call.name in tools], hands.rules)
    ids = {call.id for call in planned}
    ran = await asyncio.gather(*(run(tools, call) for call in calls if call.id in ids or call.name not in tools))
    answers = [*(event for event in held if isinstance(event, ToolResult)), *(answer for answer, _ in ran)]
    return [*in_order(calls, answers), *(event for event in held if not isinstance(event, ToolResult))]


async def _compress_context(hands: Hands, instruction: CompressContext, state: AgentState) -> Happened:
    part = part_to_replace(state.messages, instruction.keep)
    if instruction.summary is not None or part[0] == part[1]:
        return [compressed(state.messages, part, instruction.summary or "")]
    result, used = await _answer(hands, request_for_summary(state.messages, part, instruction), [])
    return [compressed(state.messages, part, str(result["content"]), **used)]


async def _answer(hands: Hands, payload: Any, happened: Happened) -> tuple[Frozen, dict[str, Any]]:  # noqa: ANN401 - the model's own
    """Return the model's answer, and which model was used, for how much; add its chunks to what happened."""
    model_runtime = hands.agent.model_runtime or hands.config.model_runtime
    if model_runtime is None:
        raise NoModelError
    assembly = Assembly()
    try:
        async for chunk in chunks(model_runtime(payload)):
            happened.append(LLMStream(chunk=assembly.add(chunk), timestamp=hands.now()))
    except Exception as error:
        if not assembly.usage:
            raise
        raise UsedError(error, **_used(hands, payload, assembly)) from error
    return assembly.result, _used(hands, payload, assembly)


def _used(hands: Hands, payload: object, assembly: Assembly) -> dict[str, Any]:
    model = assembly.model or model_of(payload)
    return {
        "model": model,
        "usage": assembly.usage or None,
        "cost": cost_of(assembly.usage, price_of(prices_of(hands.config.prices), model)),
    }
