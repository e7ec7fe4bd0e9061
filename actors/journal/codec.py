"""Events and their stored forms: the one place that knows the names and the encodings in a log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from reenact.actors.journal.api import Recorded
from reenact.actors.journal.seeking import Cells, unpack
from reenact.actors.journal.vault import SEALED, Vault
from reenact.domain.errors import LogTooNewError, LogUnusableError
from reenact.domain.stream.feed import FeedPart, Segment

Fields: TypeAlias = list[Any]
"""The fields of an event as they were stored, in the order of their declaration."""

Upcast: TypeAlias = Callable[[Fields], Fields]
"""Turns the fields of one version into those of the next."""

Derive: TypeAlias = Callable[[FeedPart, str, int, Sequence[object], str], tuple[Segment, ...]]
"""Returns what is derived of the events of a step: of its feed, its stream, when it was recorded, and the row's name.

Raises `LogTooNewError` if the version that is to derive it is unknown.
"""

_FIELD = re.compile(r"`\$\[1\]\[(\d+)\]")
"""Where msgspec says that a field is which does not fit."""

_PAIR = b"\x92"
"""What the bytes of an event begin with in MessagePack: a list of when it was recorded, and of the event."""

_Decode: TypeAlias = Callable[[bytes], tuple[int, object]]


class _Unchanging(msgspec.StructMeta):
    """Refuses a class of events when it is made, rather than when the first of them is to be stored."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        **config: Any,  # noqa: ANN401 - msgspec's
    ) -> _Unchanging:
        if "__slots__" in namespace:
            raise TypeError(f"{name} is an event; write it as a class, without __slots__, not by msgspec.defstruct")
        made = super().__new__(mcs, name, bases, namespace, **config)
        if not (made.__struct_config__.frozen and made.__struct_config__.array_like):
            raise TypeError(f"{name} is an event, which never changes: leave frozen=False and array_like=False out")
        return made


class Event(msgspec.Struct, metaclass=_Unchanging, frozen=True, array_like=True, gc=False):
    """A fact, in the past tense: a base for events of your own, which hold plain data and no references to each other.

    It is stored as the list of its fields, so fields are only ever added at the end, with defaults; whatever else
    changes is a new version of its stored form.
    """


class StoredForm(msgspec.Struct, frozen=True):
    """The name that events of a type have in the log for ever, and how older versions become today's.

    `upcast[n]` turns the fields of version n into those of version n + 1; every version below `version` has one.
    """

    name: str
    type: type[msgspec.Struct]
    version: int = 1
    upcast: Mapping[int, Upcast] = MappingProxyType({})

    @property
    def topic(self) -> str:
        """The name together with the version, as the log holds them."""
        return f"{self.name}:{self.version}"


class KeyDestroyedError(LogUnusableError):
    """What cannot be read any more, by intent: its session was forgotten."""

    def __init__(self) -> None:
        super().__init__("it was forgotten: its key was destroyed")


class EventCodec:
    """Turns events into bytes and back, for exactly the types in its table.

    A stored name is looked up in the table and never imported. What is encrypted is decrypted on the way, by the
    `vault` of the log that the codec is used for.
    """

    vault: Vault | None = None

    def __init__(self, forms: Iterable[StoredForm], derive: Derive | None = None) -> None:
        """Take the table of stored forms, and what derives announcements that are not stored.

        Raises:
            ValueError: a name or a type stands there twice, a type is not a frozen struct, array-like or tagged, or a
                version has no way to the next.
        """
        self._forms: dict[str, StoredForm] = {}
        self._topics: dict[type, str] = {}
        self._decoders: dict[str, _Decode] = {}
        self._encode = msgspec.msgpack.Encoder().encode
        self._derive = derive
        for form in forms:
            self.register(form)

    def encode(self, event: object, recorded_at: int) -> tuple[str, bytes]:
        """Return the topic and the bytes of the event.

        Raises:
            TypeError: the event's type is not in the table, or it holds what cannot be encoded, or not be read again.
            ValueError: it holds text or a number that cannot be encoded.
        """
        topic = self._topics.get(type(event))
        if topic is None:
            message = f"{type(event).__qualname__} has no stored form; give it a name in the `events` of its actor"
            raise TypeError(message)
        try:
            state = self._encode((recorded_at, event))
        except TypeError as error:
            raise TypeError(f"{_unstorable(event)} cannot be stored ({error}); events hold plain data") from error
        try:
            # msgspec does not look at the fields when a struct is made: what cannot be read must not get into the log.
            self._decoders[topic](state)
        except Exception as error:
            message = f"{type(event).__qualname__} could not be read again ({error}); give its fields what they declare"
            raise TypeError(message) from error
        return topic, state

    def decode(self, topic: str, state: bytes) -> tuple[int, object]:
        """Return when the event was recorded, and the event as today's type.

        Raises:
            KeyDestroyedError: it was forgotten.
            LogTooNewError: a later version of the event was stored than the table knows.
            LogUnusableError: the name is unknown, or the bytes are damaged.
            StorageError: it is encrypted, and cannot be decrypted now.
        """
        state = self.opened(state)
        decoder = self._decoders.get(topic)
        if decoder is None:
            decoder = self._decoders[topic] = self._find_decoder(topic)
        try:
            return decoder(state)
        except Exception as error:
            # An upcaster may raise anything when it is given fields that it does not expect.
            raise LogUnusableError(self._why_not(topic, state, error)) from error

    def opened(self, stored: bytes) -> bytes:
        """Return bytes of the log as they were before they were encrypted, if they are.

        Raises:
            KeyDestroyedError: they were forgotten.
            KeyRingError: their key cannot be unwrapped, or not now.
            LogEncryptedError: there is no key ring.
            LogUnusableError: they were changed.
        """
        plain = stored if self.vault is None else self.vault.opened(stored)
        if plain is None:
            raise KeyDestroyedError
        return plain

    def opened_events(self, packed: bytes) -> bytes:
        """Return the packed events of a row as they were before they were encrypted; raises as `opened`, and `unpack`.

        The places of texts in feeds are places in these.
        """
        if SEALED not in packed:
            return packed
        pairs = unpack(packed)
        opened = [(topic, self.opened(state)) for topic, state in pairs]
        return packed if opened == pairs else self._encode(opened)

    def recorded(self, cells: Cells) -> Recorded:
        """Return an event: stream, version, position, topic, state and cause, which can be anything in a file.

        Raises:
            KeyDestroyedError: it was forgotten.
            LogTooNewError: a later version of the event was stored than the table knows.
            LogUnusableError: it cannot be decoded, or is in no stream.
        """
        stream, version, position, topic, state, cause = cells
        if not (type(stream) is str and type(version) is int and (cause is None or type(cause) is bytes)):
            message = (
                f"the row at position {position!r} is not an event (stream {stream!r:.100}, version {version!r:.100})"
            )
            raise LogUnusableError(f"{message}; verify the log, and restore a copy of it")
        try:
            recorded_at, event = self.decode(topic, state)
            cause = None if cause is None else self.opened(cause)
            return Recorded(stream, version, position, recorded_at, event, cause=cause)
        except KeyDestroyedError:
            raise
        except LogUnusableError as error:
            raise type(error)(f"{error} (event {version} of {stream!r})") from error

    def readable(self, events: Iterable[Cells]) -> Iterator[Recorded]:
        """Yield those of the events that were not forgotten; raises what `recorded` raises."""
        is_behind = False
        for cells in events:
            try:
                recorded = self.recorded(cells)
            except KeyDestroyedError:
                is_behind = True
                continue
            yield msgspec.structs.replace(recorded, is_behind_forgotten=True) if is_behind else recorded
            is_behind = False

    def derived(self, part: FeedPart, stream: str, recorded_at: int, events: bytes, row: str) -> tuple[Segment, ...]:
        """Return what is announced of the packed events of a row, which messages call `row`.

        Raises:
            LogTooNewError: a later version of an event, or of what announces, was stored than this one knows.
            LogUnusableError: an event cannot be decoded, or nothing here derives announcements.
        """
        if self._derive is None:
            raise LogUnusableError(f"{row} is derived from its events by the program that wrote it; use that")
        decoded = [self.decode(topic, state)[1] for topic, state in unpack(events)]
        return self._derive(part, stream, recorded_at, decoded, row)

    def beginning(self, recorded_at: int) -> bytes:
        """Return what the bytes of every event that was recorded then begin with; in order, as the times are."""
        return _PAIR + self._encode(recorded_at)

    def is_between(self, state: bytes, first: bytes, last: bytes | None) -> bool:
        """Return whether the event was recorded from one time on and before another; see `beginning`."""
        try:
            state = self.opened(state)
        except KeyDestroyedError:
            return False
        return first <= state and (last is None or state < last)

    def knows(self, topic: str) -> bool:
        """Return whether the name is in the table, whatever the version."""
        return str(topic).rpartition(":")[0] in self._forms

    def stores(self, event_type: type) -> bool:
        """Return whether events of exactly this type can be stored."""
        return event_type in self._topics

    def register(self, form: StoredForm) -> None:
        """Take one more form into the table; one that stands there already changes nothing.

        Raises:
            ValueError: its name or its type stands there otherwise, its type is not a frozen array-like struct, or a
                version has no way to the next.
        """
        if self._forms.get(form.name) == form:
            return
        config = getattr(form.type, "__struct_config__", None)
        if (
            config is None
            or not config.frozen
            or not (config.array_like or (config.tag is not None and not form.upcast))
        ):
            message = (
                f"{form.type.__qualname__} must be a frozen struct with array_like=True, as subclasses of Event are, "
                "or one with a tag, in a single version"
            )
            raise ValueError(message)
        if not form.name:
            raise ValueError(f"the stored form of {form.type.__qualname__} needs a name")
        if form.name in self._forms and form.type not in self._topics:
            other = self._forms[form.name].type.__qualname__
            raise ValueError(
                f"the stored name {form.name!r} is that of {other}; {form.type.__qualname__} needs another"
            )
        if form.type in self._topics:
            raise ValueError(
                f"{form.type.__qualname__} is stored already, as {self._topics[form.type]!r}, in another form"
            )
        if set(form.upcast) != set(range(1, form.version)):
            message = f"the stored form {form.topic!r} needs an upcast for each version below its own, and no other"
            raise ValueError(message)
        decoder = _decoder_of(form.type)
        self._forms[form.name] = form
        self._topics[form.type] = form.topic
        self._decoders[form.topic] = decoder

    def _why_not(self, topic: str, state: bytes, error: Exception) -> str:
        """Say what is wrong with an event that cannot be decoded: its bytes, or the class that it is to become."""
        name, _, stored = topic.rpartition(":")
        form = self._forms[name]
        kind, names = form.type.__qualname__, form.type.__struct_fields__
        what = f"an event of type {topic!r} cannot be decoded"
        is_ours = form.type.__module__.startswith("reenact.")  # whose classes nobody has changed
        if is_ours or not _is_packed(state):
            return f"{what} ({error}); the log is damaged: restore a copy of it"
        if int(stored) < form.version:
            return f"{what}: its upcast to version {form.version} does not make {kind} of it ({error}); correct it"
        where = _FIELD.sub(lambda place: f"`{names[int(place[1])]}", str(error))
        upcast = f"Stored({kind}, version={form.version + 1}, upcast={{{form.version}: …}})"
        return (
            f"{what}: it does not fit {kind}({', '.join(names)}): {where}; if the class was changed, it is a new "
            f"version of the event: {upcast}; if not, the log is damaged: restore a copy of it"
        )

    def _find_decoder(self, topic: str) -> _Decode:
        name, _, digits = str(topic).rpartition(":")
        form = self._forms.get(name)
        if form is None or not (digits.isascii() and digits.isdigit()) or digits.startswith("0"):
            message = (
                f"the log holds an event of the unknown type {topic!r}; register the class whose `events` name it, or "
                "use the program that wrote it"
            )
            raise LogUnusableError(message)
        if int(digits) > form.version:
            message = f"the log holds an event of type {topic!r}, newer than version {form.version}; upgrade to read it"
            raise LogTooNewError(message)
        return self._upcasting_decoder(form, int(digits))

    def _upcasting_decoder(self, form: StoredForm, stored: int) -> _Decode:
        """Return a decoder that takes the fields of an old version through each later one, then decodes as usual."""
        upcasts = [form.upcast[version] for version in range(stored, form.version)]
        fields_of = msgspec.msgpack.Decoder(tuple[int, Fields]).decode
        decode, encode = self._decoders[form.topic], self._encode

        def upcasting(state: bytes) -> tuple[int, object]:
            recorded_at, fields = fields_of(state)
            for upcast in upcasts:
                fields = upcast(fields)
            return decode(encode((recorded_at, fields)))

        return upcasting


def _is_packed(state: bytes) -> bool:
    try:
        msgspec.msgpack.decode(state, type=tuple[int, object])
    except (ValueError, RecursionError):  # also of text that is not UTF-8
        return False
    return True


def _decoder_of(event_type: type[msgspec.Struct]) -> _Decode:
    try:
        # The type is a value here, known only when the table is given.
        decoder: msgspec.msgpack.Decoder[tuple[int, object]] = msgspec.msgpack.Decoder(
            tuple[int, event_type]  # type: ignore[valid-type]  # as above
        )
    except TypeError as error:
        message = f"{_unreadable(event_type)} cannot be stored ({error}); events hold plain data"
        raise TypeError(message) from error
    return decoder.decode


def _unstorable(event: object) -> str:
    """Name the field of the event that msgspec cannot encode; the class, if none of them is it by itself."""
    kind = type(event)
    for name in getattr(kind, "__struct_fields__", ()):
        try:
            msgspec.msgpack.encode(getattr(event, name))
        except TypeError:
            return f"{kind.__qualname__}.{name}"
    return kind.__qualname__


def _unreadable(event_type: type[msgspec.Struct]) -> str:
    """Name the field of the class that msgspec has no form for; the class, if none of them is it by itself."""
    for field in msgspec.structs.fields(event_type):
        try:
            msgspec.msgpack.Decoder(field.type)
        except TypeError:
            return f"{event_type.__qualname__}.{field.name}"
    return event_type.__qualname__
