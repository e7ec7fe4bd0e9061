"""The connection of an agent to its environment: the producer for the receptor, and the consumer for the effector.

Deltas do not pass through `decide`. The receptor's events are normalised, appended to the journal as entries of the
session's feed, and assembled into the answer; the session gets a command only when the answer is complete or has
failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Final, Self

import msgspec

from reenact.actors.environment.api import Handler
from reenact.actors.environment.failures import failure_of_handler
from reenact.actors.environment.incoming import checked_event
from reenact.actors.journal.api import Append, Done, Entry, Journal, Outcome, Segment
from reenact.domain.conversation import Conversation
from reenact.domain.errors import InvalidInputError, ReenactError, RuntimeClosedError, UnknownEventTypeError, reading
from reenact.domain.messages import Said
from reenact.domain.operations.table import CATALOGUE, Response
from reenact.domain.output import OutputSpec
from reenact.domain.session.agent import Failure, ReceivedAnswer
from reenact.domain.stream.answer import Answer, gather
from reenact.domain.stream.events import (
    AgentStateChanged,
    ContextCompressed,
    Envelope,
    EventData,
    InputJsonDelta,
    StepStarted,
    StreamData,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnStarted,
)

_FOR_SESSION: Final[frozenset[type[StreamData]]] = frozenset({ToolResult, ContextCompressed})
"""The types of stream events that are commands to the session rather than part of an answer."""

_CONTENT: Final[frozenset[type[EventData]]] = frozenset({TextDelta, ThinkingDelta, ToolCall, InputJsonDelta})
"""The types of stream events with content of an answer; the first of them is its first delta."""

logger = logging.getLogger("reenact.environment")


class TurnStream:
    """Receives the events of one agent's environment: at most one turn is open at a time. Thread-safe."""

    def __init__(
        self,
        session_id: str,
        append: Callable[[Append, Done], None],
        clock: Callable[[], int],
        new_id: Callable[[str], str],
        *,
        finish: Callable[[str, ReceivedAnswer], None],
        report: Callable[[str, ToolResult], None] | None = None,
        compress: Callable[[str, ContextCompressed, Callable[[], None]], None] | None = None,
        append_last: Callable[[Append, Done], None] | None = None,
        hold: bool = False,
    ) -> None:
        """Append entries with `append`, but an answer's last ones with `append_last`: `finish` appends right after.

        With `hold`, nothing of an answer becomes durable, or is published, before `publish`.
        """
        self._session_id = session_id
        self._append = append
        self._append_last = append_last or append
        self._clock = clock
        self._new_id = new_id
        self._finish = finish
        self._report = report
        self._compress = compress
        self._hold = hold
        # `_lock` protects all fields below. The session's actor opens, enters and closes; threads and event loops of
        # the environment emit; the writing thread reports whether entries were recorded. Nothing is sent to the session
        # under the lock, since the actor may be waiting for it in `close`. Entries are appended to the journal under
        # it, so that their order in the log is that in which they were accepted.
        self._calls: set[str] = set()
        self._held: list[StreamData] | None = None  # events that wait until the session has recorded a summary
        self._withheld: list[Entry] = []
        self._is_dropped = False  # whether withheld entries will never be published
        self._lock = threading.Lock()
        self._turn_id: str | None = None
        self._context: dict[str, str] = {}
        self._answer = Answer(self._new_message_id)
        self._responding = False
        self._asked_at: int | None = None  # when the model was asked, until the first delta arrives
        self._first_delta: float | None = None
        self._failure: Failure | None = None
        self._open = False
        self.responding: str | None = None
        """The turn in which the text of the answer has begun and is durable."""

    def open(self, turn_id: str, context: dict[str, str], *, responding: bool = False) -> None:
        """Accept an answer of the turn. `responding` if some of its text was published before a crash."""
        with self._lock:
            self._reset(turn_id, context)
            self._responding = responding
            self._asked_at = self._clock()
            self._open = True
            self.responding = turn_id if responding else None

    def enter(self, turn_id: str, context: dict[str, str]) -> None:
        """Accept events about the turn's calls, but no answer."""
        with self._lock:
            self._reset(turn_id, context)

    def expect(self, call_id: str) -> None:
        """Accept the result of the call, once."""
        with self._lock:
            self._calls.add(call_id)

    def _reset(self, turn_id: str, context: dict[str, str]) -> None:
        self._turn_id = turn_id
        self._context = context
        self._answer = Answer(self._new_message_id)
        self._calls.clear()
        self._held = None
        self._withheld = []
        self._is_dropped = False
        self._responding = False
        self._asked_at = self._first_delta = None
        self._failure = None
        self._open = False
        self.responding = None

    def close(self, turn_id: str) -> ReceivedAnswer:
        """Accept no more events of the turn; return the published part of the answer, again the same if repeated."""
        with self._lock:
            if self._turn_id != turn_id:
                return ReceivedAnswer()
            self._accept_held()
            self._open = False
            self._calls.clear()
            return self._published_so_far()

    def end(self) -> None:
        """Accept nothing more, whatever the environment still emits after it was disposed of."""
        with self._lock:
            self._turn_id = None
            self._open = False

    def withholds(self, turn_id: str) -> bool:
        """Return whether part of the turn's answer waits for `publish`."""
        with self._lock:
            return self._turn_id == turn_id and bool(self._withheld)

    def publish(self, turn_id: str) -> ReceivedAnswer | None:
        """Publish what was withheld of the turn's answer; return the whole answer, or None if nothing was withheld."""
        with self._lock:
            if self._turn_id != turn_id or not self._withheld:
                return None
            withheld, self._withheld = tuple(self._withheld), []
            self._append_entries(withheld, began=self._responding)
            return self._so_far()

    def emit(self, event: StreamData | Mapping[str, object], *, turn_id: str | None = None) -> bool:
        """See `SystemBusProducer.emit`."""
        return self.emit_all((event,), turn_id=turn_id)

    def emit_all(self, events: Iterable[StreamData | Mapping[str, object]], *, turn_id: str | None = None) -> bool:
        """See `SystemBusProducer.emit_all`."""
        said = [checked_event(event) for event in events]
        with self._lock:
            turn = self._turn_id
            if turn is None or (turn_id is not None and turn_id != turn):
                return False
            heard = self._open
            told = (
                []
                if _FOR_SESSION.isdisjoint(map(type, said))
                else [event for event in said if self._goes_to_session(event)]
            )
            so_far = self._accept_untold(said, told) if told else self._accept(said)
        for event in told:
            if isinstance(event, ToolResult) and self._report is not None:
                self._report(turn, event)
            elif isinstance(event, ContextCompressed) and self._compress is not None:
                self._compress(turn, event, lambda: self._continue_after_summary(turn))
        if so_far is not None:
            self._finish(turn, so_far)
        return heard or bool(told)

    def _accept_untold(self, said: Sequence[StreamData], told: Sequence[StreamData]) -> ReceivedAnswer | None:
        """Accept the parts of the answer; those after a summary wait, so that they are published after it."""
        so_far: ReceivedAnswer | None = None
        for event in said:
            if all(event is not one for one in told):
                so_far = self._accept((event,)) or so_far
            elif isinstance(event, ContextCompressed) and self._open and self._held is None and self._compress:
                self._held = []
        return so_far

    def _continue_after_summary(self, turn: str) -> None:
        """Accept the events that waited for the summary."""
        with self._lock:
            so_far = self._accept_held() if self._turn_id == turn else None
        if so_far is not None:
            self._finish(turn, so_far)

    def _accept_held(self) -> ReceivedAnswer | None:
        held, self._held = self._held, None
        return self._accept(held) if held else None

    def _goes_to_session(self, event: StreamData) -> bool:
        """Return whether the event goes to the session, which decides what to publish of it."""
        if isinstance(event, ToolResult) and event.id in self._calls:
            self._calls.remove(event.id)
            return True
        return isinstance(event, ContextCompressed) and (bool(self._calls) or self._open)

    def _accept(self, said: Sequence[StreamData]) -> ReceivedAnswer | None:
        """Add the events to the answer; return the answer once it has ended."""
        if not self._open:
            return None
        if self._held is not None:
            self._held.extend(said)
            return None
        was_responding = self._responding
        entries = self._entries(said)
        if self._hold:
            self._withheld += entries
        elif entries:
            self._append_entries(entries, began=self._responding is not was_responding)
        if not self._answer.finished:
            return None
        self._open = False
        return self._so_far() if self._answer.error is None else self._published_so_far()

    def _entries(self, said: Iterable[StreamData]) -> tuple[Entry, ...]:
        at = self._clock()
        heard: list[EventData] = [*self._answer.accept_all(said)]
        if not self._responding:
            first = next((place for place, event in enumerate(heard) if isinstance(event, TextDelta)), None)
            if first is not None:
                self._responding = True
                heard.insert(first, AgentStateChanged(previous="thinking", current="responding"))
        asked_at = self._asked_at
        if asked_at is not None and not _CONTENT.isdisjoint(map(type, heard)):
            self._asked_at, self._first_delta = None, max(0, at - asked_at) / 1_000_000
        return tuple([Entry(event.event_type, at, event) for event in heard])

    def _append_entries(self, entries: tuple[Entry, ...], *, began: bool) -> None:
        done = self._on_text_recorded if began else self._on_recorded
        append = self._append_last if self._answer.finished else self._append
        kept = (Segment(self._context, entries),)
        try:
            append(Append(self._session_id, None, entries[0].at, kept=kept), done)
        except RuntimeClosedError:
            self._open = False

    def _on_text_recorded(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Exception):
            self.responding = self._turn_id
        self._on_recorded(outcome)

    def _on_recorded(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Exception):
            return
        with self._lock:
            if self._failure is not None or self._turn_id is None:
                return
            self._failure = Failure("storage_error", str(outcome), retryable=True)
            self._open = False
            turn, so_far = self._turn_id, self._so_far()
        self._finish(turn, so_far)

    def _so_far(self) -> ReceivedAnswer:
        answer = self._answer
        failure = self._failure or _failure(answer.error)
        so_far = so_far_of(answer, self._responding, failure, first_delta=self._first_delta)
        return so_far if self._failure is None else msgspec.structs.replace(so_far, untold=True)

    def _published_so_far(self) -> ReceivedAnswer:
        """Return the answer without its withheld part, which will not be published any more."""
        so_far = self._so_far()
        self._is_dropped = self._is_dropped or bool(self._withheld)
        self._withheld = []
        if not self._is_dropped:
            return so_far
        return ReceivedAnswer(
            message_id=so_far.message_id,
            usage=so_far.usage,
            model=so_far.model,
            failure=so_far.failure,
            untold=so_far.failure is not None,
        )

    def _new_message_id(self) -> str:
        return self._new_id("msg")


class Channel:
    """The data shared by an agent and its environment; also the consumer to which the effector is connected."""

    def __init__(
        self,
        turn_stream: TurnStream,
        request: Callable[[str, Mapping[str, object], float], Envelope[Response]],
        spawn: Callable[[Coroutine[object, object, None]], object],
    ) -> None:
        self.turn_stream = turn_stream
        self.said: Sequence[Said] = Conversation()
        self.too_long = False
        self.wanted: OutputSpec | None = None
        self._request = request
        self._spawn = spawn
        self._handlers: tuple[tuple[str | None, Handler], ...] = ()
        self._wanted: frozenset[str | None] = frozenset()
        self._handling_thread = 0
        self.runs_tools = False
        """Whether the environment runs tools and continues with their results."""

    def wants(self, type: str) -> bool:  # noqa: A002 - the word users know it by
        """Return whether a handler subscribes to events of the type."""
        return type in self._wanted or None in self._wanted

    def hear(self, envelope: Envelope) -> None:
        """Call the effector's handlers, which may be coroutine functions; an exception of one ends the turn."""
        self._handling_thread = threading.get_ident()
        try:
            for type_, handler in self._handlers:
                if type_ is None or type_ == envelope.type:
                    self._call(handler, envelope)
        finally:
            self._handling_thread = 0

    def on(self, type: str, handler: Handler) -> _EndSubscription:  # noqa: A002 - the word users know it by
        """See `SystemBusConsumer.on`."""
        if type not in CATALOGUE:
            raise UnknownEventTypeError(type, CATALOGUE)
        return self._subscribe(type, handler)

    def on_all(self, handler: Handler) -> _EndSubscription:
        """See `SystemBusConsumer.on_all`."""
        return self._subscribe(None, handler)

    def request(self, type: str, data: Mapping[str, object], timeout: float = 30) -> Envelope[Response]:  # noqa: A002
        """See `SystemBusConsumer.request`."""
        if self._handling_thread == threading.get_ident():
            raise InvalidInputError(
                "a handler of an effector holds up its session; send requests from a thread or task of your own"
            )
        return self._request(type, data, timeout)

    def conversation(self) -> Sequence[Said]:
        """See `SystemBusConsumer.conversation`."""
        return self.said

    def must_compress(self) -> bool:
        """See `SystemBusConsumer.must_compress`."""
        return self.too_long

    def output(self) -> OutputSpec | None:
        """See `SystemBusConsumer.output`."""
        return self.wanted

    def _call(self, handler: Handler, envelope: Envelope) -> None:
        try:
            work = handler(envelope)
        except KeyboardInterrupt:  # may be meant for the caller, whose thread this may be
            raise
        except BaseException as error:  # noqa: BLE001 - the turn must end, whatever it is
            self._report_failure(envelope, error)
        else:
            if inspect.iscoroutine(work):
                self._spawn(self._finish(work, envelope))

    async def _finish(self, work: Coroutine[object, object, object], envelope: Envelope) -> None:
        try:
            await work
        except GeneratorExit:  # the loop is gone
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._report_failure(envelope, error)

    def _report_failure(self, envelope: Envelope, error: BaseException) -> None:
        """Log the error, and end the turn, or answer the call, on which the effector should have acted."""
        logger.error("an effector raised on %r", envelope.type, exc_info=error)
        with contextlib.suppress(ReenactError):
            self.turn_stream.emit(failure_of_handler(envelope, error), turn_id=envelope.context.turn_id or "")

    def _subscribe(self, type_: str | None, handler: Handler) -> _EndSubscription:
        entry = (type_, handler)
        self._set_handlers((*self._handlers, entry))
        return _EndSubscription(
            lambda: self._set_handlers(tuple(other for other in self._handlers if other is not entry))
        )

    def _set_handlers(self, handlers: tuple[tuple[str | None, Handler], ...]) -> None:
        self._handlers, self._wanted = handlers, frozenset(type_ for type_, _ in handlers)
        self.runs_tools = self.wants(ToolStarted.event_type) and self.wants(StepStarted.event_type)


class _EndSubscription:
    """Ends an effector's subscription."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def __call__(self) -> None:
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()


def so_far_of(
    answer: Answer,
    responding: bool,  # noqa: FBT001 - a value, no switch
    failure: Failure | None,
    *,
    first_delta: float | None = None,
) -> ReceivedAnswer:
    """Return the answer so far, in the form used by the session's decisions."""
    return ReceivedAnswer(
        message_id=answer.message_id,
        content=answer.blocks,
        stop_reason=answer.stop_reason,
        usage=answer.usage,
        model=answer.model,
        responding=responding,
        failure=failure,
        stop_sequence=answer.stop_sequence,
        stop_details=answer.stop_details,
        first_delta=first_delta,
    )


def published_of(journal: Journal, session_id: str, turn_id: str) -> ReceivedAnswer:
    """Return what the feed holds of a turn's answer that was interrupted by a crash and is stored nowhere else."""
    published: list[StreamData] = []
    responding = False
    for row in journal.read_feed_backwards(session_id):
        with reading(f"row {row.first_cursor} of the feed of {row.topic!r}"):
            of_row: list[EventData] = [
                msgspec.convert(entry.data, CATALOGUE[entry.type])
                for segment in row.segments
                if segment.context.get("turn_id") == turn_id
                for entry in segment.entries
            ]
        begun = [number for number, event in enumerate(of_row) if isinstance(event, TurnStarted | StepStarted)]
        of_answer = of_row[begun[-1] :] if begun else of_row
        published[:0] = [event for event in of_answer if isinstance(event, StreamData)]
        responding = responding or any(
            isinstance(event, AgentStateChanged) and event.current == "responding" for event in of_answer
        )
        if begun:
            break
    answer = gather(published)
    return so_far_of(answer, responding, _failure(answer.error))


def _failure(error: StreamError | None) -> Failure | None:
    return None if error is None else Failure(error.type, error.message, error.retryable)
