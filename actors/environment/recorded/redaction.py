"""Hides API keys in recordings, and recognises them again in what is replayed.

A runtime that replays may not know the key that the recording was made with. So the file holds a digest of each key
that was part of a request: when the same is asked again, the text with this digest is the key.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from reenact.actors.environment.recorded.format import SHORTEST_DIGESTED, Digest, Exchange
from reenact.domain.events import (
    InputJsonDelta,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
)
from reenact.domain.tools import is_array, is_object

T = TypeVar("T")

HIDDEN: Final = "***"
"""Replaces a key."""
_SHORTEST: Final = 6
"""Characters of the shortest key: less would be found in ordinary words."""
_WORD: Final = re.compile(r"(?<!\S)\S{1,1024}(?!\S)")
"""A word in which a key is looked for; longer ones are data."""
_DELTAS: Final = {
    TextDelta.event_type: "text",
    ThinkingDelta.event_type: "text",
    InputJsonDelta.event_type: "partial_json",
}
"""The events that each hold a part of a text, and the field that holds it."""
_BOUNDARIES: Final = frozenset(
    {MessageStart.event_type, ThinkingStart.event_type, ThinkingEnd.event_type, ToolCall.event_type}
)
"""The events that end every text before them."""


class Redactor:
    """Replaces known API keys in values. Not thread-safe.

    `secrets` is another object whenever one more is known.
    """

    def __init__(self, digests: Iterable[Digest] = (), *, names: frozenset[str] = frozenset()) -> None:
        """Take the digests of keys to recognise, and the `names` of fields that stay whatever the keys are."""
        self.secrets: tuple[str, ...] = ()
        self._wanted = set(digests)
        self._names = names
        self._encoded: tuple[bytes, ...] = ()
        self._pattern = re.compile("(?!)")

    def learn(self, secret: str | None) -> None:
        """Hide this text from now on; one of a few characters is taken for no key."""
        if secret is None or len(secret) < _SHORTEST or secret in self.secrets:
            return
        self._wanted.discard(_digest(secret))
        escaped = _quoted(secret).decode()  # as it stands in JSON that is itself a text
        self.secrets = tuple(sorted({*self.secrets, secret, escaped}, key=lambda one: (-len(one), one)))
        self._encoded = tuple(map(_quoted, self.secrets))
        self._pattern = re.compile("|".join(map(re.escape, self.secrets)))

    def search(self, value: object) -> None:
        """Learn the keys in what can be encoded as JSON that have one of the digests."""
        if self._wanted:
            _with_texts(msgspec.json.decode(msgspec.json.encode(value)), self._recognised)

    def digests(self, value: object) -> tuple[Digest, ...]:
        """Return the digests of the known keys in what can be encoded as JSON."""
        line = msgspec.json.encode(value)
        return tuple(
            _digest(secret)
            for secret, encoded in zip(self.secrets, self._encoded, strict=True)
            if len(secret) >= SHORTEST_DIGESTED and encoded in line
        )

    def line(self, value: object) -> bytes:
        """Return the value as JSON without the keys."""
        line = msgspec.json.encode(value)
        if not any(encoded in line for encoded in self._encoded):
            return line
        return msgspec.json.encode(_with_texts(msgspec.json.decode(line), self.text, self._names))

    def copy(self, value: T) -> T:
        """Return the struct without the keys."""
        return msgspec.json.decode(self.line(value), type=type(value)) if self.secrets else value

    def text(self, text: str) -> str:
        """Return the text without the keys."""
        return self._pattern.sub(HIDDEN, text)

    def parts(self, parts: Sequence[str]) -> list[str]:
        """Return as many parts of the same text without the keys, also those that go over several parts."""
        whole = "".join(parts)
        characters = list(whole)
        for found in self._pattern.finditer(whole):
            start, end = found.span()
            characters[start:end] = [HIDDEN, *[""] * (end - start - 1)]
        rest = iter(characters)
        return ["".join(islice(rest, len(part))) for part in parts]

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange without the keys that go over several events, and with digests of those in its request.

        There are as many events as before; one that held nothing but a part of a key has no text.
        """
        if not self.secrets:
            return exchange
        hidden = dict.fromkeys((*exchange.hidden, *self.digests((exchange.setting, exchange.messages))))
        events = list(exchange.events)
        texts: dict[tuple[int, str, object], list[int]] = defaultdict(list)
        section = 0
        for place, event in enumerate(events):
            if event.type in _DELTAS:
                texts[section, event.type, event.data.get("id")].append(place)
            elif event.type in _BOUNDARIES:
                section += 1
        for (_, type_, _), places in texts.items():
            field = _DELTAS[type_]
            parts = self.parts([str(events[place].data[field]) for place in places])
            for place, part in zip(places, parts, strict=True):
                events[place] = msgspec.structs.replace(events[place], data={**events[place].data, field: part})
        return msgspec.structs.replace(exchange, events=tuple(events), hidden=tuple(hidden))

    def _recognised(self, text: str) -> str:
        """Learn the keys in the text that have one of the digests, and return it."""
        for word in _WORD.findall(text):
            for length in {one.length for one in self._wanted}:
                for start in range(len(word) - length + 1):
                    secret = word[start : start + length]
                    if _digest(secret) in self._wanted:
                        self.learn(secret)
        return text


def _digest(secret: str) -> Digest:
    return Digest(len(secret), hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest())


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _with_texts(value: object, change: Callable[[str], str], names: frozenset[str] = frozenset()) -> Any:  # noqa: ANN401 - decoded JSON
    """Return the JSON value with each text changed, except fields of these names."""
    if isinstance(value, str):
        return change(value)
    if is_array(value):
        return [_with_texts(one, change, names) for one in value]
    if is_object(value):
        return {name if name in names else change(name): _with_texts(one, change, names) for name, one in value.items()}
    return value
