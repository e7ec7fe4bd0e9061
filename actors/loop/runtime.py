"""`AgentRuntime`: runs a conversation one step at a time, for callers that keep its state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import overload

import msgspec

from reenact.actors.loop.config import AgentRuntimeConfig, AgentView, Function, config_of, new_id, rules_here, utc_now
from reenact.actors.loop.executors import (
    Execution,
    UsedError,
    call_function,
    execute,
    guarded,
    run_approved,
    takes_context,
)
from reenact.domain.errors import CallNotPendingError, DeadlockError, ReenactError
from reenact.domain.loop import people
from reenact.domain.loop.calls import call_of
from reenact.domain.loop.events import Done, Failed, LoopEvent, StepCompleted, Warning  # noqa: A004 - the word of the specification
from reenact.domain.loop.faults import ExecutorNotFoundError, InvalidInstructionError, InvalidStateError, info_of
from reenact.domain.loop.folding import after, events_of_result, recorded, with_final_state, with_step_and_time
from reenact.domain.loop.instructions import (
    ASKING,
    KINDS,
    CallTool,
    Finish,
    instruction_of,
    instructions_of,
    type_of,
)
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.people import Approval, AskRunner, step_input_of
from reenact.domain.loop.rounds import Stage, given_up
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.state import (
    AgentContext,
    AgentState,
    context_of,
    cost_exceeded,
    next_context,
    steps_exceeded,
)
from reenact.domain.loop.values import FrozenList, frozen


@dataclass(frozen=True)
class StepResult:
    """The outcome of a step: its events, the new state, and the context for the next runner call, if there is one.

    It can be awaited, and then returns itself: synchronous methods can be used like asynchronous ones.
    """

    events: FrozenList[LoopEvent]
    new_state: AgentState
    next_context: AgentContext | None = None

    def __await__(self) -> Generator[None, None, StepResult]:
        yield from ()
        return self


class Step:
    """Collects the events of a step, in order. `state` is the resulting state, without the step in its history."""

    def __init__(self, before: AgentState, number: int, now: Callable[[], datetime]) -> None:
        self.before = before
        self.number = number
        self.now = now
        self.events: list[LoopEvent] = []
        self.state = before
        self._shown: AgentState | None = None

    def begin(self) -> None:
        """Set the state to that of a conversation in a new step without events."""
        self.state = after(self.before, (self._stamp(StepCompleted()),))

    def shown(self) -> AgentState:
        """Return the state as a custom executor, or the runner, gets it: with the whole history."""
        self._shown = recorded(self.state, self.before, self.events)
        return self._shown

    def take(self, events: Iterable[LoopEvent]) -> None:
        """Apply the events."""
        self._apply([self._stamp(event) for event in events])

    def adopt(self, returned: object) -> None:
        """Apply what a custom executor has returned, or raise `InvalidOutcomeError`."""
        self._apply(events_of_result(self.state, returned, self.number, self.now(), shown=self._shown))

    def prepend(self, events: Sequence[LoopEvent]) -> None:
        """Apply the events before all others of the step."""
        self._apply_anew([*(self._stamp(event) for event in events), *self.events])

    def exclude_from_count(self) -> None:
        """Exclude the step from the count for `max_steps`."""
        last = self.events.pop() if self.events else self._stamp(StepCompleted())
        if isinstance(last, Done):
            last = msgspec.structs.replace(last, counted=False)
        else:
            free = self.before.free_steps + 1
            last = msgspec.structs.replace(last, changes=frozen({**(last.changes or {}), "free_steps": free}))
        self._apply_anew([*self.events, last])

    def result(self) -> StepResult:
        """Return the outcome of the step. If the conversation is done, calls that still wait are answered as such."""
        if self.state.status == "done" and self.state.pending_tool_calls:
            waiting: tuple[Stage, ...] = ("waiting",)
            self.take(given_up(self.state.round, "it was not run, for the conversation is done", stages=waiting))
        if not self.events:
            self.take([StepCompleted()])
        events = with_final_state(self.events, self.state)
        state = recorded(self.state, self.before, events)
        return StepResult(FrozenList(events), state, next_context(state))

    def _stamp(self, event: LoopEvent) -> LoopEvent:
        return with_step_and_time(event, self.number, self.now())

    def _apply_anew(self, events: list[LoopEvent]) -> None:
        self.events, self.state = [], self.before
        self._apply(events)

    def _apply(self, events: list[LoopEvent]) -> None:
        self.state = after(self.state, events)
        self.events += events


_log = logging.getLogger("reenact.loop")
_STOPPED_STATUSES = frozenset({"waiting_for_human_input", "interrupted", "done", "error"})


class AgentRuntime:
    """Runs an agent step by step; the caller owns the state of the conversation, and no step modifies it.

    `agent` is an object or a mapping with `runner(context, state)` or `runner(state)`, which returns an instruction or
    a list of them, and optionally `tools`, `executors` and a `model_runtime`. Functions may be async or not. `config`
    is an `AgentRuntimeConfig` or a mapping.

    Raises:
        ConfigurationError: the agent or the configuration is invalid.
    """

    def __init__(self, agent: object, config: AgentRuntimeConfig | Mapping[str, object] | None = None) -> None:
        self.agent = agent
        self.config = config_of(config)
        self._view = AgentView(agent, self.config)
        self._built_in: dict[str, Function] = {name: self._built_in_executor(name) for name in KINDS}

    @staticmethod
    def create_initial_state(
        session_id: str | None = None,
        messages: Iterable[Mapping[str, object]] = (),
        *,
        max_steps: int | None = None,
        cost_limit: CostLimit | Mapping[str, object] | float | None = None,
        metadata: Mapping[str, object] | None = None,
        created_at: datetime | None = None,
    ) -> AgentState:
        """Return the initial state of a conversation.

        Without a `session_id` a new one is created. `max_steps` is None for no limit. An amount as `cost_limit` means
        `CostLimit(amount)`. `created_at` is the current time by default.

        Raises:
            InvalidInputError: a `ValueError`; an argument is invalid.
        """
        now = utc_now() if created_at is None else created_at
        return AgentState(new_id("ses") if session_id is None else session_id).replace(
            messages=messages,
            max_steps=max_steps,
            cost_limit=cost_limit,
            metadata=metadata,
            created_at=now,
            last_modified=now,
        )

    @property
    def executors(self) -> Mapping[str, Function]:
        """The executors in effect, by instruction type: the agent's override the configuration's, and these ours."""
        return MappingProxyType({**self._built_in, **self.config.executors, **self._view.executors})

    async def step(self, state: AgentState, input: object = None) -> StepResult:  # noqa: A002 - the specification's
        """Run one more step and return its outcome.

        `input` is a tool call, which the caller thereby approves; a context for the runner; a message, or its text,
        that the user adds; or None. Errors become `error` events: nothing is raised but the cancellation of the task.

        Raises:
            InvalidStateError: `state` is not an `AgentState`.
        """
        step = Step(_check_state(state), state.step_count + 1, self._now(state))
        try:
            execution = self._execution(step)
            step_input = step_input_of(state, input, execution.rules)
        except Exception as error:  # noqa: BLE001 - the input may be anything
            # The state stays unchanged if something else is awaited, or if there is nothing to do.
            if state.status in ("waiting_for_human_input", "interrupted") or isinstance(error, CallNotPendingError):
                return _refused_result(step, error)
            step.begin()
            _fail(step, error)
            return step.result()
        step.begin()
        try:
            if isinstance(step_input, Approval):
                await self._approve(step, execution, step_input)
            else:
                await self._call_runner(step, execution, step_input)
        except Exception as error:  # noqa: BLE001 - users' functions may raise or return anything
            _fail(step, error)
        return step.result()

    def run_step(self, state: AgentState, input: object = None) -> StepResult:  # noqa: A002 - the specification's
        """Run `step` for callers that are not async.

        Raises:
            DeadlockError: an event loop runs in this thread; await `step` instead.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.step(state, input))
        raise DeadlockError("run_step would block the event loop that runs in this thread; await step instead")

    async def approve_tool_call(self, state: AgentState, call: Mapping[str, object]) -> StepResult:
        """Run the step of a call that a person has approved, and return its outcome."""
        return await self.step(state, call)

    def reject_tool_call(
        self, state: AgentState, call: Mapping[str, object] | str, reason: str = "", *, resume: bool = True
    ) -> StepResult:
        """Return the outcome when a person rejects a pending call, given by itself or its id: it ends as an error.

        Then the conversation continues, and the model sees the rejection; without `resume`, it is interrupted.
        """
        return self._decide(
            state,
            lambda: people.rejection(state, call if isinstance(call, str) else call_of(call).id, reason, resume=resume),
        )

    def respond(self, state: AgentState, value: object) -> StepResult:
        """Return the outcome when a person answers the pending question: with text, an option, or several."""
        return self._decide(state, lambda: people.response(state, value))

    def interrupt(self, state: AgentState, reason: str = "", can_resume: bool = True) -> StepResult:  # noqa: FBT001, FBT002 - the specification's
        """Return the outcome of interrupting the conversation: no events, if it is done."""
        return self._decide(state, lambda: people.interruption(state, reason, can_resume=can_resume))

    @overload
    def resume(self, state: AgentState, reason: str = "", context: None = None) -> StepResult: ...
    @overload
    def resume(
        self, state: AgentState, reason: str, context: AgentContext | Mapping[str, object]
    ) -> Coroutine[object, object, StepResult]: ...
    def resume(
        self, state: AgentState, reason: str = "", context: AgentContext | Mapping[str, object] | None = None
    ) -> StepResult | Coroutine[object, object, StepResult]:
        """Return the outcome of resuming an interrupted conversation; with a context, await the step made with it.

        Raises:
            NotResumableError: it is not interrupted, or was interrupted for good.
        """
        _check_state(state)
        events = people.resumption(state, reason)
        resumed = self._decide(state, lambda: events)
        return resumed if context is None else self._step_after_resumption(resumed, context)

    async def _step_after_resumption(
        self, resumed: StepResult, context: AgentContext | Mapping[str, object]
    ) -> StepResult:
        then = await self.step(resumed.new_state, context)
        return StepResult(type(then.events)([*resumed.events, *then.events]), then.new_state, then.next_context)

    async def _approve(self, step: Step, execution: Execution, approval: Approval) -> None:
        exceeded = steps_exceeded(step.before)
        if exceeded is not None:
            step.take([exceeded])
            return
        step.take(approval.events)
        if approval.call is None:
            return
        instruction = CallTool(approval.call)
        try:
            if execution.executors[instruction.type] is self._built_in[instruction.type]:
                step.take(await guarded(run_approved(execution, approval.call)))
            else:
                await self._execute(step, execution, instruction, context_of(step.before))
        except Exception as error:  # noqa: BLE001 - likewise
            _fail(step, error, call_id=approval.call.id if approval.was_pending else None)
            return
        _check_cost(step)

    async def _call_runner(self, step: Step, execution: Execution, step_input: AskRunner) -> None:
        step.take(step_input.events)
        state = step.shown() if step_input.events else step.before
        runner = execution.agent.runner
        arguments = (step_input.context, state) if takes_context(runner) else (state,)
        instructions = instructions_of(await guarded(call_function(runner, *arguments)))
        is_end = bool(instructions) and all(map(_is_finish, instructions))
        exceeded = steps_exceeded(step.before)
        if exceeded is not None and not is_end:
            step.take([exceeded])
            return
        for instruction in instructions:
            await self._execute(step, execution, instruction, step_input.context)
            if is_end:
                if step.state.status != "error":
                    step.exclude_from_count()
                return
            if type_of(instruction) not in {*ASKING, Finish.type}:
                _check_cost(step)
            if step.state.status in _STOPPED_STATUSES:
                return

    async def _execute(self, step: Step, execution: Execution, instruction: object, context: AgentContext) -> None:
        kind = type_of(instruction)
        executor = execution.executors.get(kind)
        if executor is None:
            raise ExecutorNotFoundError(kind)
        if executor is self._built_in.get(kind):
            step.take(await guarded(execute(execution, instruction_of(instruction), step.state)))
        else:
            step.adopt(
                await guarded(call_function(executor, _instruction_value(kind, instruction), step.shown(), context))
            )

    def _built_in_executor(self, name: str) -> Function:
        async def executor(
            instruction: object,
            state: AgentState,
            context: AgentContext | None = None,  # noqa: ARG001 - every executor gets one
        ) -> tuple[list[LoopEvent], AgentState]:
            step = Step(state, state.step_count + (state.status != "running"), self._now(state))
            execution = self._execution(step)
            try:
                step.take(await execute(execution, instruction_of(instruction), state))
            except UsedError as error:
                raise error.cause from None
            return step.events, step.state

        executor.__name__ = executor.__qualname__ = name
        executor.__doc__ = f"Execute {name}: return what has happened, and the state that this leads to."
        return executor

    def _execution(self, step: Step) -> Execution:
        return Execution(
            self._view, self.config, rules_here(Rules(policies=self._view.policies)), self.executors, step.now
        )

    def _decide(self, state: AgentState, decide: Callable[[], Iterable[LoopEvent]]) -> StepResult:
        step = Step(_check_state(state), state.step_count, self._now(state))
        try:
            events = tuple(decide())
        except Exception as error:  # noqa: BLE001 - the input may be anything
            return _refused_result(step, error)
        step.take(events)
        return step.result() if events else StepResult(FrozenList(), state, next_context(state))

    def _now(self, state: AgentState) -> Callable[[], datetime]:
        """Return a clock that cannot fail: if the configured one does, it returns the time of the last change."""

        def now() -> datetime:
            try:
                return self.config.clock().astimezone(UTC)
            except Exception as error:  # noqa: BLE001 - a user's clock
                _log.warning("the clock of the configuration failed: %s", info_of(error))
                return state.last_modified

        return now


def _check_state(state: object) -> AgentState:
    if isinstance(state, AgentState):
        return state
    raise InvalidStateError(
        f"a step is made from an `AgentState`, such as `create_initial_state` returns; not from {state!r}"
    )


def _refused_result(step: Step, error: Exception) -> StepResult:
    step.number = step.before.step_count
    _fail(step, error, refused=True)
    return step.result()


def _fail(step: Step, error: BaseException, *, refused: bool = False, call_id: str | None = None) -> None:
    cause = error.cause if isinstance(error, UsedError) else error
    info = info_of(cause)
    _log.info("step %d of %s: %s: %s", step.number, step.before.session_id, info.type, info.message)
    failed = Failed(error=info, refused=refused, call_id=call_id)
    step.take([msgspec.structs.replace(failed, **error.used) if isinstance(error, UsedError) else failed])


def _check_cost(step: Step) -> None:
    """Apply the cost limit: an end or interruption because of it comes before all other events of the step."""
    events = () if step.state.status == "done" else cost_exceeded(step.state)
    if any(isinstance(event, Warning) for event in events):
        step.take(events)
    elif events:
        step.prepend(events)


def _is_finish(instruction: object) -> bool:
    try:
        return type_of(instruction) == Finish.type
    except InvalidInstructionError:
        return False


def _instruction_value(kind: str, instruction: object) -> object:
    """Return the instruction for a custom executor: a built-in one as a value, if it is valid."""
    if kind not in KINDS:
        return instruction
    try:
        return instruction_of(instruction)
    except ReenactError:
        return instruction
