"""The binding to libghostty-vt: wraps its functions with the names and types of this package."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from reenact.domain.errors import needing_extra
from reenact.terminal.ansi.style import ANSIStyle, Underline, palette_color, rgb_color

with needing_extra("terminal", "a terminal"):
    import pyghostty  # type: ignore[import-untyped]  # untyped: the parts that are used get types below
    from pyghostty import core

# cffi provides no static types: these objects are `Any`, and so are the results of their calls.
_ffi: Any = pyghostty.ffi
_lib: Any = pyghostty.lib
_core: Any = core

_FOREGROUND = (229, 229, 229)
_BACKGROUND = (0, 0, 0)
"""The default colours, reported to programs that query them: light on dark."""
_CELL_WIDTH = 8
_CELL_HEIGHT = 16
"""The size of a cell in pixels, reported to programs that query it."""
_LONGEST_STRING = 64 * 1024
"""Maximum number of bytes kept of an unfinished string sequence, or of the clipboard."""
_LONGEST_REPORT = 64
"""Maximum number of bytes of a report of the mouse."""
_MOST_HISTORY = 64 * 1024 * 1024
"""Maximum number of bytes for the rows above the screen."""
_CELL = 16
"""Bytes reserved for each of their cells. It takes 8; styles, links and combining characters need more."""
_PAGES = 1024 * 1024
"""Additional bytes, since the library frees rows by the page."""
_NO_LIMIT = 2**31
"""Rows above the screen. A limit on rows makes the library ten times slower once it is reached; one on bytes does not.
"""
_DELETE = b"\x7f"
_KEYBOARD = re.compile(rb"\x1b\[\?[0-9]+u")
"""The library's reply to a query for kitty's keyboard protocol. It is not sent, since our keys are those of xterm."""
CACHED = 20_000
"""How many glyphs are kept for screens that have them again."""
_UNDERLINES: Final[dict[int, Underline]] = {1: "single", 2: "double", 3: "curly", 4: "dotted", 5: "dashed"}


class Glyph(NamedTuple):
    """The properties that a cell's number determines; the others are read from the cell's row."""

    text: str
    width: int
    background: str | None
    """The colour of a cell without text that was erased with a background colour."""
    style: int
    """A style number that is valid within its row only; 0 for none."""
    linked: bool
    combined: bool
    """Whether the cell has combining characters."""


class Terminal:
    """A terminal of the library."""

    def __init__(self, columns: int, rows: int, scrollback: int) -> None:
        terminal = self._terminal = _core.Terminal(columns, rows, scrollback=_NO_LIMIT, fg=_FOREGROUND, bg=_BACKGROUND)
        self._handle = terminal._t[0]  # noqa: SLF001 - for calls for which the wrapper has no method
        self._replies: list[bytes] = []
        self._scrollback, self._history_bytes = scrollback, 0
        self._render_state = _new_object("GhosttyRenderState", _lib.ghostty_render_state_new)
        self._rows = _new_object("GhosttyRenderStateRowIterator", _lib.ghostty_render_state_row_iterator_new)
        self._combining = False
        self._finalizer = weakref.finalize(self, _free, self._render_state, self._rows, terminal.close)
        terminal.on_reply(self._replies.append)
        self._size_callback = _ffi.callback("GhosttyTerminalSizeFn", self._report_size, error=False)
        bound = _ffi.new("size_t*", _LONGEST_STRING)
        for option, value in (
            (_lib.GHOSTTY_TERMINAL_OPT_SIZE, self._size_callback),
            (_lib.GHOSTTY_TERMINAL_OPT_APC_MAX_BYTES, bound),
            (_lib.GHOSTTY_TERMINAL_OPT_APC_MAX_BYTES_KITTY, bound),
            (_lib.GHOSTTY_TERMINAL_OPT_CLIPBOARD_WRITE_MAX_BYTES, bound),
            # Images: none are stored, and no files are read for them.
            (_lib.GHOSTTY_TERMINAL_OPT_KITTY_IMAGE_STORAGE_LIMIT, _ffi.new("uint64_t*", 0)),
        ):
            self._set(option, value)
        self.resize(columns, rows)

    def write(self, data: bytes) -> bytes:
        """Process output of the program; return the terminal's replies."""
        self._combining = self._combining or not data.isascii()
        # Terminals ignore both NUL and DEL, but the library displays DEL.
        self._terminal.feed(data.replace(_DELETE, b"\0"))
        return self._taken_replies()

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows: as `resize` set them, or as the program did (DECCOLM)."""
        return self.get("cols"), self.get("rows")

    def resize(self, columns: int, rows: int) -> bytes:
        """Change the size; return the terminal's report of it. Lines that wrapped are wrapped again."""
        self._given_size = (columns, rows)
        if self._scrollback:
            # Narrower rows need less, but existing ones are still wide.
            self._history_bytes = max(
                self._history_bytes, min(_MOST_HISTORY, self._scrollback * columns * _CELL + _PAGES)
            )
        self._set(_lib.GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_BYTES, _ffi.new("size_t*", self._history_bytes))
        self._terminal.resize(columns, rows, _CELL_WIDTH, _CELL_HEIGHT)
        return self._taken_replies()

    def close(self) -> None:
        """Free all objects of the library."""
        self._finalizer()

    def get(self, name: str, kind: str = "uint16_t") -> int:
        """Return a number by the library's name for it, such as `cursor_x`."""
        number: int = self._terminal.get(name, kind)
        return number

    def mode(self, number: int) -> bool:
        """Return whether a private mode is set."""
        return bool(self._terminal.mode(number))

    def mouse(self, action: str, button: str | None, modifiers: int, row: int, column: int) -> bytes:
        """Return what an event of the mouse sends in the modes that the program has set, which may be nothing."""
        encoder = _new_object("GhosttyMouseEncoder", _lib.ghostty_mouse_encoder_new)
        event = _new_object("GhosttyMouseEvent", _lib.ghostty_mouse_event_new)
        columns, rows = self.size
        size = _core.init_sized("GhosttyMouseEncoderSize")
        size.cell_width, size.cell_height = _CELL_WIDTH, _CELL_HEIGHT
        size.screen_width, size.screen_height = columns * _CELL_WIDTH, rows * _CELL_HEIGHT
        place = {"x": (column + 0.5) * _CELL_WIDTH, "y": (row + 0.5) * _CELL_HEIGHT}
        room, length = _ffi.new("char[]", _LONGEST_REPORT), _ffi.new("size_t*")
        try:
            _lib.ghostty_mouse_encoder_setopt_from_terminal(encoder[0], self._handle)
            _lib.ghostty_mouse_encoder_setopt(encoder[0], _lib.GHOSTTY_MOUSE_ENCODER_OPT_SIZE, size)
            _lib.ghostty_mouse_event_set_action(event[0], getattr(_lib, f"GHOSTTY_MOUSE_ACTION_{action}"))
            if button is not None:
                _lib.ghostty_mouse_event_set_button(event[0], getattr(_lib, f"GHOSTTY_MOUSE_BUTTON_{button}"))
            _lib.ghostty_mouse_event_set_mods(event[0], modifiers)
            _lib.ghostty_mouse_event_set_position(event[0], place)
            _check(_lib.ghostty_mouse_encoder_encode(encoder[0], event[0], room, _LONGEST_REPORT, length))
        finally:
            _lib.ghostty_mouse_event_free(event[0])
            _lib.ghostty_mouse_encoder_free(encoder[0])
        report: bytes = _ffi.buffer(room, length[0])[:]
        return report

    def title(self) -> str:
        """Return the window title that the program has set."""
        return _text(self._terminal.get("title", "GhosttyString"))

    def changes(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the rows that have changed since the last call: their indices and the numbers of their cells."""
        rows, row, view = self._rows, _ffi.new("uint16_t*"), _ffi.new("GhosttyCellsView*")
        if self._combining:
            # A character that only combines with the one before the cursor does not mark its row as changed.
            _free_render_state(self._render_state[0])
            _check(_lib.ghostty_render_state_new(_ffi.NULL, self._render_state))
            self._combining = False
        render_state = self._render_state[0]
        _check(_lib.ghostty_render_state_update(render_state, self._handle))
        _check(_lib.ghostty_render_state_get(render_state, _lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, rows))
        while _lib.ghostty_render_state_row_iterator_next_dirty(rows[0], row):
            _check(_lib.ghostty_render_state_row_get(rows[0], _lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW, view))
            yield row[0], _ffi.unpack(view.ptr, view.len)
        _check(_lib.ghostty_render_state_clean(render_state))

    def style(self, row: int, column: int) -> ANSIStyle:
        """Return the style of a cell."""
        style = self._terminal.style(column, row)
        return ANSIStyle(
            bold=style["bold"],
            dim=style["faint"],
            italic=style["italic"],
            underline=_UNDERLINES.get(style["underline"], False),
            blink=style["blink"],
            inverse=style["inverse"],
            hidden=style["invisible"],
            strikethrough=style["strikethrough"],
            overline=style["overline"],
            foreground=_color(style["fg"]),
            background=_color(style["bg"]),
            underline_color=_color(style["underline_color"]),
        )

    def characters(self, row: int, column: int) -> str:
        """Return all characters of a cell."""
        return "".join(map(chr, self._read(_lib.ghostty_grid_ref_graphemes, "uint32_t[]", row, column)))

    def link(self, row: int, column: int) -> str | None:
        """Return the hyperlink of a cell."""
        address = bytes(self._read(_lib.ghostty_grid_ref_hyperlink_uri, "uint8_t[]", row, column))
        return address.decode(errors="replace") or None

    def history(self, first: int, last: int) -> list[str]:
        """Return the text of rows above the screen, counted from the oldest, without trailing blanks."""
        selection = _core.init_sized("GhosttySelection")
        selection.start = self._terminal.ref(0, first, "history")[0]
        selection.end = self._terminal.ref(self.size[0] - 1, last, "history")[0]
        text: str = self._terminal._format_sel(selection)  # noqa: SLF001 - the only way to a part of the text
        lines = [line.rstrip(" ") for line in text.split("\n")]
        return lines + [""] * (last - first + 1 - len(lines))

    def _taken_replies(self) -> bytes:
        replies = b"".join(reply for reply in self._replies if _KEYBOARD.fullmatch(reply) is None)
        self._replies.clear()
        return replies

    def _read(self, read: Callable[..., int], kind: str, row: int, column: int) -> list[int]:
        """Read something of any length about a cell: the library says the length first."""
        place, length = self._terminal.ref(column, row), _ffi.new("size_t*")
        read(place, _ffi.NULL, 0, length)
        room = _ffi.new(kind, max(length[0], 1))
        _check(read(place, room, length[0], length))
        items: list[int] = _ffi.unpack(room, length[0])
        return items

    def _set(self, option: int, value: object) -> None:
        _check(_lib.ghostty_terminal_set(self._handle, option, value))

    def _report_size(self, _terminal: object, _data: object, out: MutableSequence[object]) -> bool:
        columns, rows = self._given_size
        out[0] = {"columns": columns, "rows": rows, "cell_width": _CELL_WIDTH, "cell_height": _CELL_HEIGHT}
        return True


@lru_cache(maxsize=CACHED)
def glyph_of(number: int) -> Glyph:
    """Return the properties that a cell's number determines."""

    def cell_data(name: str, kind: str) -> int:
        out = _ffi.new(f"{kind}*")
        _check(_lib.ghostty_cell_get(number, getattr(_lib, f"GHOSTTY_CELL_DATA_{name}"), out))
        return out[0]  # type: ignore[no-any-return]  # a number, or convertible to one

    code, tag, wide = cell_data("CODEPOINT", "uint32_t"), cell_data("CONTENT_TAG", "int"), cell_data("WIDE", "int")
    background = None
    if tag == _lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE:
        background = palette_color(cell_data("COLOR_PALETTE", "GhosttyColorPaletteIndex"))
    elif tag == _lib.GHOSTTY_CELL_CONTENT_BG_COLOR_RGB:
        rgb = _ffi.new("GhosttyColorRgb*")
        _check(_lib.ghostty_cell_get(number, _lib.GHOSTTY_CELL_DATA_COLOR_RGB, rgb))
        background = rgb_color(rgb.r, rgb.g, rgb.b)
    tail = wide == _lib.GHOSTTY_CELL_WIDE_SPACER_TAIL
    return Glyph(
        text="" if tail else chr(code) if code and background is None else " ",
        width=0 if tail else 2 if wide == _lib.GHOSTTY_CELL_WIDE_WIDE else 1,
        background=background,
        style=cell_data("STYLE_ID", "GhosttyStyleId"),
        linked=bool(cell_data("HAS_HYPERLINK", "bool")),
        combined=tag == _lib.GHOSTTY_CELL_CONTENT_CODEPOINT_GRAPHEME,
    )


def _color(color: tuple[str, int | tuple[int, int, int]] | None) -> str | None:
    match color:
        case "palette", int(index):
            return palette_color(index)
        case "rgb", (red, green, blue):
            return rgb_color(red, green, blue)
        case _:
            return None


class _Span(Protocol):
    """A pointer and length of the library."""

    ptr: object
    len: int


def _text(span: _Span) -> str:
    text: bytes = _ffi.buffer(span.ptr, span.len)[:] if span.len else b""
    return text.decode(errors="replace")


def _new_object(kind: str, make: Callable[..., int]) -> MutableSequence[object]:
    out: MutableSequence[object] = _ffi.new(f"{kind}*")
    _check(make(_ffi.NULL, out))
    return out


def _free(
    render_state: Sequence[object],
    rows: Sequence[object],
    close: Callable[[], object],
) -> None:
    _free_rows(rows[0])
    _free_render_state(render_state[0])
    close()


def _check(result: int) -> None:
    if result:
        raise MemoryError(f"libghostty-vt could not do what was asked of it: {result}")


# The garbage collector calls these, perhaps while its thread holds cffi's lock, which looking up a name would wait for.
_free_render_state: Callable[[object], None] = _lib.ghostty_render_state_free
_free_rows: Callable[[object], None] = _lib.ghostty_render_state_row_iterator_free
