"""An `eventsourcing` mapper that uses this library's codec, so that its event store can hold our events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic

import msgspec
from eventsourcing.domain import DomainEventProtocol, TAggregateID
from eventsourcing.persistence import (
    Cipher,
    Compressor,
    JSONTranscoder,
    Mapper,
    MapperDeserialisationError,
    StoredEvent,
    Transcoder,
)

from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.domain.errors import LogUnusableError


class JournalEvent(msgspec.Struct, Generic[TAggregateID], frozen=True):
    """An event with the fields that the library requires. `recorded_at` is microseconds since 1970-01-01 UTC."""

    originator_id: TAggregateID
    originator_version: int
    recorded_at: int
    event: object


class MsgspecMapper(Mapper[TAggregateID]):
    """Maps `JournalEvent` objects with the stored forms that a subclass declares.

    Name the subclass in MAPPER_TOPIC, or pass an instance to the library's event store.
    """

    forms: ClassVar[Sequence[StoredForm]] = ()

    def __init__(
        self,
        transcoder: Transcoder | None = None,
        compressor: Compressor | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        """Compress and encrypt the encoded events; the transcoder is required by the library, and not used."""
        super().__init__(transcoder or JSONTranscoder(), compressor, cipher)
        self._codec = EventCodec(self.forms)

    def to_stored_event(self, domain_event: DomainEventProtocol[TAggregateID]) -> StoredEvent:
        """Encode the event.

        Raises:
            TypeError: the event is not a `JournalEvent`, or has no stored form.
        """
        originator_id, originator_version = domain_event.originator_id, domain_event.originator_version
        if not isinstance(domain_event, JournalEvent):
            message = f"{type(domain_event).__qualname__} is not a JournalEvent"
            raise TypeError(message)
        topic, state = self._codec.encode(domain_event.event, domain_event.recorded_at)
        if self.compressor:
            state = self.compressor.compress(state)
        if self.cipher:
            state = self.cipher.encrypt(state)
        return StoredEvent(originator_id, originator_version, topic, state)

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[TAggregateID]:
        """Decode the event in its current version.

        Raises:
            MapperDeserialisationError: the event cannot be decrypted, decompressed or decoded.
        """
        state = stored_event.state
        try:
            if self.cipher:
                state = self.cipher.decrypt(state)
            if self.compressor:
                state = self.compressor.decompress(state)
            recorded_at, event = self._codec.decode(stored_event.topic, state)
        except LogUnusableError as error:
            raise MapperDeserialisationError(str(error)) from error
        return JournalEvent(
            # The recorder returns ids of the type for which it was created.
            stored_event.originator_id,  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]
            stored_event.originator_version,
            recorded_at,
            event,
        )
