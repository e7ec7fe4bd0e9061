"""The built-in executors: each carries out its instruction and returns the resulting events.

Functions of users may be async or not; a tool that blocks gets its own thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeAlias, TypedDict, TypeGuard, TypeVar, assert_never

import msgspec

from reenact._signature import signature_of
from reenact.actors.environment.tools.running import EscapedError, in_thread
from reenact.actors.loop.config import (
    AgentRuntimeConfig,
    AgentView,
    Function,
    Tool,
    function_of,
    is_described,
    tool_cost,
)
from reenact.domain.errors import ReenactError
from reenact.domain.loop.assembling import Assembly, compressed, model_of, part_to_replace, request_for_summary
from reenact.domain.loop.calls import ToolCall
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
from reenact.domain.loop.faults import NoModelError, ToolNotFoundError, ToolTimeoutError, info_of
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
from reenact.domain.loop.ledger import cost_of, price_of, prices_of
from reenact.domain.loop.people import in_order, plan
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.state import AgentState
from reenact.domain.loop.values import Frozen, frozen, frozen_or_named, is_iterable, mutable_copy

T = TypeVar("T")


class AbortedError(ReenactError):
    """A user's function has tried to end the process, or has cancelled itself."""

    code = "aborted"


async def call_function(function: Function, *arguments: object) -> object:
    """Call the function and return its result, awaiting it if possible; it runs on the thread of the loop."""
    returned = function(*arguments)
    return await returned if inspect.isawaitable(returned) else returned


async def guarded(call: Awaitable[T]) -> T:
    """Await the call; only a cancellation of the task itself is passed on as such.

    Raises:
        Exception: what was raised, with an error in place of `SystemExit`: a function must not end the process.
    """
    try:
        return await call
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        raise AbortedError("it cancelled itself") from cancelled
    except EscapedError as escaped:
        raise _replacement_error(escaped.error) from escaped.error
    except SystemExit as exit_:
        raise _replacement_error(exit_) from exit_


async def answer_chunks(answer: object) -> AsyncIterator[object]:
    """Yield the output of a model, whether it is async or not."""
    told: object = await answer if inspect.isawaitable(answer) else answer
    if _is_async(told):
        try:
            async for chunk in told:
                yield chunk
        finally:
            close = getattr(told, "aclose", None)
            if close is not None:
                await close()
    elif is_iterable(told) and not isinstance(told, Mapping | str | bytes):
        for chunk in told:
            yield chunk
    else:
        yield told


def takes_context(runner: Function) -> bool:
    """Return whether a runner takes `(context, state)`, rather than only `(state)`."""
    try:
        parameters = list(signature_of(runner).parameters.values())
    except (TypeError, ValueError):
        return True
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return True
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first, second = [*(each for each in parameters if each.kind in places), None, None][:2]
    if first is None or second is None:
        return False
    return second.default is inspect.Parameter.empty or second.name == "state"


CallOutcome: TypeAlias = tuple[ToolResult, Exception | None]
"""The result of a call for the model, and the error if it failed."""


async def run_tool(tools: Mapping[str, Tool], call: ToolCall) -> CallOutcome:
    """Run the call and return its result; only a cancellation is raised."""
    tool = tools.get(call.name)
    if tool is None:
        failure: Exception = ToolNotFoundError(call.name)
        return ToolResult(id=call.id, name=call.name, result=str(failure), is_error=True, ran=False), failure
    cost = tool_cost(tool)
    answer = ToolResult(id=call.id, name=call.name, cost=None if cost is None else float(cost))
    try:
        result = frozen(await guarded(_call_with_timeout(tool, call)), what=f"what {call.name} returned", finite=True)
    except Exception as error:  # noqa: BLE001 - a tool may raise anything
        return msgspec.structs.replace(answer, result=info_of(error).message, is_error=True), error
    return msgspec.structs.replace(answer, result=result), None


def _is_async(value: object) -> TypeGuard[AsyncIterable[object]]:
    return isinstance(value, AsyncIterable)


def _replacement_error(error: BaseException) -> Exception:
    """Return an error in place of one that would end the loop, or cannot be raised in it."""
    if isinstance(error, SystemExit):
        return AbortedError(f"it called for the end of the process, with {error.code!r}")
    return RuntimeError(f"the function raised {type(error).__name__}")


async def _call_with_timeout(tool: Tool, call: ToolCall) -> object:
    seconds = tool.spec.timeout if is_described(tool) else None
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _call_function(tool, call)
    except TimeoutError:
        if seconds is not None and limit.expired():
            raise ToolTimeoutError(call.name, seconds) from None
        raise


async def _call_function(tool: Tool, call: ToolCall) -> object:
    arguments = {name: mutable_copy(value) for name, value in call.input.items()}
    function = function_of(tool)
    if inspect.iscoroutinefunction(function):
        return await function(arguments)
    returned = await in_thread(partial(function, arguments), "reenact-tool")
    return await returned if inspect.isawaitable(returned) else returned


EventList: TypeAlias = list[LoopEvent]


class UsedError(Exception):
    """A failure after resources were used that must be paid: the cause, and the recorded usage."""

    def __init__(self, cause: BaseException, used: Mapping[str, object]) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.used = used


class ModelUse(TypedDict):
    """The model that was used, with usage and cost."""

    model: str
    usage: Frozen | None
    cost: float | None


@dataclass(frozen=True)
class Execution:
    """The context of the built-in executors: the current agent, the configuration and the rules."""

    agent: AgentView
    config: AgentRuntimeConfig
    rules: Rules
    executors: Mapping[str, Function]
    now: Callable[[], datetime]


async def execute(execution: Execution, instruction: Instruction, state: AgentState) -> EventList:
    """Carry out the instruction with a built-in executor and return the resulting events."""
    match instruction:
        case CallLLM():
            return await _call_llm(execution, instruction)
        case CallTool():
            return await _call_tool(execution, instruction.tool_call, state)
        case CallToolsBatch():
            return await _call_tools_batch(execution, instruction, state)
        case RequestHumanApprove():
            asked, _ = plan(state, instruction.pending_tool_calls, execution.rules, ask_always=True)
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
            return await _compress_context(execution, instruction, state)
        case _:
            assert_never(instruction)


async def run_approved(execution: Execution, call: ToolCall) -> EventList:
    """Run a call that may run and return the resulting events.

    Raises:
        UsedError: the call failed, and a failure is an error of the step.
    """
    answer, failure = await run_tool(execution.agent.tools, call)
    if failure is None or execution.config.on_tool_error == "feedback":
        return [answer]
    raise UsedError(failure, {"tool": call.name, "cost": answer.cost} if answer.ran else {})


async def _call_llm(execution: Execution, instruction: CallLLM) -> EventList:
    started = LLMStart(payload=frozen_or_named(instruction.payload), timestamp=execution.now())
    happened: EventList = [started]
    result, used = await _ask_model(execution, instruction.payload, happened)
    appended = execution.config.append_assistant_message
    return [*happened, LLMResult(result=result, appended=appended, timestamp=execution.now(), **used)]


async def _call_tool(execution: Execution, call: ToolCall, state: AgentState) -> EventList:
    if call.name in execution.agent.tools:
        held, to_run = plan(state, (call,), execution.rules)
        if not to_run:
            return [*held]
    return await run_approved(execution, call)


async def _call_tools_batch(execution: Execution, instruction: CallToolsBatch, state: AgentState) -> EventList:
    calls: list[ToolCall] = list(instruction.tool_calls)
    tools = execution.agent.tools
    held, planned = plan(state, [call for call in calls if call.name in tools], execution.rules)
    ids = {call.id for call in planned}
    ran = await asyncio.gather(*(run_tool(tools, call) for call in calls if call.id in ids or call.name not in tools))
    answers = [*(event for event in held if isinstance(event, ToolResult)), *(answer for answer, _ in ran)]
    return [*in_order(calls, answers), *(event for event in held if not isinstance(event, ToolResult))]


async def _compress_context(execution: Execution, instruction: CompressContext, state: AgentState) -> EventList:
    part = part_to_replace(state.messages, instruction.keep)
    if instruction.summary is not None or part[0] == part[1]:
        return [compressed(state.messages, part, instruction.summary or "")]
    result, used = await _ask_model(execution, request_for_summary(state.messages, part, instruction), [])
    return [msgspec.structs.replace(compressed(state.messages, part, str(result["content"])), **used)]


async def _ask_model(execution: Execution, payload: object, happened: EventList) -> tuple[Frozen, ModelUse]:
    """Return the model's answer, with the model used, its usage and cost; add its chunks to `happened`."""
    model_runtime = execution.agent.model_runtime or execution.config.model_runtime
    if model_runtime is None:
        raise NoModelError
    assembly = Assembly()
    try:
        async for chunk in answer_chunks(model_runtime(payload)):
            happened.append(LLMStream(chunk=assembly.add(chunk), timestamp=execution.now()))
    except Exception as error:
        if not assembly.usage:
            raise
        raise UsedError(error, _model_use(execution, payload, assembly)) from error
    return assembly.result, _model_use(execution, payload, assembly)


def _model_use(execution: Execution, payload: object, assembly: Assembly) -> ModelUse:
    model = assembly.model or model_of(payload)
    return {
        "model": model,
        "usage": assembly.usage or None,
        "cost": cost_of(assembly.usage, price_of(prices_of(execution.config.prices), model)),
    }
