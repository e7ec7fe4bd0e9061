"""Recordings, and players that show the same again."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import Engine, ExitStatus, Recording
from tests.terminal.screen.test_engine_properties import WRITTEN


def recording(cols: int = 80, rows: int = 24) -> Recording:
    return Recording(cols, rows, started=1_700_000_000.9)


class Term(msgspec.Struct):
    cols: int
    rows: int
    type: str | None = None


class Header(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    version: int
    term: Term
    timestamp: int | None = None
    command: str | None = None
    title: str | None = None


def read(cast: str) -> tuple[Header, list[tuple[float, str, str]]]:
    """Return the header and the events of an asciicast, these with the times since the start."""
    assert cast.endswith("\n")
    header, *lines = cast.splitlines()
    now = 0.0
    events: list[tuple[float, str, str]] = []
    for line in lines:
        interval, code, data = json.loads(line)
        assert interval >= 0
        now += interval
        events.append((round(now, 6), code, data))
    return msgspec.json.decode(header, type=Header, strict=True), events


def play(cast: str, engine: Engine) -> None:
    """Show an asciicast."""
    header, events = read(cast)
    engine.resize(header.term.cols, header.term.rows)
    for _, code, data in events:
        if code == "o":
            engine.feed(data.encode())
        elif code == "r":
            columns, rows = data.split("x")
            engine.resize(int(columns), int(rows))


def test_a_recording_is_a_header_and_what_happened() -> None:
    made = recording()
    made.add_output(0.25, b"\x1b[1mHello\r\n")
    made.add_input(1.5, b"ls\r")
    made.mark("here", 2.0)
    made.add_resize(2.5, 100, 30)
    made.add_exit(3.0, ExitStatus(code=2))

    header, events = read(made.asciicast())

    assert header == Header(version=3, term=Term(80, 24, "xterm-256color"), timestamp=1_700_000_000)
    assert events == [
        (0.25, "o", "\x1b[1mHello\r\n"),
        (1.5, "i", "ls\r"),
        (2.0, "m", "here"),
        (2.5, "r", "100x30"),
        (3.0, "x", "2"),
    ]
    assert [tuple(event) for event in made.events] == events


def test_the_header_tells_command_title_and_type() -> None:
    made = Recording(10, 5, term="vt100", command="ls -l", started=1.0)

    header, _ = read(made.asciicast("A title\nin two lines"))

    assert header == Header(
        version=3, term=Term(10, 5, "vt100"), timestamp=1, command="ls -l", title="A title\nin two lines"
    )


def test_a_signal_is_told_as_shells_tell_it() -> None:
    made = recording()

    made.add_exit(1.0, ExitStatus(signal=9))

    assert made.events[0].data == "137"


def test_characters_in_pieces_are_whole_again() -> None:
    made = recording()
    for number, byte in enumerate("é中\U0001f600!".encode()):
        made.add_output(number, bytes([byte]))

    _, events = read(made.asciicast())

    assert events == [(1, "o", "é"), (4, "o", "中"), (8, "o", "\U0001f600"), (9, "o", "!")]


def test_input_does_not_come_between_the_bytes_of_a_character() -> None:
    made = recording()
    made.add_output(1, b"\xc3")
    made.add_input(2, b"\xc3\xa4")
    made.add_output(3, b"\xa9")

    _, events = read(made.asciicast())

    assert events == [(2, "i", "ä"), (3, "o", "é")]


def test_what_is_no_character_is_replaced_even_at_the_end() -> None:
    made = recording()
    made.add_output(1, b"a\xffb\xe4")

    before, after = read(made.asciicast())[1], read(made.asciicast())[1]
    made.add_exit(2, ExitStatus(code=0))
    ended = read(made.asciicast())[1]

    assert before == after == [(1, "o", "a\ufffdb"), (1, "o", "\ufffd")]
    assert ended == [(1, "o", "a\ufffdb"), (2, "o", "\ufffd"), (2, "x", "0")]


def test_times_are_rounded_without_adding_up() -> None:
    made = recording()
    for number in range(1, 3001):
        made.add_output(number / 3, b"x")

    _, events = read(made.asciicast())

    assert abs(events[-1][0] - 1000) < 1e-6


def test_times_out_of_order_do_not_go_back() -> None:
    made = recording()
    made.add_output(2.0, b"later")
    made.add_input(1.0, b"earlier")

    _, events = read(made.asciicast())

    assert [time for time, _, _ in events] == [2.0, 2.0]


def test_a_mark_without_a_time_is_made_now() -> None:
    clock = iter((100.0, 103.5, 104.0))
    made = Recording(80, 24, clock=lambda: next(clock))

    made.mark("now")

    assert (made.events[0].time, made.elapsed()) == (3.5, 4.0)


def test_a_saved_recording_is_the_asciicast(tmp_path: Path) -> None:
    made = recording()
    made.add_output(1, "é\u2028\x85".encode())
    made.mark("half a character: \udc80", 2)

    path = made.save(tmp_path / "one.cast", "title")

    written = path.read_bytes().decode("ascii")
    assert written == made.asciicast("title")
    assert len(written.split("\n")) == 4


@given(chunks=st.lists(WRITTEN | st.text().map(str.encode), max_size=8), sizes=st.lists(st.integers(1, 30), max_size=8))
def test_a_player_shows_the_same_screen(chunks: list[bytes], sizes: list[int]) -> None:
    # Bytes that are not UTF-8 are replaced in the recording, so that players may show another number of U+FFFD.
    valid = [chunk.decode(errors="ignore").encode() for chunk in chunks]
    made = recording(20, 5)
    with closing(Engine(20, 5)) as seen, closing(Engine(80, 24)) as played:
        for number, chunk in enumerate(valid):
            seen.feed(chunk)
            made.add_output(number, chunk[: len(chunk) // 2])
            made.add_output(number + 0.5, chunk[len(chunk) // 2 :])
            for size in sizes[number : number + 1]:
                seen.resize(size, 5)
                made.add_resize(number + 0.7, size, 5)

        play(made.asciicast(), played)

        assert played.screen() == seen.screen()


def test_halves_of_characters_in_the_header_are_replaced() -> None:
    recording = Recording(80, 24, command="printf \udcff", started=0)

    header = json.loads(recording.asciicast(title="a\ud800").splitlines()[0])

    assert (header["command"], header["title"]) == ("printf ?", "a?")


def test_of_output_and_of_input_as_much_is_recorded_as_is_wanted() -> None:
    made = Recording(80, 24, limit=10)

    for _ in range(3):
        made.add_output(1.0, b"output")
        made.add_input(1.0, b"typed")

    written = "".join(event.data for event in made.events if event.code == "o")
    typed = "".join(event.data for event in made.events if event.code == "i")
    assert (written, typed) == ("outputoutp", "typedtyped")
    assert [event.data.split(" behind")[0] for event in made.events if event.code == "m"] == [
        "the output",
        "the input",
    ]
