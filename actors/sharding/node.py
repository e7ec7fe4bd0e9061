"""A runtime as one of the nodes that write a log: takes its share of the shards, and gives it back at the end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from reenact.actors.feed.hub import Feed
from reenact.actors.feed.tail import Tail
from reenact.actors.journal.api import FeedJournal, Journal
from reenact.actors.journal.postgres.journal import PostgresJournal
from reenact.actors.journal.vault import Vault
from reenact.actors.kernel import ActorSystem
from reenact.actors.nodes.ownership import Ownership
from reenact.actors.nodes.protocol import Timing
from reenact.actors.nodes.relay import Relay
from reenact.actors.sharding.references import ShardedActors
from reenact.actors.sharding.region import ShardRegion
from reenact.domain.errors import NodeUnreadyError

DRAIN = 20.0
"""Seconds that a closing node waits for turns to end before it ends them."""


class Node:
    """This process as one of the nodes of the log at a URL. It owns no shards until it joins."""

    def __init__(self, url: str, *, timing: Timing | None = None) -> None:
        self.region = ShardRegion()
        self._url = url
        self._timing = timing
        self._actors: ShardedActors | None = None
        self._ownership: Ownership | None = None
        self._relay: Relay | None = None
        self._tail: Tail | None = None
        self._vault: Vault | None = None

    def follow(self, journal: Journal, feed: Feed) -> None:
        """Publish what all nodes write, in the order of the log; to be called before this node writes.

        Raises:
            StorageError: the log cannot be read.
        """
        assert isinstance(journal, PostgresJournal)
        self._vault = journal.codec.vault
        self._tail = Tail(journal, feed)
        self._tail.start()

    def actors_of(self, system: ActorSystem, journal: FeedJournal, new_id: Callable[[str], str]) -> ShardedActors:
        """Return the actors of all nodes; those of `system` are the ones on this node."""
        self._actors = ShardedActors(system, self.region, remembered=journal.remembered, new_id=new_id)
        return self._actors

    def join(self, system: ActorSystem, recover: Callable[[Callable[[str], bool]], None]) -> None:
        """Take a share of the shards, and resume unfinished work there.

        Raises:
            StorageError: the database cannot be reached, or the log cannot be read.
        """
        actors = self._actors
        assert actors is not None
        address = f"{os.getpid()}@{socket.gethostname()}"
        self._ownership = Ownership(
            self._url, self.region, address=address, timing=self._timing, looked=self.region.looked
        )
        self._relay = Relay(self._url, self._ownership.node.id, actors.serve, self._vault)
        actors.join(self._relay)
        self.region.join(self._ownership, system, recover=recover, changed=actors.resend_waiting)

    @property
    def has_joined(self) -> bool:
        """Whether it has begun to take its share."""
        return self._ownership is not None

    @property
    def owns_share(self) -> bool:
        """Whether it owns as many shards as it should."""
        return self._ownership is not None and self._ownership.has_share

    def check_ready(self) -> None:
        """Return if the node owns its share.

        Raises:
            NodeUnreadyError: it does not own it yet, or has lost it.
        """
        if not self.owns_share:
            raise NodeUnreadyError

    def drain(self) -> None:
        """Give all shards to other nodes, if there are any, once running turns have ended; agents move with them."""
        if self._ownership is not None and self._ownership.node.has_peers:
            self._ownership.drain(DRAIN)

    def close(self) -> None:
        """Stop taking part as a node. Idempotent."""
        for part in (self._actors, self._relay, self.region, self._ownership, self._tail):
            if part is not None:
                part.close()
