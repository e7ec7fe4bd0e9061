"""The format of a recording, version 1, and the redaction of API keys.

A recording is one JSON object. Its first line holds `format` and `version`; each line after that is one of the
`entries`, and the last line closes the object. An entry is a request to the environment and its answer (`exchange`), a
call of a tool and its result (`tool`), or a note that one of these was cut short while it was being written (`cut`).
Entries are numbered in the order in which they began, and listed in the order in which they ended.

A runtime that replays may not know the key that the recording was made with. So the file holds a digest of each key
that was part of a request: when the same request is made again, the text with this digest is the key.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from reenact.actors.environment.api import EnvironmentConfig
from reenact.domain.messages import Said
from reenact.domain.plain import Json, JsonObject
from reenact.domain.stream.answer import Complete, gather
from reenact.domain.stream.events import (
    InputJsonDelta,
    MessageStart,
    MessageStop,
    StreamData,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
    stream_event,
)
from reenact.domain.tools import is_array, is_object

FORMAT = "reenact-recording"
VERSION = 1
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
SHORTEST_DIGESTED = 16
"""Characters of the shortest key for which a digest is stored: a shorter one could be guessed from its digest."""


class Digest(msgspec.Struct, frozen=True):
    """The length of a key, and its SHA-256 in hexadecimal digits."""

    length: Annotated[int, msgspec.Meta(ge=SHORTEST_DIGESTED)]
    sha256: str


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool's definition as the model gets it."""

    name: str
    description: str
    input_schema: JsonObject


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request's settings besides the conversation; of MCP servers only names, as their addresses may hold secrets."""

    system: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    tools: tuple[ToolDefinition, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    api_tools: tuple[dict[str, object], ...] = ()


class RecordedEvent(msgspec.Struct, frozen=True):
    """An event that the environment emitted, `at` seconds after the request."""

    at: _Seconds
    type: str
    data: dict[str, object]

    @property
    def event(self) -> StreamData:
        """The event as it is emitted.

        Raises:
            UnknownEventTypeError: there is no stream event of the type.
            msgspec.ValidationError: the data does not fit the type.
        """
        if self.type == MessageStop.event_type and "content" in self.data:
            return msgspec.convert(self.data, Complete)
        return stream_event(self.type, self.data)


class Exchange(msgspec.Struct, frozen=True, tag_field="kind", tag="exchange", kw_only=True, omit_defaults=True):
    """A request to the environment, and its answer.

    The conversation is that of the exchange which this one `follows`, and then `messages`; without a `setting`, the
    setting is that of the followed exchange too. An exchange that is not `complete` was cut short, by an interrupt for
    instance. `hidden` holds digests of the keys in the setting or the messages.
    """

    number: _Number
    session: str
    turn: str
    step: _Number
    follows: _Number | None = None
    setting: Setting | None = None
    messages: tuple[Said, ...]
    events: tuple[RecordedEvent, ...] = ()
    complete: bool = True
    hidden: tuple[Digest, ...] = ()

    @property
    def answer(self) -> Said:
        """The events combined to one message, as it is in the conversation."""
        return Said("assistant", gather(spoken.event for spoken in self.events).blocks)


class ToolRun(msgspec.Struct, frozen=True, tag_field="kind", tag="tool", kw_only=True, omit_defaults=True):
    """A tool call that was run, the exchange that asked for it, and its result, which came `seconds` later.

    A call that was run after a restart names no exchange.
    """

    number: _Number
    exchange: _Number | None = None
    id: str
    name: str
    input: JsonObject
    result: Json = None
    is_error: bool = False
    seconds: _Seconds = 0.0
    complete: bool = True


class Cut(msgspec.Struct, frozen=True, tag_field="kind", tag="cut", omit_defaults=True):
    """The entry of this number was cut short: only its first `events` reached a subscriber."""

    number: _Number
    events: Annotated[int, msgspec.Meta(ge=0)] = 0


Entry: TypeAlias = Exchange | ToolRun | Cut


def recorded_event(event: StreamData, at: float) -> RecordedEvent:
    """Return the event as it is recorded: without ids that the runtime chose, and without fields that are None."""
    if isinstance(event, MessageStart):
        event = MessageStart(model=event.model)
    fields: dict[str, object] = msgspec.to_builtins(event)
    return RecordedEvent(round(at, 6), event.event_type, {name: one for name, one in fields.items() if one is not None})


def setting_of(config: EnvironmentConfig) -> Setting:
    """Return the settings of an agent's requests besides the conversation.

    The tools of MCP servers are not included: they are not known when the environment is made.
    """
    told = () if config.tools is None else config.tools.specs()
    return Setting(
        system=config.system_prompt,
        model=config.model or config.llm.model,
        max_tokens=config.max_tokens or config.llm.max_tokens,
        tools=tuple(ToolDefinition(spec.name, spec.description, spec.input_schema) for spec in told),
        mcp_servers=tuple(server.name for server in config.mcp_servers),
        api_tools=tuple(msgspec.to_builtins(dict(tool)) for tool in config.api_tools),
    )


T = TypeVar("T")

HIDDEN = "***"
"""The text that replaces a key."""
_SHORTEST = 6
"""Characters of the shortest key that is hidden: a shorter one could occur in ordinary words."""
_WORD = re.compile(r"(?<!\S)\S{1,1024}(?!\S)")
"""A word in which a key is looked for; a longer word is data."""
_DELTAS = {
    TextDelta.event_type: "text",
    ThinkingDelta.event_type: "text",
    InputJsonDelta.event_type: "partial_json",
}
"""The events that each hold a part of a text, and the field with that part."""
_BOUNDARIES = frozenset(
    {MessageStart.event_type, ThinkingStart.event_type, ThinkingEnd.event_type, ToolCall.event_type}
)
"""The events that end all texts before them."""


class Redactor:
    """Replaces known API keys in values. Not thread-safe.

    `secrets` is replaced by a new object when a key is added.
    """

    def __init__(self, digests: Iterable[Digest] = (), *, names: frozenset[str] = frozenset()) -> None:
        """Set the digests of keys to recognise, and the `names` of fields that are never changed."""
        self.secrets: tuple[str, ...] = ()
        self._wanted = set(digests)
        self._names = names
        self._encoded: tuple[bytes, ...] = ()
        self._pattern = re.compile("(?!)")

    def learn(self, secret: str | None) -> None:
        """Hide this text from now on; a text of a few characters is not treated as a key."""
        if secret is None or len(secret) < _SHORTEST or secret in self.secrets:
            return
        self._wanted.discard(_digest(secret))
        escaped = _quoted(secret).decode()  # its form in JSON within a JSON string
        self.secrets = tuple(sorted({*self.secrets, secret, escaped}, key=lambda one: (-len(one), one)))
        self._encoded = tuple(map(_quoted, self.secrets))
        self._pattern = re.compile("|".join(map(re.escape, self.secrets)))

    def search(self, value: object) -> None:
        """Find the keys in a JSON-encodable value whose digests are known, and hide them from now on."""
        if self._wanted:
            _with_texts(msgspec.json.decode(msgspec.json.encode(value)), self._learn_known_keys)

    def digests(self, value: object) -> tuple[Digest, ...]:
        """Return the digests of the known keys in a JSON-encodable value."""
        line = msgspec.json.encode(value)
        return tuple(
            _digest(secret)
            for secret, encoded in zip(self.secrets, self._encoded, strict=True)
            if len(secret) >= SHORTEST_DIGESTED and encoded in line
        )

    def line(self, value: object) -> bytes:
        """Return the value as JSON, without the keys."""
        line = msgspec.json.encode(value)
        if not any(encoded in line for encoded in self._encoded):
            return line
        return msgspec.json.encode(_with_texts(msgspec.json.decode(line), self.text, self._names))

    def copy(self, value: T) -> T:
        """Return a copy of the struct without the keys."""
        return msgspec.json.decode(self.line(value), type=type(value)) if self.secrets else value

    def text(self, text: str) -> str:
        """Return the text without the keys."""
        return self._pattern.sub(HIDDEN, text)

    def parts(self, parts: Sequence[str]) -> list[str]:
        """Return the parts of a text without the keys, even those that span several parts; their number stays."""
        whole = "".join(parts)
        characters = list(whole)
        for found in self._pattern.finditer(whole):
            start, end = found.span()
            characters[start:end] = [HIDDEN, *[""] * (end - start - 1)]
        rest = iter(characters)
        return ["".join(islice(rest, len(part))) for part in parts]

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange without keys that span several events, and with digests of the keys in its request.

        The number of events stays the same; an event that held nothing but a part of a key has an empty text.
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

    def _learn_known_keys(self, text: str) -> str:
        """Learn the keys in the text that have one of the digests, and return the text."""
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


def _with_texts(value: object, change: Callable[[str], str], names: frozenset[str] = frozenset()) -> object:
    """Return the JSON value with each text changed, except fields of these names."""
    if isinstance(value, str):
        return change(value)
    if is_array(value):
        return [_with_texts(one, change, names) for one in value]
    if is_object(value):
        return {name if name in names else change(name): _with_texts(one, change, names) for name, one in value.items()}
    return value
