"""Records the requests and answers of an environment by wrapping it; and the choice between recording and replay."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from reenact.actors.environment.api import (
    ConsumerProxy,
    Effector,
    Environment,
    EnvironmentConfig,
    EnvironmentFactory,
    EnvironmentProxy,
    Handler,
    LLMConfig,
    LLMProvider,
    Receptor,
    SystemBusConsumer,
    SystemBusProducer,
    Unsubscribe,
)
from reenact.actors.environment.failures import failure_of_handler
from reenact.actors.environment.incoming import checked_event
from reenact.actors.environment.model import ProviderEnvironmentFactory
from reenact.actors.environment.recorded.file import RecordingFile, read
from reenact.actors.environment.recorded.format import (
    Cut,
    Exchange,
    RecordedEvent,
    Setting,
    ToolRun,
    recorded_event,
    setting_of,
)
from reenact.actors.environment.recorded.matching import common_length
from reenact.actors.environment.recorded.replaying import ReplayFactory
from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import Said
from reenact.domain.stream.events import (
    Envelope,
    MessageStop,
    StepStarted,
    StreamData,
    StreamError,
    ToolResult,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UserMessage,
)

_QUESTIONS = (UserMessage.event_type, TurnStarted.event_type)
"""The events that may begin a turn: an environment may act on either."""
_OF_LOOP = frozenset({StepStarted.event_type, ToolStarted.event_type})
"""Events that only environments with tools subscribe to; subscribing for another would make it look like one."""


class RecordingFactory:
    """Makes the environments `of` another factory, and records their requests and answers in one file.

    `of` may also be a provider of drivers, or how to reach Claude. The file is complete after the first answer and
    after each further one; `existing` says whether a file that exists already is replaced or continued. No API key and
    no header is written. The other environments work as they do without recording.

    Raises:
        RecordingError: a file of this path cannot be made; or it is to be continued, and is not a recording.
        ConfigurationError: `of` cannot be recorded.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        of: EnvironmentFactory | LLMProvider | LLMConfig,
        *,
        existing: Literal["replace", "continue"] = "replace",
    ) -> None:
        if existing not in ("replace", "continue"):
            raise ConfigurationError(f"existing must be 'replace' or 'continue', not {existing!r}")
        self._factory = _factory_of(of)
        file = os.fspath(path)
        continued = read(file) if existing == "continue" and os.path.exists(file) else ()  # noqa: PTH110 - a plain path
        self._file = RecordingFile(file, continued)
        if isinstance(of, LLMConfig):
            self._file.hide(of.api_key)

    def create(self, config: EnvironmentConfig) -> RecordingEnvironment:
        """Return a new environment, not yet connected."""
        self._file.hide(config.llm.api_key)
        recorder = Recorder(self._file, config.session_id, setting_of(config))
        return RecordingEnvironment(self._factory.create(config), recorder)

    def dispose(self) -> None:
        """Dispose of the other factory, if it has a `dispose`, and close the file. Idempotent."""
        dispose = getattr(self._factory, "dispose", None)
        try:
            if callable(dispose):
                dispose()
        finally:
            self._file.close()


def _factory_of(of: object) -> EnvironmentFactory:
    if isinstance(of, LLMConfig):
        from reenact.actors.environment.claude.environment import ClaudeEnvironmentFactory  # noqa: PLC0415 - when it is needed

        return ClaudeEnvironmentFactory(of)
    if isinstance(of, EnvironmentFactory):
        return of
    if isinstance(of, LLMProvider):
        return ProviderEnvironmentFactory(of)
    raise ConfigurationError(f"a {type(of).__name__} cannot be recorded: give an environment factory or a provider")


class RecordedEnvironment:
    """Records the requests to environments and their answers in a JSON file, and replays them from it."""

    record = RecordingFactory
    replay = ReplayFactory


class RecordingEnvironment(EnvironmentProxy):
    """Another environment, whose receptor and effector are recorded."""

    def __init__(self, environment: Environment, recorder: Recorder) -> None:
        self._recorder = recorder
        self._recorded = _RecordedEffector(environment.effector, recorder)
        super().__init__(environment, _RecordedReceptor(environment.receptor, recorder), self._recorded)

    def dispose(self) -> None:
        """Dispose of the other environment; unfinished work is recorded as far as it has come. Idempotent."""
        self._recorded.disconnect()
        self._recorder.finish()
        super().dispose()


class _RecordedReceptor:
    def __init__(self, receptor: Receptor, recorder: Recorder) -> None:
        self._receptor = receptor
        self._recorder = recorder

    def connect(self, producer: SystemBusProducer) -> None:
        self._receptor.connect(_RecordedProducer(producer, self._recorder))


class _RecordedProducer:
    """Records events before it passes them on, and takes the record back if the runtime dropped them."""

    def __init__(self, producer: SystemBusProducer, recorder: Recorder) -> None:
        self._producer = producer
        self._recorder = recorder
        self._emit_lock = threading.RLock()

    def emit(self, event: StreamData | Mapping[str, object], *, turn_id: str | None = None) -> bool | None:
        return self.emit_all((event,), turn_id=turn_id)

    def emit_all(
        self, events: Iterable[StreamData | Mapping[str, object]], *, turn_id: str | None = None
    ) -> bool | None:
        said = [checked_event(event) for event in events]
        with self._emit_lock:
            recorded = self._recorder.record(said, turn_id)
            heard = self._producer.emit_all(said, turn_id=turn_id)
            if heard is False:
                self._recorder.retract(recorded)
        return heard


class _RecordedEffector:
    def __init__(self, effector: Effector, recorder: Recorder) -> None:
        self._effector = effector
        self._recorder = recorder
        self._subscriptions: tuple[Unsubscribe, ...] = ()

    def connect(self, consumer: SystemBusConsumer) -> None:
        self.disconnect()
        recorded = _RecordedConsumer(consumer, self._recorder)
        self._subscriptions = tuple(consumer.on(type_, recorded.record) for type_ in _QUESTIONS)
        self._effector.connect(recorded)
        self._subscriptions += (consumer.on(TurnCompleted.event_type, recorded.record),)

    def disconnect(self) -> None:
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._subscriptions = ()


class _RecordedConsumer(ConsumerProxy):
    """Records the events of the effector before it receives them."""

    def __init__(self, consumer: SystemBusConsumer, recorder: Recorder) -> None:
        super().__init__(consumer, self._recording_handler)
        self._recorder = recorder

    def record(self, envelope: Envelope) -> None:
        """Record what the event begins or ends; only once, however many handlers receive it."""
        turn_id = envelope.context.turn_id or ""
        match envelope.data:
            case UserMessage() | TurnStarted():
                self._recorder.ask(turn_id, 1, self.conversation())
            case StepStarted(step=step):
                self._recorder.ask(turn_id, step, self.conversation())
            case ToolStarted() as call:
                self._recorder.call(turn_id, call)
            case TurnCompleted():
                self._recorder.finish(turn_id)
            case _:
                pass

    def _recording_handler(self, handler: Handler) -> Handler:
        def handle(envelope: Envelope) -> object:
            if envelope.type in _OF_LOOP:
                self.record(envelope)
            try:
                work = handler(envelope)
            except Exception as error:
                self._record_failure(envelope, error)
                raise
            return self._recording_failure(envelope, work) if inspect.iscoroutine(work) else work

        return handle

    async def _recording_failure(self, envelope: Envelope, work: Coroutine[object, object, object]) -> object:
        try:
            return await work
        except Exception as error:
            self._record_failure(envelope, error)
            raise

    def _record_failure(self, envelope: Envelope, error: Exception) -> None:
        """Record the event that the runtime is going to emit for an effector that raised."""
        self._recorder.record((failure_of_handler(envelope, error),), envelope.context.turn_id)


@dataclass(eq=False)
class _OpenExchange:
    """A request that has been made, and its answer so far."""

    entry: Exchange
    began: float
    events: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    written: bool = False


@dataclass(eq=False)
class _OpenRun:
    """A call that has been started."""

    entry: ToolRun
    turn_id: str
    began: float


@dataclass(frozen=True, eq=False)
class RecordedBatch:
    """What one call of `record` recorded: events of an exchange from `start` on, and results of calls."""

    exchange: _OpenExchange | None
    start: int
    runs: tuple[int, ...]


class Recorder:
    """Records the requests and answers of one environment. Thread-safe."""

    def __init__(self, file: RecordingFile, session_id: str, setting: Setting) -> None:
        self._file = file
        self._session_id = session_id
        self._setting = setting
        self._lock = threading.Lock()
        self._exchange: _OpenExchange | None = None
        self._asked: Sequence[Said] = ()
        self._runs: dict[str, _OpenRun] = {}

    def ask(self, turn_id: str, step: int, messages: Sequence[Said]) -> None:
        """Begin an exchange, unless it has begun already."""
        with self._lock:
            last = None if self._exchange is None else self._exchange.entry
            if last is not None and (last.turn, last.step) == (turn_id, step):
                return
            self._write_exchange(complete=False)
            before = len(self._asked)
            goes_on = last is not None and common_length(messages, self._asked) == before
            entry = Exchange(
                number=self._file.number(),
                session=self._session_id,
                turn=turn_id,
                step=step,
                follows=last.number if last is not None and goes_on else None,
                setting=None if goes_on else self._setting,
                messages=tuple(messages[before:] if goes_on else messages),
            )
            self._exchange, self._asked = _OpenExchange(entry, time.perf_counter()), messages

    def call(self, turn_id: str, call: ToolStarted) -> None:
        """Begin a call, unless it has begun already."""
        with self._lock:
            if call.id not in self._runs:
                asked_by = None if self._exchange is None else self._exchange.entry.number
                number = self._file.number()
                entry = ToolRun(number=number, exchange=asked_by, id=call.id, name=call.name, input=call.input)
                self._runs[call.id] = _OpenRun(entry, turn_id, time.perf_counter())

    def record(self, events: Sequence[StreamData], turn_id: str | None) -> RecordedBatch:
        """Record emitted events; an exchange or a call that they end is on disk when this returns."""
        with self._lock:
            exchange, runs = self._open_exchange(turn_id), list[int]()
            start = 0 if exchange is None else len(exchange.events)
            for event in events:
                run = self._answered_run(event, turn_id)
                if run is not None and isinstance(event, ToolResult):
                    runs.append(run.entry.number)
                    self._write_run(run, event)
                elif exchange is not None and not exchange.written:
                    exchange.events.append(recorded_event(event, time.perf_counter() - exchange.began))
                    if isinstance(event, MessageStop | StreamError):
                        self._write_exchange(complete=True)
            return RecordedBatch(exchange, start, tuple(runs))

    def retract(self, recorded: RecordedBatch) -> None:
        """Record that these events were dropped because their turn was over."""
        with self._lock:
            for number in recorded.runs:
                self._file.add(Cut(number))
            if recorded.exchange is None:
                return
            if recorded.exchange.written:
                self._file.add(Cut(recorded.exchange.entry.number, recorded.start))
            else:
                del recorded.exchange.events[recorded.start :]

    def finish(self, turn_id: str | None = None) -> None:
        """Record that the turn, or all turns, are over: unfinished exchanges and calls are written as incomplete."""
        with self._lock:
            if self._exchange is not None and turn_id in (None, self._exchange.entry.turn):
                self._write_exchange(complete=False)
            for run in [run for run in self._runs.values() if turn_id in (None, run.turn_id)]:
                self._write_run(run, None)

    def _open_exchange(self, turn_id: str | None) -> _OpenExchange | None:
        exchange = self._exchange
        if exchange is None or exchange.written or turn_id not in (None, exchange.entry.turn):
            return None
        return exchange

    def _answered_run(self, event: StreamData, turn_id: str | None) -> _OpenRun | None:
        if not isinstance(event, ToolResult) or event.id is None:
            return None
        run = self._runs.get(event.id)
        return run if run is not None and turn_id in (None, run.turn_id) else None

    def _write_exchange(self, *, complete: bool) -> None:
        exchange = self._exchange
        if exchange is None or exchange.written:
            return
        exchange.written = True
        self._file.add(msgspec.structs.replace(exchange.entry, events=tuple(exchange.events), complete=complete))

    def _write_run(self, run: _OpenRun, result: ToolResult | None) -> None:
        del self._runs[run.entry.id]
        answer = {} if result is None else {"result": result.result, "is_error": result.is_error}
        seconds = round(time.perf_counter() - run.began, 6)
        ended = msgspec.structs.replace(run.entry, seconds=seconds, complete=result is not None, **answer)
        self._file.add(ended)
