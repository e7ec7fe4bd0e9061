"""Where what is offered is shown: below what it goes on with, in the rows that there are, or not at all."""

from __future__ import annotations

from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.layout import BufferControl
from prompt_toolkit.utils import get_cwidth

_ROWS: Final = 8
"""Rows that what is offered may take."""
_BESIDE: Final = 1
"""Rows for a word about what was typed."""


def place_menu(editor: PromptSession[str], prompt: int) -> None:
    """Let what is offered take no more rows than there are, behind a prompt of so many columns.

    Where there is no row for it nothing is offered: what nobody sees cannot be chosen.
    """
    buffer = editor.default_buffer

    def begin() -> int | None:
        offered = buffer.complete_state
        if offered is None or not offered.completions:
            return None
        return max(0, offered.original_document.cursor_position + offered.completions[0].start_position)

    def make_room(_: object) -> None:
        offered = buffer.complete_state
        if offered is None:
            editor.reserve_space_for_menu = 0
            return
        size = editor.output.get_size()
        typed = 1 + (prompt + get_cwidth(buffer.document.text_before_cursor)) // max(1, size.columns)
        room = size.rows - typed - _BESIDE
        if room < 1:
            buffer.complete_state = None
        editor.reserve_space_for_menu = 0 if room < 1 else typed + min(_ROWS, room, len(offered.completions))

    for control in editor.layout.find_all_controls():
        if isinstance(control, BufferControl) and control.buffer is buffer:
            control.menu_position = begin
    buffer.on_completions_changed += make_room
    editor.app.before_render += make_room
