"""What a line that begins with a slash does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from reenact.cli.conversation import CONTAINER, Conversation
from reenact.cli.listing import session_line

HELP: Final = {
    "/help": "say this",
    "/sessions": "list the conversations of this log; `reenact --resume ID` goes on with one",
    "/exit": "leave; Ctrl+D does so too",
}
_SHOWN = 20


class Commands:
    """The commands inside a conversation; `say` tells a line that is no answer."""

    def __init__(self, conversation: Conversation, say: Callable[[str], None]) -> None:
        self._conversation = conversation
        self._say = say

    def obey(self, line: str) -> bool:
        """Do what the line says; return whether the conversation goes on."""
        word, *rest = line.split()
        if word not in HELP or rest:
            self._say(f"There is no command {line}; /help lists those that there are.")
            return True
        match word:
            case "/help":
                self._help()
            case "/sessions":
                self._sessions()
            case _:
                return False
        return True

    def _help(self) -> None:
        for word, what in HELP.items():
            self._say(f"{word:<10} {what}")
        self._say("Ctrl+C     interrupt the answer, or clear the line")

    def _sessions(self) -> None:
        runtime = self._conversation.runtime
        sessions = runtime.sessions.list_by_container(CONTAINER) if runtime.containers.get(CONTAINER) else []
        if not sessions:
            self._say("There are no sessions yet: a session begins with its first message.")
        for session in reversed(sessions[-_SHOWN:]):
            here = "*" if session.id == self._conversation.session_id else " "
            self._say(f"{here} {session_line(session, runtime.sessions.messages(session.id))}")
        if len(sessions) > _SHOWN:
            self._say(f"  … and {len(sessions) - _SHOWN} older ones; `reenact sessions` lists them all.")
