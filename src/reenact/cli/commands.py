"""What a line that begins with a slash does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from reenact.cli.calls import told
from reenact.cli.conversation import CONTAINER, Conversation
from reenact.cli.decisions import Approved, Decision, Rejected
from reenact.cli.exact import harmless
from reenact.cli.extending import Extending
from reenact.cli.listing import session_line
from reenact.domain.people import PendingCall

HELP: Final = {
    "/help": "say this",
    "/sessions": "list the conversations of this log; `reenact --resume ID` goes on with one",
    "/pending": "see to the calls that wait for you",
    "/approve [ID]": "let a call run that waits; without ID the only one",
    "/reject [ID] [REASON]": "do not let it run; the model is told why",
    "/exit": "leave; Ctrl+D does so too",
}
WORDS: Final = frozenset(usage.split()[0] for usage in HELP)
"""The commands that are built in."""
_TAKE_MORE: Final = frozenset(usage.split()[0] for usage in HELP if " " in usage)
_SHOWN = 20
_WIDEST: Final = 24
"""Columns for how a command is typed; what is longer moves its description."""


class Talking(Protocol):
    """What the commands need: to ask, to see to what waits, and to carry out what was decided."""

    def ask(self, question: str) -> object: ...
    def see_to(self, pending: Sequence[PendingCall]) -> None: ...
    def carry_out(self, decision: Decision) -> None: ...


class Commands:
    """The commands inside a conversation; `say` tells a line that is no answer."""

    def __init__(
        self, conversation: Conversation, say: Callable[[str], None], talking: Talking, extending: Extending
    ) -> None:
        self._conversation = conversation
        self._say = say
        self._talking = talking
        self._extending = extending

    def obey(self, line: str) -> bool:
        """Do what the line says; return whether the conversation goes on."""
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word not in WORDS and self._extending.is_command(line):
            self._talking.ask(line)
            return True
        if word not in WORDS or (rest and word not in _TAKE_MORE):
            self._say(f"There is no command {line}; /help lists those that there are.")
            return True
        match word:
            case "/help":
                self._help()
            case "/sessions":
                self._sessions()
            case "/pending":
                self._pending()
            case "/approve":
                self._approve(rest)
            case "/reject":
                self._reject(rest)
            case _:
                return False
        return True

    def _help(self) -> None:
        known = {**HELP, **self._extending.help()}
        widest = min(_WIDEST, max(map(len, known)))
        for usage, what in known.items():
            self._say(f"{usage:<{widest}} {what}")
        self._say(f"{'Ctrl+C':<{widest}} interrupt the answer, or clear the line")

    def _sessions(self) -> None:
        runtime = self._conversation.runtime
        sessions = runtime.sessions.list_by_container(CONTAINER) if runtime.containers.get(CONTAINER) else []
        if not sessions:
            self._say("There are no sessions yet: a session begins with its first message.")
        for session in reversed(sessions[-_SHOWN:]):
            here = "*" if session.id == self._conversation.session_id else " "
            waiting = len(runtime.agents.pending(session_id=session.id))
            self._say(f"{here} {session_line(session, runtime.sessions.messages(session.id), waiting)}")
        if len(sessions) > _SHOWN:
            self._say(f"  … and {len(sessions) - _SHOWN} older ones; `reenact sessions` lists them all.")

    def _pending(self) -> None:
        pending = self._conversation.pending()
        if pending:
            self._talking.see_to(pending)
        else:
            self._say("Nothing waits for you.")

    def _approve(self, call_id: str) -> None:
        call = self._named(call_id)
        if call is None:
            return
        if call.kind == "approval":
            self._talking.carry_out(Approved(call=call))
        else:
            self._say(f"{harmless(call.id)} asks a question: /pending asks it again, in a chat.")

    def _reject(self, rest: str) -> None:
        word, _, reason = rest.partition(" ")
        if not any(call.id == word for call in self._conversation.pending()):
            word, reason = "", rest
        call = self._named(word)
        if call is not None:
            self._talking.carry_out(Rejected(call=call, reason=reason.strip()))

    def _named(self, call_id: str) -> PendingCall | None:
        """Return the call that is meant, or say why none is."""
        pending = self._conversation.pending()
        found = [call for call in pending if call_id in ("", call.id)]
        if len(found) == 1:
            return found[0]
        if not pending:
            self._say("Nothing waits for you.")
        elif found:
            self._say("More than one call waits; name the one you mean:")
        else:
            self._say(f"No call {call_id} waits; these do:")
        for call in pending:
            self._say(f"  {told(call)}")
        return None
