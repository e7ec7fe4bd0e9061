"""What a recording holds, found by what is asked: which exchange answers a request, which result a call has."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from reenact.actors.environment.recorded.form import Cut, Entry, Exchange, Setting, ToolRun
from reenact.actors.environment.recorded.hiding import Veil
from reenact.actors.environment.recorded.matching import (
    NOTHING,
    Asking,
    Digests,
    alike,
    difference,
    digest_after,
    key_of,
    models_agree,
    normal,
    told,
    without_keys,
)
from reenact.domain.errors import RecordingError
from reenact.domain.messages import Said


class Dealt:
    """An exchange that answers a request, and the calls that it asks for, in the order in which they came to an end."""

    def __init__(self, exchange: Exchange | None, runs: Iterable[ToolRun]) -> None:
        self.exchange = exchange
        self.runs = tuple(runs)
        self._left = list(range(len(self.runs)))

    def take(self, id: str, name: str, arguments: Mapping[str, Any]) -> int | None:  # noqa: A002 - a call's id
        """Return the place of the call's run, each of them once; one that has the same id first."""
        fit = [one for one in self._left if _is_of(self.runs[one], name, arguments)]
        place = next((one for one in fit if self.runs[one].id == id), next(iter(fit), None))
        if place is not None:
            self._left.remove(place)
        return place


class Deck:
    """The exchanges of a recording; each is dealt once, or, if they may `repeat`, the last of alike ones again.

    Thread-safe.
    """

    def __init__(self, path: str, entries: Sequence[Entry], *, repeat: bool = False) -> None:
        self.path = path
        self._repeat = repeat
        self._lock = threading.Lock()
        self._exchanges, self._runs = _as_heard(entries)
        self._veil = Veil(digest for exchange in self._exchanges.values() for digest in exchange.hidden)
        self._dealt: set[int] = set()
        self._loose = [run for run in self._runs if run.exchange is None]
        self._read()

    @property
    def remaining(self) -> int:
        """How many of the recorded requests have not been made."""
        with self._lock:
            return len(self._exchanges) - len(self._dealt)

    def learn(self, key: str | None) -> None:
        """Compare without this key from now on, on both sides, and show it in no message."""
        with self._lock:
            self._veil.learn(key)

    def shown(self, text: str) -> str:
        """Return the text without the keys that are known."""
        with self._lock:
            return self._veil.text(text)

    def deal(self, asking: Asking, messages: Sequence[Said], *, session: str | None) -> Dealt:
        """Return what answers the request: of several alike, the first that is left, of that recorded session if any.

        Raises:
            RecordingError: none does; the message says what comes nearest, and where it differs.
        """
        with self._lock:
            digest = asking.ask(messages, self._veil)
            asked, setting = asking.messages, asking.setting
            self._read_again()
            found = [
                one
                for one in self._by_key.get(key_of(digest, setting), ())
                if models_agree(setting.model, self._settings[one.number].model)
            ]
            left = [one for one in found if one.number not in self._dealt]
            if left:
                chosen = min(left, key=lambda one: (one.session != session, one.number))
            elif found and self._repeat:
                chosen = found[-1]
            elif found:
                raise RecordingError(self._spent(asked, len(found)))
            else:
                raise RecordingError(self._mismatch(asked, setting))
            self._dealt.add(chosen.number)
            return self._of(chosen)

    def found_again(self, asking: Asking, conversation: Sequence[Said]) -> Dealt:
        """Return the exchange whose answer this conversation ends with, as after a restart; or all calls there are."""
        if not conversation:
            return Dealt(None, self._runs)
        with self._lock:
            asking.ask(conversation, self._veil)
            self._read_again()
            *asked, answer = asking.messages
            before = asked[-1] if asked else None
            for one in self._by_conversation.get(Digests().of(asked), ()):
                if normal(self._veil.said(one.answer), before).content == normal(answer, before).content:
                    return self._of(one)
        return Dealt(None, self._runs)

    def loose(self, id: str, name: str, arguments: Mapping[str, Any]) -> ToolRun | None:  # noqa: A002 - a call's id
        """Return a run of the call that was recorded after a restart, when no exchange was known; each of them once."""
        with self._lock:
            fit = [run for run in self._loose if _is_of(run, name, arguments)]
            found = next((run for run in fit if run.id == id), next(iter(fit), None))
            if found is not None and not self._repeat:
                self._loose.remove(found)
            return found

    def _of(self, exchange: Exchange) -> Dealt:
        return Dealt(exchange, (run for run in self._runs if run.exchange == exchange.number))

    def _read_again(self) -> None:
        if self._known is not self._veil.secrets:
            self._read()

    def _read(self) -> None:
        self._known = self._veil.secrets
        self._messages: dict[int, tuple[Said, ...]] = {}
        self._settings: dict[int, Setting] = {}
        self._by_key: dict[bytes, list[Exchange]] = defaultdict(list)
        self._by_conversation: dict[bytes, list[Exchange]] = defaultdict(list)
        digests: dict[int, bytes] = {}
        last: dict[int, Said | None] = {}
        for exchange in self._exchanges.values():
            follows, before, digest = exchange.follows, None, NOTHING
            if follows is not None:
                digest, before = digests[follows], last[follows]
            given = exchange.setting
            setting = self._settings[follows or 0] if given is None else without_keys(given, self._veil)
            messages = self._messages[exchange.number] = tuple(map(self._veil.said, exchange.messages))
            digest = digest_after(digest, messages, before)
            digests[exchange.number] = digest
            last[exchange.number] = messages[-1] if messages else before
            self._settings[exchange.number] = setting
            self._by_key[key_of(digest, setting)].append(exchange)
            self._by_conversation[digest].append(exchange)

    def _conversation(self, exchange: Exchange) -> list[Said]:
        pieces: list[Sequence[Said]] = []
        one: Exchange | None = exchange
        while one is not None:
            pieces.append(self._messages[one.number])
            one = None if one.follows is None else self._exchanges[one.follows]
        return [said for piece in reversed(pieces) for said in piece]

    def _near(self, asked: Sequence[Said]) -> list[Exchange]:
        """Return the exchanges that may come nearest: those that begin anew, and those around what is in common."""
        beginnings = (self._by_conversation.get(one) for one in reversed(Digests().all_of(asked)))
        shared = next((found for found in beginnings if found), list[Exchange]())
        numbers = {one.number for one in shared}
        return [
            one
            for one in self._exchanges.values()
            if one.follows is None or one.follows in numbers or one.number in numbers
        ]

    def _spent(self, asked: Sequence[Said], count: int) -> str:
        times = "once" if count == 1 else f"{count} times"
        return (
            f"the recording {self.path} holds this request {times}, and it was asked more often than that: "
            f"{_request(asked)}; replay with repeat=True to have the last answer given again"
        )

    def _mismatch(self, asked: Sequence[Said], setting: Setting) -> str:
        request = f"the recording {self.path} does not hold this request: {_request(asked)}"
        if not self._exchanges:
            return f"{request}; it holds none"

        def nearness(exchange: Exchange) -> tuple[int, int, int]:
            its = self._settings[exchange.number]
            same = sum(getattr(its, name) == getattr(setting, name) for name in Setting.__struct_fields__)
            return alike(asked, self._conversation(exchange)), same, -exchange.number

        nearest = max(self._near(asked), key=nearness)
        its = self._settings[nearest.number]
        where = difference(asked, setting, self._conversation(nearest), its)
        return f"{request}; the nearest that it holds is number {nearest.number}, which differs first in {where}"


def _request(asked: Sequence[Said]) -> str:
    count = "1 message" if len(asked) == 1 else f"{len(asked)} messages"
    return f"{count}, the last from {told(asked[-1])}" if asked else "no messages"


def _as_heard(entries: Sequence[Entry]) -> tuple[dict[int, Exchange], tuple[ToolRun, ...]]:
    """Return the exchanges in the order in which they were asked, and the calls in the order in which they ended."""
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
    return {number: exchanges[number] for number in sorted(exchanges)}, tuple(runs.values())


def _is_of(run: ToolRun, name: str, arguments: Mapping[str, Any]) -> bool:
    return run.name == name and run.input == dict(arguments)
