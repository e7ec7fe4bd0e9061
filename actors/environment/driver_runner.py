"""Runs a driver's turns on the outside loop, one after the other; each turn can be stopped."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import pykka

from reenact.actors.environment.answer_tool import AnswerTool
from reenact.actors.environment.api import EnvironmentConfig, LLMDriver, OnEvent, OutputDriver
from reenact.actors.environment.failures import failure, failure_of, is_about_length, is_mistake
from reenact.actors.environment.incoming import DELTAS, Reported, event_or_error
from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.running import EscapedError, in_thread, wait_for_cancellation
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.conversation import replaceable_count, summary_message, without_longest_result
from reenact.domain.errors import RuntimeClosedError
from reenact.domain.messages import Said, text_of
from reenact.domain.output import OutputSpec
from reenact.domain.stream.answer import Answer
from reenact.domain.stream.events import (
    ContextCompressed,
    MessageStop,
    StreamData,
    StreamError,
    ToolResult,
    ToolStarted,
)
from reenact.domain.transcript import summary_request

ProvideDriver: TypeAlias = Callable[[], LLMDriver | Awaitable[LLMDriver]]

_LINGER_SECONDS = 1.0
_LEAST_PART = 1 / 16
"""How much of a conversation a model is given at least to summarise, in characters, if all of it is too long."""
_log = logging.getLogger("reenact.environment")


class Reports:
    """The events that the driver reports in one turn.

    The receptor is notified once that there are events, and takes all that are pending. `ended` is whether the driver
    has reported that its message is complete, or has failed. An error that says that the conversation is too long is
    kept in `too_long` instead while the conversation `may_be_shortened`: until the driver has reported anything else.
    """

    __slots__ = (
        "_is_notifying",
        "_outside",
        "_pending",
        "_receive",
        "_was_notified",
        "ended",
        "may_be_shortened",
        "too_long",
        "turn_id",
    )

    def __init__(self, turn_id: str, receive: Callable[[Reports], object], outside: EventLoopThread) -> None:
        self.turn_id = turn_id
        self._outside = outside
        self._pending: list[Reported] = []
        self.ended = False
        self.may_be_shortened = False
        self.too_long: StreamError | None = None
        self._receive = receive
        self._is_notifying = False
        self._was_notified = False

    def __call__(self, event: Reported) -> None:
        """Add an event that the driver reports; may be called from any thread."""
        is_end = type(event) not in DELTAS and _is_end(event)
        if is_end and self.may_be_shortened and self._is_kept(event):
            return
        self._pending.append(event)
        if is_end:  # subscribers wait for the end: send it at once
            self.ended = self._is_notifying = True
            if not self._was_notified:
                self._notify_receptor()
        elif not self._is_notifying:
            self._is_notifying = True
            self.may_be_shortened = False
            try:  # noqa: SIM105 - runs for each delta, and a context manager costs more than the call
                self._outside.call_between_commits(self._notify_receptor)
            except RuntimeClosedError:
                pass  # the runtime was closed: no one receives the events

    def _is_kept(self, event: Reported) -> bool:
        """Keep an error about the length of the conversation; return whether it is one."""
        is_first = all(isinstance(one, ContextCompressed) for one in self._pending)
        if is_first and isinstance(event, StreamError) and is_about_length(event):
            self.too_long = event
        return self.too_long is event

    def _notify_receptor(self) -> None:
        self._was_notified = True
        try:  # noqa: SIM105 - runs for each of many events, and a context manager costs more than the call
            self._receive(self)
        except pykka.ActorDeadError:
            pass  # the environment was disposed of: no one receives the events

    def take(self) -> list[Reported]:
        """Return the pending events; the receptor is notified again of events that are reported from now on."""
        self._is_notifying = self._was_notified = False
        pending = self._pending
        taken = pending.copy()
        del pending[: len(taken)]  # other threads may append meanwhile
        return taken


class DriverRunner:
    """Lets a driver answer, one turn at a time. Everything here runs on the outside loop."""

    def __init__(self, config: EnvironmentConfig, provide: ProvideDriver) -> None:
        self._config = config
        self._tools = config.tools or Toolbox()
        self._provide = provide
        self._driver: LLMDriver | None = None
        self._is_async = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._calls: dict[asyncio.Task[None], str] = {}
        """The calls that are running, with the turns in which they were made."""
        self._keeper: asyncio.Task[None] | None = None

    async def answer(
        self,
        messages: Sequence[Said],
        reports: Reports,
        *,
        too_long: bool = False,
        output: OutputSpec | None = None,
    ) -> None:
        """Let the driver answer in a turn.

        An exception of the driver becomes an `error` event, and so does an answer without an end. If the conversation
        is `too_long`, its older part is first replaced by a summary. `output` is the schema that the answer must fit.
        """
        before = set(self._tasks.values())
        task = self._tasks[reports.turn_id] = _current()
        try:
            if before:
                await _wait_for_earlier_turns(before)
            driver = self._driver or await self._new_driver()
            if too_long:
                messages = await self._compressed_conversation(driver, messages, reports)
            await self._send_shortened(driver, messages, reports, output)
        except asyncio.CancelledError:
            if _current().cancelling():
                raise
            reports(failure("driver_error", "the driver cancelled itself"))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the turn has to end
            raised = error.error if isinstance(error, EscapedError) else error
            level = logging.WARNING if is_mistake(raised) else logging.DEBUG
            try:
                _log.log(level, "the driver has failed", exc_info=raised)
            finally:  # a filter of the program's own may have raised
                reports(failure_of(raised))
        else:
            if not reports.ended:
                reports(failure("incomplete_stream", "the driver returned before the message was complete"))
        finally:
            if self._tasks.get(reports.turn_id) is task:  # not the next step of the same turn
                del self._tasks[reports.turn_id]

    async def call(self, call: ToolStarted, reports: Reports) -> None:
        """Run a tool and report its result; an error is reported as a result too."""
        task = _current()
        self._calls[task] = reports.turn_id
        context = ToolContext(
            session_id=self._config.session_id,
            agent_id=self._config.agent_id,
            turn_id=reports.turn_id,
            call_id=call.id,
            idempotency_key=f"{self._config.session_id}/{reports.turn_id}/{call.id}",
        )
        try:
            outcome = await self._tools.call(call.name, call.input, context)
        except asyncio.CancelledError:
            if _current().cancelling():
                raise
            reports(_failed_call(call, "it cancelled itself"))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the model must get a result
            try:
                _log.exception("a tool could not be run")
            finally:  # as above
                reports(_failed_call(call, repr(error)))
        else:
            reports(ToolResult(id=call.id, name=call.name, result=outcome.result, is_error=outcome.is_error))
        finally:
            del self._calls[task]

    async def stop(self, turn_id: str) -> None:
        """Stop the driver and the calls of this turn that are still running."""
        task = self._tasks.get(turn_id)
        if task is not None:
            self._interrupt()
            task.cancel()
        for call, of_turn in self._calls.items():
            if of_turn == turn_id:
                call.cancel()

    async def close(self) -> None:
        """Stop everything that is running, and release the driver and the tools."""
        for turn_id in {*self._tasks, *self._calls.values()}:
            await self.stop(turn_id)
        await self._tools.aclose()
        if self._keeper is not None:
            # Not at once: a task that is cancelled before its first step never runs its clean-up.
            asyncio.get_running_loop().call_soon(self._keeper.cancel)

    async def _offered_tools(self) -> tuple[Mapping[str, object], ...]:
        """Return the tools' definitions as the Messages API takes them."""
        await self._tools.connect()
        own = (
            {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
            for spec in self._tools.specs()
        )
        return (*own, *self._config.api_tools)

    def _interrupt(self) -> None:
        if self._driver is not None:
            try:
                self._driver.interrupt()
            except Exception:  # noqa: BLE001 - it is logged, and the task is cancelled anyway
                _log.exception("the driver could not be interrupted")

    async def _new_driver(self) -> LLMDriver:
        provided = self._provide()
        self._driver = await provided if inspect.isawaitable(provided) else provided
        self._is_async = inspect.iscoroutinefunction(self._driver.send_message)
        self._keeper = asyncio.create_task(_close_when_cancelled(self._driver))
        return self._driver

    async def _compressed_conversation(
        self, driver: LLMDriver, messages: Sequence[Said], reports: Reports
    ) -> Sequence[Said]:
        """Replace the older part of the conversation by a summary, report that, and return the new conversation.

        If it cannot be summarised, the conversation is returned unchanged.
        """
        cut = replaceable_count(messages)
        if not cut:
            return messages
        answer = await self._summary(driver, messages[:cut])
        summary = text_of(answer.blocks)
        if answer.stop_reason is None or not summary.strip():
            _log.warning("the conversation could not be summarised: %s", answer.error or "there was no summary")
            return messages
        kept = messages[cut:]
        reports(ContextCompressed(summary=summary, kept=len(kept), usage=answer.usage, model=answer.model))
        return (summary_message(summary), *kept)

    async def _summary(self, driver: LLMDriver, messages: Sequence[Said], part: float = 1) -> Answer:
        """Return the driver's summary of the first and the last part of the messages: of less if that is too long."""
        answer = Answer(lambda: "")

        def on_event(event: Reported) -> None:
            answer.accept(event_or_error(event))

        try:
            await self._call_driver(driver.send_message, summary_request(messages, part=part), (), on_event)
        except Exception as error:  # noqa: BLE001 - the conversation goes on without a summary
            on_event(failure_of(error))
        if part > _LEAST_PART and answer.error is not None and is_about_length(answer.error):
            return await self._summary(driver, messages, part / 2)
        return answer

    async def _send_shortened(
        self, driver: LLMDriver, messages: Sequence[Said], reports: Reports, output: OutputSpec | None
    ) -> None:
        """Send the conversation; if the API finds it too long, shorten it and send it again.

        Its older part is replaced by a summary; if that is not possible, or not enough, the longest results of tools
        are left out.
        """
        reports.may_be_shortened = self._config.may_compress
        await self._send(driver, messages, reports, output)
        if reports.too_long is None:
            return
        shorter: Sequence[Said] | None = await self._compressed_conversation(driver, messages, reports)
        if shorter is messages:
            shorter = without_longest_result(messages)
        while shorter is not None and reports.too_long is not None:
            reports.may_be_shortened, reports.too_long = True, None
            await self._send(driver, shorter, reports, output)
            shorter = without_longest_result(shorter)
        if reports.too_long is not None:
            reports.may_be_shortened = False
            reports(reports.too_long)

    async def _send(
        self, driver: LLMDriver, messages: Sequence[Said], reports: Reports, output: OutputSpec | None
    ) -> None:
        tools = await self._offered_tools()
        if output is None:
            await self._call_driver(driver.send_message, messages, tools, reports)
        elif isinstance(driver, OutputDriver) and driver.takes_output(output, self._model):
            await self._call_driver(partial(driver.send_message, output=output), messages, tools, reports)
        else:
            tool = AnswerTool(output, tools, reports)
            await self._call_driver(driver.send_message, messages, (*tools, tool.definition), tool.convert)

    @property
    def _model(self) -> str | None:
        return self._config.model or self._config.llm.model

    async def _call_driver(
        self,
        send_message: Callable[..., Awaitable[None] | None],
        messages: Sequence[Said],
        tools: Sequence[Mapping[str, object]],
        on_event: OnEvent,
    ) -> None:
        def send() -> Awaitable[None] | None:
            return send_message(
                messages=messages,
                system=self._config.system_prompt,
                model=self._model,
                max_tokens=self._config.max_tokens or self._config.llm.max_tokens,
                tools=tools,
                on_event=on_event,
            )

        sending = send() if self._is_async else await in_thread(send, "reenact-driver")
        if inspect.isawaitable(sending):
            await sending


def _failed_call(call: ToolStarted, why: str) -> ToolResult:
    return ToolResult(id=call.id, name=call.name, result=f"{call.name} could not be run: {why}", is_error=True)


def _is_end(event: Reported) -> bool:
    if isinstance(event, StreamData):
        return isinstance(event, MessageStop | StreamError)
    kind = getattr(event, "type", None) or (event.get("type") if isinstance(event, dict) else None)
    return kind in {MessageStop.event_type, StreamError.event_type}


def _current() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None  # a coroutine of a loop always runs in a task
    return task


async def _wait_for_earlier_turns(tasks: set[asyncio.Task[None]]) -> None:
    """Wait a moment for earlier turns to clean up, because a driver answers one turn at a time; then cancel them."""
    _, lingering = await asyncio.wait(tasks, timeout=_LINGER_SECONDS)
    for task in lingering:
        task.cancel()
    if lingering:
        await asyncio.wait(lingering, timeout=_LINGER_SECONDS)


async def _close_when_cancelled(driver: LLMDriver) -> None:
    """Keep the driver until this task is cancelled, then close it if it has a close method."""
    try:
        await wait_for_cancellation()
    finally:
        close = getattr(driver, "aclose", None) or getattr(driver, "close", None)
        if callable(close):
            closing = close()
            if inspect.isawaitable(closing):
                await closing
