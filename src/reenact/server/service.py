"""The state that the parts of a server share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from importlib import metadata

from reenact.actors.runtime import LocalRuntime
from reenact.server.access import Access, Hosts
from reenact.server.counts import Counts
from reenact.server.executor import RequestExecutor
from reenact.server.limits import Limits, Unread


class Service:
    """A runtime, who may use it, and how much of it; see `create_app`."""

    def __init__(
        self,
        runtime: LocalRuntime,
        *,
        tokens: Collection[str],
        origins: Collection[str],
        limits: Limits | None,
        hosts: Hosts | None,
        allow_programs: bool,
    ) -> None:
        self.runtime = runtime
        self.access = Access(tokens, origins, hosts or Hosts(any_name=bool(tokens)))
        self.limits = limits or Limits()
        self.name = f"reenact {_version()}"
        """What the server calls itself, with its version."""
        self.counts = Counts()
        self.unread = Unread()
        self.executor = RequestExecutor(runtime, self.limits, self.counts, self.unread, allow_programs=allow_programs)
        self.ends = asyncio.Event()
        """Set when the server ends: each connection is to be closed."""
        self.since = time.time()
        """When the server was made, in seconds since 1970-01-01 UTC."""


def _version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("reenact")
    return "from a checkout"
