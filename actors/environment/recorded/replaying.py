"""Replaying: an environment that answers from a recording."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pykka

from reenact.actors.environment.api import EnvironmentConfig, OnEvent, SystemBusConsumer
from reenact.actors.environment.failures import failure
from reenact.actors.environment.model import EffectorActor, ModelEffector, ModelEnvironment
from reenact.actors.environment.proxies import ConsumerProxy
from reenact.actors.environment.recorded.file import read
from reenact.actors.environment.recorded.format import Exchange, setting_of
from reenact.actors.environment.recorded.index import RecordedAnswer, RecordingIndex
from reenact.actors.environment.recorded.matching import Request
from reenact.actors.environment.tools.context import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.outcome import failure as failed_outcome
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.domain.errors import ConfigurationError, RecordingError
from reenact.domain.messages import Said

MISMATCH: Final = "recording_mismatch"
"""The type of the `error` that ends a turn whose request is not in the recording."""
_GRACE: Final = 1.0
"""Seconds to wait for a call that came earlier in the recorded run, and may not come now."""


class ReplayFactory:
    """Makes environments that answer from the file of a recording.

    A request is answered by the recorded one with the same conversation, system prompt, tools and, where both name
    one, model; alike ones in the order in which they were recorded. One that is not there fails its turn with an
    `error` of the type `recording_mismatch`, as does one more than there are, unless with `repeat` the last answer
    is given again. What was cut short by an interrupt waits for one at the same place.

    `delays` is False for none, True for those of the recorded run, or a factor of these. No tool is run: calls have
    their recorded results, unless `run_tools`.

    Raises:
        RecordingError: the file cannot be read, is no recording, is of another version, or is damaged.
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
        self._index = RecordingIndex(file, read(file), repeat=repeat)
        self._factor = float(delays)
        self._run_tools = run_tools

    @property
    def remaining(self) -> int:
        """How many of the recorded requests have not been made."""
        return self._index.remaining

    def create(self, config: EnvironmentConfig) -> ReplayEnvironment:
        """Return a new environment, not yet connected."""
        self._index.hide(config.llm.api_key)
        return ReplayEnvironment(config, Player(config, self._index, self._factor), run_tools=self._run_tools)


class ReplayEnvironment(ModelEnvironment):
    """An environment for one agent that says what the recording holds."""

    def __init__(self, config: EnvironmentConfig, player: Player, *, run_tools: bool) -> None:
        replayed = config if run_tools else msgspec.structs.replace(config, tools=player)
        super().__init__("recorded", replayed, lambda: player)
        self._replaying = ReplayEffector(self._effector_actor, player)

    @property
    def effector(self) -> ReplayEffector:
        """The way out, which leads to a file."""
        return self._replaying


class ReplayEffector(ModelEffector):
    """Lets the player hear the turns of its agent."""

    def __init__(self, actor: pykka.ActorRef[EffectorActor], player: Player) -> None:
        super().__init__(actor)
        self._player = player

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Answer the turns that this consumer hears of."""
        self._player.consumer = consumer
        replayed = ConsumerProxy(consumer, lambda handler: handler)
        replayed.must_compress = lambda: False  # a summary is in the recording, like every other event
        super().connect(replayed)


class Player(Toolbox):
    """Replays answers as a driver, and the results of calls as a toolbox. Everything here runs on the outside loop."""

    def __init__(self, config: EnvironmentConfig, index: RecordingIndex, factor: float) -> None:
        super().__init__()
        self.consumer: SystemBusConsumer | None = None
        self._index = index
        self._factor = factor
        self._request = Request(setting_of(config))
        self._session: str | None = None
        self._answer: RecordedAnswer | None = None

    async def send_message(self, *, messages: Sequence[Said], on_event: OnEvent, **_: object) -> None:
        """Report what answers the conversation, or an `error` that says why nothing does."""
        began = asyncio.get_running_loop().time()
        try:
            self._answer = answer = self._index.answer(self._request, messages, session=self._session)
        except RecordingError as mismatch:
            on_event(failure(MISMATCH, str(mismatch)))
            return
        if answer.exchange is not None:
            self._session = answer.exchange.session
            await self._say(answer.exchange, on_event, began)

    def interrupt(self) -> None:
        """Do nothing: the cancellation of the task is enough."""

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as in a toolbox
    ) -> ToolOutcome:
        """Return the recorded outcome of the call, once those that came before it have been returned."""
        if self._answer is None:
            conversation = () if self.consumer is None else self.consumer.conversation()
            self._answer = self._index.answer_at_end(self._request, conversation)
        answer, call_id = self._answer, "" if context is None else context.call_id
        run = answer.take(call_id, name, arguments) or self._index.run_without_exchange(call_id, name, arguments)
        if run is None:
            given = self._index.shown(msgspec.json.encode(arguments).decode())
            why = f"{MISMATCH}: the recording {self._index.path} holds no result of {name}({given})"
            return failed_outcome(f"{why}; see run_tools=True")
        await asyncio.sleep(run.seconds * self._factor)
        await answer.wait_for_earlier(run, _GRACE)
        if not run.complete:
            await _for_ever()
        answer.end(run)
        return ToolOutcome(result=run.result, is_error=run.is_error)

    async def _say(self, exchange: Exchange, on_event: OnEvent, began: float) -> None:
        loop = asyncio.get_running_loop()
        for spoken in exchange.events:
            due = began + spoken.at * self._factor
            if self._factor and due > loop.time():
                await asyncio.sleep(due - loop.time())
            on_event(spoken.event)
        if not exchange.complete:
            await _for_ever()


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


async def _for_ever() -> None:
    """Wait until this is cancelled: what was cut short in the recorded run goes on until it is cut short here."""
    await asyncio.get_running_loop().create_future()
