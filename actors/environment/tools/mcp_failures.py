"""How a connection to an MCP server fails, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from reenact.domain.tools import MCPServer, MCPServerError


class LostError(Exception):
    """The connection has ended, and nobody knows what became of the call."""


class ForgottenError(Exception):
    """The server does not know the session any more, and has not done what it was asked for."""


class Reporter:
    """Tells what is known of how a server fared; who comes to know something puts it into `tell`."""

    def __init__(self) -> None:
        self.tell: Callable[[], str] = str


def unreachable(server: MCPServer, why: str, report: Reporter) -> MCPServerError:
    """Return the error of a server that could not be connected."""
    return MCPServerError(server.name, f"could not be connected: {_all(server, why, report)}")


def lost(server: MCPServer, why: str, report: Reporter) -> MCPServerError:
    """Return the error of a server that has gone while it was asked for something."""
    told = _all(server, why, report)
    return MCPServerError(server.name, f"was lost in the middle of it ({told}); whether it took effect is not known")


def _all(server: MCPServer, why: str, report: Reporter) -> str:
    return server.without_secrets("; ".join(part for part in (why, report.tell()) if part))


def root_of(error: BaseException) -> BaseException:
    """Return the first exception in a group, for that is what went wrong."""
    return root_of(error.exceptions[0]) if _is_group(error) else error


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)
