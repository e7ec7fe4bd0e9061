"""What the parts of a server share."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from reenact.actors.feed.group import Group
from reenact.actors.runtime import LocalRuntime
from reenact.server.access import Access
from reenact.server.counts import Counts
from reenact.server.desk import Desk
from reenact.server.limits import Limits, Unread


class Leaving(Protocol):
    """A connection that can be told to end."""

    def leave(self) -> None: ...


class Service:
    """A runtime, who may use it, and how much of it."""

    def __init__(
        self, runtime: LocalRuntime, access: Access, limits: Limits, name: str, *, allow_programs: bool = False
    ) -> None:
        self.runtime = runtime
        self.access = access
        self.limits = limits
        self.name = name
        """What the server calls itself, with its version."""
        self.counts = Counts()
        self.unread = Unread()
        self.desk = Desk(runtime, limits, self.counts, self.unread, allow_programs=allow_programs)
        self.connections: set[Leaving] = set()
        self.since = time.time()
        """When the server was made, in seconds since 1970-01-01 UTC."""

    def group(self) -> Group:
        """Return what a connection's subscriptions are kept in."""
        return Group(self.runtime.feed, asyncio.get_running_loop())

    def leave(self) -> None:
        """Tell all connections that the server ends."""
        for connection in tuple(self.connections):
            connection.leave()

    def close(self) -> None:
        """Carry out nothing more."""
        self.desk.close()
