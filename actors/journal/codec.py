"""Encodes and decodes events: the only module that knows the names and encodings in a log."""

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
"""The fields of a stored event, in the order of their declaration."""

Upcast: TypeAlias = Callable[[Fields], Fields]
"""Turns the fields of one version into those of the next."""

Derive: TypeAlias = Callable[[FeedPart, str, int, Sequence[object], str], tuple[Segment, ...]]
"""Derives the segments of a step from its feed part, its stream, its time, its events, and the row's name in errors.

Raises `LogTooNewError` if the version of the derivation is unknown.
"""

_FIELD = re.compile(r"`\$\[1\]\[(\d+)\]")
"""Matches msgspec's path of a field that does not fit."""

_PAIR = b"\x92"
"""The first byte of an encoded event in MessagePack: a list of the time and the event."""

_Decode: TypeAlias = Callable[[bytes], tuple[int, object]]


class _EventMeta(msgspec.StructMeta):
    """Checks an event class when it is defined, rather than when its first event is stored."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        **config: Any,  # noqa: ANN401 - msgspec's
    ) -> _EventMeta:
        if "__slots__" in namespace:
            raise TypeError(f"{name} is an event; write it as a class, without __slots__, not by msgspec.defstruct")
        made = super().__new__(mcs, name, bases, namespace, **config)
        if not (made.__struct_config__.frozen and made.__struct_config__.array_like):
            raise TypeError(f"{name} is an event, which never changes: leave frozen=False and array_like=False out")
        return made


class Event(msgspec.Struct, metaclass=_EventMeta, frozen=True, array_like=True, gc=False):
    """The base class of events: facts, named in the past tense, that hold plain data and do not refer to each other.

    An event is stored as the list of its fields, so fields may only be added at the end, with defaults; any other
    change needs a new version of its stored form.
    """


class StoredForm(msgspec.Struct, frozen=True):
    """The permanent name of an event type in the log, and the upcasts of its older versions.

    `upcast[n]` turns the fields of version n into those of version n + 1; every version below `version` needs one.
    """

    name: str
    type: type[msgspec.Struct]
    version: int = 1
    upcast: Mapping[int, Upcast] = MappingProxyType({})

    @property
    def topic(self) -> str:
        """The name with the version, as stored in the log."""
        return f"{self.name}:{self.version}"


class KeyDestroyedError(LogUnusableError):
    """The data cannot be read any more, because its session was forgotten and the key of its `stream` destroyed."""

    def __init__(self, stream: str) -> None:
        super().__init__("it was forgotten: its key was destroyed")
        self.stream = stream


class EventCodec:
    """Encodes and decodes events of exactly the types in its table.

    Stored names are looked up in the table and never imported. Encrypted data is decrypted with the `vault` of the log
    for which the codec is used.
    """

    vault: Vault | None = None

    def __init__(self, forms: Iterable[StoredForm], derive: Derive | None = None) -> None:
        """Use a table of stored forms, and a function that derives announcements that are not stored.

        Raises:
            ValueError: a name or a type occurs twice, a type is not a frozen struct that is array-like or tagged, or a
                version lacks an upcast.
        """
        self._forms: dict[str, StoredForm] = {}
        self._topics: dict[type, str] = {}
        self._decoders: dict[str, _Decode] = {}
        self._encode = msgspec.msgpack.Encoder().encode
        self._derive = derive
        for form in forms:
            self.register(form)

    def encode(self, event: object, recorded_at: int) -> tuple[str, bytes]:
        """Return the topic and the encoded event.

        Raises:
            TypeError: the event's type is not in the table, or it holds a value that cannot be encoded or decoded
                again.
            ValueError: it holds a text or a number that cannot be encoded.
        """
        topic = self._topics.get(type(event))
        if topic is None:
            message = f"{type(event).__qualname__} has no stored form; give it a name in the `events` of its actor"
            raise TypeError(message)
        try:
            state = self._encode((recorded_at, event))
        except TypeError as error:
            raise TypeError(
                f"{_unencodable_field(event)} cannot be stored ({error}); events hold plain data"
            ) from error
        try:
            # msgspec does not check the fields of a new struct: events that cannot be decoded must not get into the
            # log.
            self._decoders[topic](state)
        except Exception as error:
            message = f"{type(event).__qualname__} could not be read again ({error}); give its fields what they declare"
            raise TypeError(message) from error
        return topic, state

    def decode(self, topic: str, state: bytes) -> tuple[int, object]:
        """Return the time at which the event was recorded, and the event in its current version.

        Raises:
            KeyDestroyedError: the event was forgotten.
            LogTooNewError: the event's stored version is newer than the table's.
            LogUnusableError: the name is unknown, or the bytes are damaged.
            StorageError: the event is encrypted and cannot be decrypted now.
        """
        state = self.opened(state)
        decoder = self._decoders.get(topic)
        if decoder is None:
            decoder = self._decoders[topic] = self._find_decoder(topic)
        try:
            return decoder(state)
        except Exception as error:
            # An upcast may raise anything when given unexpected fields.
            raise LogUnusableError(self._why_not(topic, state, error)) from error

    def opened(self, stored: bytes) -> bytes:
        """Return stored bytes, decrypted if they are encrypted.

        Raises:
            KeyDestroyedError: they were forgotten.
            KeyRingError: their key cannot be unwrapped, or not now.
            LogEncryptedError: there is no key ring.
            LogUnusableError: they were changed.
        """
        if self.vault is None:
            return stored
        plain = self.vault.opened(stored)
        if plain is None:
            raise KeyDestroyedError(self.vault.owner_of(stored))
        return plain

    def opened_events(self, packed: bytes) -> bytes:
        """Return the packed events of a row, decrypted if they are encrypted; raises as `opened` and `unpack` do.

        Text references in feeds are offsets into the decrypted bytes.
        """
        if SEALED not in packed:
            return packed
        pairs = unpack(packed)
        opened = [(topic, self.opened(state)) for topic, state in pairs]
        return packed if opened == pairs else self._encode(opened)

    def recorded(self, cells: Cells) -> Recorded:
        """Decode an event from its cells: stream, version, position, topic, state and cause, which may hold any value.

        Raises:
            KeyDestroyedError: the event was forgotten.
            LogTooNewError: the event's stored version is newer than the table's.
            LogUnusableError: the event cannot be decoded, or its cells are invalid.
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
        """Yield the decoded events, without those that were forgotten; raises what `recorded` raises."""
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
        """Return the segments derived from the packed events of a row; errors call the row `row`.

        Raises:
            LogTooNewError: the version of an event, or of the derivation, is newer than this program's.
            LogUnusableError: an event cannot be decoded, or this program cannot derive segments.
        """
        if self._derive is None:
            raise LogUnusableError(f"{row} is derived from its events by the program that wrote it; use that")
        decoded = [self.decode(topic, state)[1] for topic, state in unpack(events)]
        return self._derive(part, stream, recorded_at, decoded, row)

    def beginning(self, recorded_at: int) -> bytes:
        """Return the prefix of all encoded events recorded at that time; prefixes sort as the times do.

        For times before 1970, of which nothing was recorded, it is that of 1970: negative numbers sort last.
        """
        return _PAIR + self._encode(max(0, recorded_at))

    def is_between(self, state: bytes, first: bytes, last: bytes | None) -> bool:
        """Return whether the event was recorded between two times, the second exclusive; see `beginning`."""
        try:
            state = self.opened(state)
        except KeyDestroyedError:
            return False
        return first <= state and (last is None or state < last)

    def knows(self, topic: str) -> bool:
        """Return whether the name is in the table, in any version."""
        return str(topic).rpartition(":")[0] in self._forms

    def stores(self, event_type: type) -> bool:
        """Return whether events of exactly this type can be stored."""
        return event_type in self._topics

    def register(self, form: StoredForm) -> None:
        """Add a stored form to the table; adding the same one again has no effect.

        Raises:
            ValueError: its name or its type is registered differently, its type is not a frozen struct that is
                array-like or tagged, or a version lacks an upcast.
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
        """Explain why an event cannot be decoded: its bytes are damaged, or its class has changed."""
        name, _, stored = topic.rpartition(":")
        form = self._forms[name]
        kind, names = form.type.__qualname__, form.type.__struct_fields__
        what = f"an event of type {topic!r} cannot be decoded"
        is_ours = form.type.__module__.startswith("reenact.")  # the library's own classes have not been changed
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
        """Return a decoder that applies the upcasts of all later versions to the fields, then decodes them."""
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
    except (ValueError, RecursionError):  # ValueError also covers text that is not UTF-8
        return False
    return True


def _decoder_of(event_type: type[msgspec.Struct]) -> _Decode:
    try:
        # The type is a value here, known only at run time.
        decoder: msgspec.msgpack.Decoder[tuple[int, object]] = msgspec.msgpack.Decoder(
            tuple[int, event_type]  # type: ignore[valid-type]  # as above
        )
    except TypeError as error:
        message = f"{_unsupported_field(event_type)} cannot be stored ({error}); events hold plain data"
        raise TypeError(message) from error
    return decoder.decode


def _unencodable_field(event: object) -> str:
    """Return the name of the event's field that msgspec cannot encode, or of its class if no single field fails."""
    kind = type(event)
    for name in getattr(kind, "__struct_fields__", ()):
        try:
            msgspec.msgpack.encode(getattr(event, name))
        except TypeError:
            return f"{kind.__qualname__}.{name}"
    return kind.__qualname__


def _unsupported_field(event_type: type[msgspec.Struct]) -> str:
    """Return the name of the class's field that msgspec does not support, or of the class if no single field fails."""
    for field in msgspec.structs.fields(event_type):
        try:
            msgspec.msgpack.Decoder(field.type)
        except TypeError:
            return f"{event_type.__qualname__}.{field.name}"
    return event_type.__qualname__
