"""A screen is shown as it is taken in, with a turn for others."""

from __future__ import annotations

import threading

import pytest

from reenact.terminal.screen.model import Screen
from reenact.terminal.session import display as module
from reenact.terminal.session.display import Display
from reenact.testing import wait_until
from tests.terminal.session.programs import Blind


def test_who_looks_at_the_screen_has_a_turn_while_a_flood_is_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    is_fed = threading.Event()

    class Told(Blind):
        def feed(self, data: bytes) -> bytes:
            happened.append("fed")
            is_fed.set()
            if len(happened) == 1:
                wait_until(lambda: bool(display._waiting))
            return b""

        def screen(self) -> Screen:
            happened.append("looked at")
            return super().screen()

    monkeypatch.setattr(module, "_LONGEST_YIELD", 60.0)  # a busy machine needs time to give the turn
    display = Display(Told(80, 24))
    feeding = threading.Thread(target=lambda: [display.feed(b"a", lambda _: None) for _ in range(2)])
    feeding.start()
    is_fed.wait()

    display.text()

    feeding.join()
    assert happened[:2] == ["fed", "looked at"]
    assert "looked at" not in happened[2:]
