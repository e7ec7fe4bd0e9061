"""The binding to libghostty-vt: its calls, by the names and types of this package."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyghostty  # type: ignore[import-untyped]  # it has no types: what is used of it is given some below
from pyghostty import core

from reenact.terminal.ansi.style import ANSIStyle, Underline, palette_color, rgb_color

# The library is reached through cffi, where nothing has a type before it runs: in this module alone it is `Any`.
_ffi: Any = pyghostty.ffi
_lib: Any = pyghostty.lib
_core: Any = core

_FOREGROUND: Final = (229, 229, 229)
_BACKGROUND: Final = (0, 0, 0)
"""What is answered when a program asks for the default colours: light on dark."""
_CELL_WIDTH: Final = 8
_CELL_HEIGHT: Final = 16
"""Pixels, for programs that ask."""
_LONGEST_STRING: Final = 64 * 1024
"""Bytes that are kept of a string sequence that has not ended, or of what a program puts on the clipboard."""
_MOST_HISTORY: Final = 64 * 1024 * 1024
"""Bytes that rows above the screen may take."""
_CELL: Final = 16
"""Bytes that are allowed for a cell of them. It takes 8; styles, links and combined characters come on top."""
_PAGES: Final = 1024 * 1024
"""Bytes that are allowed besides: the library gives rows up by the page."""
_NO_LIMIT: Final = 2**31
"""Rows above the screen. To limit them makes the library ten times slower once there are as many; bytes do not."""
_DELETE: Final = b"\x7f"
_OUT_OF_SPACE: Final = -3
_UNDERLINES: Final[dict[int, Underline]] = {1: "single", 2: "double", 3: "curly", 4: "dotted", 5: "dashed"}


class Glyph(NamedTuple):
    """What the number of a cell says by itself; the rest is asked of the row that it stands in."""

    text: str
    width: int
    background: str | None
    """Of a cell without text that was erased in a colour."""
    style: int
    """A number that means one style in all of a row, and may mean another in the next; 0 for none."""
    linked: bool
    combined: bool
    """There are more characters in the cell."""


class State(NamedTuple):
    """Where things stand, apart from the cells."""

    columns: int
    rows: int
    row: int
    column: int
    visible: bool
    alternate: bool
    history: int
    """Rows that have left the screen at its top."""


class Terminal:
    """A terminal of the library. The cells of a row are asked for while `changes` stands there."""

    def __init__(self, columns: int, rows: int, scrollback: int) -> None:
        terminal: Any = _core.Terminal(columns, rows, scrollback=_NO_LIMIT, fg=_FOREGROUND, bg=_BACKGROUND)
        self._terminal = terminal
        self._handle: Any = terminal._t[0]  # noqa: SLF001 - for the calls that the library has no method for
        self._replies = bytearray()
        self._size = (columns, rows)
        self._scrollback, self._room = scrollback, 0
        self._picture: Any = _made("GhosttyRenderState", _lib.ghostty_render_state_new)
        self._rows: Any = _made("GhosttyRenderStateRowIterator", _lib.ghostty_render_state_row_iterator_new)
        self._cells: Any = _made("GhosttyRenderStateRowCells", _lib.ghostty_render_state_row_cells_new)
        self._place: Any = None
        self._combining = False
        self._mark: Any = _ffi.new("GhosttyTrackedGridRef*")
        self._end = weakref.finalize(self, _free, self._picture, self._rows, self._cells, self._mark, terminal)
        self._callbacks = self._set_up()
        self._out = _Out()
        self.resize(columns, rows)

    def write(self, data: bytes) -> bytes:
        """Take what the program has written; return what the terminal answers it."""
        self._combining = self._combining or not data.isascii()
        if _DELETE in data:
            data = data.replace(_DELETE, b"\0")  # terminals pass over both, but the library shows the one
        _lib.ghostty_terminal_vt_write(self._handle, data, len(data))
        replies = bytes(self._replies)
        self._replies.clear()
        return replies

    def resize(self, columns: int, rows: int) -> None:
        """Change the size. Lines that were too long for a row are broken anew."""
        self._size = (columns, rows)
        if self._scrollback:
            # Narrower rows take less, but those that are there are still wide.
            self._room = max(self._room, min(_MOST_HISTORY, self._scrollback * columns * _CELL + _PAGES))
        self._set(_lib.GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_BYTES, _ffi.new("size_t*", self._room))
        self._terminal.resize(columns, rows, _CELL_WIDTH, _CELL_HEIGHT)

    def close(self) -> None:
        """Give everything back to the library."""
        self._end()

    def state(self) -> State:
        """Return where things stand."""
        out = self._out
        _check(_lib.ghostty_terminal_get_multi(self._handle, len(out.keys), out.keys, out.values, _ffi.NULL))
        return State(
            columns=out.columns[0],
            rows=out.rows[0],
            row=out.y[0],
            column=out.x[0],
            visible=bool(out.visible[0]),
            alternate=bool(out.screen[0]),
            history=out.history[0],
        )

    def mode(self, number: int) -> bool:
        """Tell whether a private mode is set."""
        out = self._out.mode
        out.mode = number
        _check(_lib.ghostty_terminal_get(self._handle, _lib.GHOSTTY_TERMINAL_DATA_MODE, out))
        return bool(out.value)

    def title(self) -> str:
        """Return the title that the program has given its window."""
        out = self._out.string
        _check(_lib.ghostty_terminal_get(self._handle, _lib.GHOSTTY_TERMINAL_DATA_TITLE, out))
        title: bytes = _ffi.buffer(out.ptr, out.len)[:] if out.len else b""
        return title.decode(errors="replace")

    def changes(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the rows that have changed since this was last asked: their places, and the numbers of their cells.

        At each row, its cells may be asked for.
        """
        rows, out = self._rows, self._out
        if self._combining:
            # A character that only combines with the one before the cursor does not count as a change of its row.
            _lib.ghostty_render_state_free(self._picture[0])
            _check(_lib.ghostty_render_state_new(_ffi.NULL, self._picture))
            self._combining = False
        picture = self._picture[0]
        _check(_lib.ghostty_render_state_update(picture, self._handle))
        _check(_lib.ghostty_render_state_get(picture, _lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, rows))
        while _lib.ghostty_render_state_row_iterator_next_dirty(rows[0], out.row):
            _check(_lib.ghostty_render_state_row_get(rows[0], _lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW, out.view))
            _check(_lib.ghostty_render_state_row_get(rows[0], _lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS, self._cells))
            self._place = None
            yield out.row[0], _ffi.unpack(out.view.ptr, out.view.len)
        _check(_lib.ghostty_render_state_clean(picture))

    def glyph(self, number: int) -> Glyph:
        """Return what the number of a cell means, wherever it stands."""
        out = self._out
        for key, value in out.facts:
            _check(_lib.ghostty_cell_get(number, key, value))
        tag, wide, code = out.tag[0], out.wide[0], out.codepoint[0]
        background = None
        if tag == _lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE:
            _check(_lib.ghostty_cell_get(number, _lib.GHOSTTY_CELL_DATA_COLOR_PALETTE, out.palette))
            background = palette_color(out.palette[0])
        elif tag == _lib.GHOSTTY_CELL_CONTENT_BG_COLOR_RGB:
            _check(_lib.ghostty_cell_get(number, _lib.GHOSTTY_CELL_DATA_COLOR_RGB, out.rgb))
            background = rgb_color(out.rgb.r, out.rgb.g, out.rgb.b)
        tail = wide == _lib.GHOSTTY_CELL_WIDE_SPACER_TAIL
        return Glyph(
            text="" if tail else chr(code) if code and background is None else " ",
            width=0 if tail else 2 if wide == _lib.GHOSTTY_CELL_WIDE_WIDE else 1,
            background=background,
            style=out.style[0],
            linked=bool(out.linked[0]),
            combined=tag == _lib.GHOSTTY_CELL_CONTENT_CODEPOINT_GRAPHEME,
        )

    def style(self, column: int) -> bytes:
        """Return the style of a cell of the row that `changes` stands at, in the form that `style_of` reads."""
        out = self._out.rendition
        _check(_lib.ghostty_render_state_row_cells_select(self._cells[0], column))
        _check(
            _lib.ghostty_render_state_row_cells_get(self._cells[0], _lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_STYLE, out)
        )
        style: bytes = _ffi.buffer(out)[:]
        return style

    def characters(self, column: int) -> str:
        """Return all characters of a cell of the row that `changes` stands at."""
        out = self._out
        _check(_lib.ghostty_render_state_row_cells_select(self._cells[0], column))
        key = _lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_GRAPHEMES_UTF8
        if _lib.ghostty_render_state_row_cells_get(self._cells[0], key, out.buffer) == _OUT_OF_SPACE:
            out.make_room(out.buffer.len)
            _check(_lib.ghostty_render_state_row_cells_get(self._cells[0], key, out.buffer))
        text: bytes = _ffi.buffer(out.buffer.ptr, out.buffer.len)[:]
        return text.decode(errors="replace")

    def link(self, row: int, column: int) -> str | None:
        """Return the address behind a cell of the row that `changes` stands at."""
        out = self._out
        if self._place is None:
            self._place = self._terminal.ref(0, row)
        self._place.x = column
        call, size = _lib.ghostty_grid_ref_hyperlink_uri, out.length
        if call(self._place, out.buffer.ptr, out.buffer.cap, size) == _OUT_OF_SPACE:
            out.make_room(size[0])
            _check(call(self._place, out.buffer.ptr, out.buffer.cap, size))
        address: bytes = _ffi.buffer(out.buffer.ptr, size[0])[:]
        return address.decode(errors="replace") or None

    def history(self, first: int, last: int) -> list[str]:
        """Return the text of rows above the screen, counted from the oldest, without the blanks at their ends."""
        selection: Any = _core.init_sized("GhosttySelection")
        selection.start = self._terminal.ref(0, first, "history")[0]
        selection.end = self._terminal.ref(self.state().columns - 1, last, "history")[0]
        text: str = self._terminal._format_sel(selection)  # noqa: SLF001 - its only way to a part of the text
        lines = [line.rstrip(" ") for line in text.split("\n")]
        return lines + [""] * (last - first + 1 - len(lines))

    def mark(self, row: int) -> None:
        """Mark a row above the screen, counted from the oldest, and no other; the mark goes where the row goes."""
        point: Any = _ffi.new("GhosttyPointS*")
        point.tag = _lib.GHOSTTY_POINT_TAG_HISTORY
        point.value.x, point.value.y = 0, row
        self.unmark()
        _check(_track(self._handle, point[0], self._mark))

    def marked(self) -> int | None:
        """Return which row above the screen is the marked one, counted from the oldest; None if it is not there."""
        out: Any = self._out.place
        mark, tag = self._mark[0], _lib.GHOSTTY_POINT_TAG_HISTORY
        if not mark or _lib.ghostty_tracked_grid_ref_point(mark, tag, out):
            return None
        row: int = out.y
        return row

    def unmark(self) -> None:
        """Mark no row."""
        _unmark(self._mark)

    def _set_up(self) -> tuple[object, ...]:
        """Say what is bounded, refused and answered; return what must live as long as the terminal does."""
        size: Any = _ffi.callback("GhosttyTerminalSizeFn", self._tell_size, error=False, onerror=_swallow)
        reply: Any = _ffi.callback("GhosttyTerminalWritePtyFn", self._keep_reply, onerror=_swallow)
        bound: Any = _ffi.new("size_t*", _LONGEST_STRING)
        for option, value in (
            (_lib.GHOSTTY_TERMINAL_OPT_WRITE_PTY, reply),
            (_lib.GHOSTTY_TERMINAL_OPT_SIZE, size),
            (_lib.GHOSTTY_TERMINAL_OPT_APC_MAX_BYTES, bound),
            (_lib.GHOSTTY_TERMINAL_OPT_APC_MAX_BYTES_KITTY, bound),
            (_lib.GHOSTTY_TERMINAL_OPT_CLIPBOARD_WRITE_MAX_BYTES, bound),
            # Pictures: none is kept, and no file is read for one.
            (_lib.GHOSTTY_TERMINAL_OPT_KITTY_IMAGE_STORAGE_LIMIT, _ffi.new("uint64_t*", 0)),
        ):
            self._set(option, value)
        return size, reply

    def _set(self, option: int, value: Any) -> None:  # noqa: ANN401 - for the library
        _check(_lib.ghostty_terminal_set(self._handle, option, value))

    def _keep_reply(self, _terminal: Any, _data: Any, start: Any, length: int) -> None:  # noqa: ANN401 - from the library
        self._replies += _ffi.buffer(start, length)

    def _tell_size(self, _terminal: Any, _data: Any, out: Any) -> bool:  # noqa: ANN401 - from the library
        out.columns, out.rows = self._size
        out.cell_width, out.cell_height = _CELL_WIDTH, _CELL_HEIGHT
        return True


def style_of(style: bytes) -> ANSIStyle:
    """Return the style that `Terminal.style` has returned."""
    rendition: Any = _ffi.from_buffer("GhosttyStyle*", style)
    return ANSIStyle(
        bold=bool(rendition.bold),
        dim=bool(rendition.faint),
        italic=bool(rendition.italic),
        underline=_UNDERLINES.get(rendition.underline, False),
        blink=bool(rendition.blink),
        inverse=bool(rendition.inverse),
        hidden=bool(rendition.invisible),
        strikethrough=bool(rendition.strikethrough),
        overline=bool(rendition.overline),
        foreground=_color(rendition.fg_color),
        background=_color(rendition.bg_color),
        underline_color=_color(rendition.underline_color),
    )


class _Out:
    """Where the library puts its answers; made once, for they are many."""

    def __init__(self) -> None:
        new = _ffi.new
        self.columns, self.rows, self.x, self.y = (new("uint16_t*") for _ in range(4))
        self.visible, self.history, self.screen = new("bool*"), new("size_t*"), new("GhosttyTerminalScreen*")
        wanted = (
            (_lib.GHOSTTY_TERMINAL_DATA_COLS, self.columns),
            (_lib.GHOSTTY_TERMINAL_DATA_ROWS, self.rows),
            (_lib.GHOSTTY_TERMINAL_DATA_CURSOR_X, self.x),
            (_lib.GHOSTTY_TERMINAL_DATA_CURSOR_Y, self.y),
            (_lib.GHOSTTY_TERMINAL_DATA_CURSOR_VISIBLE, self.visible),
            (_lib.GHOSTTY_TERMINAL_DATA_ACTIVE_SCREEN, self.screen),
            (_lib.GHOSTTY_TERMINAL_DATA_SCROLLBACK_ROWS, self.history),
        )
        self.keys: Any = new("GhosttyTerminalData[]", [key for key, _ in wanted])
        self.values: Any = new("void*[]", [value for _, value in wanted])
        self.mode: Any = new("GhosttyTerminalModeConfig*")
        self.string: Any = new("GhosttyString*")
        self.row, self.view = new("uint16_t*"), new("GhosttyCellsView*")
        self.codepoint, self.tag, self.wide = new("uint32_t*"), new("GhosttyCellContentTag*"), new("GhosttyCellWide*")
        self.style, self.linked = new("GhosttyStyleId*"), new("bool*")
        self.palette, self.rgb = new("GhosttyColorPaletteIndex*"), new("GhosttyColorRgb*")
        self.facts = (
            (_lib.GHOSTTY_CELL_DATA_CODEPOINT, self.codepoint),
            (_lib.GHOSTTY_CELL_DATA_CONTENT_TAG, self.tag),
            (_lib.GHOSTTY_CELL_DATA_WIDE, self.wide),
            (_lib.GHOSTTY_CELL_DATA_STYLE_ID, self.style),
            (_lib.GHOSTTY_CELL_DATA_HAS_HYPERLINK, self.linked),
        )
        self.place: Any = new("GhosttyPointCoordinate*")
        self.rendition: Any = _core.init_sized("GhosttyStyle")
        self.length: Any = new("size_t*")
        self.buffer: Any = new("GhosttyBuffer*")
        self.make_room(4096)

    def make_room(self, size: int) -> None:
        """Have room for `size` bytes of text."""
        self._room = _ffi.new("uint8_t[]", size)
        self.buffer.ptr, self.buffer.cap = self._room, size


def _color(color: Any) -> str | None:  # noqa: ANN401 - from the library
    if color.tag == _lib.GHOSTTY_STYLE_COLOR_PALETTE:
        return palette_color(color.value.palette)
    if color.tag == _lib.GHOSTTY_STYLE_COLOR_RGB:
        rgb = color.value.rgb
        return rgb_color(rgb.r, rgb.g, rgb.b)
    return None


def _made(kind: str, make: Any) -> Any:  # noqa: ANN401 - from the library
    out = _ffi.new(f"{kind}*")
    _check(make(_ffi.NULL, out))
    return out


def _free(picture: Any, rows: Any, cells: Any, mark: Any, terminal: Any) -> None:  # noqa: ANN401 - from the library
    _unmark(mark)
    _lib.ghostty_render_state_row_cells_free(cells[0])
    _lib.ghostty_render_state_row_iterator_free(rows[0])
    _lib.ghostty_render_state_free(picture[0])
    terminal.close()


def _unmark(mark: Any) -> None:  # noqa: ANN401 - from the library
    if mark[0]:
        _lib.ghostty_tracked_grid_ref_free(mark[0])
        mark[0] = _ffi.NULL


def _check(result: int) -> None:
    if result:
        raise MemoryError(f"libghostty-vt could not do what was asked of it: {result}")


def _swallow(*_error: object) -> None:
    """Take what a callback has raised: an answer that cannot be kept is none."""


_track: Any = _core.union_fn(
    "ghostty_terminal_grid_ref_track",
    "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyTrackedGridRef*)",
)
