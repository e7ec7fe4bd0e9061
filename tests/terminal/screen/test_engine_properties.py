"""Whatever bytes come, in whatever pieces: the screen is one, it is the same, and nothing is raised."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import Engine

FRAGMENTS = (
    *(b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b_", b"\x1b\\", b"\x07", b"\x18", b"\x9b", b"?", b";", b":", b"!p"),
    *(b"1", b"7", b"25", b"40", b"69", b"1049", b"2027", b"38;5;1", b"48;2;1;2;3", b"4:3", b"99999999999"),
    *(bytes([letter]) for letter in b"ABCDEFGHIJKLMPSTXZ@`abcdefghlmnqrstu"),
    *(b"\n", b"\r", b"\t", b"\b", b"\x0e", b"\x1bM", b"\x1bD", b"\x1b7", b"\x1b8", b"\x1bc", b"\x1b#8", b"\x1b(0"),
    *("é中\u0301".encode(), "\U0001f468\u200d\U0001f469".encode(), "\ufe0f".encode(), b"\xff", b"\xe4", b"abc", b" "),
    *(
        b"\x1b]8;;http://x\x1b\\",
        b"\x1b]8;;\x1b\\",
        b"\x1b]2;title\x07",
        b"\x1b[2J\x1b[3J",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
    ),
)
WRITTEN = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=4), max_size=60).map(b"".join)
SIZES = st.tuples(st.integers(1, 12), st.integers(1, 6))
CUTS = st.lists(st.integers(0, 200), max_size=12)


def assert_is_a_screen(engine: Engine) -> None:
    screen = engine.screen()
    assert len(screen.cells) == len(screen.lines) == screen.rows
    for cells, line in zip(screen.cells, screen.lines, strict=True):
        assert len(cells) == screen.columns == sum(cell.width for cell in cells)
        assert "".join(cell.text for cell in cells).rstrip(" ") == line
        assert all((cell.text == "") == (cell.width == 0) for cell in cells)
        assert all(behind.width == 0 for cell, behind in pairwise(cells) if cell.width == 2)
    assert 0 <= screen.cursor.row < screen.rows
    assert 0 <= screen.cursor.column < screen.columns
    assert engine.text() == screen.text
    assert engine.modes() == screen.modes


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@given(size=SIZES, data=WRITTEN, cuts=CUTS, looks=st.lists(st.booleans(), min_size=14, max_size=14))
def test_pieces_and_looks_between_them_make_no_difference(
    size: tuple[int, int], data: bytes, cuts: list[int], looks: list[bool]
) -> None:
    with closing(Engine(*size)) as whole, closing(Engine(*size)) as piecewise:
        answer = whole.feed(data)

        answers = b""
        for piece, look in zip(pieces(data, cuts), looks, strict=False):
            answers += piecewise.feed(piece)
            if look:
                piecewise.text()
                piecewise.screen()

        assert answers == answer
        assert piecewise.screen() == whole.screen()
        assert_is_a_screen(whole)


@given(size=SIZES, steps=st.lists(st.tuples(WRITTEN, SIZES), max_size=6))
def test_a_screen_is_one_whatever_size_it_is_given(
    size: tuple[int, int], steps: list[tuple[bytes, tuple[int, int]]]
) -> None:
    with closing(Engine(*size)) as engine:
        for data, another in steps:
            engine.feed(data)
            assert_is_a_screen(engine)
            engine.resize(*another)

            assert_is_a_screen(engine)
            assert (engine.screen().columns, engine.screen().rows) == another


@given(
    lines=st.lists(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=12), max_size=40),
    looks=st.sets(st.integers(0, 40)),
)
def test_lines_above_the_screen_and_on_it_are_all_that_was_written(lines: list[str], looks: set[int]) -> None:
    with closing(Engine(12, 3)) as engine:
        for number, line in enumerate(lines):
            engine.feed(f"{line}\r\n".encode())
            if number in looks:
                engine.screen()

        screen = engine.screen()
        shown = [*screen.scrollback, *screen.lines]
        assert shown[: len(lines)] == [line.rstrip(" ") for line in lines]
        assert not any(shown[len(lines) :])
