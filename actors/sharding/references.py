"""References to actors on any node: those on this node are asked through their mailbox, others through the relay."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from reenact.actors.api.operations import Kind
from reenact.actors.container import ContainerActor, ImageActor
from reenact.actors.idempotency import Askable, wait_for_reply
from reenact.actors.journal.api import Remembered
from reenact.actors.kernel import ActorSystem, PooledFuture
from reenact.actors.nodes.relay import OutcomeUnknownError, Relay
from reenact.actors.session.actor import SessionActor
from reenact.actors.sharding import wire
from reenact.actors.sharding.region import ShardRegion
from reenact.domain.errors import ReenactError, RuntimeClosedError, ShardMovedError
from reenact.domain.idempotency import IdempotencyKey, IdempotentCommand
from reenact.domain.session.commands import Receive

PATIENCE = 60.0
"""Seconds that a command waits for a node to take over its shard."""
_KINDS: dict[str, Kind] = {kind.category: kind for kind in (SessionActor, ContainerActor, ImageActor)}

_logger = logging.getLogger("reenact.nodes")


class Delivery:
    """A command on its way to its actor. Passed from thread to thread, and used by one at a time."""

    __slots__ = ("again", "command", "future", "id", "kind", "node", "stream", "until")

    def __init__(self, kind: Kind, id_: str, command: IdempotentCommand) -> None:
        self.kind = kind
        self.id = id_
        self.stream = kind.stream(id_)
        self.command = command
        self.future: PooledFuture[object] = PooledFuture()
        self.until = time.monotonic() + PATIENCE
        self.node: str | None = None
        """The node that was asked and has not replied yet."""
        self.again = False
        """Whether it may have been carried out: a node that was asked has ended without replying."""


class ShardedActors:
    """The actors of all nodes. Thread-safe.

    A command that is passed to another node has an idempotency key, so it can be sent again to the next owner of its
    shard.
    """

    def __init__(
        self,
        system: ActorSystem,
        region: ShardRegion,
        *,
        remembered: Callable[[str], Remembered | None],
        new_id: Callable[[str], str],
    ) -> None:
        self.region = region
        self._system = system
        self._remembered = remembered
        self._new_id = new_id
        self._relay: Relay | None = None
        self._lock = threading.Lock()
        # Deliveries to retry when the owners of shards may have changed. Protected by the lock.
        self._waiting: list[Delivery] = []
        # Deliveries sent to another node. Protected by the lock.
        self._asked: set[Delivery] = set()
        # Deliveries that one node refused after another may have carried them out. Protected by the lock.
        self._doubtful: list[tuple[Delivery, ReenactError]] = []
        self._is_closed = False

    def join(self, relay: Relay) -> None:
        """Reach other nodes through the relay, which calls `serve`."""
        self._relay = relay

    def is_here(self, stream: str) -> bool:
        """Return whether the actor of the stream is on this node."""
        return self.region.is_here(stream)

    def actor(self, kind: Kind, id_: str) -> ShardedReference:
        """Return a reference to the actor.

        Raises:
            InvalidInputError: the id is invalid.
        """
        return ShardedReference(self, kind, id_, self._local_actor(kind, id_))

    def send(self, delivery: Delivery) -> None:
        """Let the owner of the command's shard carry it out, as soon as there is an owner."""
        try:
            if self.region.is_here(delivery.stream):
                here = self._local_actor(delivery.kind, delivery.id).ask_future(delivery.command)
                here.add_done_callback(partial(self._handle_local_reply, delivery))
            else:
                self._send_to_owner(delivery)
        except ShardMovedError:
            self._queue(delivery)
        except ReenactError as error:  # such as a full mailbox
            delivery.future.fail(error)

    def resend_waiting(self) -> None:
        """Resend waiting deliveries, and those sent to a node that is no longer the owner. Reads the log."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            doubtful, self._doubtful = self._doubtful, []
            stale = [each for each in self._asked if not self._is_owner(each)]
            self._asked.difference_update(stale)
        for delivery, error in doubtful:
            self._settle_doubtful(delivery, error)
        for delivery in stale:
            delivery.again = True
        ended = {each.node for each in stale if each.node is not None and self.region.has_ended(each.node)}
        if ended and self._relay is not None:
            self._relay.gone(ended)
        for delivery in (*waiting, *stale):
            if time.monotonic() < delivery.until:
                self.send(delivery)
            else:
                delivery.future.fail(ShardMovedError(delivery.stream))

    def serve(self, body: bytes, reply: Callable[[bytes], None]) -> None:
        """Carry out a command of another node, if its actor is on this node; called on the relay's thread."""
        try:
            passed = wire.read_passed(body)
            kind = _KINDS[passed.category]
            if self.region.is_here(kind.stream(passed.id)):
                here = self._local_actor(kind, passed.id).ask_future(passed.command)
                here.add_done_callback(lambda future: reply(_outcome(future)))
            else:
                reply(wire.ELSEWHERE)
        except RuntimeClosedError:
            reply(wire.ELSEWHERE)
        except Exception as error:  # noqa: BLE001 - the asking node gets the error
            reply(wire.refusal_bytes(error))

    def close(self) -> None:
        """Fail all waiting deliveries, since no replies will come any more. Idempotent."""
        with self._lock:
            self._is_closed = True
            left = [*self._waiting, *self._asked, *(delivery for delivery, _ in self._doubtful)]
            self._waiting, self._doubtful = [], []
            self._asked.clear()
        for delivery in left:
            delivery.future.fail(_closed())

    def _local_actor(self, kind: Kind, id_: str) -> Askable:
        return self._system.actor(kind, id_)

    def _send_to_owner(self, delivery: Delivery) -> None:
        owner = self.region.owner_of(delivery.stream)
        if owner is None or owner.id == self.region.owner or self._relay is None:
            self._queue(delivery)
            return
        command = delivery.command
        if command.once is None:
            command = msgspec.structs.replace(command, once=IdempotencyKey(self._new_id("req"), b""))
        if isinstance(command, Receive):  # its response is published on the node where it was requested
            command = msgspec.structs.replace(command, request_id=None)
        delivery.command = command
        body = wire.passed_bytes(delivery.kind.category, delivery.id, delivery.command)
        delivery.node = owner.id
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._asked.add(delivery)
        if is_closed:
            delivery.future.fail(_closed())
            return
        self._relay.ask(owner.id, body, partial(self._handle_remote_reply, delivery, owner.id))

    def _queue(self, delivery: Delivery) -> None:
        with self._lock:
            if not self._is_closed:
                self._waiting.append(delivery)
                return
        delivery.future.fail(_closed())

    def _is_owner(self, delivery: Delivery) -> bool:
        owner = self.region.owner_of(delivery.stream)
        return owner is not None and owner.id == delivery.node

    def _handle_local_reply(self, delivery: Delivery, here: PooledFuture[object]) -> None:
        """Handle the reply of the actor on this node."""
        try:
            reply = here.get()
        except ShardMovedError:
            self._queue(delivery)
        except ReenactError as error:
            self._fail_unless_doubtful(delivery, error)
        except Exception as error:  # noqa: BLE001 - the sender gets the error
            delivery.future.fail(error)
        else:
            delivery.future.set(reply)

    def _handle_remote_reply(self, delivery: Delivery, node: str, answer: bytes | Exception) -> None:
        """Handle the reply of another node; ignore it if the command has been sent to the next one."""
        with self._lock:
            if delivery not in self._asked or delivery.node != node:
                return
            self._asked.remove(delivery)
        if isinstance(answer, Exception):
            delivery.again = delivery.again or isinstance(answer, OutcomeUnknownError)
            self._queue(delivery)
            return
        reply = wire.answer_of(delivery.command, answer)
        if isinstance(reply, ShardMovedError):  # a closing node also replies this, whatever it has done before
            delivery.again = True
            self._queue(delivery)
        elif isinstance(reply, ReenactError):
            self._fail_unless_doubtful(delivery, reply)
        else:
            delivery.future.set(reply)

    def _fail_unless_doubtful(self, delivery: Delivery, error: ReenactError) -> None:
        with self._lock:
            is_doubtful = delivery.again and not self._is_closed
            if is_doubtful:
                self._doubtful.append((delivery, error))
        if not is_doubtful:
            delivery.future.fail(error)

    def _settle_doubtful(self, delivery: Delivery, error: ReenactError) -> None:
        """Set the reply stored in the log if the command was carried out before it was refused, else the error."""
        key = delivery.command.once
        try:
            remembered = None if key is None else self._remembered(key.id)
            if remembered is None or key is None or remembered.digest != key.digest:
                delivery.future.fail(error)
            else:
                delivery.future.set(wire.reply_of(delivery.command, remembered.note))
        except Exception as why:  # noqa: BLE001 - the sender gets the error
            delivery.future.fail(why)


class ShardedReference:
    """A reference to the actor of a session, a container or an image, on any node."""

    def __init__(self, actors: ShardedActors, kind: Kind, id_: str, here: Askable) -> None:
        self._actors = actors
        self._kind = kind
        self._here = here
        self._id = id_
        self._stream = kind.stream(id_)

    def ask(self, command: IdempotentCommand, timeout: float | None = None) -> object:
        """Send the command and return the reply, as `Reference.ask` does.

        Raises:
            ShardMovedError: no node has taken over its shard within a minute.
            RequestTimeoutError: no reply came within `timeout` seconds; the command may still take effect.
            ReenactError: the actor refused the command.
        """
        if self._actors.region.is_here(self._stream):
            with suppress(ShardMovedError):  # it has just moved, and has done nothing
                return self._here.ask(command, timeout)
        return wait_for_reply(self._here, self.ask_future(command), timeout)

    def ask_future(self, command: IdempotentCommand) -> PooledFuture[object]:
        """Send the command, and return the future of the reply, which can be awaited."""
        delivery = Delivery(self._kind, self._id, command)
        self._actors.send(delivery)
        return delivery.future


def _outcome(future: PooledFuture[object]) -> bytes:
    """Return the encoded outcome of a command."""
    try:
        return wire.reply_bytes(future.get())
    except (ShardMovedError, RuntimeClosedError):
        return wire.ELSEWHERE
    except Exception as error:  # noqa: BLE001 - the asking node gets the error
        return wire.refusal_bytes(error)


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the runtime was closed before the command was answered; it may have been carried out")
