"""A screen is shown before and after a synchronized update, not in the middle of it."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal.session import display
from reenact.terminal.session.display import LONGEST, Updates
from reenact.terminal.session.pty import Pair
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import shell

BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"
PARTS = st.lists(st.sampled_from([BEGIN, END, b"a", b"bc", b"\x1b["]), max_size=12)
ARRIVED = PARTS.map(b"".join).flatmap(
    lambda output: st.lists(st.integers(0, len(output)), max_size=6).map(
        lambda cuts: [output[start:end] for start, end in pairwise([0, *sorted(cuts), len(output)])]
    )
)


@given(ARRIVED)
def test_all_output_is_shown_and_nothing_of_an_open_update_before_its_end(parts: list[bytes]) -> None:
    held = Updates()
    shown = b""

    for part in parts:
        shown += held.finished(part, now=0)
        assert shown.count(BEGIN) == 0 or END in shown[shown.rfind(BEGIN) :]
        may_begin = any(shown.endswith(BEGIN[:length]) for length in range(1, len(BEGIN)))
        assert held.is_open or not may_begin  # in front of an update, the same bytes are no beginning of one

    assert shown + held.rest() == b"".join(parts)
    assert not held.is_open


def test_an_update_whose_beginning_comes_in_two_pieces_is_held_back() -> None:
    held = Updates()

    assert held.finished(b"before" + BEGIN[:5], now=0) == b"before"
    assert held.finished(BEGIN[5:] + b"half", now=0) == b""
    assert held.finished(b"more" + END, now=0) == BEGIN + b"halfmore" + END


def test_an_update_that_does_not_end_is_shown_when_it_is_late() -> None:
    held = Updates()

    assert held.finished(b"before" + BEGIN + b"half", now=5) == b"before"
    assert held.is_open
    assert held.finished(b"", now=5 + LONGEST / 2) == b""
    assert held.finished(b"more", now=5 + LONGEST) == BEGIN + b"halfmore"
    assert held.finished(b"at once", now=5 + LONGEST) == b"at once"


def test_each_update_has_its_own_time() -> None:
    held = Updates()
    held.finished(BEGIN + b"one", now=0)

    assert held.finished(END + BEGIN + b"two", now=LONGEST - 0.1) == BEGIN + b"one" + END
    assert held.finished(b"more", now=LONGEST) == b""


def test_an_update_that_is_too_large_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_LARGEST", 20)
    held = Updates()

    assert held.finished(BEGIN + b"a" * 12, now=0) == b""
    assert held.finished(b"b", now=0) == BEGIN + b"a" * 12 + b"b"


def test_half_of_an_update_is_not_on_the_screen(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "LONGEST", 60)
    half_has_come = threading.Event()
    seen: list[str] = []
    read = Pair.read

    def noted(pair: Pair) -> bytes | None:
        seen.append(terminal.screen.text)
        data = read(pair)
        if b"half" in (data or b""):
            half_has_come.set()
        return data

    script = r"printf READY; read go; printf '\033[?2026hhalf'; read go; printf 'whole\033[?2026l'"
    terminal = start(*shell(script))
    terminal.wait_for("READY")
    monkeypatch.setattr(Pair, "read", noted)
    terminal.send_line("")
    assert half_has_come.wait(10)
    terminal.send_line("")

    terminal.wait_for("whole")

    assert not [text for text in seen if "half" in text and "whole" not in text]


def test_what_a_program_shows_at_its_end_is_shown_also_if_its_update_is_open(start: Start) -> None:
    terminal = start(*shell(r"printf '\033[?2026hlast words'"))

    terminal.wait_for_exit()

    assert terminal.screen.text == "last words"


def test_a_program_is_not_idle_in_the_middle_of_an_update(start: Start) -> None:
    terminal = start(*shell(r"printf 'READY\033[?2026hshown late'; exec sleep 60"))
    terminal.wait_for("READY")

    terminal.wait_idle()

    assert terminal.screen.text == "READYshown late"
