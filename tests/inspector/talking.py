"""A model that says what a test says, when it says it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

from reenact.actors.environment.api import OnEvent
from reenact.domain.messages import Said

PATIENCE = 30.0


class Talker:
    """A model that says what a test says, when it says it."""

    name = "talker"

    def __init__(self) -> None:
        self._asked = threading.Semaphore(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._said: asyncio.Queue[Mapping[str, object]] = asyncio.Queue()

    def provide(self) -> Talker:
        return self

    def says(self, *texts: str) -> None:
        for text in texts:
            self._tell({"type": "text_delta", "data": {"text": text}})

    def stops(self) -> None:
        self._tell({"type": "message_stop", "data": {"stop_reason": "end_turn"}})

    def wait_until_asked(self) -> None:
        assert self._asked.acquire(timeout=PATIENCE)

    def _tell(self, event: Mapping[str, object]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._said.put_nowait, event)

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
        self._loop = asyncio.get_running_loop()
        on_event({"type": "message_start", "data": {"model": "talker-1"}})
        self._asked.release()
        event: Mapping[str, object] = {"type": ""}
        while event["type"] != "message_stop":
            event = await self._said.get()
            on_event(event)

    def interrupt(self) -> None:
        """Nothing: the task is cancelled."""
