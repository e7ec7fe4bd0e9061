"""A sign of life while nothing is written, which leaves no trace."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Iterator

import pytest
from rich.console import Console as Screen

from reenact.cli.interrupts import around_stops
from reenact.cli.spinner import Spinner
from reenact.terminal import SpecialKey, TerminalEmulator
from reenact.terminal.screen.engines import engine_named
from reenact.testing import wait_until
from tests.cli.conftest import PROMPT, Chat
from tests.cli.prose.kit import screen_of
from tests.cli.tools import Office

HIDDEN, VISIBLE = "\x1b[?25l", "\x1b[?25h"
ERASED = f"\r\x1b[K{VISIBLE}"


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
def spinner(terminal: Terminal) -> Iterator[Spinner]:
    """Return a spinner that ends with the test."""
    spinner = spinner_on(terminal)
    yield spinner
    terminal.is_gone = False
    spinner.stop()


def spinner_on(terminal: Terminal, width: int = 40) -> Spinner:
    """Return a spinner on a terminal of so many columns."""
    return Spinner(Screen(file=terminal, force_terminal=True, width=width, color_system=None, _environ={}), [terminal])


def spinners() -> list[threading.Thread]:
    """Return the threads of spinners."""
    return [thread for thread in threading.enumerate() if thread.name == "reenact-spinner"]


def test_it_appears_when_nothing_is_written_and_is_gone_without_a_trace(terminal: Terminal, spinner: Spinner) -> None:
    spinner.start()
    wait_until(lambda: terminal.getvalue().count("\r") >= 3, what="three frames")
    spinner.stop()

    frames = terminal.getvalue()
    assert frames.startswith(f"{HIDDEN}\r⠋ waiting\r⠙ waiting\r")
    assert frames.endswith(ERASED)
    assert frames.count(HIDDEN) == frames.count(VISIBLE) == 1
    screen = screen_of(frames)
    assert (screen.text, screen.cursor.visible, screen.cursor.column) == ("", True, 0)


def test_starting_and_stopping_twice_is_once(terminal: Terminal, spinner: Spinner) -> None:
    spinner.stop()
    for _ in range(2):
        spinner.start()
    assert len(spinners()) == 1
    for _ in range(2):
        spinner.stop()

    assert spinners() == []
    assert "write" not in vars(terminal)


def test_what_is_written_meanwhile_is_never_in_the_middle_of_it(terminal: Terminal, spinner: Spinner) -> None:
    spinner.start()
    for number in range(3):
        wait_until(lambda number=number: terminal.getvalue().count(HIDDEN) == number + 1, what="a frame")  # type: ignore[misc]
        terminal.write(f"line {number}\n")
    spinner.stop()

    assert screen_of(terminal.getvalue()).text == "line 0\nline 1\nline 2"


def test_it_does_not_appear_behind_an_unfinished_line(terminal: Terminal, spinner: Spinner) -> None:
    spinner.start()
    terminal.write("unfinished")
    wait_until(lambda: spinner._line_is_open and not spinner._drawn)
    terminal.write(" line\n")
    wait_until(lambda: HIDDEN in terminal.getvalue())
    spinner.stop()

    assert terminal.getvalue().startswith(f"unfinished line\n{HIDDEN}\r")


def test_it_says_what_is_done(terminal: Terminal, spinner: Spinner) -> None:
    spinner.start()
    wait_until(lambda: "waiting" in terminal.getvalue())
    spinner.doing = "x"
    wait_until(lambda: " x" in terminal.getvalue())
    spinner.stop()

    assert " x      " in terminal.getvalue(), "what was there is written over"


@pytest.mark.parametrize(("width", "shown"), [(8, "⠋ waiti"), (9, "⠋ waitin"), (200, "⠋ waiting")])
def test_it_is_as_narrow_as_the_terminal(width: int, shown: str) -> None:
    terminal = Terminal()
    spinner = spinner_on(terminal, width)

    spinner.start()
    wait_until(lambda: HIDDEN in terminal.getvalue())
    spinner.stop()

    assert terminal.getvalue().split("\r")[1] == shown or "\r" + shown in terminal.getvalue()


def test_there_is_nothing_on_a_terminal_without_room() -> None:
    terminal = Terminal()
    spinner = spinner_on(terminal, 7)

    spinner.start()
    spinner._draw(100)
    spinner.stop()

    assert terminal.getvalue() == ""


def test_it_is_never_wider_than_it_may_be() -> None:
    terminal = Terminal()
    spinner = spinner_on(terminal, 200)

    spinner.doing = "something with a long name"
    spinner._draw(100)
    spinner._erase()

    assert max(len(frame) for frame in terminal.getvalue().replace(ERASED, "").split("\r")) == 24


def test_a_terminal_that_is_gone_ends_it(terminal: Terminal, spinner: Spinner) -> None:
    spinner.start()

    terminal.is_gone = True

    wait_until(lambda: not spinners())


def test_it_can_be_shown_in_ascii() -> None:
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="") as file:
        spinner = Spinner(Screen(file=file, force_terminal=True, width=40, color_system=None, _environ={}), [])

        spinner._draw(3)
        spinner._erase()

        file.seek(0)
        assert file.read().startswith(f"{HIDDEN}\r| waiting (3 s)")


def test_it_waits_while_it_is_paused(terminal: Terminal, spinner: Spinner) -> None:
    spinner.start()
    wait_until(lambda: HIDDEN in terminal.getvalue())
    spinner.pause()
    paused = terminal.getvalue()
    spinner.go_on()
    wait_until(lambda: terminal.getvalue().count(HIDDEN) == 2)
    spinner.stop()

    assert paused.endswith(ERASED)


def waiting(chat: Chat, office: Office, *arguments: str) -> TerminalEmulator:
    """Return a chat in which the model says nothing."""
    office.api.reply(stall_after=0)
    terminal = chat(*arguments, **office.claude)
    terminal.send_line("Are you there?")
    terminal.wait_for("waiting")
    return terminal


def test_its_row_is_never_blank_and_nothing_of_it_is_left(chat: Chat, office: Office) -> None:
    terminal = waiting(chat, office)
    terminal.wait_for("⠼ waiting")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Interrupted.")
    terminal.wait_for(PROMPT)

    rows: list[str] = []
    events = [event.data for event in terminal.recording.events if event.code == "o"]
    first = next(place for place, data in enumerate(events) if "waiting" in data)
    last = max(place for place, data in enumerate(events) if "waiting" in data)
    engine = engine_named("ghostty")(terminal.recording.cols, terminal.recording.rows)
    for place, data in enumerate(events):
        engine.feed(data.encode())
        if first <= place <= last:
            screen = engine.screen()
            rows.append(screen.lines[screen.cursor.row])
            assert not screen.cursor.visible
    after = engine.screen()
    engine.close()
    assert len(rows) >= 5
    assert all("waiting" in row for row in rows)
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
    terminal = chat(TERM="dumb", **office.claude)
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
    terminal = chat("--tools", "slow.py", **office.claude)
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


def test_it_is_gone_while_the_process_is_stopped(terminal: Terminal, spinner: Spinner) -> None:
    stopped: list[str] = []
    before = signal.signal(signal.SIGTSTP, lambda _number, _frame: stopped.append(terminal.getvalue()))
    try:
        with around_stops(spinner.pause, spinner.go_on):
            spinner.start()
            for number in (1, 2):
                wait_until(lambda number=number: terminal.getvalue().count(HIDDEN) == number)  # type: ignore[misc]
                signal.raise_signal(signal.SIGTSTP)
            spinner.stop()
    finally:
        signal.signal(signal.SIGTSTP, before)

    assert len(stopped) == 2
    assert all(shown.endswith(ERASED) for shown in stopped)
