"""The table of the chat's commands, used to run, explain and complete them; and the commands about waiting calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

from reenact.cli.chat import inspect, navigate
from reenact.cli.chat.conversation import Approved, Rejected
from reenact.cli.chat.current import Frontend
from reenact.cli.output.answers import pending_description, pending_line
from reenact.cli.parsing.help_page import entry_lines
from reenact.cli.settings.configuration import user_name
from reenact.domain.errors import ReenactError
from reenact.domain.legible import display_safe
from reenact.domain.session.people import PendingCall

_NOTHING = "Nothing waits for you."


def pending(frontend: Frontend, _: str) -> None:
    """Ask the person about the calls that wait."""
    if calls := frontend.current.conversation.pending():
        frontend.ask_about_calls(calls)
    else:
        frontend.say(_NOTHING)


def approve(frontend: Frontend, call_id: str) -> None:
    """Approve a call that waits."""
    call = _waiting_call(frontend, call_id)
    if call is None:
        return
    if call.kind == "approval":
        frontend.apply_decisions([Approved(call=call, by=user_name())])
    else:
        frontend.say(f"{display_safe(call.id)} asks a question: /pending asks it again, in a chat.")


def reject(frontend: Frontend, rest: str) -> None:
    """Reject a call that waits; text that does not begin with the ID of a call is the reason."""
    word, *reason = rest.split(maxsplit=1) or [""]
    if not any(call.id == word for call in frontend.current.conversation.pending()):
        word, reason = "", [rest]
    call = _waiting_call(frontend, word)
    if call is not None:
        frontend.apply_decisions([Rejected(call=call, reason=" ".join(reason), by=user_name())])


def calls(frontend: Frontend) -> list[tuple[str, str]]:
    """Return the IDs of the calls that wait, with descriptions."""
    return [(call.id, pending_description(call)) for call in frontend.current.conversation.pending()]


def _waiting_call(frontend: Frontend, call_id: str) -> PendingCall | None:
    """Return the call with this ID, or the only one if the ID is empty; if there is none, say so and return None."""
    waiting = frontend.current.conversation.pending()
    found = [call for call in waiting if call_id in ("", call.id)]
    if len(found) == 1:
        return found[0]
    if not waiting:
        frontend.say(_NOTHING)
    elif found:
        frontend.say("More than one call waits; name the one you mean:")
    else:
        frontend.say(f"No call {call_id} waits; these do:")
    for call in waiting:
        frontend.say(f"  {pending_line(call)}")
    return None


_UNLIMITED = 1000
"""The width of lines that no terminal shows."""
_SLASH = "/"
_EXIT_WORDS = frozenset({"exit", "quit"})
"""Words that leave the chat if a person types nothing else."""
_KEYS = (
    ("Enter", "send the message; choose the marked entry"),
    ("Alt+Enter, Ctrl+J", "insert a line break; so does \\ Enter"),
    ("Tab", "complete a command, or its ID"),
    ("Up, Ctrl+R", "earlier messages; search them"),
    ("Ctrl+X Ctrl+E", "edit the message in your own editor"),
    ("Ctrl+C", "interrupt the answer or clear the line"),
    ("Esc", "interrupt the answer"),
    ("Ctrl+D", "leave, if nothing is typed"),
)
_TYPED = (
    ("@PATH", "in a message: attach the file, text, image or PDF"),
    ("!COMMAND", "run it in your shell, after a question; the model sees the output with your next message"),
)
_Choice: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Command:
    """A command: its usage, its description, the function that runs it, and the arguments to offer for it."""

    usage: str
    description: str
    run: Callable[[Frontend, str], None]
    choices: Callable[[Frontend], Sequence[_Choice]] = lambda _: ()

    @property
    def word(self) -> str:
        """The first word of the command."""
        return self.usage.split()[0]

    @property
    def takes_more(self) -> bool:
        """Whether the command takes arguments."""
        return self.usage != self.word


def _help(frontend: Frontend, _: str) -> None:
    known = [(command.usage, command.description) for command in TABLE.values()]
    known += [*frontend.current.extensions.help().items()]
    known += [
        ("//TEXT", "send /TEXT to the model as a message"),
        *(() if frontend.width is None else _TYPED),
        *_KEYS,
    ]
    for line in entry_lines(known, frontend.width or _UNLIMITED):
        frontend.say(line)


def _leave(frontend: Frontend, _: str) -> None:
    """Do nothing: `Commands.take` returns False for this command."""


TABLE: Final[Mapping[str, Command]] = {
    command.word: command
    for command in (
        Command("/help", "show this help", _help),
        Command("/sessions", "list the conversations of this log", inspect.sessions),
        Command("/resume [ID]", "switch to another one, by its ID or number", navigate.resume, inspect.beginnings),
        Command("/new", "start a new conversation", navigate.new),
        Command("/model [NAME]", "show which model answers, or switch to another one", navigate.model, navigate.models),
        Command("/cost", "show what this conversation has used", inspect.cost),
        Command("/log [N]", "show its last N events, 20 by default", inspect.log),
        Command(
            "/branch [POSITION] [TEXT]",
            "start a branch at a position; TEXT replaces the last message",
            navigate.branch,
            navigate.points,
        ),
        Command("/pending", "decide the calls that wait for you", pending),
        Command("/approve [ID]", "let a waiting call run; without ID the only one", approve, calls),
        Command("/reject [ID] [REASON]", "reject a waiting call; the model is told the reason", reject, calls),
        Command("/exit", "leave; so do exit, quit and Ctrl+D", _leave),
        Command("/clear", "start a new conversation, as /new does", navigate.new),
        Command("/quit", "leave, as /exit does", _leave),
    )
}
"""The built-in commands by their first words."""
WORDS = frozenset(TABLE)
"""The first words of the built-in commands."""


@dataclass
class Commands:
    """Runs the commands inside a conversation, and provides completions for what can be typed (`Choices`)."""

    _frontend: Frontend
    _last_choices: tuple[str, str, int, Sequence[_Choice]] | None = None

    def run_line(self, line: str) -> bool:
        """Run the line as a command or send it as a message; return whether the conversation continues.

        A line that begins with two slashes is sent with one. A line that begins with a path is sent, and so is a text
        of several lines whose first word is no known command: it is a quotation of something else.
        """
        frontend, (word, rest) = self._frontend, _split(line)
        if not word:
            return True
        command = TABLE.get(word)
        if command is not None:
            return self._run(command, rest)
        if frontend.width is not None and line.strip() in _EXIT_WORDS:
            return False
        if frontend.width is not None and line.startswith("!") and line[1:].strip():
            frontend.run(line[1:].strip())
            return True
        if self._frontend.current.extensions.is_command(line):
            frontend.ask(line)
        elif self._is_doubled(line):
            frontend.ask(line.removeprefix(_SLASH), as_it_is=True)
        elif not line.startswith(_SLASH) or _SLASH in word[1:] or "\n" in line:
            frontend.ask(line)
        else:
            near = self._nearest(word)
            self._frontend.say(f"There is no command {display_safe(word)}; {near}/help lists those that there are.")
        return True

    def commands(self) -> Mapping[str, str]:
        own = {command.word: command.description for command in TABLE.values()}
        usages = self._frontend.current.extensions.commands().items()
        return {**own, **{usage.split()[0]: description for usage, description in usages}, **own}

    def agents(self) -> Mapping[str, str]:
        return self._frontend.current.extensions.agents()

    def arguments(self, word: str) -> Sequence[_Choice]:
        """Return the possible arguments of the command: each value with its description; nothing if that fails."""
        command = TABLE.get(f"{_SLASH}{word.removeprefix(_SLASH)}")
        if command is None:
            return ()
        try:
            current = self._frontend.current
            session_id, position = current.conversation.session_id, current.runtime.position
            if self._last_choices is None or self._last_choices[:3] != (word, session_id, position):
                self._last_choices = (word, session_id, position, command.choices(self._frontend))
            return self._last_choices[3]
        except Exception:  # noqa: BLE001 - the person is still typing; errors are reported when the line is sent
            return ()

    def _run(self, command: Command, rest: str) -> bool:
        if rest and not command.takes_more:
            self._frontend.say(f"{command.word} is typed alone; to send this as a message, put another / before it.")
            return True
        try:
            command.run(self._frontend, rest)
        except ReenactError as error:
            self._frontend.fail(error)
        return command.run is not _leave

    def _is_doubled(self, line: str) -> bool:
        """Return whether the first slash escapes the second; several lines must also begin with a known command."""
        meant = line.removeprefix(_SLASH)
        if not line.startswith(_SLASH * 2) or "\n" not in line:
            return line.startswith(_SLASH * 2)
        return _split(meant)[0] in TABLE or self._frontend.current.extensions.is_command(meant)

    def _nearest(self, word: str) -> str:
        near = get_close_matches(word, self.commands(), n=1)
        return f"did you mean {near[0]}? " if near else ""


def _split(line: str) -> tuple[str, str]:
    """Split a line into its first word and the rest."""
    word, *rest = line.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""
