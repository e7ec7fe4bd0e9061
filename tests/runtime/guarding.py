"""Guards that answer when the test says so, and what must be true of a log in which guards were asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import msgspec

from reenact import GuardInput
from reenact.domain.guards import GuardChecked, GuardPoint, Guards
from reenact.domain.loop.events import ToolStarted
from reenact.domain.session.agent import AnswerRecorded, MessageAccepted
from reenact.domain.stream.events import MessageStart, TextDelta, ToolCall
from reenact.testing import wait_until
from tests.runtime.witness import PATIENCE

_Question = tuple[GuardInput, asyncio.Future[str | None]]


class Doorkeeper:
    """An asynchronous guard named `keeper` that waits for the test."""

    __name__ = "keeper"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[_Question] = []

    async def __call__(self, about: GuardInput) -> str | None:
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._asked.append((about, answer))
        return await answer

    @property
    def asked(self) -> list[GuardInput]:
        """What it was asked about and has not answered, or was not given the time to."""
        with self._lock:
            return [about for about, answer in self._asked if not answer.done()]

    def wait(self, point: GuardPoint) -> GuardInput:
        """Return what it is asked about, once it is asked about something of that kind."""
        wait_until(lambda: any(one.point == point for one in self.asked), timeout=PATIENCE)
        return next(one for one in self.asked if one.point == point)

    def say(self, reason: str | None = None) -> None:
        """Let pass, or refuse, whatever it is asked about now."""
        with self._lock:
            asked, self._asked = self._asked, []
        for _, answer in asked:
            if not answer.get_loop().is_closed():
                answer.get_loop().call_soon_threadsafe(_settle, answer, reason)


def _settle(answer: asyncio.Future[str | None], reason: str | None) -> None:
    if not answer.done():
        answer.set_result(reason)


def check_guarded(events: Sequence[msgspec.Struct], told: Sequence[object], guards: Guards) -> None:
    """Hold what a session has recorded, and what was told, to what its guards have said.

    Nothing is accepted, run or recorded as an answer without a verdict of each guard before it, all of which let it
    pass; with `hold`, nothing of an answer is told before.
    """
    passed: dict[tuple[GuardPoint, str | None], list[str]] = {}
    for event in events:
        match event:
            case GuardChecked(point="call", call_id=id_) | GuardChecked(message_id=id_):
                names = passed.setdefault((event.point, id_), [])
                names += [event.name] if event.verdict == "passed" else ["refused"]
            case MessageAccepted():
                assert passed.get(("message", event.message_id), []) == [*guards.message]
            case ToolStarted() if event.attempt == 1:
                assert passed.get(("call", event.id), []) == [*guards.call]
            case AnswerRecorded(partial=False):
                assert passed.get(("answer", event.message_id), []) == [*guards.answer]
            case _:
                pass
    if guards.hold:
        answer: str | None = None
        for one in told:
            if isinstance(one, MessageStart):
                answer = one.message_id
            elif isinstance(one, TextDelta | ToolCall):
                assert passed.get(("answer", answer)) == [*guards.answer]
