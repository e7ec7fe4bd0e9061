"""The server: a runtime's facades and events over WebSocket and HTTP, on one port. `docs/protocol.md` has the protocol.

`create_app` makes an ASGI application of a runtime; `Server` serves it in this process. Needs `reenact[server]`.
"""

from __future__ import annotations

from reenact.domain.errors import needing_extra

with needing_extra("server", "a server"):
    from reenact.server.app import create_app
    from reenact.server.limits import Limits
    from reenact.server.serving import Server

__all__ = ["Limits", "Server", "create_app"]
