"""What programs write, and what the engine shows of it."""

from __future__ import annotations

import sys

import pytest

from reenact import MissingExtraError
from reenact.terminal import ANSIStyle, Cell, Cursor, Engine, Modes, TerminalEmulator, TerminalTestError
from tests.terminal.screen.conftest import Opened

SHOWN = {
    "text": ("one\r\ntwo", ("one", "two", "", ""), (1, 3)),
    "a newline alone keeps the column": ("one\ntwo", ("one", "   two", "", ""), (1, 6)),
    "a line that is too long goes on in the next row": ("x" * 25, ("x" * 20, "x" * 5, "", ""), (1, 5)),
    "the last column can be filled without going on": ("x" * 20, ("x" * 20, "", "", ""), (0, 19)),
    "what wraps is written over without wrapping": (
        "\x1b[?7l" + "x" * 20 + "yz",
        ("x" * 19 + "z", "", "", ""),
        (0, 19),
    ),
    "lines scroll away": ("1\r\n2\r\n3\r\n4\r\n5", ("2", "3", "4", "5"), (3, 1)),
    "the cursor goes anywhere": ("\x1b[3;5Hx\x1b[A\x1b[2Dy\x1b[2Cz\x1b[Bw", ("", "   y  z", "    x  w", ""), (2, 8)),
    "columns and rows are addressed": ("\x1b[5Ga\x1b[3db\x1b[1`c", ("    a", "", "c    b", ""), (2, 1)),
    "backspace and carriage return": ("abc\b\bX\rY", ("YXc", "", "", ""), (0, 1)),
    "tabs stop at every eighth column": ("a\tb\tc", ("a       b       c", "", "", ""), (0, 17)),
    "tabs go back": ("\t\tx\x1b[2Zy", ("        y       x", "", "", ""), (0, 9)),
    "tab stops are set and cleared": ("\x1b[3g\x1b[5G\x1bH\r\tx", ("    x", "", "", ""), (0, 5)),
    "a line is erased to its end": ("abcdef\x1b[3D\x1b[K", ("abc", "", "", ""), (0, 3)),
    "a line is erased from its beginning": ("abcdef\x1b[3D\x1b[1K", ("    ef", "", "", ""), (0, 3)),
    "the screen is erased below": ("a\r\nb\r\nc\x1b[2;1H\x1b[J", ("a", "", "", ""), (1, 0)),
    "the screen is erased": ("a\r\nb\x1b[2J\x1b[Hc", ("c", "", "", ""), (0, 1)),
    "characters are inserted": ("abcd\x1b[2G\x1b[2@", ("a  bcd", "", "", ""), (0, 1)),
    "characters are deleted": ("abcd\x1b[2G\x1b[2P", ("ad", "", "", ""), (0, 1)),
    "characters are erased": ("abcd\x1b[2G\x1b[2X", ("a  d", "", "", ""), (0, 1)),
    "text is inserted in that mode": ("bc\r\x1b[4ha\x1b[4l", ("abc", "", "", ""), (0, 1)),
    "lines are inserted": ("a\r\nb\x1b[1;1H\x1b[L", ("", "a", "b", ""), (0, 0)),
    "lines are deleted": ("a\r\nb\r\nc\x1b[1;1H\x1b[M", ("b", "c", "", ""), (0, 0)),
    "the last line is deleted": ("abc\x1b[M", ("", "", "", ""), (0, 0)),
    "only what is within margins scrolls": ("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\nx", ("1", "3", "x", "4"), (2, 1)),
    "the screen scrolls by request": ("1\r\n2\r\n3\x1b[S", ("2", "3", "", ""), (2, 1)),
    "the screen scrolls back by request": ("1\r\n2\r\n3\x1b[T", ("", "1", "2", "3"), (2, 1)),
    "up at the top moves everything down": ("1\r\n2\x1b[H\x1bM0", ("0", "1", "2", ""), (0, 1)),
    "a next line begins at its start": ("ab\x1bEc", ("ab", "c", "", ""), (1, 1)),
    "the cursor is saved and restored": ("a\x1b7\x1b[4;9Hb\x1b8c\x1b8d", ("ad", "", "", "        b"), (0, 2)),
    "a character is repeated": ("ab\x1b[3b", ("abbbb", "", "", ""), (0, 5)),
    "lines are drawn with the other set of characters": ("\x1b(0lqk\x1b(Bq", ("┌─┐q", "", "", ""), (0, 4)),
    "the second page is another": ("one\x1b[?1049h\x1b[Htwo", ("two", "", "", ""), (0, 3)),
    "the first page comes back": ("one\x1b[?1049h\x1b[Htwo\x1b[?1049l!", ("one!", "", "", ""), (0, 4)),
    "everything is reset": ("\x1b[31mabc\x1bcd", ("d", "", "", ""), (0, 1)),
    "strings for others are not shown": (
        "a\x1bPq#0\x1b\\b\x1b_G\x1b\\c\x1b^x\x1b\\d\x1b]52;c;eA==\x07e",
        ("abcde", "", "", ""),
        (0, 5),
    ),
    "what nobody knows is not shown": ("a\x1b[>4;2mb\x1b[<uc\x1b[?12;25$pd\x1b[1 qe", ("abcde", "", "", ""), (0, 5)),
    "a sequence is cancelled": ("a\x1b[3\x18b", ("ab", "", "", ""), (0, 2)),
    "a control within a sequence is carried out": ("abc\x1b[\r2Cx", ("abx", "", "", ""), (0, 3)),
    "what is not UTF-8 is replaced": ("a\udcff b", ("a\ufffd b", "", "", ""), (0, 4)),
}

STYLES = {
    "\x1b[1m": ANSIStyle(bold=True),
    "\x1b[2m": ANSIStyle(dim=True),
    "\x1b[3m": ANSIStyle(italic=True),
    "\x1b[4m": ANSIStyle(underline="single"),
    "\x1b[21m": ANSIStyle(underline="double"),
    "\x1b[4:3m": ANSIStyle(underline="curly"),
    "\x1b[4:4m": ANSIStyle(underline="dotted"),
    "\x1b[4:5m": ANSIStyle(underline="dashed"),
    "\x1b[5m": ANSIStyle(blink=True),
    "\x1b[7m": ANSIStyle(inverse=True),
    "\x1b[8m": ANSIStyle(hidden=True),
    "\x1b[9m": ANSIStyle(strikethrough=True),
    "\x1b[53m": ANSIStyle(overline=True),
    "\x1b[31;102m": ANSIStyle(foreground="red", background="bright_green"),
    "\x1b[38;5;9;48;5;200m": ANSIStyle(foreground="bright_red", background="color200"),
    "\x1b[38;2;1;2;3m": ANSIStyle(foreground="#010203"),
    "\x1b[48:2::1:2:3m": ANSIStyle(background="#010203"),
    "\x1b[4;58;5;1m": ANSIStyle(underline="single", underline_color="red"),
    "\x1b[1;3;31m\x1b[22;39m": ANSIStyle(italic=True),
    "\x1b[1;31m\x1b[m": ANSIStyle(),
}

ANSWERS = {
    "\x1b[5n": b"\x1b[0n",
    "ab\r\n\x1b[6n": b"\x1b[2;1R",
    "x" * 20 + "\x1b[6n": b"\x1b[1;20R",
    "\x1b[2;3r\x1b[?6h\x1b[2;4H\x1b[6n": b"\x1b[2;4R",
    "\x1b[c": b"\x1b[?62;22c",
    "no question": b"",
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_engine_shows_what_is_written(opened: Opened, name: str) -> None:
    written, lines, (row, column) = SHOWN[name]
    engine = opened()

    engine.feed(written.encode(errors="surrogateescape"))

    screen = engine.screen()
    assert screen.lines == lines
    assert screen.cursor == Cursor(row=row, column=column)
    assert engine.text() == screen.text == "\n".join(lines).rstrip("\n")


@pytest.mark.parametrize("sequence", STYLES)
def test_the_engine_keeps_the_style_of_what_is_written(opened: Opened, sequence: str) -> None:
    engine = opened()

    engine.feed(f"{sequence}x".encode())

    assert engine.screen().cells[0][0] == Cell(text="x", style=STYLES[sequence])


@pytest.mark.parametrize("question", ANSWERS)
def test_the_engine_answers_as_a_terminal(opened: Opened, question: str) -> None:
    engine = opened()

    answer = engine.feed(question.encode())

    assert answer == ANSWERS[question]


def test_a_wide_character_takes_two_columns(opened: Opened) -> None:
    engine = opened(5)

    engine.feed("a中b中".encode())

    row, below = engine.screen().cells[:2]
    assert [(cell.text, cell.width) for cell in row] == [("a", 1), ("中", 2), ("", 0), ("b", 1), (" ", 1)]
    assert below[0] == Cell(text="中", width=2)


def test_half_a_wide_character_is_not_left(opened: Opened) -> None:
    engine = opened(4)

    engine.feed("中文\x1b[2Gx".encode())

    assert [(cell.text, cell.width) for cell in engine.screen().cells[0]] == [(" ", 1), ("x", 1), ("文", 2), ("", 0)]


def test_characters_that_combine_stand_in_one_place(opened: Opened) -> None:
    engine = opened()

    engine.feed("e\u0301中\u0308!".encode())

    screen = engine.screen()
    assert [cell.text for cell in screen.cells[0][:5]] == ["e\u0301", "中\u0308", "", "!", " "]
    assert screen.lines[0] == "e\u0301中\u0308!"


def test_a_character_that_combines_is_seen_when_it_comes_later(opened: Opened) -> None:
    engine = opened()
    engine.feed(b"e")
    before = engine.screen().lines[0]

    engine.feed("\u0301".encode())

    assert (before, engine.text(), engine.screen().lines[0]) == ("e", "e\u0301", "e\u0301")


def test_erasing_leaves_the_background(opened: Opened) -> None:
    engine = opened()

    engine.feed(b"\x1b[1;44mab\x1b[K\r\n\x1b[48;2;1;2;3m\x1b[J")

    screen = engine.screen()
    assert screen.cells[0][19] == Cell(style=ANSIStyle(background="blue"))
    assert screen.cells[3][0] == Cell(style=ANSIStyle(background="#010203"))
    assert screen.lines == ("ab", "", "", "")


def test_modes_that_keys_depend_on_are_known(opened: Opened) -> None:
    engine = opened()

    before = engine.modes()
    engine.feed(b"\x1b[?1h\x1b=\x1b[?2004h\x1b[?1049h")
    between = engine.screen().modes
    engine.feed(b"\x1b[?1l\x1b>\x1b[?2004l\x1b[?1049l")

    assert before == engine.modes() == Modes()
    assert between == Modes(
        application_cursor=True, application_keypad=True, bracketed_paste=True, alternate_screen=True
    )


def test_the_cursor_is_hidden_and_shown(opened: Opened) -> None:
    engine = opened()

    engine.feed(b"\x1b[?25l")
    hidden = engine.screen().cursor.visible
    engine.feed(b"\x1b[?25h")

    assert (hidden, engine.screen().cursor.visible) == (False, True)


def test_the_title_is_known(opened: Opened) -> None:
    engine = opened()

    engine.feed("\x1b]2;é in pie".encode()[:6])
    engine.feed("\x1b]2;é in pieces\x07".encode()[6:])

    assert engine.screen().title == "é in pieces"


def test_lines_that_have_left_are_kept(opened: Opened) -> None:
    engine = opened(20, 2)

    engine.feed(b"1\r\n\r\n3\r\n4\r\n5")
    first = engine.screen().scrollback
    engine.feed(b"\r\n6\r\n7")

    assert (first, engine.screen().scrollback) == (("1", "", "3"), ("1", "", "3", "4", "5"))


def test_only_so_many_lines_are_kept() -> None:
    engine = Engine(20, 2, scrollback=3)

    engine.feed(b"".join(b"%d\r\n" % number for number in range(3000)))

    assert engine.screen().scrollback == ("2996", "2997", "2998")
    engine.close()


def test_the_second_page_has_no_lines_above_it(opened: Opened) -> None:
    engine = opened(20, 2)
    engine.feed(b"1\r\n2\r\n3")

    engine.feed(b"\x1b[?1049h4\r\n5\r\n6")
    second = engine.screen().scrollback
    engine.feed(b"\x1b[?1049l")

    assert (second, engine.screen().scrollback) == ((), ("1",))


def test_lines_above_are_erased(opened: Opened) -> None:
    engine = opened(20, 2)
    engine.feed(b"1\r\n2\r\n3")
    before = engine.screen().scrollback

    engine.feed(b"\x1b[3J")
    engine.feed(b"\r\n1")

    assert (before, engine.screen().scrollback) == (("1",), ("2",))


def test_a_larger_screen_shows_the_same(opened: Opened) -> None:
    engine = opened(5, 2)
    engine.feed(b"ab\r\ncd")

    engine.resize(9, 3)

    screen = engine.screen()
    assert (screen.columns, screen.rows, screen.lines) == (9, 3, ("ab", "cd", ""))


def test_a_lower_screen_keeps_the_line_with_the_cursor(opened: Opened) -> None:
    engine = opened(5, 4)
    engine.feed(b"1\r\n2\r\n3")

    engine.resize(5, 2)

    screen = engine.screen()
    assert (screen.lines, screen.cursor, screen.scrollback) == (("2", "3"), Cursor(row=1, column=1), ("1",))


def test_a_screen_does_not_change_when_the_program_goes_on(opened: Opened) -> None:
    engine = opened()
    engine.feed(b"one")
    screen = engine.screen()

    engine.feed(b"\x1b[2J\x1b[Htwo")

    assert (screen.lines[0], engine.screen().lines[0]) == ("one", "two")


@pytest.mark.parametrize(("columns", "rows"), [(0, 24), (80, 0), (-1, 5), (10_001, 1), (5000, 5000)])
def test_a_size_that_no_screen_has_is_refused(columns: int, rows: int) -> None:
    engine = Engine(80, 24)

    with pytest.raises(TerminalTestError, match=r"cols|rows") as made:
        Engine(columns, rows)
    with pytest.raises(TerminalTestError, match=r"cols|rows") as resized:
        engine.resize(columns, rows)

    assert (made.value.code, resized.value.code) == ("invalid_config", "invalid_config")
    assert engine.screen().columns == 80
    engine.close()


def test_a_closed_engine_says_so(opened: Opened) -> None:
    engine = opened()
    engine.close()
    engine.close()

    for ask in (lambda: engine.feed(b"x"), engine.text, engine.modes, engine.screen, lambda: engine.resize(3, 3)):
        with pytest.raises(TerminalTestError, match="closed") as refused:
            ask()
        assert refused.value.code == "script_execution_error"


def test_an_engine_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("engine", "libghostty"):
        monkeypatch.delitem(sys.modules, f"reenact.terminal.screen.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "pyghostty", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'reenact\[terminal\]'"):
        TerminalEmulator("ls")


@pytest.mark.parametrize("written", [b"a\x7fb", b"a\x1b[3\x7f1mb", b"a\x7f\x7fb\x7f", "é\x7fb".encode()])
def test_a_delete_that_a_program_writes_shows_nothing(opened: Opened, written: bytes) -> None:
    engine = opened()

    engine.feed(written)

    assert engine.text() == written.decode()[0] + "b"
