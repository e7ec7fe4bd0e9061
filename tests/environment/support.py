"""Stand-ins for what surrounds an environment: a bus on which a test speaks and listens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

import msgspec

from reenact.actors.environment.api import Environment, Handler
from reenact.actors.environment.incoming import event_or_error
from reenact.domain.messages import Said, TextBlock
from reenact.domain.operations.table import Response
from reenact.domain.output import OutputSpec
from reenact.domain.stream.events import (
    Context,
    Envelope,
    EventData,
    MessageStop,
    Outcome,
    StreamData,
    StreamError,
    TurnCompleted,
    TurnStarted,
)

PATIENCE = 60.0
HELLO = (Said("user", (TextBlock("Hello"),)),)


class Subscription:
    """Forgets a handler when it is called, or when its `with` block ends."""

    def __init__(self, forget: Callable[[], object]) -> None:
        self._forget = forget

    def __call__(self) -> None:
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()


class Bus:
    """Both views of the bus for one environment: what it emits is kept, what the test says is delivered."""

    def __init__(self, said: Sequence[Said] = HELLO) -> None:
        self.said = said
        self.too_long = False
        self.handlers: dict[str, Handler] = {}
        self.emitted: list[tuple[str | None, StreamData]] = []
        self._changed = threading.Condition()

    def emit_all(self, events: Iterable[StreamData | Mapping[str, Any]], *, turn_id: str | None = None) -> None:
        for event in events:
            self.emit(event, turn_id=turn_id)

    def emit(self, event: StreamData | Mapping[str, Any], *, turn_id: str | None = None) -> None:
        with self._changed:
            self.emitted.append((turn_id, event_or_error(event)))
            self._changed.notify_all()

    def on(self, type: str, handler: Handler) -> Subscription:  # noqa: A002 - the protocol's word
        self.handlers[type] = handler
        return Subscription(lambda: self.handlers.pop(type, None))

    def on_all(self, handler: Handler) -> Subscription:
        raise NotImplementedError

    def request(self, type: str, data: Mapping[str, Any], timeout: float = 60) -> Envelope[Response]:  # noqa: A002
        raise NotImplementedError

    def conversation(self) -> Sequence[Said]:
        return self.said

    def output(self) -> OutputSpec | None:
        return None

    def must_compress(self) -> bool:
        return self.too_long

    def connect(self, environment: Environment) -> None:
        environment.receptor.connect(self)
        environment.effector.connect(self)

    def start(self, turn_id: str) -> None:
        self._publish(TurnStarted(turn_id=turn_id, message_id="msg"), turn_id)

    def complete(self, turn_id: str, outcome: Outcome = "interrupted") -> None:
        self._publish(TurnCompleted(turn_id=turn_id, outcome=outcome), turn_id)

    def events(self, turn_id: str | None) -> list[StreamData]:
        with self._changed:
            return [event for turn, event in self.emitted if turn == turn_id]

    def wait(self, turn_id: str, enough: Callable[[list[StreamData]], object]) -> list[StreamData]:
        """Return the turn's events once they are enough."""
        with self._changed:
            assert self._changed.wait_for(lambda: enough(self.events(turn_id)), PATIENCE), self.emitted
        return self.events(turn_id)

    def answer(self, turn_id: str) -> list[StreamData]:
        """Start the turn; return its events up to its end."""
        self.start(turn_id)
        return self.wait(turn_id, lambda events: any(isinstance(event, MessageStop | StreamError) for event in events))

    def _publish(self, data: EventData, turn_id: str) -> None:
        handler = self.handlers.get(data.event_type)
        if handler is not None:
            handler(
                Envelope(
                    id="evt",
                    type=data.event_type,
                    timestamp=datetime.now(UTC),
                    source=data.source,
                    category=data.category,
                    intent=data.intent,
                    context=Context(turn_id=turn_id),
                    data=data,
                )
            )


def plain(events: Sequence[StreamData]) -> list[tuple[str, object]]:
    """Return the events as type and data, without what was left at its default."""
    return [(event.event_type, dict(_given(event))) for event in events]


def _given(event: StreamData) -> list[tuple[str, object]]:
    fields = msgspec.structs.fields(event)
    return [
        (field.encode_name, getattr(event, field.name))
        for field in fields
        if field.default is msgspec.NODEFAULT or getattr(event, field.name) != field.default
    ]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop go on until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for is not an event of the test's
            await asyncio.sleep(0)


@contextmanager
def answering(head: str, body: str) -> Generator[str]:
    """Have a server that answers each request with this, and yield where it is."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async def started() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(started(), loop).result(PATIENCE)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
