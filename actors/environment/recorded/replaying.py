"""An environment that answers from a recording."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec
import pykka

from reenact.actors.environment.api import ConsumerProxy, EnvironmentConfig, OnEvent, SystemBusConsumer
from reenact.actors.environment.failures import failure
from reenact.actors.environment.model import EffectorActor, ModelEffector, ModelEnvironment
from reenact.actors.environment.recorded.file import read
from reenact.actors.environment.recorded.format import Cut, Entry, Exchange, Redactor, Setting, ToolRun, setting_of
from reenact.actors.environment.recorded.matching import (
    EMPTY_DIGEST,
    Request,
    difference,
    digests_after,
    excerpt_of,
    key_of,
    models_agree,
    without_ids,
)
from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.outcome import failure as failed_outcome
from reenact.actors.environment.tools.running import wait_for_cancellation
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.domain.errors import ConfigurationError, RecordingError
from reenact.domain.messages import Said


class RecordedAnswer:
    """An exchange that answers a request, and the calls that it asks for, in the order in which they ended."""

    def __init__(self, exchange: Exchange | None, runs: Iterable[ToolRun]) -> None:
        self.exchange = exchange
        self._runs = tuple(runs)
        self._unused_runs = list(self._runs)
        self._started: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._ended: dict[int, asyncio.Event] = defaultdict(asyncio.Event)

    def take(self, call_id: str, name: str, arguments: Mapping[str, object]) -> ToolRun | None:
        """Return the run of a call that is now being made; each run is returned once."""
        run = _run_of(self._unused_runs, call_id, name, arguments)
        if run is not None:
            self._unused_runs.remove(run)
            self._started[run.number].set()
        return run

    def end(self, run: ToolRun) -> None:
        """Note that the result of the run is being returned."""
        self._ended[run.number].set()

    async def wait_for_earlier(self, run: ToolRun, seconds: float) -> None:
        """Wait for the calls that ended before this one; at most `seconds` for each that has not even started."""
        if self.exchange is None or run.exchange is None:  # a run without an exchange may be of any turn
            return
        for earlier in takewhile(lambda one: one is not run, self._runs):
            try:
                async with asyncio.timeout(seconds):
                    await self._started[earlier.number].wait()
            except TimeoutError:
                continue
            await self._ended[earlier.number].wait()


class RecordingIndex:
    """The exchanges of a recording. Each answers one request; with `repeat`, the last of equal ones answers any number.

    Thread-safe.
    """

    def __init__(self, path: str, entries: Sequence[Entry], *, repeat: bool = False) -> None:
        self.path = path
        self._repeat = repeat
        self._lock = threading.Lock()
        self._exchanges, self._runs = _exchanges_and_runs(entries)
        self._redactor = Redactor(digest for exchange in self._exchanges.values() for digest in exchange.hidden)
        self._used: set[int] = set()
        self._without_exchange = [run for run in self._runs if run.exchange is None]
        self._build()

    @property
    def remaining(self) -> int:
        """How many of the recorded requests have not been made."""
        with self._lock:
            return len(self._exchanges) - len(self._used)

    def hide(self, key: str | None) -> None:
        """Compare without this key from now on, in requests and recording, and show it in no message."""
        with self._lock:
            self._redactor.learn(key)

    def shown(self, text: str) -> str:
        """Return the text without the known keys."""
        with self._lock:
            return self._redactor.text(text)

    def answer(self, request: Request, messages: Sequence[Said], *, session: str | None) -> RecordedAnswer:
        """Return the answer to the request: of equal requests, the first unused one, with `session` preferred.

        Raises:
            RecordingError: no request matches; the message describes the nearest one, and where it differs.
        """
        with self._lock:
            digest = self._add_to_request(request, messages)
            asked, setting = request.messages, request.setting
            found = [
                one
                for one in self._by_key.get(key_of(digest, setting), ())
                if models_agree(setting.model, self._settings[one.number].model)
            ]
            left = [one for one in found if one.number not in self._used]
            if left:
                chosen = min(left, key=lambda one: (one.session != session, one.number))
            elif found and self._repeat:
                chosen = found[-1]
            elif found:
                raise RecordingError(self._exhausted(asked, len(found)))
            else:
                raise RecordingError(self._mismatch(request))
            self._used.add(chosen.number)
            return self._answer_of(chosen)

    def answer_at_end(self, request: Request, conversation: Sequence[Said]) -> RecordedAnswer:
        """Return the exchange whose answer ends this conversation, as after a restart; if there is none, all calls."""
        if conversation:
            with self._lock:
                self._add_to_request(request, conversation)
                *asked, answer = request.messages
                before = asked[-1] if asked else None
                for one in self._by_conversation.get(request.digests[-2], ()):
                    recorded = without_ids(self._redactor.copy(one.answer), before)
                    if recorded.content == without_ids(answer, before).content:
                        return self._answer_of(one)
        return RecordedAnswer(None, self._runs)

    def run_without_exchange(self, call_id: str, name: str, arguments: Mapping[str, object]) -> ToolRun | None:
        """Return a run of the call that was recorded after a restart without an exchange; each is returned once."""
        with self._lock:
            found = _run_of(self._without_exchange, call_id, name, arguments)
            if found is not None and not self._repeat:
                self._without_exchange.remove(found)
            return found

    def _add_to_request(self, request: Request, messages: Sequence[Said]) -> bytes:
        digest = request.ask(messages, self._redactor)
        if self._secrets is not self._redactor.secrets:
            self._build()
        return digest

    def _answer_of(self, exchange: Exchange) -> RecordedAnswer:
        return RecordedAnswer(exchange, (run for run in self._runs if run.exchange == exchange.number))

    def _build(self) -> None:
        """Rebuild the index without the keys that are known by now."""
        self._secrets = self._redactor.secrets
        self._messages: dict[int, tuple[Said, ...]] = {}
        self._settings: dict[int, Setting] = {}
        self._by_key: dict[bytes, list[Exchange]] = defaultdict(list)
        self._by_conversation: dict[bytes, list[Exchange]] = defaultdict(list)
        self._digests: dict[int | None, list[bytes]] = {None: [EMPTY_DIGEST]}
        last: dict[int | None, Said | None] = {None: None}
        for exchange in self._exchanges.values():
            number, follows, given = exchange.number, exchange.follows, exchange.setting
            setting = self._settings[follows or 0] if given is None else self._redactor.copy(given)
            messages = self._messages[number] = tuple(map(self._redactor.copy, exchange.messages))
            digests = self._digests[number] = digests_after(self._digests[follows][-1], messages, last[follows])
            last[number] = messages[-1] if messages else last[follows]
            self._settings[number] = setting
            self._by_key[key_of(digests[-1], setting)].append(exchange)
            self._by_conversation[digests[-1]].append(exchange)

    def _conversation(self, exchange: Exchange) -> list[Said]:
        messages: list[Said] = []
        number: int | None = exchange.number
        while number is not None:
            messages[:0] = self._messages[number]
            number = self._exchanges[number].follows
        return messages

    def _in_common(self, request: Request) -> dict[int | None, int]:
        """Return how many messages the request has in common with each exchange's conversation, from the first on."""
        places = {digest: place for place, digest in enumerate(request.digests)}
        counts: dict[int | None, int] = {None: 0}
        for exchange in self._exchanges.values():
            found = (places[digest] for digest in reversed(self._digests[exchange.number]) if digest in places)
            counts[exchange.number] = next(found, counts[exchange.follows])
        return counts

    def _exhausted(self, asked: Sequence[Said], count: int) -> str:
        times = "once" if count == 1 else f"{count} times"
        return (
            f"the recording {self.path} holds this request {times}, and it was asked more often than that: "
            f"{_described(asked)}; replay with repeat=True to have the last answer given again"
        )

    def _mismatch(self, request: Request) -> str:
        asked, setting = request.messages, request.setting
        what = f"the recording {self.path} does not hold this request: {_described(asked)}"
        if not self._exchanges:
            return f"{what}; it holds none"

        in_common = self._in_common(request)

        def nearness(exchange: Exchange) -> tuple[int, int, int]:
            its = self._settings[exchange.number]
            same = sum(getattr(its, name) == getattr(setting, name) for name in Setting.__struct_fields__)
            return in_common[exchange.number], same, -exchange.number

        nearest = max(self._exchanges.values(), key=nearness)
        where = difference(asked, setting, self._conversation(nearest), self._settings[nearest.number])
        return f"{what}; the nearest that it holds is number {nearest.number}, which differs first in {where}"


def _described(asked: Sequence[Said]) -> str:
    count = "1 message" if len(asked) == 1 else f"{len(asked)} messages"
    return f"{count}, the last from {excerpt_of(asked[-1])}" if asked else "no messages"


def _exchanges_and_runs(entries: Sequence[Entry]) -> tuple[dict[int, Exchange], tuple[ToolRun, ...]]:
    """Return the exchanges in the order of the requests, and the calls in the order in which they ended."""
    exchanges: dict[int, Exchange] = {}
    runs: dict[int, ToolRun] = {}
    for entry in entries:
        match entry:
            case Exchange():
                exchanges[entry.number] = entry
            case ToolRun():
                runs[entry.number] = entry
            case Cut() if entry.number in runs:
                runs[entry.number] = msgspec.structs.replace(runs.pop(entry.number), complete=False)
            case Cut():
                cut = exchanges[entry.number]
                heard = cut.events[: entry.events]
                exchanges[entry.number] = msgspec.structs.replace(cut, events=heard, complete=False)
    return dict(sorted(exchanges.items())), tuple(runs.values())


def _run_of(runs: Iterable[ToolRun], call_id: str, name: str, arguments: Mapping[str, object]) -> ToolRun | None:
    """Return the run of the call that started first, or, if there is one, that with the same id."""
    fit = [run for run in runs if run.name == name and run.input == dict(arguments)]
    return min(fit, key=lambda run: (run.id != call_id, run.number), default=None)


MISMATCH = "recording_mismatch"
"""The type of the `error` that ends a turn whose request is not in the recording."""
_GRACE = 1.0
"""Seconds to wait for a call that came earlier in the recorded run, and may not come now."""


class ReplayFactory:
    """Makes environments that answer from the file of a recording.

    A request is answered by the recorded one with the same conversation, system prompt, tools and, where both name one,
    model; equal ones in the order in which they were recorded. A request that is not in the recording fails its turn
    with an `error` of the type `recording_mismatch`; so does one that is made more often than it was recorded, unless
    `repeat` is set, which gives the last answer again. A recorded answer that was cut short by an interrupt waits for
    an interrupt at the same place.

    `delays` is False for none, True for those of the recorded run, or a factor of these. No tool is run: calls return
    their recorded results, unless `run_tools` is set.

    Raises:
        RecordingError: the file cannot be read, is not a recording, is of another version, or is damaged.
        ConfigurationError: `delays` is not a factor.
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
            raise ConfigurationError(f"delays must be True, False, or a factor of 0 or more, not {delays!r}")
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
        return ReplayEnvironment(config, ReplayDriver(config, self._index, self._factor), run_tools=self._run_tools)


class ReplayEnvironment(ModelEnvironment):
    """An environment for one agent that replays the recording."""

    def __init__(self, config: EnvironmentConfig, player: ReplayDriver, *, run_tools: bool) -> None:
        replayed = msgspec.structs.replace(config, may_compress=False, tools=config.tools if run_tools else player)
        super().__init__("recorded", replayed, lambda: player)
        self._replay_effector = ReplayEffector(self._effector_actor, player)

    @property
    def effector(self) -> ReplayEffector:
        """The effector, which plays from a file."""
        return self._replay_effector


class ReplayEffector(ModelEffector):
    """Gives the player access to its agent's conversation."""

    def __init__(self, actor: pykka.ActorRef[EffectorActor], player: ReplayDriver) -> None:
        super().__init__(actor)
        self._player = player

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Answer the turns that this consumer delivers."""
        self._player.consumer = consumer
        replayed = ConsumerProxy(consumer, lambda handler: handler)
        replayed.must_compress = lambda: False  # a summary is in the recording, like every other event
        super().connect(replayed)


class ReplayDriver(Toolbox):
    """Replays answers as a driver, and results of calls as a toolbox. Everything here runs on the outside loop."""

    def __init__(self, config: EnvironmentConfig, index: RecordingIndex, factor: float) -> None:
        super().__init__()
        self.consumer: SystemBusConsumer | None = None
        self._index = index
        self._factor = factor
        self._request = Request(setting_of(config))
        self._session: str | None = None
        self._answer: RecordedAnswer | None = None

    async def send_message(self, *, messages: Sequence[Said], on_event: OnEvent, **_: object) -> None:
        """Report the recorded answer, or an `error` that says why there is none."""
        began = asyncio.get_running_loop().time()
        try:
            self._answer = answer = self._index.answer(self._request, messages, session=self._session)
        except RecordingError as mismatch:
            on_event(failure(MISMATCH, str(mismatch)))
            return
        if answer.exchange is not None:
            self._session = answer.exchange.session
            await self._replay_events(answer.exchange, on_event, began)

    def interrupt(self) -> None:
        """Do nothing: the cancellation of the task stops the replay."""

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as in a toolbox
    ) -> ToolOutcome:
        """Return the recorded outcome of the call, after the calls that ended before it have returned."""
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
            await wait_for_cancellation()  # work that was cut short in the recorded run is cut short here too
        answer.end(run)
        return ToolOutcome(result=run.result, is_error=run.is_error)

    async def _replay_events(self, exchange: Exchange, on_event: OnEvent, began: float) -> None:
        loop = asyncio.get_running_loop()
        for spoken in exchange.events:
            due = began + spoken.at * self._factor
            if self._factor and due > loop.time():
                await asyncio.sleep(due - loop.time())
            on_event(spoken.event)
        if not exchange.complete:
            await wait_for_cancellation()  # work that was cut short in the recorded run is cut short here too


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0
