"""A screen is shown and recorded as it is taken in: in pieces, with a turn for others, and no more than is wanted."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from reenact.terminal.screen.recording import Recording
from reenact.terminal.session import display as module
from reenact.terminal.session.display import Display, Recorder
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

        def text(self) -> str:
            happened.append("looked at")
            return ""

    monkeypatch.setattr(module, "_LONG", 60.0)  # a busy machine needs time to give the turn
    display = Display(Told(80, 24))
    feeding = threading.Thread(target=lambda: list(display.taken(bytes(100_000), lambda _: None)))
    feeding.start()
    is_fed.wait()

    display.text()

    feeding.join()
    assert happened[:2] == ["fed", "looked at"]
    assert "looked at" not in happened[2:]


def test_of_output_and_of_input_as_much_is_recorded_as_is_wanted() -> None:
    recording = Recording(80, 24)
    recorder = Recorder(recording, 10)

    for _ in range(3):
        recorder.output(b"output")
        recorder.input(b"typed")

    written = "".join(event.data for event in recording.events if event.code == "o")
    typed = "".join(event.data for event in recording.events if event.code == "i")
    assert (written, typed) == ("outputoutp", "typedtyped")
    assert [event.data.split(" behind")[0] for event in recording.events if event.code == "m"] == [
        "the output",
        "the input",
    ]


def test_no_more_events_are_recorded_than_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_EVENTS", 5)
    recording = Recording(80, 24)
    recorder = Recorder(recording, 1000)

    for number in count(1):
        recorder.output(b"o")
        recorder.input(b"i")
        recorder.resized(80, number)
        if number == 20:
            break

    assert len(recording.events) == 5
    assert recording.events[-1].code == "m"
