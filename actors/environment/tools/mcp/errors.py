"""The errors of a connection to an MCP server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reenact.actors.environment.tools.outcome import error_text
from reenact.domain.tools import MCPServer, MCPServerError, variables_of, without


class LostError(Exception):
    """The connection has ended, and it is not known whether the call took effect."""


class UnknownSessionError(Exception):
    """The server does not know the session any more, and has not carried out the request."""


class ErrorReporter:
    """Makes the errors of a server, with its exit or HTTP `status` and its `last_output`, if these are known."""

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        self.status: Callable[[], str] = str
        self.last_output: Callable[[], str] = str
        self._hidden: tuple[str, ...] = ()

    def resolve(self, variables: Mapping[str, str]) -> None:
        """Replace the variables in the server's settings; their values are hidden from then on.

        Raises:
            ConfigurationError: a variable is not set.
        """
        names = variables_of(self.server)
        self.server = self.server.resolved(variables)
        self._hidden = tuple(variables[name] for name in names)

    def without_secrets(self, text: str) -> str:
        """Return the text without the secrets of the server's settings."""
        return without(self.server.without_secrets(text), self._hidden)

    def unreachable(self, why: str) -> MCPServerError:
        """Return the error for a server that could not be connected."""
        said = self.last_output()
        known = self._joined(why, self.status(), f"it said: {said}" if said else "")
        return MCPServerError(self.server.name, f"could not be connected: {known}")

    def lost(self, why: str) -> MCPServerError:
        """Return the error for a server that was lost during a request."""
        known = self._joined(why, self.status()) or "nobody knows why"
        return MCPServerError(
            self.server.name, f"was lost in the middle of it ({known}); whether it took effect is not known"
        )

    def _joined(self, *parts: str) -> str:
        return self.without_secrets("; ".join(part for part in parts if part))


def cause_of(error: BaseException) -> str:
    """Return the text for the model about an exception; for an exception group, about the first one, its cause."""
    several: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return cause_of(several[0]) if several else error_text(error)
