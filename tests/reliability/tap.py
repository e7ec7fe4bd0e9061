"""A mock whose answers come out of a tap: delta by delta, when the test lets them flow."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from reenact import EnvironmentConfig
from reenact.actors.environment.api import OnEvent
from reenact.actors.environment.mock import MockScenarios
from reenact.actors.environment.model import ModelEnvironment
from reenact.domain.messages import Said
from reenact.testing import MockEvent

_ASKED_FOR: Final = re.compile(r"(\d+) deltas")
_AT_ONCE: Final = 50
"""After so many deltas others on the loop have their turn."""

_Change: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Tap:
    """Lets deltas flow: none at first, then as many as are allowed, in all turns together, or all. Thread-safe."""

    def __init__(self, *, flowing: bool = False) -> None:
        self._changed = threading.Lock()
        self._allowed: int | None = None if flowing else 0
        self._waiting: set[_Change] = set()

    def allow(self, count: int) -> None:
        """Let so many more deltas flow."""
        with self._changed:
            self._allowed = (self._allowed or 0) + count
            self._wake()

    def open(self) -> None:
        """Let all flow, also those to come."""
        with self._changed:
            self._allowed = None
            self._wake()

    def shut(self) -> None:
        """Let none flow."""
        with self._changed:
            self._allowed = 0

    async def next(self) -> None:
        """Return when one more delta may flow."""
        while (change := self._take()) is not None:
            try:
                await change[1].wait()
            finally:
                with self._changed:
                    self._waiting.discard(change)

    def _take(self) -> _Change | None:
        """Take one delta that is allowed, or return what tells that more may be."""
        with self._changed:
            if self._allowed is None:
                return None
            if self._allowed > 0:
                self._allowed -= 1
                return None
            change = (asyncio.get_running_loop(), asyncio.Event())
            self._waiting.add(change)
            return change

    def _wake(self) -> None:
        for loop, event in self._waiting:
            loop.call_soon_threadsafe(event.set)


class TapFactory:
    """Makes environments that play the chosen scenario, at no other pace than that at which the tap gives deltas.

    The scenario at first is `asked`: it answers `100 deltas` with `chunk-0 ` … `chunk-99 `, anything else with one.
    """

    def __init__(self, tap: Tap) -> None:
        self.tap = tap
        self._scenarios = MockScenarios()
        self._scenarios.define_scenario("asked", _asked)
        self._scenarios.set_scenario("asked")

    def create(self, config: EnvironmentConfig) -> ModelEnvironment:
        return ModelEnvironment("tap", config, lambda: _Driver(self._scenarios, self.tap))

    def set_scenario(self, name: str) -> None:
        """Answer with this scenario, from the next message on."""
        self._scenarios.set_scenario(name)


class _Driver:
    def __init__(self, scenarios: MockScenarios, tap: Tap) -> None:
        self._scenarios = scenarios
        self._tap = tap

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> None:
        for number, event in enumerate(self._scenarios.events(messages)):
            if event.type == "text_delta":
                await self._tap.next()
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            on_event({"type": event.type, "data": event.data or {}})

    def interrupt(self) -> None:
        """The cancellation of `send_message` ends the answer."""


def chunks(count: int) -> list[str]:
    """Return the deltas of the answer to `COUNT deltas`."""
    return [f"chunk-{number} " for number in range(count)]


def _asked(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    asked = _ASKED_FOR.search([message.text for message in conversation if message.role == "user"][-1])
    yield MockEvent("message_start")
    for chunk in chunks(int(asked[1]) if asked else 1):
        yield MockEvent("text_delta", data={"text": chunk})
    yield MockEvent("message_stop")
