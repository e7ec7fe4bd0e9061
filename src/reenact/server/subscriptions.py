"""The subscriptions of one connection: subscribe, acknowledge, unsubscribe."""

from __future__ import annotations

import asyncio
import itertools
from typing import Final

import msgspec

from reenact.actors.feed.group import Group
from reenact.domain.commands import CATALOGUE
from reenact.domain.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    ReenactError,
    UnknownEventTypeError,
)
from reenact.domain.frames import Ack, Acked, Ended, Listen, Refused, Subscribe, Subscribed, Unsubscribe
from reenact.domain.messages import check_text
from reenact.server.counts import Counts
from reenact.server.outbox import Followed, Outbox
from reenact.server.reading import NotAccepted

LAST_ACKS: Final = 1.0
"""Seconds in which what a client that has left had acknowledged may still become durable."""


class SubscriptionNotFoundError(NotFoundError):
    """The connection has no subscription of this id."""

    code = "subscription_not_found"
    kind = "subscription"


class Subscriptions:
    """What one client follows. Of one event loop; frames are obeyed one after the other."""

    def __init__(self, group: Group, outbox: Outbox, most: int, counts: Counts) -> None:
        self._group = group
        self._outbox = outbox
        self._most = most
        self._counts = counts
        self._names = itertools.count(1)
        self._standing: dict[str, Followed] = {}
        self._over: dict[str, Followed] = {}
        """Those that have ended by themselves: what they were given can still be acknowledged."""

    async def begin(self, frame: Subscribe | Listen) -> None:
        """Subscribe, and say so before the first event.

        Raises:
            NotAccepted: there is such a subscription, there are too many, or there is nothing to subscribe to.
        """
        if frame.id in self._standing:
            raise NotAccepted(frame.id, AlreadyExistsError.code, f"there is a subscription {frame.id!r} already")
        if len(self._standing) >= self._most:
            raise NotAccepted(
                frame.id, "too_many_subscriptions", f"a connection has at most {self._most} subscriptions"
            )
        followed = Followed(frame.id, str(next(self._names)))
        self._outbox.follow(followed)
        try:
            check_text("the subscription's id", frame.id)
            after = await self._add(followed.name, frame)
        except ReenactError as error:
            self._outbox.forget(followed)
            raise NotAccepted.because(frame.id, error) from None
        self._forget(self._over.pop(frame.id, None))
        self._standing[frame.id] = followed
        self._counts.subscriptions += 1
        self._outbox.put(Subscribed(id=frame.id, after=after))
        followed.told.set()

    def named(self, frame: Ack | Unsubscribe) -> Followed:
        """Return the subscription that the frame is about.

        Raises:
            NotAccepted: there is none of this id.
        """
        followed = self._standing.get(frame.id) or self._over.get(frame.id)
        if followed is None:
            raise NotAccepted.because(frame.id, SubscriptionNotFoundError(frame.id))
        return followed

    async def acknowledge(self, frame: Ack, followed: Followed) -> None:
        """Acknowledge, and say so when it is durable."""
        try:
            await self._group.ack(followed.name, frame.cursor)
        except ReenactError as error:
            self._counts.refused[error.code] += 1
            self._outbox.put(Refused(id=frame.id, code=error.code, message=str(error)))
        else:
            self._outbox.put(Acked(id=frame.id, cursor=frame.cursor))

    async def end(self, frame: Unsubscribe) -> None:
        """End a subscription, once what was acknowledged before is durable.

        Raises:
            NotAccepted: there is none of this id.
        """
        followed = self.named(frame)
        if followed.acks:
            await asyncio.wait(followed.acks)
        over = self._over.pop(frame.id, None)
        if self._standing.pop(frame.id, None) is not None:
            self._counts.subscriptions -= 1
            self._outbox.forget(followed)
            self._outbox.put(Ended(id=frame.id, reason="unsubscribed"))
        elif over is None:
            return
        self._forget(followed)

    def ended(self, followed: Followed) -> None:
        """Take note that nothing more comes for a subscription."""
        if self._standing.pop(followed.id, None) is not None:
            self._counts.subscriptions -= 1
            self._over[followed.id] = followed
            if len(self._over) > self._most:
                self._forget(self._over.pop(next(iter(self._over))))

    async def settle(self) -> None:
        """Let what was acknowledged become durable."""
        every = (*self._standing.values(), *self._over.values())
        if acks := [task for followed in every for task in followed.acks]:
            await asyncio.wait(acks, timeout=LAST_ACKS)

    def close(self) -> None:
        """End all of them."""
        self._counts.subscriptions -= len(self._standing)
        self._standing.clear()
        self._over.clear()
        self._group.close()

    async def _add(self, name: str, frame: Subscribe | Listen) -> int | None:
        if isinstance(frame, Subscribe):
            return await self._group.add(name, frame.topic, frame.client_id, frame.after)
        _check_types(frame.types)
        sessions = None if frame.sessions is msgspec.UNSET else frame.sessions
        if sessions == ():
            raise InvalidInputError("`sessions` names no session; leave it out to listen to all")
        await self._group.add_listener(name, frame.types, frame.after, sessions)
        return None

    def _forget(self, followed: Followed | None) -> None:
        if followed is not None:
            self._group.remove(followed.name)


def _check_types(types: tuple[str, ...] | None) -> None:
    if types is not None and not types:
        raise InvalidInputError("`types` names no type; leave it out to listen to all")
    for type_ in types or ():
        kind = CATALOGUE.get(type_)
        if kind is None:
            raise UnknownEventTypeError(type_, CATALOGUE)
        if kind.source == "command":
            raise InvalidInputError(
                f"{type_!r} cannot be listened to: requests and responses are between a client and the server"
            )
