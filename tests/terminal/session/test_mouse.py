"""The mouse: what is reported to a program that asks for it, and that nothing is to one that does not."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from reenact.terminal import AsyncTerminalEmulator, Engine, TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.screen.model import MouseAction, MouseButton
from tests.terminal.raising import raises
from tests.terminal.screen.conftest import Opened, opened
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import shell

__all__ = ["opened"]

PRESSES, CLICKS, DRAGS, MOVES = "\x1b[?9h", "\x1b[?1000h", "\x1b[?1002h", "\x1b[?1003h"
SGR = "\x1b[?1006h"


@pytest.fixture
def engine(opened: Opened) -> Engine:
    return opened()


@pytest.mark.parametrize(
    ("modes", "action", "button", "expected"),
    [
        (CLICKS + SGR, "click", "left", b"\x1b[<0;6;4M\x1b[<0;6;4m"),
        (CLICKS + SGR, "press", "middle", b"\x1b[<1;6;4M"),
        (CLICKS + SGR, "release", "right", b"\x1b[<2;6;4m"),
        (CLICKS + SGR, "scroll_up", "left", b"\x1b[<64;6;4M"),
        (CLICKS + SGR, "scroll_down", "left", b"\x1b[<65;6;4M"),
        (DRAGS + SGR, "drag", "left", b"\x1b[<32;6;4M"),
        (DRAGS + SGR, "drag", "right", b"\x1b[<34;6;4M"),
        (MOVES + SGR, "move", "left", b"\x1b[<35;6;4M"),
        (CLICKS, "click", "left", b"\x1b[M &$\x1b[M#&$"),
        (CLICKS + "\x1b[?1016h", "press", "left", b"\x1b[<0;44;56M"),
        (PRESSES, "click", "left", b"\x1b[M &$"),
    ],
)
def test_a_report_has_the_form_that_the_program_asked_for(
    engine: Engine, modes: str, action: MouseAction, button: MouseButton, expected: bytes
) -> None:
    engine.feed(modes.encode())

    assert engine.mouse(action, 3, 5, button) == expected


@pytest.mark.parametrize(
    ("modes", "action"),
    [
        (SGR, "click"),
        (PRESSES, "release"),
        (PRESSES, "scroll_up"),
        (CLICKS, "drag"),
        (DRAGS, "move"),
        (MOVES + "\x1b[?1003l", "click"),
    ],
)
def test_what_the_program_has_not_asked_for_is_not_reported(engine: Engine, modes: str, action: MouseAction) -> None:
    engine.feed(modes.encode())

    assert engine.mouse(action, 0, 0) == b""


@pytest.mark.parametrize(
    ("shift", "alt", "ctrl", "code"),
    [(True, False, False, 4), (False, True, False, 8), (False, False, True, 16), (True, True, True, 28)],
)
def test_keys_that_are_held_are_reported(engine: Engine, *, shift: bool, alt: bool, ctrl: bool, code: int) -> None:
    engine.feed((CLICKS + SGR).encode())

    assert engine.mouse("press", 0, 0, shift=shift, alt=alt, ctrl=ctrl) == b"\x1b[<%d;1;1M" % code


def test_every_cell_can_be_clicked_and_no_other(engine: Engine) -> None:
    engine.feed((CLICKS + SGR).encode())
    engine.resize(7, 3)

    for row in range(3):
        for column in range(7):
            assert engine.mouse("press", row, column) == b"\x1b[<0;%d;%dM" % (column + 1, row + 1)
    outside: list[tuple[Any, Any]] = [(-1, 0), (0, -1), (3, 0), (0, 7), (0.5, 0), (0, "0")]
    for row, column in outside:
        with raises(TerminalTestErrorType.INVALID_CONFIG, "is not on the screen, which is 7 by 3"):
            engine.mouse("press", row, column)


@pytest.mark.parametrize(("action", "button"), [("klick", "left"), ("click", "lef"), (None, "left")])
def test_a_mistyped_action_or_button_is_refused_with_those_there_are(engine: Engine, action: Any, button: Any) -> None:  # noqa: ANN401 - the mistake
    with raises(TerminalTestErrorType.INVALID_CONFIG, ", ".join(get_args(MouseAction))):
        engine.mouse(action, 0, 0, button)


def asking_late(reports: str) -> tuple[str, ...]:
    """Return a program that asks for reports when it has got a byte, and then writes as many bytes of them."""
    echo = f"head -c {len(reports)} | tr '\\033' E"
    ask = r"printf 'ready  [ OK ]\r\n'; head -c 1 >/dev/null; printf '\033[?1000;1006h'"
    return shell(f"stty raw -echo; {ask}; {echo}; exec sleep 60")


def test_a_click_waits_until_the_program_asks_for_the_mouse(start: Start) -> None:
    reports = "E[<0;4;3ME[<0;4;3m"
    terminal = start(*asking_late(reports), timeout=0.05)
    terminal.wait_for("OK", 30)
    with pytest.raises(WaitTimeoutError, match="waiting for a request for 'click' of the mouse from '/bin/sh'"):
        terminal.send_mouse("click", 2, 3)
    terminal.timeout = 30

    terminal.write(".")
    terminal.send_mouse("click", 2, 3)

    terminal.wait_for(reports)


def test_a_text_is_clicked_in_its_middle(start: Start) -> None:
    reports = "E[<2;11;1ME[<2;11;1m"
    terminal = start(*asking_late(reports))
    terminal.wait_for("OK")
    terminal.write(".")

    assert terminal.get_by_text("[ OK ]").click("right").text == "[ OK ]"

    terminal.wait_for(reports)


def test_a_coroutine_can_click_too() -> None:
    reports = "E[<16;11;1ME[<16;11;1m"

    async def clicked() -> None:
        async with AsyncTerminalEmulator(asking_late(reports)) as terminal:
            await terminal.wait_for("OK")
            await terminal.write(".")
            await terminal.get_by_text("OK").click(ctrl=True)
            await terminal.wait_for(reports)

    asyncio.run(clicked())


def test_a_program_that_has_ended_gets_no_reports(start: Start) -> None:
    terminal = start(*shell(r"printf '\033[?1000h'"))
    terminal.wait_for_exit()
    terminal.dispose()

    with raises(TerminalTestErrorType.PROCESS_EXITED, "before it could be written to"):
        terminal.send_mouse("click", 0, 0)
