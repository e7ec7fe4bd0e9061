"""What agents have cost that were asked from a session: each answers in one of its own, which the log names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reenact._runtime import Runtime
from reenact.cli.delegating import AGENTS
from reenact.domain.history import UsageInfo

_OF_AGENTS: Final = "agent-"
"""How the ids of the images of agents begin."""


def usage_of_agents(runtime: Runtime, session_id: str, asked_now: Iterable[str] = ()) -> list[tuple[str, UsageInfo]]:
    """Return the names of agents, and what the session of each has used that was asked from this session.

    The log names those that have answered: their answers here have the ids of their sessions. `asked_now` are those of
    this run, also if they have not.
    """
    answered = (message.id for message in runtime.sessions.messages(session_id) if message.role == "assistant")
    found: list[tuple[str, UsageInfo]] = []
    for one in dict.fromkeys((*answered, *asked_now)):
        session = runtime.sessions.get(one)
        if session is not None and session.container_id == AGENTS:
            found.append((session.image_id.removeprefix(_OF_AGENTS), runtime.sessions.usage(one)))
    return found
