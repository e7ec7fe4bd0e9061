"""The table of the chat's commands, used to run, explain and complete them; and the commands about waiting calls."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

from reenact.cli.chat import inspect as looking
from reenact.cli.chat import navigate as going
from reenact.cli.chat.conversation import Approved, Rejected
from reenact.cli.chat.current import Talking
from reenact.cli.output.answers import pending_line
from reenact.cli.settings.configuration import user_name
from reenact.domain.errors import ReenactError
from reenact.domain.legible import harmless
from reenact.domain.session.people import PendingCall

_NOTHING = "Nothing waits for you."


def pending(talking: Talking, _: str) -> None:
    """Ask the person about the calls that wait."""
    if calls := talking.current.conversation.pending():
        talking.see_to(calls)
    else:
        talking.say(_NOTHING)


def approve(talking: Talking, call_id: str) -> None:
    """Approve a call that waits."""
    call = _named(talking, call_id)
    if call is None:
        return
    if call.kind == "approval":
        talking.carry_out([Approved(call=call, by=user_name())])
    else:
        talking.say(f"{harmless(call.id)} asks a question: /pending asks it again, in a chat.")


def reject(talking: Talking, rest: str) -> None:
    """Reject a call that waits; text that does not begin with the ID of a call is the reason."""
    word, *reason = rest.split(maxsplit=1) or [""]
    if not any(call.id == word for call in talking.current.conversation.pending()):
        word, reason = "", [rest]
    call = _named(talking, word)
    if call is not None:
        talking.carry_out([Rejected(call=call, reason=" ".join(reason), by=user_name())])


def calls(talking: Talking) -> list[tuple[str, str]]:
    """Return the IDs of the calls that wait, with descriptions."""
    return [
        (call.id, pending_line(call).removeprefix(harmless(call.id)).strip())
        for call in talking.current.conversation.pending()
    ]


def _named(talking: Talking, call_id: str) -> PendingCall | None:
    """Return the call with this ID, or the only one if the ID is empty; if there is none, say so and return None."""
    waiting = talking.current.conversation.pending()
    found = [call for call in waiting if call_id in ("", call.id)]
    if len(found) == 1:
        return found[0]
    if not waiting:
        talking.say(_NOTHING)
    elif found:
        talking.say("More than one call waits; name the one you mean:")
    else:
        talking.say(f"No call {call_id} waits; these do:")
    for call in waiting:
        talking.say(f"  {pending_line(call)}")
    return None


_WIDEST = 26
"""Columns for the usage of a command; a longer usage shifts its description to the right."""
_NARROW = 60
"""Below this number of columns, descriptions are on lines of their own."""
_TINY = 30
"""Below this number of columns, descriptions have no margin."""
_MARK = "/"
_LEAVES = frozenset({"exit", "quit"})
"""Words that leave the chat if a person types nothing else."""
_KEYS = (
    ("Enter", "send it; choose what is marked"),
    ("Alt+Enter, Ctrl+J", "begin a line; so does \\ Enter"),
    ("Tab", "complete a command, or its ID"),
    ("Up, Ctrl+R", "what was said before; look for it"),
    ("Ctrl+X Ctrl+E", "write it in your own editor"),
    ("Ctrl+C", "interrupt the answer or clear the line"),
    ("Esc", "interrupt the answer"),
    ("Ctrl+D", "leave, where nothing is typed"),
)
_TYPED = (
    ("@PATH", "in a message: attach the file, text, image or PDF"),
    ("!COMMAND", "run it in your shell, after asking; the model is told with your next message"),
)
_Choice: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Command:
    """A command: its usage, its description, the function that runs it, and the arguments to offer for it."""

    usage: str
    what: str
    obey: Callable[[Talking, str], None]
    offers: Callable[[Talking], Sequence[_Choice]] = lambda _: ()

    @property
    def word(self) -> str:
        """The first word of the command."""
        return self.usage.split()[0]

    @property
    def takes_more(self) -> bool:
        """Whether the command takes arguments."""
        return self.usage != self.word


def _help(talking: Talking, _: str) -> None:
    known = [(command.usage, command.what) for command in TABLE.values()]
    known += [*talking.current.extending.help().items()]
    known += [
        ("//TEXT", "send /TEXT to the model, though it looks like a command"),
        *(() if talking.width is None else _TYPED),
        *_KEYS,
    ]
    for usage, what in known:
        for line in _entry(usage, what, talking.width):
            talking.say(line)


def _entry(usage: str, what: str, width: int | None) -> Iterator[str]:
    """Yield the lines that describe a command."""
    if width is None or width >= _NARROW:
        first, margin = f"{usage:<{_WIDEST}} ", " " * (_WIDEST + 1)
        yield from _wrapped(what, width or 1000, first, margin)
    else:
        margin = "  " if width >= _TINY else ""
        yield usage
        yield from _wrapped(what, width, margin, margin)


def _wrapped(text: str, width: int, first: str, margin: str) -> list[str]:
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(text) or [first.rstrip()]


def _leave(talking: Talking, _: str) -> None:
    """Do nothing: `Commands.take` returns False for this command."""


TABLE: Final[Mapping[str, Command]] = {
    command.word: command
    for command in (
        Command("/help", "say this", _help),
        Command("/sessions", "list the conversations of this log", looking.sessions),
        Command("/resume [ID]", "go on with another one: its ID, or its number", going.resume, looking.beginnings),
        Command("/new", "begin a new one", going.new),
        Command("/model [NAME]", "say which model answers, or let another one", going.model, going.models),
        Command("/cost", "say what this conversation has used", looking.cost),
        Command("/log [N]", "show its last events, 20 or so many", looking.log),
        Command(
            "/branch [POSITION] [TEXT]",
            "go on from there in a new one; TEXT stands for the last message",
            going.branch,
            going.points,
        ),
        Command("/pending", "see to the calls that wait for you", pending),
        Command("/approve [ID]", "let a call run that waits; without ID the only one", approve, calls),
        Command("/reject [ID] [REASON]", "do not let it run; the model is told why", reject, calls),
        Command("/exit", "leave; so do exit, quit and Ctrl+D", _leave),
        Command("/clear", "begin a new one, as /new does", going.new),
        Command("/quit", "leave, as /exit does", _leave),
    )
}
"""The built-in commands by their first words."""
HELP: Final[Mapping[str, str]] = {command.usage: command.what for command in TABLE.values()}
WORDS = frozenset(TABLE)
"""The first words of the built-in commands."""


@dataclass
class Commands:
    """Runs the commands inside a conversation, and provides completions for what can be typed (`Choices`)."""

    _talking: Talking
    _offered: tuple[str, str, int, Sequence[_Choice]] | None = None

    def take(self, line: str) -> bool:
        """Run the line as a command or send it as a message; return whether the conversation continues.

        A line that begins with two slashes is sent with one. A line that begins with a path is sent, and so is a text
        of several lines whose first word is no known command: it is a quotation of something else.
        """
        talking, (word, rest) = self._talking, _split(line)
        if not word:
            return True
        command = TABLE.get(word)
        if command is not None:
            return self._obey(command, rest)
        if talking.width is not None and line.strip() in _LEAVES:
            return False
        if talking.width is not None and line.startswith("!") and line[1:].strip():
            talking.run(line[1:].strip())
            return True
        if self._talking.current.extending.is_command(line):
            talking.ask(line)
        elif self._is_doubled(line):
            talking.ask(line.removeprefix(_MARK), as_it_is=True)
        elif not line.startswith(_MARK) or _MARK in word[1:] or "\n" in line:
            talking.ask(line)
        else:
            near = self._nearest(word)
            self._talking.say(f"There is no command {harmless(word)}; {near}/help lists those that there are.")
        return True

    def commands(self) -> Mapping[str, str]:
        """Return each command as `/word`, built in or of an extension, with its description."""
        own = {command.word: command.what for command in TABLE.values()}
        added = {usage.split()[0]: what for usage, what in self._talking.current.extending.commands().items()}
        return {**own, **{word: what for word, what in added.items() if word not in own}}

    def agents(self) -> Mapping[str, str]:
        """Return each agent as `@name`, with its description."""
        return self._talking.current.extending.agents()

    def arguments(self, word: str) -> Sequence[_Choice]:
        """Return the possible arguments of the command: each value with its description; nothing if that fails."""
        command = TABLE.get(f"{_MARK}{word.removeprefix(_MARK)}")
        if command is None:
            return ()
        try:
            current = self._talking.current
            session_id, position = current.conversation.session_id, current.runtime.position
            if self._offered is None or self._offered[:3] != (word, session_id, position):
                self._offered = (word, session_id, position, command.offers(self._talking))
            return self._offered[3]
        except Exception:  # noqa: BLE001 - the person is still typing; errors are reported when the line is sent
            return ()

    def _obey(self, command: Command, rest: str) -> bool:
        if rest and not command.takes_more:
            self._talking.say(f"{command.word} is typed alone; to send this as a message, put another / before it.")
            return True
        try:
            command.obey(self._talking, rest)
        except ReenactError as error:
            self._talking.fail(error)
        return command.obey is not _leave

    def _is_doubled(self, line: str) -> bool:
        """Return whether the first slash escapes the second; several lines must also begin with a known command."""
        meant = line.removeprefix(_MARK)
        if not line.startswith(_MARK * 2) or "\n" not in line:
            return line.startswith(_MARK * 2)
        return _split(meant)[0] in TABLE or self._talking.current.extending.is_command(meant)

    def _nearest(self, word: str) -> str:
        near = get_close_matches(word, self.commands(), n=1)
        return f"did you mean {near[0]}? " if near else ""


def _split(line: str) -> tuple[str, str]:
    """Split a line into its first word and the rest."""
    word, *rest = line.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""
