"""Recording: an environment around another one, which goes on as if it were alone."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from reenact.actors.environment.api import (
    Effector,
    Environment,
    EnvironmentConfig,
    EnvironmentFactory,
    Handler,
    Receptor,
    SystemBusConsumer,
    SystemBusProducer,
    Unsubscribe,
)
from reenact.actors.environment.failures import failure_on
from reenact.actors.environment.incoming import checked
from reenact.actors.environment.recorded.form import setting_of
from reenact.actors.environment.recorded.reading import read
from reenact.actors.environment.recorded.scribe import Scribe
from reenact.actors.environment.recorded.writing import RecordingFile
from reenact.actors.environment.wrapped import WrappedConsumer, WrappedEnvironment
from reenact.domain.events import (
    Envelope,
    StepStarted,
    StreamData,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UserMessage,
)

Existing: TypeAlias = Literal["replace", "continue"]
_QUESTIONS: Final = (UserMessage.event_type, TurnStarted.event_type)
"""What may begin a turn: an environment may act on either."""
_OF_LOOP: Final = frozenset({StepStarted.event_type, ToolStarted.event_type})
"""What only environments hear that run tools; who hears it besides would make one of any."""


class RecordingFactory:
    """Makes environments by another factory, and records what they are asked and say in one file.

    Raises:
        RecordingError: there can be no file of this path; or it is to be continued, and is no recording.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        factory: EnvironmentFactory,
        *,
        existing: Existing = "replace",
        secrets: Iterable[str | None] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        file = os.fspath(path)
        continued = read(file) if existing == "continue" and os.path.exists(file) else ()  # noqa: PTH110 - a plain path
        self._file = RecordingFile(file, continued)
        for secret in secrets:
            self._file.hide(secret)
        self._factory = factory
        self._clock = clock

    def create(self, config: EnvironmentConfig) -> RecordingEnvironment:
        """Return a new environment, not yet connected."""
        self._file.hide(config.llm.api_key)
        setting = setting_of(config)
        environment = self._factory.create(config)
        return RecordingEnvironment(environment, Scribe(self._file, config.session_id, setting, self._clock))

    def dispose(self) -> None:
        """Dispose of the other factory, if it can be, and close the file. Idempotent."""
        dispose = getattr(self._factory, "dispose", None)
        try:
            if callable(dispose):
                dispose()
        finally:
            self._file.close()


class RecordingEnvironment(WrappedEnvironment):
    """The other environment, overheard on its way in and on its way out."""

    def __init__(self, environment: Environment, scribe: Scribe) -> None:
        self._scribe = scribe
        self._overheard = _OverheardEffector(environment.effector, scribe)
        super().__init__(environment, _OverheardReceptor(environment.receptor, scribe), self._overheard)

    def dispose(self) -> None:
        """Dispose of the other environment; what is under way is recorded as far as it has come. Idempotent."""
        self._overheard.disconnect()
        self._scribe.close()
        super().dispose()


class _OverheardReceptor:
    def __init__(self, receptor: Receptor, scribe: Scribe) -> None:
        self._receptor = receptor
        self._scribe = scribe

    def connect(self, producer: SystemBusProducer) -> None:
        self._receptor.connect(_OverheardProducer(producer, self._scribe))


class _OverheardProducer:
    """Records what is emitted before it is passed on, and takes it back if nobody heard it."""

    def __init__(self, producer: SystemBusProducer, scribe: Scribe) -> None:
        self._producer = producer
        self._scribe = scribe
        self._one_by_one = threading.RLock()

    def emit(self, event: StreamData | Mapping[str, Any], *, turn_id: str | None = None) -> bool | None:
        return self.emit_all((event,), turn_id=turn_id)

    def emit_all(self, events: Iterable[StreamData | Mapping[str, Any]], *, turn_id: str | None = None) -> bool | None:
        said = [checked(event) for event in events]
        with self._one_by_one:
            noted = self._scribe.say(said, turn_id)
            heard = self._producer.emit_all(said, turn_id=turn_id)
            if heard is False:
                self._scribe.take_back(noted)
        return heard


class _OverheardEffector:
    def __init__(self, effector: Effector, scribe: Scribe) -> None:
        self._effector = effector
        self._scribe = scribe
        self._subscriptions: tuple[Unsubscribe, ...] = ()

    def connect(self, consumer: SystemBusConsumer) -> None:
        self.disconnect()
        overheard = _OverheardConsumer(consumer, self._scribe)
        self._subscriptions = tuple(consumer.on(type_, overheard.note) for type_ in _QUESTIONS)
        self._effector.connect(overheard)
        self._subscriptions += (consumer.on(TurnCompleted.event_type, overheard.note),)

    def disconnect(self) -> None:
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._subscriptions = ()


class _OverheardConsumer(WrappedConsumer):
    """Records what the effector is asked, before it hears it."""

    def __init__(self, consumer: SystemBusConsumer, scribe: Scribe) -> None:
        super().__init__(consumer, self._noting)
        self._scribe = scribe

    def note(self, envelope: Envelope) -> None:
        """Record what the event begins or ends; once, however many hear it."""
        turn_id = envelope.context.turn_id or ""
        match envelope.data:
            case UserMessage() | TurnStarted():
                self._scribe.ask(turn_id, 1, self.conversation())
            case StepStarted(step=step):
                self._scribe.ask(turn_id, step, self.conversation())
            case ToolStarted() as call:
                self._scribe.call(turn_id, call)
            case TurnCompleted():
                self._scribe.finish(turn_id)
            case _:
                pass

    def _noting(self, handler: Handler) -> Handler:
        def hear(envelope: Envelope) -> object:
            if envelope.type in _OF_LOOP:
                self.note(envelope)
            try:
                work = handler(envelope)
            except Exception as error:
                self._failed(envelope, error)
                raise
            return self._watched(envelope, work) if inspect.iscoroutine(work) else work

        return hear

    async def _watched(self, envelope: Envelope, work: Coroutine[Any, Any, object]) -> object:
        try:
            return await work
        except Exception as error:
            self._failed(envelope, error)
            raise

    def _failed(self, envelope: Envelope, error: Exception) -> None:
        """Record what the runtime is going to say for an effector that raised."""
        self._scribe.say((failure_on(envelope, error),), envelope.context.turn_id)
