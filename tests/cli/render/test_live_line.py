"""The line below an answer: how that gets on, and what is typed meanwhile. It leaves no trace."""

from __future__ import annotations

import io
import re
import signal
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console as Screen

from reenact.cli.editor.keyboard import TypedAhead
from reenact.cli.interrupts import around_suspension
from reenact.cli.render.live_line import LiveLine
from reenact.terminal import Engine, SpecialKey, TerminalEmulator
from reenact.testing import wait_until
from tests.cli.conftest import PROMPT, Chat
from tests.cli.render.kit import plain, screen_of
from tests.cli.tools import Office

HIDDEN, VISIBLE = "\x1b[?25l", "\x1b[?25h"
ERASED = f"\x1b[J{VISIBLE}"


class Terminal(io.StringIO):
    """A terminal in memory, which may be gone."""

    is_gone = False

    def write(self, text: str) -> int:
        if self.is_gone:
            raise OSError("it is gone")
        return super().write(text)

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def line(terminal: Terminal) -> Iterator[LiveLine]:
    """Return a line that ends with the test."""
    line = line_on(terminal)
    yield line
    terminal.is_gone = False
    line.stop()


class Typed(TypedAhead):
    """A keyboard on which this was typed."""

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def descriptors(self) -> list[int]:
        return []

    def begin(self) -> None: ...

    def end(self) -> None: ...

    @property
    def text(self) -> str:
        return self._text


def screen_on(file: TextIO, width: int = 40, rows: int = 24) -> Screen:
    """Return a screen of so many columns and rows."""
    return Screen(file=file, force_terminal=True, width=width, height=rows, color_system=None, _environ={})


def line_on(terminal: Terminal, width: int = 40, rows: int = 24) -> LiveLine:
    """Return a line on a terminal of so many columns."""
    return LiveLine(screen_on(terminal, width, rows), [terminal])


def threads() -> list[threading.Thread]:
    """Return the threads that draw live lines."""
    return [thread for thread in threading.enumerate() if thread.name == "reenact-live-line"]


def test_it_appears_when_nothing_is_written_and_is_gone_without_a_trace(terminal: Terminal, line: LiveLine) -> None:
    line.start()
    wait_until(lambda: terminal.getvalue().count("\r") >= 3, what="three frames")
    line.stop()

    frames = terminal.getvalue()
    assert frames.startswith(f"{HIDDEN}\r⠋ waiting\x1b[K\r\r⠙ waiting\x1b[K\r")
    assert frames.endswith(ERASED)
    assert frames.count(HIDDEN) == frames.count(VISIBLE) == 1
    screen = screen_of(frames)
    assert (screen.text, screen.cursor.visible, screen.cursor.column) == ("", True, 0)


def test_starting_and_stopping_twice_is_once(terminal: Terminal, line: LiveLine) -> None:
    line.stop()
    for _ in range(2):
        line.start()
    assert len(threads()) == 1
    for _ in range(2):
        line.stop()

    assert threads() == []
    assert "write" not in vars(terminal)


@pytest.mark.parametrize("rows", [3, 24])
@pytest.mark.parametrize(
    "pieces",
    [
        ["one\n", "two\n"],
        ["on", "e\nt", "wo"],
        ["\x1b[1mone\x1b[0m", "\ntwo", "\n", "three and more\nfour\nfi", "ve", "\nsix"],
    ],
)
def test_what_is_written_is_whole_and_the_line_is_below_it(rows: int, pieces: list[str]) -> None:
    terminal = Terminal()
    line = LiveLine(screen_on(terminal, 40, rows), [terminal], Typed("next"))
    line.start()
    wait_until(lambda: HIDDEN in terminal.getvalue())
    written = ""
    for piece in pieces:
        terminal.write(piece)
        written += piece
        seen = screen_of(terminal.getvalue(), 40, rows)
        *above, below = seen.lines[: seen.cursor.row + 1 + bool(line._column)]
        assert above == plain(written).removesuffix("\n").split("\n")[-len(above) :]
        assert " > next" in below
        assert not seen.cursor.visible
    line.stop()

    seen = screen_of(terminal.getvalue(), 40)
    assert seen.text == plain(written).rstrip()
    assert seen.cursor.visible
    assert terminal.getvalue().count(HIDDEN) == 1, "it does not flicker"


def test_a_text_that_makes_its_row_longer_is_written_as_it_is(terminal: Terminal, line: LiveLine) -> None:
    line.start()
    terminal.write("One")
    wait_until(lambda: HIDDEN in terminal.getvalue(), what="the line below the text")
    before = terminal.getvalue()
    terminal.write(" and two")
    after = terminal.getvalue()
    line.stop()

    assert after == f"{before} and two"


@pytest.mark.parametrize("text", ["x" * 40, "x" * 100, "漢" * 20, "a\t" * 10])
def test_it_is_not_below_a_line_that_fills_its_row(terminal: Terminal, line: LiveLine, text: str) -> None:
    line.start()
    wait_until(lambda: HIDDEN in terminal.getvalue())
    terminal.write(text)
    shown = terminal.getvalue()
    terminal.write("y\n")
    wait_until(lambda: terminal.getvalue().count(HIDDEN) == 2)
    line.stop()

    assert shown.endswith(f"{text}{VISIBLE}")
    assert screen_of(terminal.getvalue(), 40).text.replace("\n", "") == plain(screen_of(f"{text}y", 40).text).replace(
        "\n", ""
    )


def test_what_goes_elsewhere_does_not_disturb_it(terminal: Terminal) -> None:
    file = io.StringIO()
    line = LiveLine(screen_on(terminal), [file])
    line.start()
    wait_until(lambda: HIDDEN in terminal.getvalue())
    file.write("an answer")
    line.stop()

    assert file.getvalue() == "an answer"


@pytest.mark.parametrize(
    ("width", "typed", "told"),
    [
        (80, "", "⠋ writing (3 s, ~1,200 tokens, claude-x)"),
        (39, "", "⠋ writing (3 s, ~1,200 tokens)"),
        (19, "", "⠋ writing (3 s)"),
        (14, "", "⠋ writing"),
        (7, "", "⠋ writi"),
        (80, "next", "⠋ writing (3 s, ~1,200 tokens, claude-x) > next"),
        (40, "what comes next", "⠋ writing (3 s) > what comes next"),
        (19, "what comes next", "⠋ > what comes next"),
        (18, "what comes next", "⠋ > …at comes next"),
        (80, "two\nlines\x1b[2J", "⠋ writing (3 s, ~1,200 tokens, claude-x) > two↵lines\\u001b[2J"),
    ],
)
def test_it_says_as_much_as_there_is_room_for_and_what_is_typed_first(width: int, typed: str, told: str) -> None:
    line = LiveLine(screen_on(Terminal()), [], Typed(typed))
    line.doing, line.model, line.tokens = "writing", "claude-x", 1200
    line._frame = 0

    assert "".join(line._status_and_typed(3, width)) == told


@given(st.text(max_size=60), st.integers(7, 100), st.sampled_from(["waiting", "something with a long name"]))
def test_it_is_never_wider_than_it_may_be(typed: str, width: int, doing: str) -> None:
    line = LiveLine(screen_on(Terminal()), [], Typed(typed))
    line.doing = doing

    assert cell_len("".join(line._status_and_typed(100, width))) <= width


def test_there_is_nothing_on_a_terminal_without_room() -> None:
    terminal = Terminal()
    line = line_on(terminal, 7)

    line.start()
    line._draw()
    line.stop()

    assert terminal.getvalue() == ""


def test_a_terminal_that_is_gone_ends_it(terminal: Terminal, line: LiveLine) -> None:
    line.start()

    terminal.is_gone = True

    wait_until(lambda: not threads())


def test_it_can_be_shown_in_ascii() -> None:
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="") as file:
        line = LiveLine(screen_on(file), [], Typed("x\ny"))
        line._since = time.monotonic()

        line._draw()
        line._hide()

        file.seek(0)
        assert file.read().startswith(f"{HIDDEN}\r| waiting > x/y")


def test_it_waits_while_it_is_paused(terminal: Terminal, line: LiveLine) -> None:
    line.start()
    wait_until(lambda: HIDDEN in terminal.getvalue())
    line.pause()
    paused = terminal.getvalue()
    line.go_on()
    wait_until(lambda: terminal.getvalue().count(HIDDEN) == 2)
    line.stop()

    assert paused.endswith(ERASED)


def waiting(chat: Chat, office: Office, *arguments: str) -> TerminalEmulator:
    """Return a chat in which the model says nothing."""
    office.api.reply(stall_after=0)
    terminal = chat(*arguments)
    terminal.send_line("Are you there?")
    terminal.wait_for("waiting")
    return terminal


def output_of(terminal: TerminalEmulator) -> str:
    return "".join(event.data for event in terminal.recording.events if event.code == "o")


def test_its_row_is_never_blank_and_nothing_of_it_is_left(chat: Chat, office: Office) -> None:
    terminal = waiting(chat, office)
    wait_until(lambda: output_of(terminal).count("waiting") > 5)
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Interrupted.")
    terminal.wait_for(PROMPT)

    rows: list[str] = []
    output = output_of(terminal)
    first = output.index("waiting") + len("waiting")
    last = output.rindex("waiting", first, output.index("Interrupted."))
    place = 0
    engine = Engine(terminal.recording.cols, terminal.recording.rows)
    for piece in re.split(r"(?=[\r\x1b])", output):
        engine.feed(piece.encode())
        place += len(piece)
        if first <= place <= last:
            screen = engine.screen()
            rows.append(screen.lines[screen.cursor.row])
            assert not screen.cursor.visible
    after = engine.screen()
    engine.close()
    assert len(rows) >= 5
    assert [row for row in rows if "waiting" not in row] == []
    assert after.cursor.visible
    assert "waiting" not in after.text


def test_the_cursor_is_there_again_when_the_chat_is_ended(chat: Chat, office: Office) -> None:
    terminal = waiting(chat, office)

    terminal.kill()
    terminal.wait_for_exit()

    assert terminal.screen.cursor.visible
    assert "waiting" not in terminal.screen.text


def test_a_dumb_terminal_has_none(chat: Chat, office: Office) -> None:
    office.api.reply(stall_after=0)
    terminal = chat(TERM="dumb")
    terminal.send_line("Are you there?")
    wait_until(lambda: office.api.requests)
    terminal.wait_idle(0.3)
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Interrupted.")

    assert "waiting" not in terminal.get_stripped_output()
    assert HIDDEN not in terminal.get_output()


def test_what_a_tool_prints_is_on_lines_of_its_own(chat: Chat, office: Office) -> None:
    (office.directory / "slow.py").write_text(SLOW)
    office.model_asks_for(("slow", {}))
    terminal = chat("--tools", "slow.py")
    terminal.send_line("Go")
    terminal.wait_for("running")
    (office.directory / "go").touch()
    terminal.wait_for("Hello from the fake API!")
    terminal.wait_for(PROMPT)

    lines = [line for line in terminal.screen.lines if line]
    assert "printed" in lines
    assert not any("running" in line for line in lines)


SLOW = '''
import time
from pathlib import Path
from reenact import tool

@tool
def slow() -> str:
    """Wait for a file."""
    while not Path("go").exists():
        time.sleep(0.01)
    print("printed")
    return "done"
'''


def test_it_is_gone_while_the_process_is_stopped(terminal: Terminal, line: LiveLine) -> None:
    stopped: list[str] = []
    before = signal.signal(signal.SIGTSTP, lambda _number, _frame: stopped.append(terminal.getvalue()))
    try:
        with around_suspension(line.pause, line.go_on):
            line.start()
            for number in (1, 2):
                wait_until(lambda number=number: terminal.getvalue().count(HIDDEN) == number)  # type: ignore[misc]
                signal.raise_signal(signal.SIGTSTP)
            line.stop()
    finally:
        signal.signal(signal.SIGTSTP, before)

    assert len(stopped) == 2
    assert all(shown.endswith(ERASED) for shown in stopped)
