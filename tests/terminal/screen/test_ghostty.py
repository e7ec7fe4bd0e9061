"""Links, reflow, and the bounds of the engine."""

from __future__ import annotations

import gc
import itertools
import resource
from collections.abc import Iterator
from contextlib import closing

import pytest

from reenact.terminal.ansi.style import ANSIStyle
from reenact.terminal.screen.engine import Engine
from reenact.terminal.screen.libghostty import Terminal


@pytest.fixture
def engine() -> Iterator[Engine]:
    with closing(Engine(20, 4)) as engine:
        yield engine


def test_links_are_kept(engine: Engine) -> None:
    long = "https://example.com/" + "x" * 1500

    engine.feed(f"a\x1b]8;id=1;http://example.com/é\x1b\\b中\x1b]8;;{long}\x07c\x1b]8;;\x1b\\d".encode())

    links = [cell.link for cell in engine.screen().cells[0][:6]]
    assert links == [None, *["http://example.com/é"] * 3, long, None]


@pytest.mark.parametrize(
    "sequence",
    [
        pytest.param(b"\x1b[!p", id="DECSTR"),
        pytest.param(b"\x1b[1;1;2;2;1;3;1;1$v", id="DECCRA"),
        pytest.param(b"\x1b[88;1;1;2;2$x", id="DECFRA"),
        pytest.param(b"\x1b[1;1;2;2$z", id="DECERA"),
        pytest.param(b"\x1b[2'}", id="DECIC"),
        pytest.param(b"\x1b[2'~", id="DECDC"),
        pytest.param(b"\x1b#6", id="DECDWL"),
        pytest.param(b"\x1b[g", id="TBC"),
    ],
)
def test_what_ghostty_does_not_have_is_ignored(engine: Engine, sequence: bytes) -> None:
    engine.feed(b"one\r\ntwo\x1b[2;3r\x1b[31m\x1b[?25l\x1b[1;9H")
    before = engine.screen()

    answer = engine.feed(sequence)

    assert (engine.screen(), answer) == (before, b"")
    engine.feed(b"x\ry\tz")
    assert engine.screen().lines[0] == "yne     z"
    assert engine.screen().cells[0][0].style == ANSIStyle(foreground="red")


def test_the_emoji_of_a_key_lacks_its_selector_where_characters_do_not_form_clusters(engine: Engine) -> None:
    engine.feed("1\ufe0f\u20e3\r\n\x1b[?2027h1\ufe0f\u20e3".encode())

    assert engine.screen().lines[:2] == ("1\u20e3", "1\ufe0f\u20e3")


def test_a_narrower_screen_breaks_lines_anew_and_a_wider_one_joins_them(engine: Engine) -> None:
    engine.feed(b"abcdef\r\nx")

    engine.resize(4, 4)
    narrow = engine.screen().lines
    engine.resize(20, 4)

    assert (narrow, engine.screen().lines) == (("abcd", "ef", "x", ""), ("abcdef", "x", "", ""))


def test_half_a_wide_character_is_not_left_on_an_alternate_screen_that_became_narrower() -> None:
    with closing(Engine(3, 1)) as engine:
        engine.feed("\x1b[?1049ha中".encode())

        engine.resize(2, 1)
        narrow = engine.screen().cells[0]
        engine.resize(4, 1)

        assert [(cell.text, cell.width) for cell in narrow] == [("a", 1), (" ", 1)]
        assert [cell.text for cell in engine.screen().cells[0]] == ["a", " ", " ", " "]
        assert engine.text() == engine.screen().text


def test_lines_above_a_screen_that_became_narrower_are_broken_anew() -> None:
    with closing(Engine(6, 1)) as engine:
        engine.feed(b"abcdef\r\nx")
        before = engine.screen().scrollback

        engine.resize(3, 1)

        assert (before, engine.screen().scrollback) == (("abcdef",), ("abc", "def"))


@pytest.mark.parametrize("looks", [True, False])
def test_blank_lines_above_a_screen_are_wrapped_alike_whether_they_were_read_or_not(*, looks: bool) -> None:
    with closing(Engine(6, 4)) as engine:
        engine.feed(b"abc")
        engine.resize(1, 2)
        engine.feed(b"\x1b[3S")
        if looks:
            engine.screen()

        engine.resize(20, 5)

        assert engine.screen().lines == ("abc", "", "", "", "")
        assert engine.screen().cursor.row == 1


def test_a_program_that_changes_the_number_of_columns_is_shown_in_its_own() -> None:
    with closing(Engine(100, 2)) as engine:
        engine.feed(b"\x1b[?40h\x1b[?3h" + b"x" * 132 + b"1\r\n2\r\n3")
        wide = engine.screen()

        engine.feed(b"\x1b[?3l" + b"y" * 80 + b"1\r\n2\r\n3")
        narrow = engine.screen()

    assert [(screen.columns, {len(row) for row in screen.cells}) for screen in (wide, narrow)] == [
        (132, {132}),
        (80, {80}),
    ]
    assert wide.scrollback == ("x" * 132, "1")
    assert narrow.scrollback[-2:] == ("y" * 80, "1")


def test_the_size_is_told_in_characters_and_in_pixels(engine: Engine) -> None:
    engine.resize(30, 10)

    answer = engine.feed(b"\x1b[18t\x1b[14t\x1b[16t")

    assert answer == b"\x1b[8;10;30t\x1b[4;160;240t\x1b[6;16;8t"


def test_a_keyboard_of_other_keys_than_xterms_is_not_offered(engine: Engine) -> None:
    answer = engine.feed(b"\x1b[?u\x1b[>31u\x1b[?u\x1b[c")

    assert answer == b"\x1b[?62;22c"


def test_colours_that_are_asked_for_are_told(engine: Engine) -> None:
    answer = engine.feed(b"\x1b]10;?\x1b\\\x1b]11;?\x1b\\")

    assert answer == b"\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\\x1b]11;rgb:0000/0000/0000\x1b\\"


def test_styles_are_those_of_their_own_row_when_many_come_and_go(engine: Engine) -> None:
    for start in range(0, 256, 4):
        engine.feed(b"\x1b[H" + b"\r\n".join(b"\x1b[38;2;9;9;%dmx" % (start + row) for row in range(4)))

        colors = [row[0].style.foreground for row in engine.screen().cells]
        assert colors == [f"#0909{start + row:02x}" for row in range(4)]


def test_rows_that_have_not_changed_are_not_read_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.feed(b"\x1b[1mone\r\ntwo\r\nthree")
    before = engine.screen()
    asked: list[tuple[int, int]] = []
    style = Terminal.style

    def counted(terminal: Terminal, row: int, column: int) -> ANSIStyle:
        asked.append((row, column))
        return style(terminal, row, column)

    monkeypatch.setattr(Terminal, "style", counted)

    engine.feed(b"!")
    after = engine.screen()

    assert asked == [(2, 0)]
    assert after.cells[0] is before.cells[0]
    assert after.lines == ("one", "two", "three!", "")


def test_a_place_with_very_many_characters_is_read(engine: Engine) -> None:
    engine.feed(b"e" + "\u0301".encode() * 4000)

    text = engine.screen().cells[0][0].text

    assert text[0] == "e"
    assert set(text[1:]) == {"\u0301"}


def flood(beginning: bytes, rest: bytes) -> Iterator[bytes]:
    return itertools.chain([beginning], itertools.repeat(rest))


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(flood(b"\x1b]2;", b"x" * 65536), id="a title"),
        pytest.param(flood(b"\x1b]8;;", b"x" * 65536), id="a link"),
        pytest.param(flood(b"\x1b]52;c;", b"A" * 65536), id="a clipboard"),
        pytest.param(flood(b"\x1bP+q", b"6" * 65536), id="a device string"),
        pytest.param(flood(b"\x1b_x", b"x" * 65536), id="an application's string"),
        pytest.param(flood(b"\x1b_Ga=t,f=24,s=9000,v=9000,i=1;", b"A" * 65536), id="an image"),
        pytest.param(
            flood(b"", b"\x1b_Ga=t,f=24,s=9000,v=9000,i=1,m=1;" + b"A" * 4096 + b"\x1b\\"), id="an image in pieces"
        ),
        pytest.param(flood(b"e", "\u0301".encode() * 30_000), id="one place"),
        pytest.param(flood(b"\x1b[", b"1;" * 30_000), id="parameters"),
        pytest.param(flood(b"", b"a line of text that is quite ordinary\r\n" * 1700), id="lines"),
    ],
)
def test_memory_is_bounded_whatever_never_ends(written: Iterator[bytes]) -> None:
    with closing(Engine(80, 24, scrollback=1000)) as engine:
        for data in itertools.islice(written, 20):
            engine.feed(data)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        for data in itertools.islice(written, 300):
            engine.feed(data)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

        assert grown < 8 * 1024  # kilobytes, of nearly twenty megabytes that were written
        assert engine.screen().rows == 24


def test_an_engine_that_is_forgotten_gives_everything_back() -> None:
    made = [Engine(10, 2) for _ in range(3)]
    screens = [engine.feed(b"1\r\n2\r\n3") or engine.screen() for engine in made]
    ends = [engine._open_terminal._finalizer for engine in made if engine._open_terminal is not None]

    made.clear()
    gc.collect()

    assert len(screens) == 3
    assert [end.alive for end in ends] == [False, False, False]


def test_lines_that_are_too_long_for_a_narrower_screen_are_broken_anew(engine: Engine) -> None:
    engine.resize(6, 2)
    engine.feed(b"abcdefg")

    engine.resize(4, 2)

    assert engine.text() == "abcd\nefg"
