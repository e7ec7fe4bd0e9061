"""The pages, each in a module of its own: what it reads, and what its template shows of it."""

from collections.abc import Mapping
from typing import Final

from reenact.inspector.pages.sessions import sessions
from reenact.inspector.rendering import View

PAGES: Final[Mapping[str, View]] = {"/": sessions}
"""The pages by their paths."""
