"""The pages, each in a module of its own: what it reads, and what its template shows of it."""

from collections.abc import Mapping
from typing import Final

from reenact.inspector.pages.branches import branches
from reenact.inspector.pages.event import event
from reenact.inspector.pages.session import session
from reenact.inspector.pages.sessions import list_changed, list_sessions
from reenact.inspector.pages.state import state
from reenact.inspector.pages.value import value
from reenact.inspector.rendering import View

PAGES: Final[Mapping[str, View]] = {
    "/": list_sessions,
    "/rows": list_changed,
    "/branches": branches,
    "/session": session,
    "/event": event,
    "/state": state,
    "/value": value,
}
"""The pages by their paths."""
