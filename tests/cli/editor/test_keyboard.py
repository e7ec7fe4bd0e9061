"""The keyboard is quiet from the welcome to the end: seen from outside, by the modes of the terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input, raw_mode
from prompt_toolkit.key_binding import KeyPress

from reenact.cli.editor.keyboard import discard_typed, quiet_keyboard, typed_input
from reenact.cli.output.console import Console
from reenact.cli.output.failures import TerminatedError
from reenact.terminal import SpecialKey, TerminalEmulator
from reenact.testing import wait_until
from tests.cli.conftest import PATIENCE, PROMPT, Chat, ask
from tests.cli.requirements.pace import Pace
from tests.cli.tools import MAIL, Office

XTERM = Console({"TERM": "xterm"}, in_ci=False)


@dataclass
class Keyboard:
    """A terminal: what a person types on it, and the modes it is in."""

    person: int
    program: int
    stdin: io.TextIOWrapper

    def type(self, keys: bytes) -> None:
        """Type this."""
        os.write(self.person, keys)

    @property
    def modes(self) -> list[Any]:
        """What `stty` would tell."""
        return termios.tcgetattr(self.program)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    """Return a keyboard that is the standard input, and whose terminal is not ours to stop for."""
    person, program = pty.openpty()
    with open(program, closefd=False, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with create_app_session(input=Vt100Input(stdin)):
            yield Keyboard(person, program, stdin)
    os.close(person)
    os.close(program)


def is_quiet(modes: list[Any]) -> bool:
    """Return whether nothing is shown or edited, Enter stays Enter, and Ctrl+C still is a signal."""
    shows = modes[3] & (termios.ECHO | termios.ICANON)
    return not shows and not modes[0] & termios.ICRNL and bool(modes[3] & termios.ISIG)


def modes_of(terminal: TerminalEmulator) -> list[Any]:
    """Return the modes of the terminal at which a program runs."""
    descriptor = os.open(f"/proc/{terminal.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
    try:
        return termios.tcgetattr(descriptor)
    finally:
        os.close(descriptor)


def test_the_keyboard_is_quiet_inside_and_as_it_was_behind(keyboard: Keyboard) -> None:
    before = keyboard.modes

    with quiet_keyboard(XTERM):
        inside = keyboard.modes

    assert (is_quiet(before), is_quiet(inside)) == (False, True)
    assert keyboard.modes == before


@pytest.mark.parametrize("error", [TerminatedError(), KeyboardInterrupt(), SystemExit(3), OSError("disk")])
def test_the_keyboard_is_as_it_was_whatever_happens(keyboard: Keyboard, error: BaseException) -> None:
    before = keyboard.modes

    with pytest.raises(type(error)), quiet_keyboard(XTERM):
        raise error

    assert keyboard.modes == before


def test_a_raw_mode_inside_ends_in_the_quiet_one(keyboard: Keyboard) -> None:
    with quiet_keyboard(XTERM):
        with raw_mode(keyboard.program):
            inside = keyboard.modes
        behind = keyboard.modes

    assert not inside[3] & termios.ISIG
    assert is_quiet(behind)


def test_what_was_typed_before_is_kept_and_enter_is_enter(keyboard: Keyboard) -> None:
    keyboard.type(b"early\rand")
    wait_until(lambda: b"early" in os.read(keyboard.person, 100), timeout=PATIENCE)  # echoed: it has arrived

    with quiet_keyboard(XTERM), create_app_session(input=Vt100Input(keyboard.stdin)) as session:
        keys = get_typeahead(session.input)

    assert "".join(key.data for key in keys) == "early\rand"


@pytest.mark.parametrize("stdin", [None, io.StringIO("Hello\n")])
def test_without_a_terminal_nothing_is_done(monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO | None) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)

    with quiet_keyboard(XTERM):
        read = stdin and stdin.read()

    assert read == (stdin and "Hello\n")


def test_a_terminal_that_understands_no_sequences_goes_on_editing_lines(keyboard: Keyboard) -> None:
    before = keyboard.modes

    with quiet_keyboard(Console({"TERM": "dumb"}, in_ci=False)):
        inside = keyboard.modes

    assert inside == before


def test_a_terminal_that_has_gone_is_no_failure(keyboard: Keyboard) -> None:
    reached = False

    with quiet_keyboard(XTERM):
        os.dup2(os.open(os.devnull, os.O_RDONLY), keyboard.program)
        reached = True

    assert reached


@pytest.mark.parametrize("begun", ["", "\x1b[200~the beginning of a paste, "])
def test_what_follows_without_a_pause_is_forgotten_with_what_was_typed(keyboard: Keyboard, begun: str) -> None:
    with quiet_keyboard(XTERM):
        typed = typed_input()
        assert isinstance(typed, Vt100Input)
        typed.vt100_parser.feed(begun)
        keyboard.type(b"y\r" * 1000 + b"\x1b[201~\x1b")
        discard_typed(typed)
        keyboard.type(b"n")
        keys = typed.read_keys()

    assert [key.data for key in keys] == ["n"]


def test_the_rest_of_a_paste_is_waited_for_and_forgotten_however_long_it_pauses(keyboard: Keyboard) -> None:
    rest = threading.Timer(0.15, keyboard.type, [b"y\r\x1b[201~"])
    with quiet_keyboard(XTERM):
        typed = typed_input()
        keyboard.type(b"\x1b[200~y\r")
        rest.start()
        discard_typed(typed)
        rest.join()
        keyboard.type(b"n")
        keys = typed.read_keys()

    assert [key.data for key in keys] == ["n"]


def test_a_key_that_is_stuck_holds_up_nobody_for_ever(keyboard: Keyboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.cli.editor.keyboard._LONGEST", 0.1)
    typed = typed_input()
    assert isinstance(typed, Vt100Input)
    read_keys = typed.read_keys

    def read_and_press_again() -> list[KeyPress]:
        keys = read_keys()
        keyboard.type(b"y")
        return keys

    monkeypatch.setattr(typed, "read_keys", read_and_press_again)
    with quiet_keyboard(XTERM):
        keyboard.type(b"y")
        discard_typed(typed)
        is_stuck = bool(select.select([keyboard.program], [], [], 0)[0])

    assert is_stuck


def test_what_is_typed_while_an_answer_streams_is_not_in_it_and_is_sent_in_order_then(
    chat: Chat, office: Office
) -> None:
    pace = Pace("What I ", "have to ", "say.")
    office.api.script([pace.reply])
    terminal = chat()
    terminal.send_line("Speak")
    pace.say()
    terminal.wait_for("What I")

    terminal.write("first\rsecond\r\x1b[200~third\rof two lines\x1b[201~")
    pace.end()
    terminal.wait_for("have to say.")
    terminal.get_by_text("What I have to say.").expect_visible()
    for _ in range(2):  # the line of what is typed may be drawn anew between the pieces of an answer
        terminal.wait_for("the fake API!")
    terminal.wait_for("of two lines")
    terminal.send_key(SpecialKey.ENTER)
    terminal.wait_for("the fake API!")

    asked = [request.body["messages"][-1]["content"][-1]["text"] for request in office.api.requests]
    assert asked == ["Speak", "first", "second", "third\nof two lines"]


def test_ctrl_c_ends_an_answer_and_takes_nothing_of_what_was_typed_ahead(chat: Chat, office: Office) -> None:
    pace = Pace("What I ", "have to ", "say.")
    office.api.script([pace.reply])
    terminal = chat()
    terminal.send_line("Speak")
    pace.say()
    terminal.wait_for("What I")

    terminal.write("second\r")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Interrupted.")
    pace.end()
    terminal.wait_for("Hello from the fake API!")

    assert office.api.requests[-1].body["messages"][-1]["content"][-1]["text"] == "second"


def test_ctrl_backslash_ends_the_chat_and_leaves_the_terminal_as_it_was(chat: Chat) -> None:
    terminal = chat(MOCK_SCENARIO="long-stream")
    terminal.send_line("Tell me everything")
    terminal.wait_for("chunk-1")

    terminal.write("\x1c")

    assert terminal.wait_for_exit().code == 131
    assert terminal.screen.cursor.visible
    assert terminal.get_output().rindex("\x1b[?2004l") > terminal.get_output().rindex("\x1b[?2004h")


@pytest.mark.parametrize("until", [b"/help lists", b"chunk-1"], ids=["at the prompt", "in mid-answer"])
def test_a_window_that_is_closed_ends_the_chat_quietly(
    command: list[str], environ: dict[str, str], tmp_path: Path, until: bytes
) -> None:
    person, program = pty.openpty()
    chat = subprocess.Popen(
        command,
        stdin=program,
        stdout=program,
        stderr=program,
        env={**environ, "MOCK_SCENARIO": "long-stream"},
        cwd=tmp_path,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it calls the system only
    )
    os.close(program)
    os.write(person, b"Tell me everything\r" if until == b"chunk-1" else b"")
    read = b""
    while until not in read:
        read += os.read(person, 4096)

    os.close(person)

    errors = Path(environ["HOME"]) / ".local/state/reenact/errors.log"
    try:
        code: object = chat.wait(PATIENCE)
    except subprocess.TimeoutExpired:  # what it waits for is told below
        chat.terminate()
        code = f"late: {chat.wait(PATIENCE)}"
    assert (code, errors.read_text() if errors.exists() else "") == (143, "")


@pytest.mark.parametrize("name", ["", "dumb", "unknown"])
def test_a_terminal_that_understands_no_sequences_gets_none(chat: Chat, name: str) -> None:
    terminal = chat(TERM=name, MOCK_SCENARIO="with-thinking")
    ask(terminal, "Think", "Answer")

    assert "\x1b" not in terminal.get_output()


def test_a_paste_that_is_still_coming_answers_no_question_of_approval(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL, delay=0.05)
    terminal = chat(*office.tools)
    terminal.send_line("Write to Ann")
    terminal.write("\x1b[200~" + "y\r" * 5000 + "\x1b[201~" + "y\r")  # more than a terminal takes at once
    terminal.wait_for("Run it?")
    terminal.send_line("maybe")
    terminal.wait_for("Type y, n, a, e or q")

    assert office.sent == ""


def test_ctrl_z_gives_the_shell_its_own_modes_fg_brings_ours_back_and_the_end_of_the_process_takes_them_away(
    environ: dict[str, str], tmp_path: Path
) -> None:
    shell = TerminalEmulator(
        "/bin/sh",
        ["-i"],
        env={**environ, "PS1": "shell% ", "MOCK_SCENARIO": "long-stream"},
        cwd=tmp_path,
        timeout=PATIENCE,
    )
    with shell:
        shell.wait_for("shell% ")
        shell.send_line(f"{sys.executable} -P -m reenact")
        shell.wait_for(PROMPT)
        shell.send_line("Tell me everything")
        shell.wait_for("chunk-0")
        inside = modes_of(shell)

        shell.send_key("ctrl+z")
        shell.wait_for("shell% ")
        between = modes_of(shell)
        ask(shell, "fg", "chunk-99")
        shell.send_key("ctrl+z")  # also from the editor
        shell.wait_for("shell% ")
        from_the_editor = modes_of(shell)
        shell.send_line("kill %1; fg")
        shell.wait_for("kill %1; fg")
        shell.wait_for("shell% ")
        behind = modes_of(shell)

    assert is_quiet(inside)
    assert [bool(modes[3] & termios.ICANON) for modes in (between, from_the_editor, behind)] == [True] * 3
