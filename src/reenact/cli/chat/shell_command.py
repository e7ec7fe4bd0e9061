"""Runs the shell commands that a person types in the chat as `!command`, after asking; the model is told."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console as Screen

from reenact.cli.chat.extending import project_directory
from reenact.cli.editor.editor import Editor, forget_what_was_typed, read_line
from reenact.cli.editor.keyboard import typed_ahead
from reenact.cli.interrupts import around_stops, interrupting
from reenact.cli.output.console import Console
from reenact.cli.output.exact import escaped, in_rows
from reenact.cli.render.flow import can_be_styled
from reenact.cli.render.live_line import LiveLine
from reenact.domain.legible import harmless

TIMEOUT: Final = 60.0
"""Seconds that a command may run, as a hook may."""
MOST: Final = 10_000
"""Characters of what a command prints, of each of its two outputs, that are shown and that the model is told."""


@dataclass
class ShellCommands:
    """Runs commands; what they have printed waits for the message that is to have it before it."""

    _editor: Editor
    _console: Console
    _screen: Screen
    _is_allowed = False
    told = ""
    """What the model is to be told of the commands that have run since the last message."""

    def run(self, command: str) -> None:
        """Run the command line with the user's shell, if the person wants that, and show what it prints."""
        if not self._may_run(command):
            return
        from reenact.extensions.firing import without_secrets  # noqa: PLC0415 - loaded when it is needed
        from reenact.extensions.running import run  # noqa: PLC0415 - likewise

        stop = threading.Event()
        environ = without_secrets(self._console.environ)
        with interrupting(stop.set), self._showing_life():
            try:
                ran = run(
                    command,
                    b"",
                    environ=environ,
                    cwd=project_directory(self._console),
                    timeout=TIMEOUT,
                    stop=stop,
                    shell=_shell(environ),
                )
            except (OSError, ValueError) as error:
                self._say(f"It could not be started: {error}", "red")
                return
        how = f"ended with exit code {ran.code}"
        if ran.code is None:
            how = "was interrupted" if stop.is_set() else f"was ended: it ran longer than {TIMEOUT:g} s"
        printed = self._console.without_key("\n".join(filter(None, (_cut(ran.out), _cut(ran.err)))))
        for line in printed.split("\n") if printed else ():
            self._screen.print(harmless(line))
        if ran.code != 0:
            self._say(f"It {how}.", "yellow")
        self._say("The model is told with your next message.", "dim")
        self.told += f"I ran this command in the shell:\n\n{command}\n\nIt {how}. It printed:\n\n{printed}\n\n"

    def _may_run(self, command: str) -> bool:
        if self._is_allowed:
            return True
        forget_what_was_typed(self._editor)
        self._say(f"In {harmless(str(project_directory(self._console)))}: {escaped(command)}", "bold")
        try:
            answer = read_line(self._editor, "Run it? [y]es, [n]o, [a]lways in this chat: ").casefold()
        except (EOFError, KeyboardInterrupt):
            answer = ""
        self._is_allowed = answer in ("a", "always")
        if self._is_allowed or answer in ("y", "yes"):
            return True
        self._say("It was not run.", "dim")
        return False

    @contextmanager
    def _showing_life(self) -> Generator[None]:
        if not can_be_styled(self._screen):
            yield
            return
        live = LiveLine(self._screen, [self._console.err], typed_ahead())
        live.doing = "running"
        with around_stops(live.pause, live.go_on):
            live.start()
            try:
                yield
            finally:
                live.stop()

    def _say(self, line: str, style: str) -> None:
        self._screen.print(in_rows(line, self._screen.width), style=style)


def _shell(environ: Mapping[str, str]) -> str:
    return environ.get("SHELL") or "/bin/sh"


def _cut(printed: str) -> str:
    text = printed.rstrip()
    return text if len(text) <= MOST else f"{text[:MOST]}\n… ({len(text) - MOST:,} more characters)"
