"""The editor by which a person says something: many lines, a history, and what can be typed is offered."""

from __future__ import annotations

import asyncio
import errno
import logging
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import DummyHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.layout.processors import Processor, TabsProcessor, Transformation, TransformationInput
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from reenact.cli.choices import Choices
from reenact.cli.completing import Offering, may_offer
from reenact.cli.console import Console
from reenact.cli.drawing import Drawing
from reenact.cli.editing_keys import close_on_escape, keys_of_questions
from reenact.cli.floor import FLOOR
from reenact.cli.history import FileHistory, NoHistoryError
from reenact.cli.interrupts import leaving_first
from reenact.cli.keyboard import be_quiet_again
from reenact.cli.logs import FOR_LATER
from reenact.cli.menu import place_menu
from reenact.cli.plain_editor import PlainEditor
from reenact.cli.settings import is_dumb, state_directory
from reenact.cli.typed import forget, typed_input

Editor: TypeAlias = PromptSession[str] | PlainEditor

_logger: Final = logging.getLogger("reenact.cli.editing")
_PROMPT: Final = "> "
_MARGIN: Final = "· "
_NARROW: Final = 8
"""Columns below which all of them are for the text."""
_ESCAPE: Final = 0.1
"""Seconds after which Esc is no more the beginning of what another key sends."""
_GONE: Final = frozenset({errno.EIO, errno.ENXIO, errno.EBADF, errno.EPIPE})
_STYLE: Final = Style(
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
    """Return an editor of many lines whose history outlives it, and which offers the choices."""
    terminal, history = console.terminal or console.err, _history(console)
    if is_dumb(console.environ):
        return PlainEditor(typed_input(), terminal, history)
    drawing = Drawing.at(terminal, console)
    editor = lines_editor(typed_input(), drawing, history, console.environ, choices)
    drawing.watch(editor)
    return editor


def editor_of_decisions(console: Console) -> Editor:
    """Return an editor for answers of a line that are to be given anew each time."""
    terminal = console.terminal or console.err
    if is_dumb(console.environ):
        return PlainEditor(typed_input(), terminal, DummyHistory())
    drawing = Drawing.at(terminal, console)
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
    """Return an editor of many lines that reads the input and draws at the output."""
    editor: PromptSession[str] = PromptSession(
        multiline=True,
        history=history,
        search_ignore_case=True,
        validate_while_typing=False,
        completer=None if choices is None else Offering(choices),
        complete_while_typing=Condition(lambda: may_offer(editor.default_buffer.document)),
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
    """Have a text typed, and return exactly that; what has nothing but blanks is no text, and returned as empty.

    Raises:
        EOFError: the person leaves.
        KeyboardInterrupt: it was Ctrl+C.
    """
    try:
        text = _read(editor, _PROMPT, "")
    finally:
        if isinstance(editor.history, FileHistory):
            editor.history.write()
    return text if text.strip() else ""


def has_typed(editor: Editor) -> bool:
    """Return whether Ctrl+C has cleared a text; a terminal that edits lines itself does not tell."""
    return not isinstance(editor, PlainEditor) and bool(editor.default_buffer.text)


def read_line(editor: Editor, prompt: str, default: str = "") -> str:
    """Have a line typed, or the default changed, and return it without blanks around it.

    Raises:
        EOFError: the person leaves.
        KeyboardInterrupt: it was Ctrl+C.
    """
    return _read(editor, prompt, default).strip()


def forget_what_was_typed(editor: Editor) -> None:
    """Drop what was typed before anything was asked: it is no answer."""
    forget(editor.typed if isinstance(editor, PlainEditor) else editor.input)


def _read(editor: Editor, prompt: str, default: str) -> str:
    if isinstance(editor, PlainEditor):
        with FLOOR.taken():
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
        asyncio.get_running_loop().set_exception_handler(_keep_for_later)
        exit_once()

    def message() -> AnyFormattedText:
        return [("class:prompt", _fitting(prompt, editor.output.get_size().columns))]

    try:
        with FLOOR.taken(), leaving_first(leave):
            return editor.prompt(message, default=default, pre_run=begin, set_exception_handler=False)
    except OSError as error:
        if error.errno in _GONE:  # the terminal has hung up
            raise EOFError from error
        raise
    finally:
        be_quiet_again()


def _keep_for_later(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Keep what a key has raised in the log of errors: whoever types goes on typing."""
    error = context.get("exception")
    _logger.error("the editor: %s", context.get("message"), exc_info=error, extra=FOR_LATER)


def _fitting(prompt: str, columns: int) -> str:
    """Return the prompt on lines of the terminal, with room for an answer behind the last one."""
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
    """Shows a tab as blanks; lines without one cost nothing."""

    def __init__(self) -> None:
        blank: Callable[[], str] = lambda: " "  # noqa: E731 - a character, each time
        self._tabs = TabsProcessor(char1=blank, char2=blank)

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the line as it is shown."""
        fragments = transformation_input.fragments
        if any("\t" in fragment[1] for fragment in fragments):
            return self._tabs.apply_transformation(transformation_input)
        return Transformation(fragments)
