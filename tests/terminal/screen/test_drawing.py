"""Pictures of screens."""

from __future__ import annotations

import re
from contextlib import closing
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import ANSIStyle, Cell, Cursor, Screen
from reenact.terminal.screen.drawing import LINES, svg
from reenact.terminal.screen.engine import Engine
from tests.terminal.screen.test_engine_properties import WRITTEN

SVG = "{http://www.w3.org/2000/svg}"
BACKGROUND = "#16161d"
FOREGROUND = "#e5e5e5"


def drawn(written: str, columns: int = 20, rows: int = 3) -> ET.Element:
    """Return the picture of a screen after this has been written to it."""
    with closing(Engine(columns, rows)) as engine:
        engine.feed(written.encode())
        return ET.fromstring(svg(engine.screen()))  # noqa: S314 - our own


def texts(picture: ET.Element) -> list[tuple[str | None, str | None, str | None, str | None]]:
    return [(each.text, each.get("x"), each.get("y"), each.get("textLength")) for each in picture.iter(f"{SVG}text")]


def rects(picture: ET.Element) -> list[tuple[str | None, ...]]:
    """Return the rectangles behind the text, but for the ground of all."""
    ground, *others = picture.iter(f"{SVG}rect")
    assert ground.get("fill") == BACKGROUND
    return [tuple(each.get(name) for name in ("x", "y", "width", "fill")) for each in others]


def look(picture: ET.Element) -> tuple[str | None, str | None]:
    (text,) = picture.iter(f"{SVG}text")
    return text.get("fill"), text.get("class")


def test_text_stays_text_where_it_stood() -> None:
    picture = drawn("one\r\n   two & <three>\x1b[?25l")

    assert texts(picture) == [("one", "0", "13", "27"), ("two & <three>", "27", "31", "117")]


def test_wide_characters_stand_in_their_columns() -> None:
    picture = drawn("a中b文é!\x1b[K\x1b[?25l", 9)

    assert texts(picture) == [
        ("a", "0", "13", "9"),
        ("中", "9", "13", "18"),
        ("b", "27", "13", "9"),
        ("文", "36", "13", "18"),
        ("é", "54", "13", "9"),
        ("!", "63", "13", "9"),
    ]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("", (FOREGROUND, None)),
        ("\x1b[1m", (FOREGROUND, "b")),
        ("\x1b[1;2;3m", (FOREGROUND, "b i d")),
        ("\x1b[38;5;196m", ("#ff0000", None)),
        ("\x1b[38;5;232m", ("#080808", None)),
        ("\x1b[38;2;1;2;3m", ("#010203", None)),
        ("\x1b[7m", (BACKGROUND, None)),
        ("\x1b[7;38;5;196;48;5;46m", ("#00ff00", None)),
    ],
)
def test_text_has_its_look(sequence: str, expected: tuple[str, str | None]) -> None:
    picture = drawn(f"{sequence}x", 1, 1)

    assert look(picture) == expected


def test_backgrounds_are_behind_the_text() -> None:
    picture = drawn("a\x1b[48;5;21mbc\x1b[0;7md\x1b[0m\x1b[?25l")

    assert rects(picture) == [("9", "0", "18", "#0000ff"), ("27", "0", "9", FOREGROUND)]
    kinds = [each.tag.removeprefix(SVG) for each in picture]
    assert kinds.index("text") > max(index for index, kind in enumerate(kinds) if kind == "rect")


def test_the_cursor_is_drawn_where_it_can_be_seen() -> None:
    shown, wide, hidden = drawn("ab"), drawn("中\r"), drawn("ab\x1b[?25l")

    assert rects(shown) == [("18", "0", "9", FOREGROUND)]
    assert rects(wide) == [("0", "0", "18", FOREGROUND)]
    assert rects(hidden) == []


@pytest.mark.parametrize(
    ("sequence", "paths"),
    [
        ("\x1b[4m", [("M0 15.5h18", None)]),
        ("\x1b[4:2m", [("M0 15.5h18", None), ("M0 17.5h18", None)]),
        ("\x1b[4:3m", [("M0 15.5" + "q1.125 -2 2.25 0t2.25 0" * 4, None)]),
        ("\x1b[4:4m", [("M0 15.5h18", "1 2")]),
        ("\x1b[4:5m", [("M0 15.5h18", "4 2")]),
        ("\x1b[9m", [("M0 9.5h18", None)]),
        ("\x1b[53m", [("M0 1.5h18", None)]),
    ],
)
def test_lines_are_drawn_in_their_shapes(sequence: str, paths: list[tuple[str, str | None]]) -> None:
    picture = drawn(f"{sequence}ab", 2, 1)

    assert [(each.get("d"), each.get("stroke-dasharray")) for each in picture.iter(f"{SVG}path")] == paths


def points(picture: ET.Element) -> list[set[str]]:
    """Return the ends and corners of each path that is drawn."""
    return [set(re.split("[MLQ]", each.get("d") or "")) - {""} for each in picture.iter(f"{SVG}path")]


def test_the_lines_of_a_table_meet_between_columns_and_rows() -> None:
    picture = drawn("┌─┐\r\n│x│\r\n└─┘\x1b[?25l", 3, 3)

    top_left, top, top_right, left, right, bottom_left, bottom, bottom_right = points(picture)
    assert top_left & top == {"9 9.5"}
    assert top & top_right == {"18 9.5"}
    assert left & top_left | left & bottom_left == {"4.5 18", "4.5 36"}
    assert right & top_right | right & bottom_right == {"22.5 18", "22.5 36"}
    assert bottom_left & bottom | bottom & bottom_right == {"9 45.5", "18 45.5"}
    assert [text for text, *_ in texts(picture)] == ["x"]


@pytest.mark.parametrize(
    ("character", "path", "kind"),
    [
        ("─", "M0 9.5L4.5 9.5L9 9.5", None),
        ("┃", "M4.5 0L4.5 9.5L4.5 18", "h"),
        ("├", "M9 9.5L4.5 9.5L4.5 0M4.5 9.5L4.5 18", None),
        ("╋", "M0 9.5L4.5 9.5L9 9.5M4.5 9.5L4.5 0M4.5 9.5L4.5 18", "h"),
        ("╷", "M4.5 18L4.5 9.5", None),
        ("╭", "M9 9.5Q4.5 9.5 4.5 18", None),
    ],
)
def test_a_line_has_the_shape_of_its_character(character: str, path: str, kind: str | None) -> None:
    picture = drawn(f"\x1b[31m{character}\x1b[?25l", 1, 1)

    (drawing,) = picture.iter(f"{SVG}path")
    assert (drawing.get("d"), drawing.get("class"), drawing.get("stroke")) == (path, kind, "#e05561")


def test_a_line_that_is_hidden_is_not_drawn() -> None:
    assert points(drawn("\x1b[8m│\x1b[?25l", 1, 1)) == []


def test_a_line_under_text_has_its_own_colour() -> None:
    picture = drawn("\x1b[4;58;5;196mx", 1, 1)

    (path,) = picture.iter(f"{SVG}path")
    assert (path.get("stroke"), look(picture)[0]) == ("#ff0000", FOREGROUND)


def test_hidden_text_is_not_in_the_picture() -> None:
    with closing(Engine(20, 1)) as engine:
        engine.feed(b"password \x1b[8msecret")

        assert "secret" not in svg(engine.screen())


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("\x1b]2;vim <a> & b\x07", "vim <a> & b"),
        ("", "A terminal of 20 columns and 3 rows"),
    ],
)
def test_the_title_is_the_screens(written: str, title: str) -> None:
    picture = drawn(written)

    assert picture.findtext(f"{SVG}title") == title


def test_the_size_is_that_of_the_screen_and_its_frame() -> None:
    picture = drawn("", 10, 4)

    assert (picture.get("width"), picture.get("height"), picture.get("viewBox")) == ("108", "90", "-9 -9 108 90")


def test_nothing_is_loaded_from_elsewhere() -> None:
    with closing(Engine(20, 1)) as engine:
        engine.feed(b"\x1b]8;;https://example.com/\x1b\\link\x1b]8;;\x1b\\ @import url(x)")
        picture = svg(engine.screen())

    assert picture.count("http") == 1
    assert "<style>" in picture
    assert "url(" not in picture.split("<style>")[1].split("</style>")[0]


CELLS = st.builds(
    Cell,
    text=st.text(st.characters(), min_size=1, max_size=3),
    style=st.builds(
        ANSIStyle,
        bold=st.booleans(),
        inverse=st.booleans(),
        underline=st.sampled_from([False, "single", "curly"]),
        foreground=st.none() | st.sampled_from(["red", "color99", "#a1b2c3"]) | st.text(max_size=8),
        background=st.none() | st.text(max_size=8),
    ),
)


@given(cells=st.lists(CELLS, min_size=1, max_size=8), title=st.text(st.characters(), max_size=8))
def test_a_picture_is_well_formed_whatever_the_cells_hold(cells: list[Cell], title: str) -> None:
    line = "".join(cell.text for cell in cells)
    screen = Screen(
        columns=len(cells), rows=1, lines=(line,), cells=(tuple(cells),), cursor=Cursor(row=7, column=99), title=title
    )

    picture = ET.fromstring(svg(screen).encode())  # noqa: S314 - our own

    shown = "".join(text or "" for text, *_ in texts(picture))
    assert len(shown) <= len(line)
    assert svg(screen) == svg(screen)


@given(data=WRITTEN)
def test_a_picture_is_well_formed_whatever_was_written(data: bytes) -> None:
    with closing(Engine(12, 4)) as engine:
        engine.feed(data)
        screen = engine.screen()

    picture = ET.fromstring(svg(screen).encode())  # noqa: S314 - our own

    visible = (cell for row in screen.cells for cell in row if not cell.style.hidden)
    seen = [cell.text for cell in visible if cell.text not in LINES]
    shown = "".join(text or "" for text, *_ in texts(picture))
    assert shown.replace(" ", "") == "".join(seen).replace(" ", "")
