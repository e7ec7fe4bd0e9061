"""How a connection to an MCP server fails."""

from __future__ import annotations

from collections.abc import Callable

from reenact.actors.environment.tools.outcome import told
from reenact.domain.tools import MCPServer, MCPServerError


class LostError(Exception):
    """The connection has ended, and nobody knows what became of the call."""


class ForgottenError(Exception):
    """The server does not know the session any more, and has not done what it was asked for."""


class Reporter:
    """Makes the errors of a server, with its `status` and what it `said` last, as far as that is known."""

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        self.status: Callable[[], str] = str
        self.said: Callable[[], str] = str

    def unreachable(self, why: str) -> MCPServerError:
        """Return the error of a server that could not be connected."""
        said = self.said()
        known = self._joined(why, self.status(), f"it said: {said}" if said else "")
        return MCPServerError(self.server.name, f"could not be connected: {known}")

    def lost(self, why: str) -> MCPServerError:
        """Return the error of a server that was lost while it was asked for something."""
        known = self._joined(why, self.status()) or "nobody knows why"
        return MCPServerError(
            self.server.name, f"was lost in the middle of it ({known}); whether it took effect is not known"
        )

    def _joined(self, *parts: str) -> str:
        return self.server.without_secrets("; ".join(part for part in parts if part))


def cause_of(error: BaseException) -> str:
    """Return what a model is told of an exception; of a group that is the first, for that is what went wrong."""
    several: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return cause_of(several[0]) if several else told(error)
