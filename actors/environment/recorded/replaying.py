"""Playing a recording back: an environment whose outside world is a file."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from reenact.actors.environment.api import (
    EnvironmentConfig,
    LLMDriver,
    SystemBusConsumer,
    SystemBusProducer,
    Unsubscribe,
)
from reenact.actors.environment.driving import Driving, Reports
from reenact.actors.environment.failures import failure
from reenact.actors.environment.incoming import incoming
from reenact.actors.environment.recorded.deck import Dealt, Deck
from reenact.actors.environment.recorded.form import Exchange, setting_of
from reenact.actors.environment.recorded.matching import Asking
from reenact.actors.environment.recorded.reading import read
from reenact.domain.errors import ConfigurationError, RecordingError, ReenactError, RuntimeClosedError
from reenact.domain.events import (
    Envelope,
    StepStarted,
    StreamData,
    ToolResult,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.messages import Said

MISMATCH: Final = "recording_mismatch"
"""The type of the `error` that ends a turn whose request the recording does not hold."""
_GRACE: Final = 1.0
"""Seconds to wait for what came before in the recorded run, and may not come now."""


class ReplayFactory:
    """Makes environments that answer from one recording.

    Raises:
        RecordingError: it cannot be read, is no recording, is of another version, or is damaged.
        ConfigurationError: `delays` is no factor.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        delays: float = False,
        run_tools: bool = False,
        repeat: bool = False,
    ) -> None:
        if not _is_factor(delays):
            raise ConfigurationError(f"delays is {delays!r}; it is True, False, or a factor from 0")
        file = os.fspath(path)
        self._deck = Deck(file, read(file), repeat=repeat)
        self._factor = float(delays)
        self._run_tools = run_tools

    @property
    def remaining(self) -> int:
        """How many of the recorded requests have not been made."""
        return self._deck.remaining

    def create(self, config: EnvironmentConfig) -> ReplayEnvironment:
        """Return a new environment, not yet connected."""
        self._deck.learn(config.llm.api_key)
        return ReplayEnvironment(config, self._deck, factor=self._factor, run_tools=self._run_tools)


class ReplayEnvironment:
    """An environment for one agent that says what the recording holds."""

    name = "recorded"

    def __init__(self, config: EnvironmentConfig, deck: Deck, *, factor: float = 0.0, run_tools: bool = False) -> None:
        self._receptor = ReplayReceptor()
        player = Player(config, deck, self._receptor, factor)
        tools = Driving(config, _no_driver) if run_tools else None
        self._effector = ReplayEffector(config, player, self._receptor, tools)

    @property
    def receptor(self) -> ReplayReceptor:
        """The way in."""
        return self._receptor

    @property
    def effector(self) -> ReplayEffector:
        """The way out, which leads to a file."""
        return self._effector

    def dispose(self) -> None:
        """End what is under way. Idempotent."""
        self._effector.dispose()


class ReplayReceptor:
    """Emits what is played."""

    def __init__(self) -> None:
        self._producer: SystemBusProducer | None = None

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit to this producer from now on."""
        self._producer = producer

    def emit(self, events: Iterable[StreamData], turn_id: str) -> None:
        """Say the events in the turn."""
        if self._producer is not None:
            with contextlib.suppress(ReenactError):  # the runtime was closed: nobody listens
                self._producer.emit_all(events, turn_id=turn_id)

    def tell(self, message: Reports) -> None:
        """Say what a tool that was really run reports."""
        pending = message.take()
        while pending:
            self.emit((incoming(pending.popleft()),), message.turn_id)


class ReplayEffector:
    """Has the exchanges played that the turns of its agent ask for, and the tools answered."""

    def __init__(
        self, config: EnvironmentConfig, player: Player, receptor: ReplayReceptor, tools: Driving | None
    ) -> None:
        self._outside = config.outside
        self._player = player
        self._receptor = receptor
        self._tools = tools
        self._subscriptions: tuple[Unsubscribe, ...] = ()
        self._under_way: dict[str, list[Future[None]]] = {}

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Answer the turns that this consumer hears of."""
        self._disconnect()

        def ask(event: Envelope) -> None:
            turn_id: str = event.data["turn_id"]
            self._begin(turn_id, self._player.answer(turn_id, consumer.conversation()))

        def run(event: Envelope) -> None:
            turn_id, call = event.context.turn_id or "", msgspec.convert(event.data, ToolStarted)
            if self._tools is not None:
                self._begin(turn_id, self._tools.call(call, Reports(turn_id, self._receptor)))
            else:
                self._begin(turn_id, self._player.call(turn_id, call, consumer.conversation()))

        def end(event: Envelope) -> None:
            for future in self._under_way.pop(event.data["turn_id"], ()):
                future.cancel()

        self._subscriptions = (
            consumer.on(TurnStarted.event_type, ask),
            consumer.on(StepStarted.event_type, ask),
            consumer.on(ToolStarted.event_type, run),
            consumer.on(TurnCompleted.event_type, end),
        )

    def dispose(self) -> None:
        """Hear no more, and end what is under way. Idempotent."""
        self._disconnect()
        for turn_id in tuple(self._under_way):
            for future in self._under_way.pop(turn_id, ()):
                future.cancel()
        if self._tools is not None:
            tools, self._tools = self._tools, None
            with contextlib.suppress(RuntimeClosedError):  # the end of the loop has ended them already
                self._outside.spawn(tools.close())

    def _disconnect(self) -> None:
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._subscriptions = ()

    def _begin(self, turn_id: str, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(RuntimeClosedError):  # nobody hears it any more
            self._under_way.setdefault(turn_id, []).append(self._outside.spawn(work))


class Player:
    """Plays exchanges and results of calls, on the outside loop."""

    def __init__(self, config: EnvironmentConfig, deck: Deck, receptor: ReplayReceptor, factor: float) -> None:
        self._deck = deck
        self._receptor = receptor
        self._factor = factor
        self._asking = Asking(setting_of(config))
        self._session: str | None = None
        self._asked: _Calls | None = None

    async def answer(self, turn_id: str, messages: Sequence[Said]) -> None:
        """Say what answers the conversation, or in an `error` why nothing does."""
        began = asyncio.get_running_loop().time()
        try:
            dealt = self._deck.deal(self._asking, messages, session=self._session)
        except RecordingError as mismatch:
            self._receptor.emit((failure(MISMATCH, str(mismatch)),), turn_id)
            return
        self._asked = _Calls(dealt)
        if dealt.exchange is not None:
            self._session = dealt.exchange.session
            await self._say(dealt.exchange, turn_id, began)

    async def call(self, turn_id: str, call: ToolStarted, conversation: Sequence[Said]) -> None:
        """Say what came of the call, when all has come that came before it."""
        calls = self._asked = self._asked or _Calls(self._deck.found_again(self._asking, conversation))
        place = calls.dealt.take(call.id, call.name, call.input)
        run = self._deck.loose(call.id, call.name, call.input) if place is None else calls.dealt.runs[place]
        if run is None:
            arguments = self._deck.shown(msgspec.json.encode(call.input).decode())
            why = f"{MISMATCH}: the recording {self._deck.path} holds no result of {call.name}({arguments})"
            result = ToolResult(id=call.id, name=call.name, result=f"{why}; see run_tools=True", is_error=True)
            self._receptor.emit((result,), turn_id)
            return
        calls.start(place)
        await asyncio.sleep(run.seconds * self._factor)
        await calls.predecessors(place)
        if not run.complete:
            await _for_ever()
        result = ToolResult(id=call.id, name=call.name, result=run.result, is_error=run.is_error)
        self._receptor.emit((result,), turn_id)
        calls.end(place)

    async def _say(self, exchange: Exchange, turn_id: str, began: float) -> None:
        loop = asyncio.get_running_loop()
        together: list[StreamData] = []
        for spoken in exchange.events:
            due = began + spoken.at * self._factor
            if self._factor and due > loop.time():
                self._receptor.emit(together, turn_id)
                together = []
                await asyncio.sleep(due - loop.time())
            together.append(spoken.event)
        self._receptor.emit(together, turn_id)
        if not exchange.complete:
            await _for_ever()


class _Calls:
    """The calls of one exchange, as far as they have come."""

    def __init__(self, dealt: Dealt) -> None:
        self.dealt = dealt
        self.started = [asyncio.Event() for _ in dealt.runs]
        self.ended = [asyncio.Event() for _ in dealt.runs]

    def start(self, place: int | None) -> None:
        """Take note that the call of this place, if it has one, is made."""
        if place is not None:
            self.started[place].set()

    def end(self, place: int | None) -> None:
        """Take note that its result was said."""
        if place is not None:
            self.ended[place].set()

    async def predecessors(self, place: int | None) -> None:
        """Wait for the results that came before this one; for calls that are not even made, only a moment."""
        if place is None or self.dealt.exchange is None:  # they may be of any turn
            return
        for started, ended in zip(self.started[:place], self.ended[:place], strict=True):
            try:
                async with asyncio.timeout(_GRACE):
                    await started.wait()
            except TimeoutError:
                continue
            await ended.wait()


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


async def _for_ever() -> None:
    """Wait until this is cancelled: what was cut short in the recorded run goes on until it is cut short here."""
    await asyncio.get_running_loop().create_future()


def _no_driver() -> LLMDriver:
    raise RecordingError("a recording has no driver")
