"""The pages: each has a template, and a module that reads the data which it shows."""

from collections.abc import Mapping
from typing import Final

from reenact.inspector.pages.acting import ask_branch, ask_interrupt, branch, interrupt
from reenact.inspector.pages.branches import branches
from reenact.inspector.pages.chain import ALONE, chain
from reenact.inspector.pages.costs import costs
from reenact.inspector.pages.event import event, value
from reenact.inspector.pages.session import session
from reenact.inspector.pages.sessions import list_changed, list_sessions
from reenact.inspector.pages.state import state
from reenact.inspector.pages.waiting import decide, list_waiting
from reenact.inspector.rendering import Act, Page, View

PAGES: Final[Mapping[str, View]] = {
    "/": list_sessions,
    "/rows": list_changed,
    "/branches": branches,
    "/costs": costs,
    "/waiting": list_waiting,
    "/interrupt": ask_interrupt,
    "/branch": ask_branch,
    "/session": session,
    "/event": event,
    "/state": state,
    "/value": value,
    "/chain": chain,
    ALONE: lambda _source, _address: Page("seals.html", {}),
    "/keys": lambda _source, _address: Page("keys.html", {}),
}
"""The pages by their paths."""

ACTS: Final[Mapping[str, Act]] = {"/waiting": decide, "/interrupt": interrupt, "/branch": branch}
"""The functions that carry out the pages' forms."""
