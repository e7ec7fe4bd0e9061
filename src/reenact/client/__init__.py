"""The client: the facades of a runtime in another process, over one WebSocket. Needs `reenact[client]`."""

from __future__ import annotations

from importlib.util import find_spec

from reenact.domain.errors import MissingExtraError

if find_spec("websockets") is None:
    raise MissingExtraError("a connection to a server", "client", "no module named 'websockets'")
