"""The tools that may run where no person is to approve: a name that no tool has is told of, for it is a slip."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from reenact.cli.console import Console
from reenact.cli.conversation import IMAGE, Conversation
from reenact.cli.exact import plain_or_quoted
from reenact.cli.options import TalkOptions
from reenact.domain.image import Image, define

_OF_SERVERS = "mcp__"


def warn_of_unknown(options: TalkOptions, image: Image, conversation: Conversation, console: Console) -> None:
    """Warn of what --allowed-tools names and the session has not, as far as its tools are known by now.

    Those of servers are known when they have answered; what settings allow is for any session, and may be of others.
    """
    if options.allowed_by_settings or not options.allowed_tools:
        return
    known = _tools_of(image, conversation)
    if known is None:
        return
    for name in unknown(options.allowed_tools, known, has_servers=bool(image.mcp_servers) or not conversation.is_new):
        meant = difflib.get_close_matches(name, known, 1)
        words = f"; is {meant[0]} meant?" if meant else f"; its tools are: {', '.join(sorted(known)) or 'none'}"
        console.warn(f"--allowed-tools {plain_or_quoted(name)}: the session has no such tool{words}")


def unknown(allowed: Sequence[str], known: Collection[str], *, has_servers: bool) -> list[str]:
    """Return the names and patterns that fit no known tool, and cannot be of a server either."""
    return [
        pattern
        for pattern in allowed
        if not any(fnmatchcase(name, pattern) for name in known)
        and not (has_servers and (pattern.startswith(_OF_SERVERS) or "*" in pattern[: len(_OF_SERVERS)]))
    ]


def _tools_of(image: Image, conversation: Conversation) -> list[str] | None:
    """Return the names of the session's tools; None if it was created with another revision of its image."""
    if conversation.is_new:
        definition = define(image, IMAGE)
        return [tool.name for tool in definition.tools] + [str(tool.get("name")) for tool in definition.api_tools]
    session = conversation.runtime.sessions.get(conversation.session_id)
    created_with = None if session is None else conversation.runtime.images.get(session.image_id)
    if session is None or created_with is None or created_with.revision != session.image_revision:
        return None
    return list(created_with.tools)
