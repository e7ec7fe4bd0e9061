"""The table of the chat's commands, from which obedience, help and completion are made; and those that decide."""

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
from reenact.cli.output.answers import told
from reenact.cli.settings.configuration import user_name
from reenact.domain.errors import ReenactError
from reenact.domain.legible import harmless
from reenact.domain.session.people import PendingCall

_NOTHING = "Nothing waits for you."


def pending(talking: Talking, _: str) -> None:
    """See to the calls that wait."""
    if calls := talking.current.conversation.pending():
        talking.see_to(calls)
    else:
        talking.say(_NOTHING)


def approve(talking: Talking, call_id: str) -> None:
    """Let a call run."""
    call = _named(talking, call_id)
    if call is None:
        return
    if call.kind == "approval":
        talking.carry_out([Approved(call=call, by=user_name())])
    else:
        talking.say(f"{harmless(call.id)} asks a question: /pending asks it again, in a chat.")


def reject(talking: Talking, rest: str) -> None:
    """Do not let a call run; what does not begin with the id of one is the reason."""
    word, *reason = rest.split(maxsplit=1) or [""]
    if not any(call.id == word for call in talking.current.conversation.pending()):
        word, reason = "", [rest]
    call = _named(talking, word)
    if call is not None:
        talking.carry_out([Rejected(call=call, reason=" ".join(reason), by=user_name())])


def calls(talking: Talking) -> list[tuple[str, str]]:
    """Return the calls that wait, and what they are about."""
    return [
        (call.id, told(call).removeprefix(harmless(call.id)).strip()) for call in talking.current.conversation.pending()
    ]


def _named(talking: Talking, call_id: str) -> PendingCall | None:
    """Return the call that is meant, or say why none is."""
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
        talking.say(f"  {told(call)}")
    return None


_WIDEST = 26
"""Columns for how a command is typed; what is longer moves its description."""
_NARROW = 60
"""A terminal with fewer columns has descriptions on lines of their own."""
_TINY = 30
"""One with fewer columns has none for a margin."""
_MARK = "/"
_LEAVES = frozenset({"exit", "quit"})
"""What leaves as well, where it is all that a person types."""
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
    """A command: how it is typed, what it does, what obeys it, and what may be offered to stand behind it."""

    usage: str
    what: str
    obey: Callable[[Talking, str], None]
    offers: Callable[[Talking], Sequence[_Choice]] = lambda _: ()

    @property
    def word(self) -> str:
        """How it begins."""
        return self.usage.split()[0]

    @property
    def takes_more(self) -> bool:
        """Whether anything may stand behind the word."""
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
    """Yield the lines on which a command is told of."""
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
    """Do nothing: whoever reads the lines sees that this is the last one."""


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
"""The commands that are built in, by their words."""
HELP: Final[Mapping[str, str]] = {command.usage: command.what for command in TABLE.values()}
WORDS = frozenset(TABLE)
"""How the commands that are built in begin."""


@dataclass
class Commands:
    """The commands inside a conversation: obeys them, and knows what can be typed (`Choices`)."""

    _talking: Talking
    _offered: tuple[str, str, int, Sequence[_Choice]] | None = None

    def take(self, line: str) -> bool:
        """Do what the line says, if anything: obey it, or ask it; return whether the conversation goes on.

        What begins with two slashes is sent with one. What begins with a path is asked, and so is a text of several
        lines that begins with no word that is known: it is a piece of something else.
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
        """Return each command, as `/word`, and what it does; built in or of an extension."""
        own = {command.word: command.what for command in TABLE.values()}
        added = {usage.split()[0]: what for usage, what in self._talking.current.extending.commands().items()}
        return {**own, **{word: what for word, what in added.items() if word not in own}}

    def agents(self) -> Mapping[str, str]:
        """Return each agent, as `@name`, and what it is for."""
        return self._talking.current.extending.agents()

    def arguments(self, word: str) -> Sequence[_Choice]:
        """Return what may stand behind the command: each value, and words about it; nothing if that fails."""
        command = TABLE.get(f"{_MARK}{word.removeprefix(_MARK)}")
        if command is None:
            return ()
        try:
            current = self._talking.current
            session_id, position = current.conversation.session_id, current.runtime.position
            if self._offered is None or self._offered[:3] != (word, session_id, position):
                self._offered = (word, session_id, position, command.offers(self._talking))
            return self._offered[3]
        except Exception:  # noqa: BLE001 - somebody is typing; who sends the line is told what is wrong
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
        """Return whether the line has a slash more than is meant; several lines that begin so are a program's."""
        meant = line.removeprefix(_MARK)
        if not line.startswith(_MARK * 2) or "\n" not in line:
            return line.startswith(_MARK * 2)
        return _split(meant)[0] in TABLE or self._talking.current.extending.is_command(meant)

    def _nearest(self, word: str) -> str:
        near = get_close_matches(word, self.commands(), n=1)
        return f"did you mean {near[0]}? " if near else ""


def _split(line: str) -> tuple[str, str]:
    """Return the first word of a line, and the rest."""
    word, *rest = line.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""
