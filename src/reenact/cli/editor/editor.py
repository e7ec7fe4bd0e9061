"""The chat's line editor, which has a completion menu and copes with a terminal that changes its width."""

from __future__ import annotations

import asyncio
import errno
import logging
import textwrap
from collections.abc import Mapping
from typing import TextIO, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import DummyHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.layout import BufferControl
from prompt_toolkit.layout.processors import Processor, TabsProcessor, Transformation, TransformationInput
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from reenact.cli.editor.history import FileHistory, NoHistoryError
from reenact.cli.editor.keyboard import PlainEditor, be_quiet_again, discard_typed, typed_input
from reenact.cli.editor.keys import ChoiceCompleter, Choices, close_on_escape, keys_of_questions, may_complete
from reenact.cli.interrupts import deferring_end_requests
from reenact.cli.output.console import Console
from reenact.cli.output.logs import FOR_LATER, TERMINAL_LOCK
from reenact.cli.settings.environment import is_dumb, read_variable, state_directory

Editor: TypeAlias = PromptSession[str] | PlainEditor

_logger = logging.getLogger("reenact.cli.editing")
_PROMPT = "> "
_MARGIN = "· "
_NARROW = 8
"""Below this number of columns the prompt is left out."""
_ESCAPE = 0.1
"""Seconds after which Esc counts as a key of its own and not as the beginning of an escape sequence."""
_GONE = frozenset({errno.EIO, errno.ENXIO, errno.EBADF, errno.EPIPE})
_STYLE = Style(
    [
        ("prompt", "bold"),
        ("prompt-continuation", "nobold dim"),
        ("completion-menu", "bg:default fg:default"),
        ("completion-menu.completion", "bg:default fg:default"),
        ("completion-menu.completion.current", "bg:default fg:default reverse"),
        ("completion-menu.meta.completion", "bg:default fg:default dim"),
        ("completion-menu.meta.completion.current", "bg:default fg:default reverse"),
        ("scrollbar.background", "bg:default"),
        ("scrollbar.button", "bg:ansibrightblack"),
        ("validation-toolbar", "bg:default fg:ansiyellow"),
        ("control-character", "fg:default reverse"),
        ("aborting", "fg:default dim"),
        ("exiting", "fg:default dim"),
    ]
)


def editor_of_questions(console: Console, choices: Choices | None = None) -> Editor:
    """Return a multi-line editor with a persistent history that completes the choices."""
    terminal, history = console.terminal or console.err, _history(console)
    if is_dumb(console.environ):
        return PlainEditor(typed_input(), terminal, history)
    drawing = EditorOutput.at(terminal, console)
    editor = lines_editor(typed_input(), drawing, history, console.environ, choices)
    drawing.watch(editor)
    return editor


def editor_of_decisions(console: Console) -> Editor:
    """Return a single-line editor for decisions; it has no history, so that each decision is typed again."""
    terminal = console.terminal or console.err
    if is_dumb(console.environ):
        return PlainEditor(typed_input(), terminal, DummyHistory())
    drawing = EditorOutput.at(terminal, console)
    editor: PromptSession[str] = PromptSession(
        history=DummyHistory(),
        prompt_continuation="",
        input_processors=[_Tabs()],
        enable_suspend=True,
        style=_STYLE,
        include_default_pygments_style=False,
        input=typed_input(),
        output=drawing,
    )
    editor.app.ttimeoutlen = _ESCAPE
    drawing.watch(editor)
    return editor


def lines_editor(
    typed: Input, output: Output, history: History, environ: Mapping[str, str], choices: Choices | None
) -> PromptSession[str]:
    """Return a multi-line editor that reads from the input and draws on the output."""
    editor: PromptSession[str] = PromptSession(
        multiline=True,
        history=history,
        search_ignore_case=True,
        validate_while_typing=False,
        completer=None if choices is None else ChoiceCompleter(choices),
        complete_while_typing=Condition(lambda: may_complete(editor.default_buffer.document)),
        key_bindings=keys_of_questions(environ),
        prompt_continuation=lambda _width, _line, wraps: _margin(editor, wraps),
        input_processors=[_Tabs()],
        enable_suspend=True,
        style=_STYLE,
        include_default_pygments_style=False,
        input=typed,
        output=output,
    )
    editor.app.ttimeoutlen = _ESCAPE
    close_on_escape(editor.app.key_processor, editor.default_buffer)
    place_menu(editor, len(_PROMPT))
    return editor


def read_question(editor: Editor) -> str:
    """Read a text from the person and return it unchanged; blank text is returned as an empty string.

    Raises:
        EOFError: the person ends the input.
        KeyboardInterrupt: the person presses Ctrl+C.
    """
    try:
        text = _read(editor, _PROMPT, "")
    finally:
        if isinstance(editor.history, FileHistory):
            editor.history.write()
    return text if text.strip() else ""


def has_typed(editor: Editor) -> bool:
    """Return whether Ctrl+C has discarded a text; for a terminal that edits lines itself that is unknown, so False."""
    return not isinstance(editor, PlainEditor) and bool(editor.default_buffer.text)


def read_line(editor: Editor, prompt: str, default: str = "") -> str:
    """Read a line from the person, who may edit the default, and return it without surrounding blanks.

    Raises:
        EOFError: the person ends the input.
        KeyboardInterrupt: the person presses Ctrl+C.
    """
    return _read(editor, prompt, default).strip()


def discard_typed_ahead(editor: Editor) -> None:
    """Discard what was typed before a question was asked: it is not an answer to the question."""
    discard_typed(editor.typed if isinstance(editor, PlainEditor) else editor.input)


def _read(editor: Editor, prompt: str, default: str) -> str:
    if isinstance(editor, PlainEditor):
        with TERMINAL_LOCK.held():
            return editor.read(prompt, is_multiline=prompt == _PROMPT)
    application = editor.app
    asked: list[None] = []

    def leave() -> None:
        asked.append(None)
        if application.loop is not None:
            application.loop.call_soon_threadsafe(exit_once)

    def exit_once() -> None:
        if asked and application.future is not None and not application.future.done():
            application.exit(exception=EOFError)

    def begin() -> None:
        asyncio.get_running_loop().set_exception_handler(_log_for_later)
        exit_once()

    def message() -> AnyFormattedText:
        return [("class:prompt", _fitting(prompt, editor.output.get_size().columns))]

    try:
        with TERMINAL_LOCK.held(), deferring_end_requests(leave):
            return editor.prompt(message, default=default, pre_run=begin, set_exception_handler=False)
    except OSError as error:
        if error.errno in _GONE:  # the terminal has hung up
            raise EOFError from error
        raise
    finally:
        be_quiet_again()


def _log_for_later(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log an exception of a key handler to the file of errors, so that the person can go on typing."""
    error = context.get("exception")
    cause = error if isinstance(error, BaseException) else None
    _logger.error("the editor: %s", context.get("message"), exc_info=cause, extra=FOR_LATER)


def _fitting(prompt: str, columns: int) -> str:
    """Return the prompt wrapped to the terminal's width, with room for an answer after its last line."""
    if prompt == _PROMPT:
        return prompt if columns >= _NARROW else ""
    lines = textwrap.wrap(prompt, max(1, columns - 1)) or [""]
    return "\n".join([*lines[:-1], f"{lines[-1]} " if len(lines[-1]) + _NARROW <= columns else f"{lines[-1]}\n"])


def _margin(editor: PromptSession[str], wraps: int) -> str:
    if editor.output.get_size().columns < _NARROW:
        return ""
    return " " * len(_MARGIN) if wraps else _MARGIN


def _history(console: Console) -> History:
    try:
        return FileHistory(state_directory(console.environ) / "history", console.warn)
    except NoHistoryError as error:
        console.warn(f"what is typed will not be remembered: {error}")
        return InMemoryHistory()


class _Tabs(Processor):
    """Displays a tab as blanks; lines without tabs are returned at once."""

    def __init__(self) -> None:
        self._tabs = TabsProcessor(char1=" ", char2=" ")

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the line as it is displayed."""
        fragments = transformation_input.fragments
        if any("\t" in fragment[1] for fragment in fragments):
            return self._tabs.apply_transformation(transformation_input)
        return Transformation(fragments)


_ROWS = 8
"""Maximum number of rows of the completion menu."""
_BESIDE = 1
"""Rows reserved for a message about the text."""


def place_menu(editor: PromptSession[str], prompt: int) -> None:
    """Limit the completion menu to the rows that are free, for a prompt that is that many columns wide.

    Without a free row the menu is closed: nobody can choose what is not visible.
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


_NEVER_WRAP_ANEW = ("linux", "rxvt", "screen", "st", "vt")


class EditorOutput(Vt100_Output):
    """The output on which an editor is drawn."""

    _drawn: tuple[Screen, Point] | None = None
    _wraps_anew = True

    @classmethod
    def at(cls, terminal: TextIO, console: Console) -> EditorOutput:
        """Return the output for the terminal, as the environment variables describe it."""
        drawing = cls(
            terminal,
            cls.from_pty(terminal).get_size,
            term=console.environ.get("TERM"),
            default_color_depth=_colours(console.environ),
            enable_cpr=False,  # a simple terminal never reports its cursor, and prompt_toolkit would wait for it
        )
        drawing._wraps_anew = _wraps_anew(console.environ)
        return drawing

    def watch(self, editor: PromptSession[str]) -> None:
        """Remember the last drawn screen and its cursor after each rendering."""

        def look(application: Application[str]) -> None:
            screen = application.renderer.last_rendered_screen
            if screen is None or application.is_done:
                self._drawn = None
            else:
                self._drawn = screen, screen.get_cursor_position(application.layout.current_window)

        editor.app.after_render += look

    def erase_down(self) -> None:
        """Erase from the first row of the editor; it is higher up if the terminal has since rewrapped the rows."""
        drawn, self._drawn = self._drawn, None
        if drawn is not None and self._wraps_anew:
            screen, cursor = drawn
            self.cursor_up(rows_above(screen, cursor, self.get_size().columns) - cursor.y)
        super().erase_down()


def rows_above(screen: Screen, cursor: Point, columns: int) -> int:
    """Return the number of rows above the cursor after a terminal with that many columns has rewrapped the screen."""
    ends = (
        max((x + cell.width for x, cell in screen.data_buffer[y].items() if cell.char != " "), default=0)
        for y in range(cursor.y)
    )
    return sum(max(1, -(-end // columns)) for end in ends) + cursor.x // columns


def _wraps_anew(environ: Mapping[str, str]) -> bool:
    if "TMUX" in environ:
        return True
    return "XTERM_VERSION" not in environ and not environ.get("TERM", "").startswith(_NEVER_WRAP_ANEW)


def _colours(environ: Mapping[str, str]) -> ColorDepth:
    if environ.get("NO_COLOR"):
        return ColorDepth.DEPTH_1_BIT
    wanted = read_variable(environ, "PROMPT_TOOLKIT_COLOR_DEPTH")
    return ColorDepth(wanted) if wanted in {depth.value for depth in ColorDepth} else ColorDepth.DEPTH_4_BIT
