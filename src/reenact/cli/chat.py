"""The chat with a person at a terminal."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from rich.cells import cell_len
from rich.console import Console as Screen
from rich.text import Text

from reenact.cli.commands import Commands
from reenact.cli.console import Console
from reenact.cli.current import Current
from reenact.cli.editing import editor_of_questions, read_question
from reenact.cli.exact import harmless
from reenact.cli.extending import Extending
from reenact.cli.failures import ExitCode, TerminatedError, problem_of
from reenact.cli.here import Here, settle
from reenact.cli.interrupts import interrupting
from reenact.cli.keyboard import is_hung_up, quiet_keyboard
from reenact.cli.talking import Talking
from reenact.cli.version import version
from reenact.domain.errors import ReenactError

_KEYS: Final = "Enter sends, Ctrl+C interrupts, Ctrl+D leaves, /help lists the commands."
_WORD: Final = re.compile(r"\s*\S+")
_ONCE_MORE: Final = "Ctrl+C again, or Ctrl+D, leaves."


def chat(current: Current, console: Console, extending: Extending, *, who: str, timeout: float | None) -> int:
    """Talk until the person leaves.

    Raises:
        KeyboardInterrupt: they pressed Ctrl+C twice during an answer.
        TerminatedError: the terminal is gone; likewise when a request to end comes.
    """
    screen = Screen(file=console.err, highlight=False, markup=False, soft_wrap=True)
    with _ending_with_terminal(console), quiet_keyboard(console):
        _welcome(current, screen, who)
        talking = Talking(current, console, screen, extending, timeout)
        here = Here(
            current=current,
            talking=talking,
            extending=extending,
            say=lambda line: screen.print(_in_rows(harmless(line), screen.width), style="dim"),
            width=lambda: screen.width,
        )
        try:
            _Chat(here, talking, console, screen).go_on()
        except KeyboardInterrupt:
            _say_how_to_come_back(current, screen)
            raise
        _say_how_to_come_back(current, screen)
    return ExitCode.SUCCESS


@contextlib.contextmanager
def _ending_with_terminal(console: Console) -> Generator[None]:
    """End as if that had been asked for when the terminal goes, whatever fails because of that."""
    failed: Exception | None = None
    try:
        yield
    except Exception as error:
        if not is_hung_up():
            raise
        failed = error
    except BaseException:
        if is_hung_up():
            console.abandon_terminal()
        raise
    if is_hung_up():
        console.abandon_terminal()
        raise TerminatedError from failed


class _Chat:
    """Reads one line after the other, and does what it says, whatever becomes of that."""

    def __init__(self, here: Here, talking: Talking, console: Console, screen: Screen) -> None:
        self._here = here
        self._talking = talking
        self._console = console
        self._screen = screen
        self._commands = Commands(here)
        self._presses = 0
        """How often Ctrl+C was pressed since something was typed."""

    def go_on(self) -> None:
        """Go on until the person leaves."""
        editor = editor_of_questions(self._console, self._commands)

        def see_to_what_waits() -> bool:
            settle(self._here)
            return True

        goes_on = self._do(see_to_what_waits)
        while goes_on:
            try:
                line = read_question(editor)
            except EOFError:
                return
            except KeyboardInterrupt:
                goes_on = self._stays()
            else:
                goes_on = self._do(partial(self._commands.take, line))

    def _stays(self) -> bool:
        """Return whether the person stays, who has pressed Ctrl+C instead of Enter; what stood there is cleared."""
        self._presses += 1
        return self._is_warned()

    def _is_warned(self) -> bool:
        """Say what Ctrl+C would do now, if it was pressed once; return whether it was not pressed twice."""
        if self._presses == 1:
            self._screen.print(_ONCE_MORE, style="dim")
        return self._presses <= 1

    def _do(self, act: Callable[[], bool]) -> bool:
        """Do it, and tell if it fails; return whether the chat goes on."""
        pressed: list[None] = []
        self._talking.interrupted, goes_on = False, True
        with interrupting(lambda: pressed.append(None)):
            try:
                goes_on = act()
            except ReenactError as error:
                self._talking.fail(error)
            except BrokenPipeError:  # nobody reads the answers any more
                raise
            except Exception as error:
                if is_hung_up():  # nobody has more to say
                    raise
                self._console.report(problem_of(error), error)
        said = self._talking.interrupted
        self._presses = len(pressed) + said
        return goes_on and (self._presses <= 1 if said else self._is_warned())


def _welcome(current: Current, screen: Screen, who: str) -> None:
    conversation = current.conversation
    so_far = ""
    if not conversation.is_new:
        so_far = f", {len(current.runtime.sessions.messages(conversation.session_id))} messages so far"
    named = f"Reenact {version()}"
    welcome = Text(_in_rows(f"{named} · {harmless(who)}", screen.width))
    welcome.stylize("bold", 0, len(named))
    screen.print(welcome)
    for line in (f"Session {harmless(conversation.session_id)}{so_far}", _KEYS):
        screen.print(_in_rows(line, screen.width), style="dim")
    screen.print()


def _in_rows(line: str, width: int) -> str:
    """Return the line, broken between words only: what no row has room for, such as an id, can be copied whole."""
    rows = [""]
    for word in _WORD.findall(line):
        if rows[-1] and cell_len(f"{rows[-1]}{word}") > width >= cell_len(word.lstrip()):
            rows.append(word.lstrip())
        else:
            rows[-1] += word
    return "\n".join(rows)


def _say_how_to_come_back(current: Current, screen: Screen) -> None:
    conversation = current.conversation
    with contextlib.suppress(ReenactError):  # whoever leaves a log that is gone knows
        if not conversation.is_new and current.runtime.sessions.messages(conversation.session_id):
            screen.print(harmless(f"To come back: {current.way_back}"), style="dim")
