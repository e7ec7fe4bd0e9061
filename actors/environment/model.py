"""The standard environment: a pair of actors around a driver that talks to a model."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import Future
from typing import TypeAlias

import msgspec
import pykka

from reenact.actors.environment.api import (
    EnvironmentConfig,
    LLMProvider,
    SystemBusConsumer,
    SystemBusProducer,
    Unsubscribe,
)
from reenact.actors.environment.driver_runner import DriverRunner, ProvideDriver, Reports
from reenact.actors.environment.failures import failure_of
from reenact.actors.environment.incoming import Reported, emit_all
from reenact.actors.kernel import EventLoopActor
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.errors import ReenactError, RuntimeClosedError
from reenact.domain.stream.events import Envelope, StepStarted, ToolStarted, TurnCompleted, TurnStarted

_UnderWay: TypeAlias = Future[None] | asyncio.Task[None]

_log = logging.getLogger("reenact.environment")


class _Ask(msgspec.Struct, frozen=True):
    turn_id: str
    consumer: SystemBusConsumer


class _Run(msgspec.Struct, frozen=True):
    turn_id: str
    call: ToolStarted


class _End(msgspec.Struct, frozen=True):
    turn_id: str


_ToReceptor: TypeAlias = SystemBusProducer | Reports
_ToEffector: TypeAlias = _Ask | _Run | _End


class ReceptorActor(EventLoopActor):
    """Emits the events that the driver reports, in order, in the turn in which they are reported."""

    def __init__(self) -> None:
        super().__init__()
        self._producer: SystemBusProducer | None = None

    def on_receive(self, message: _ToReceptor) -> None:
        """Connect a producer, or emit pending reports."""
        if not isinstance(message, Reports):
            self._producer = message
        elif (reported := message.take()) and self._producer is not None:
            self._emit(self._producer, reported, message.turn_id)

    def _emit(self, producer: SystemBusProducer, reported: list[Reported], turn_id: str) -> None:
        try:
            emit_all(producer, reported, turn_id)
        except ReenactError:  # the runtime was closed: no one receives the events
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the turn has to end
            _log.exception("what a driver reported could not be emitted")
            with contextlib.suppress(ReenactError):
                producer.emit(failure_of(error), turn_id=turn_id)


class EffectorActor(EventLoopActor):
    """Runs the driver and the tools, and stops the ones that are still running when the turn is over."""

    def __init__(
        self, outside: EventLoopThread, driver_runner: DriverRunner, receptor: pykka.ActorRef[ReceptorActor]
    ) -> None:
        super().__init__()
        self._outside = outside
        self._driver_runner = driver_runner
        self._receptor = receptor
        self._turn_id: str | None = None
        self._reports: Reports | None = None
        self._answer: _UnderWay | None = None
        self._calls: list[_UnderWay] = []

    def on_receive(self, message: _ToEffector) -> None:
        """Ask the model, run a tool, or end a turn."""
        try:
            if isinstance(message, _End):
                self._end_turn(message.turn_id)
            elif isinstance(message, _Ask):
                self._turn_id = message.turn_id
                self._ask_model(message)
            else:
                self._turn_id = message.turn_id
                self._run_tool(message)
        except RuntimeClosedError:
            pass  # everything that was running has been cancelled

    def on_stop(self) -> None:
        """Release the driver and the tools, and stop the current turn."""
        if self._answer is not None or self._calls:
            with contextlib.suppress(RuntimeClosedError):  # the loop has ended, and has ended its tasks
                self._outside.run(self._driver_runner.close())

    def _ask_model(self, asked: _Ask) -> None:
        self._reports = reports = Reports(asked.turn_id, self._receptor.tell, self._outside)
        consumer = asked.consumer
        try:
            messages, too_long, output = consumer.conversation(), consumer.must_compress(), consumer.output()
            answering = self._driver_runner.answer(messages, reports, too_long=too_long, output=output)
            self._answer = self._outside.run(answering)
        except RuntimeClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - no descriptors, no threads: whatever it is, the turn has to end
            reports(failure_of(error))

    def _run_tool(self, run: _Run) -> None:
        reports = Reports(run.turn_id, self._receptor.tell, self._outside)
        under_way = [call for call in self._calls if not call.done()]
        self._calls = [*under_way, self._outside.run(self._driver_runner.call(run.call, reports))]

    def _end_turn(self, turn_id: str) -> None:
        if turn_id != self._turn_id:
            return
        answers = self._answer is not None and not self._answer.done()
        has_ended = self._reports is not None and self._reports.ended
        if (answers and not has_ended) or not all(call.done() for call in self._calls):
            self._outside.run(self._driver_runner.stop(turn_id))


class ModelReceptor:
    """The receptor: its actor emits the events that the driver reports."""

    def __init__(self, actor: pykka.ActorRef[ReceptorActor]) -> None:
        self._actor = actor

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit to this producer from now on."""
        self._actor.tell(producer)


class ModelEffector:
    """The effector: its actor receives the turns and runs the driver."""

    def __init__(self, actor: pykka.ActorRef[EffectorActor]) -> None:
        self._actor = actor
        self._subscriptions: tuple[Unsubscribe, ...] = ()

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Answer the turns that this consumer delivers."""
        self.disconnect()

        def ask(event: Envelope) -> None:
            self._tell(_Ask(str(event.data["turn_id"]), consumer))

        def run(event: Envelope) -> None:
            self._tell(_Run(event.context.turn_id or "", msgspec.convert(event.data, ToolStarted)))

        def end(event: Envelope) -> None:
            self._tell(_End(str(event.data["turn_id"])))

        self._subscriptions = (
            consumer.on(TurnStarted.event_type, ask),
            consumer.on(StepStarted.event_type, ask),
            consumer.on(ToolStarted.event_type, run),
            consumer.on(TurnCompleted.event_type, end),
        )

    def disconnect(self) -> None:
        """End the subscriptions."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._subscriptions = ()

    def _tell(self, message: _ToEffector) -> None:
        with contextlib.suppress(pykka.ActorDeadError):  # it was disposed of after the event was sent
            self._actor.tell(message)


class ModelEnvironment:
    """An environment around the driver that `provide` returns, directly or as an awaitable, before the first turn."""

    def __init__(self, name: str, config: EnvironmentConfig, provide: ProvideDriver) -> None:
        self.name = name
        """The kind of environment."""
        self._tools = config.tools
        self._receptor_actor = config.system.start(ReceptorActor)
        self._effector_actor = config.system.start(
            EffectorActor, config.outside, DriverRunner(config, provide), self._receptor_actor
        )
        self._receptor = ModelReceptor(self._receptor_actor)
        self._effector = ModelEffector(self._effector_actor)
        self._disposed = False

    @property
    def receptor(self) -> ModelReceptor:
        """The receptor, which emits the driver's events."""
        return self._receptor

    @property
    def effector(self) -> ModelEffector:
        """The effector, which receives the agent's turns."""
        return self._effector

    def check_tool(self, name: str) -> None:
        """Raise `ToolUnavailableError` if the tool's function is not available."""
        if self._tools is not None:
            self._tools.check_tool(name)

    def dispose(self) -> None:
        """End all running work, release the driver and stop both actors, without waiting for it. Idempotent."""
        if self._disposed:
            return
        self._disposed = True
        self.effector.disconnect()
        self._effector_actor.stop(block=False)
        self._receptor_actor.stop(block=False)


class ProviderEnvironmentFactory:
    """Makes standard environments around the drivers of a provider."""

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider

    def create(self, config: EnvironmentConfig) -> ModelEnvironment:
        """Return a new environment, not yet connected."""
        return ModelEnvironment(self._provider.name, config, self._provider.provide)
