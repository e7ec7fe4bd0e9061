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
    """Tells how a server fares and what it said last; who comes to know something puts it here."""

    def __init__(self) -> None:
        self.status: Callable[[], str] = str
        self.said: Callable[[], str] = str


def unreachable(server: MCPServer, why: str, report: Reporter) -> MCPServerError:
    """Return the error of a server that could not be connected."""
    said = report.said()
    told = _joined(why, report.status(), f"it said: {said}" if said else "")
    return MCPServerError(server.name, f"could not be connected: {server.without_secrets(told)}")


def lost(server: MCPServer, why: str, report: Reporter) -> MCPServerError:
    """Return the error of a server that has gone while it was asked for something."""
    told = server.without_secrets(_joined(why, report.status()) or "nobody knows why")
    return MCPServerError(server.name, f"was lost in the middle of it ({told}); whether it took effect is not known")


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def root_of(error: BaseException) -> BaseException:
    """Return the first exception in a group, for that is what went wrong."""
    return root_of(error.exceptions[0]) if _is_group(error) else error


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)
