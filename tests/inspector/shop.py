"""What a night's sessions have to do with: a model that says what it is told to, and tools that touch nothing."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from reenact import ToolOutcome, tool
from reenact.actors.api.facades import Events
from reenact.actors.environment.api import OnEvent
from reenact.actors.ids import make_id
from reenact.domain.messages import Said
from reenact.domain.stream.events import Envelope, ToolResult
from reenact.testing import ManualClock

PATIENCE = 60.0
"""Seconds after which what has not come will not come."""


class Ids:
    """Makes ids that look as they do elsewhere: of the time, and of how many there were with this prefix."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._made: Counter[str] = Counter()

    def __call__(self, prefix: str) -> str:
        with self._lock:
            self._made[prefix] += 1
            number = self._made[prefix]
        entropy = int.from_bytes(sha256(f"{prefix} {number}".encode()).digest()[:10])
        return make_id(prefix, self._clock() // 1000, entropy)


class Answer(msgspec.Struct, frozen=True):
    """What the model says, in how many seconds, and the tokens that go in, come out, and are read from the cache.

    An `unfinished` one goes on for ever.
    """

    text: str
    seconds: float
    tokens: tuple[int, ...] = (0, 0)
    thought: str = ""
    calls: Sequence[tuple[str, Mapping[str, object]]] = ()
    error: str = ""
    unfinished: bool = False

    @property
    def usage(self) -> Mapping[str, int]:
        return dict(zip(("input_tokens", "output_tokens", "cache_read_input_tokens"), self.tokens, strict=False))


class Model:
    """A model that says what it is told to, and has nothing to add when it was told nothing."""

    name = "demo"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._answers: deque[Answer] = deque()
        self._events: Events | None = None
        self._unfinished = threading.Event()

    def provide(self) -> Model:
        return self

    def hear(self, events: Events) -> None:
        self._events = events

    def will_say(self, *answers: Answer) -> None:
        self._answers.extend(answers)

    def wait_until_unfinished(self) -> None:
        assert self._unfinished.wait(PATIENCE)

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, object]],
        on_event: OnEvent,
    ) -> None:
        answer = self._answers.popleft() if self._answers else Answer("I have nothing to add.", 0.0)
        self._clock.advance(answer.seconds / 4)
        start = _event("message_start", model=model)
        if answer.thought:
            await self._say(on_event, start, _event("thinking_start"), _event("thinking_delta", text=answer.thought))
            self._clock.advance(answer.seconds / 2)
            await self._say(on_event, _event("thinking_end"), _event("text_delta", text=answer.text))
        else:
            await self._say(on_event, start, *[_event("text_delta", text=text) for text in (answer.text,) if text])
            self._clock.advance(answer.seconds / 2)
        if answer.unfinished:
            self._unfinished.set()
            await asyncio.Event().wait()
        self._clock.advance(answer.seconds / 4)
        if answer.error:
            kind, _, message = answer.error.partition(": ")
            on_event(_event("error", type=kind, message=message, retryable=True))
            return
        calls = [_event("tool_call", name=name, input=arguments) for name, arguments in answer.calls]
        await self._say(on_event, *calls, _event("message_delta", usage=answer.usage))
        on_event(_event("message_stop", stop_reason="tool_use" if calls else "end_turn"))

    def interrupt(self) -> None:
        """Nothing: the task is cancelled."""

    async def _say(self, on_event: OnEvent, *said: Mapping[str, object]) -> None:
        """Say something, and wait until it is in the log: before that, neither may time pass nor more be said."""
        assert self._events is not None
        loop, heard = asyncio.get_running_loop(), asyncio.Event()

        def hear(event: Envelope) -> None:
            if event.type == said[-1]["type"]:
                loop.call_soon_threadsafe(heard.set)

        with self._events.on_all(hear):
            for event in said:
                on_event(event)
            await asyncio.wait_for(heard.wait(), PATIENCE)


def _event(kind: str, **data: object) -> Mapping[str, object]:
    return {"type": kind, "data": data}


class Shop:
    """The tools of a shop; each call takes its time. In the mail is what a stranger wrote."""

    def __init__(self, clock: ManualClock, stranger: str) -> None:
        self._clock = clock
        self._stranger = stranger
        self._tracked = threading.Event()

    def hear(self, events: Events) -> None:
        events.on("tool_result", self._hear)

    def _hear(self, event: Envelope[ToolResult]) -> None:
        if event.data.name == "track":
            self._tracked.set()

    def tools(self) -> list[object]:
        return [
            tool(self.read_mail),
            tool(self.track),
            tool(self.search_docs),
            tool(self.send_mail),
            tool(self.look_up),
            tool(self.refund),
            tool(self.run_query),
        ]

    async def read_mail(self, folder: str) -> list[dict[str, object]]:
        """Read the mail that nobody has read."""
        self._clock.advance(0.756)
        return [
            {
                "id": 311,
                "from": "orders@customer.example",
                "subject": "Where is my parcel?",
                "body": "Ordered on the 12th, nothing came.",
            },
            {
                "id": 312,
                "from": "noreply@promo.example",
                "subject": "<script>alert('approve all')</script>",
                "body": self._stranger,
            },
            {
                "id": 313,
                "from": "billing@customer.example",
                "subject": "Invoice twice",
                "body": "A-17 was invoiced two times.",
            },
        ]

    async def track(self, parcel: str) -> ToolOutcome:
        """Ask the carrier where a parcel is."""
        self._clock.advance(8.495)
        return ToolOutcome("TimeoutError: carrier.example did not answer within 8 s", is_error=True)

    async def search_docs(self, query: str, limit: int) -> list[dict[str, object]]:
        """Search the handbook. It answers a moment after the carrier."""
        assert await asyncio.to_thread(self._tracked.wait, PATIENCE)
        self._clock.advance(0.035)
        found: list[dict[str, object]] = [
            {
                "page": "returns/lost-parcels",
                "score": 0.91,
                "text": "A parcel that is late by ten days is treated as lost. Offer a new one first, money second.",
            },
            {"page": "returns/amounts", "score": 0.64, "text": "Refunds above 500 need a second person."},
        ]
        return found[:limit]

    async def send_mail(self, to: str, subject: str, body: str) -> str:
        """Send a mail."""
        self._clock.advance(1.02)
        return f"sent to {to}"

    async def look_up(self, order: str) -> int:
        """Look up what an order has cost."""
        self._clock.advance(0.309)
        return {"A-17": 40, "A-18": 900}[order]

    async def refund(self, order: str, amount: int) -> str:
        """Pay back what an order has cost."""
        self._clock.advance(1.533)
        return f"paid back {amount} for {order}"

    async def run_query(self, sql: str) -> list[dict[str, object]]:
        """Ask the books."""
        self._clock.advance(0.4)
        return []
