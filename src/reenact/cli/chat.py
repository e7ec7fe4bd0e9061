"""The chat with a person at a terminal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from rich.console import Console as Screen
from rich.text import Text

from reenact.cli.commands import Commands
from reenact.cli.console import Console
from reenact.cli.current import Current
from reenact.cli.editing import editor_of_questions, has_typed, read_question
from reenact.cli.exact import harmless
from reenact.cli.extending import Extending
from reenact.cli.failures import ExitCode, TerminatedError, problem_of
from reenact.cli.going import show_last_exchange
from reenact.cli.here import Here, settle
from reenact.cli.interrupts import interrupting
from reenact.cli.keyboard import is_hung_up, quiet_keyboard
from reenact.cli.rows import in_rows
from reenact.cli.talking import Talking
from reenact.cli.version import version
from reenact.domain.errors import ReenactError

_KEYS: Final = "Enter sends, Ctrl+C interrupts, Ctrl+D leaves, /help lists the commands."
_NO_WAY_BACK: Final = "There is no way back: this conversation is not in the log any more."
_ONCE_MORE: Final = "Ctrl+C again, or Ctrl+D, leaves."
_MOMENT: Final = 5.0
"""Seconds in which Ctrl+C leaves after that was said."""


def chat(current: Current, console: Console, extending: Extending, *, who: str, timeout: float | None) -> int:
    """Talk until the person leaves.

    Raises:
        KeyboardInterrupt: they pressed Ctrl+C twice during an answer.
        TerminatedError: the terminal is gone; likewise when a request to end comes.
    """
    screen = console.screen(console.err)
    with _ending_with_terminal(console), quiet_keyboard(console):
        talking = Talking(current, console, screen, extending, timeout)
        here = Here(
            current=current,
            talking=talking,
            extending=extending,
            say=lambda line: screen.print(in_rows(harmless(line), screen.width), style="dim"),
            width=lambda: screen.width,
            run=talking.run,
        )
        _welcome(here, screen, who)
        try:
            _Chat(here, talking, console, screen, time.monotonic).go_on()
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

    def __init__(
        self, here: Here, talking: Talking, console: Console, screen: Screen, clock: Callable[[], float]
    ) -> None:
        self._here = here
        self._talking = talking
        self._console = console
        self._screen = screen
        self._clock = clock
        self._commands = Commands(here)
        self._leaves_until = clock()
        """Until when Ctrl+C leaves, if nothing is typed before: the person was told so."""

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
                goes_on = has_typed(editor) or self._clock() >= self._leaves_until
                if goes_on:
                    self._warn()
            else:
                self._leaves_until = self._clock()
                goes_on = self._do(partial(self._commands.take, line))

    def _warn(self) -> None:
        """Say what Ctrl+C would do now, and for how long."""
        self._screen.print(_ONCE_MORE, style="dim")
        self._leaves_until = self._clock() + _MOMENT

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
        presses = len(pressed) + self._talking.interrupted
        if goes_on and presses == 1:
            self._warn()
        return goes_on and presses <= 1


def _welcome(here: Here, screen: Screen, who: str) -> None:
    conversation = here.current.conversation
    messages = () if conversation.is_new else here.current.runtime.sessions.messages(conversation.session_id)
    so_far = "" if conversation.is_new else f", {len(messages)} messages so far"
    named = f"Reenact {version()}"
    welcome = Text(in_rows(f"{named} · {harmless(who)}", screen.width))
    welcome.stylize("bold", 0, len(named))
    screen.print(welcome)
    for line in (f"Session {harmless(conversation.session_id)}{so_far}", _KEYS):
        screen.print(in_rows(line, screen.width), style="dim")
    show_last_exchange(here, messages, screen.width)
    screen.print()


def _say_how_to_come_back(current: Current, screen: Screen) -> None:
    conversation = current.conversation
    try:
        if conversation.is_new or not current.runtime.sessions.messages(conversation.session_id):
            return
        is_found = current.is_found
    except ReenactError:
        is_found = False
    if is_found:
        screen.print(harmless(f"To come back: {current.way_back}"), style="dim")
    else:
        screen.print(_NO_WAY_BACK, style="red")
