"""The editor's key bindings beyond those of readline: new lines, completion, and `$EDITOR`."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from prompt_toolkit.application.current import get_app
from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys
from prompt_toolkit.validation import ValidationError

from reenact.cli.attachments import paths
from reenact.cli.editor.keyboard import NEW_LINE, ends_with_backslash
from reenact.cli.interrupts import ignoring_interrupts
from reenact.cli.settings.environment import read_variable
from reenact.domain.legible import display_safe, shortened

_LONGEST = 200
"""Maximum number of characters before the cursor for which completions are offered."""
_COMMAND = re.compile(r"/[^\s/]*")
_ARGUMENT = re.compile(r"(/[^\s/]+)[ \t]+(\S[^\n]*|)")
_AGENT = re.compile(r"@[A-Za-z0-9_-]*")
_PATH = re.compile(r"(?:.*\s)?@([^\s\"@]*)", re.DOTALL)
_MOST = 100
"""Maximum number of paths that are offered."""
_NARROW = 40
"""Below this number of columns, completions have no descriptions."""
_WIDEST = 80


class Choices(Protocol):
    """Provides the completions of commands, agents and arguments."""

    def commands(self) -> Mapping[str, str]:
        """Return each command as `/word`, built in or of an extension, with its description."""
        ...

    def agents(self) -> Mapping[str, str]:
        """Return each agent as `@name`, with its description."""
        ...

    def arguments(self, word: str) -> Sequence[tuple[str, str]]:
        """Return the possible arguments of the command `/word`: each value with its description.

        It is called at each key press, so it must be fast and never raise: values that cannot be found are left out.
        """
        ...


def may_complete(document: Document) -> bool:
    """Return whether completions may exist for the text before the cursor."""
    text = document.text_before_cursor
    return (
        len(text) <= _LONGEST
        and not document.text_after_cursor.strip()
        and any(pattern.fullmatch(text) for pattern in (_COMMAND, _ARGUMENT, _PATH))
    )


class ChoiceCompleter(Completer):
    """Completes commands and agents at the beginning of a text, and paths after any `@`."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return the completions of the text before the cursor."""
        text = document.text_before_cursor
        if not may_complete(document):
            return ()
        if _COMMAND.fullmatch(text):
            usages = self._choices.commands().items()
            return _completions(text, ((usage.partition(" ")[0], usage, about) for usage, about in usages))
        path = _PATH.fullmatch(text)
        if path is not None and not text.startswith("/"):
            agents = self._choices.agents().items() if _AGENT.fullmatch(text) else ()
            return chain(
                _completions(text, ((f"{name} ", name, about) for name, about in agents)),
                _completions(
                    path[1], ((found, found, "") for found in islice(paths(path[1]), _MOST) if " " not in found)
                ),
            )
        argument = _ARGUMENT.fullmatch(text)
        if argument is None:
            return ()
        return _completions(
            argument[2], ((value, value, about) for value, about in self._choices.arguments(argument[1]))
        )


def _completions(prefix: str, choices: Iterable[tuple[str, str, str]]) -> Iterator[Completion]:
    """Yield a completion for each choice that begins with the given text.

    Args:
        prefix: the text to complete.
        choices: tuples of the text to insert, the text to display, and the description.
    """
    columns = get_app().output.get_size().columns
    width = min(_WIDEST, columns - 1)
    for text, shown, about in choices:
        if text.startswith(prefix) and display_safe(text) == text:
            yield Completion(
                text,
                start_position=-len(prefix),
                display=shortened(shown, width),
                display_meta=None if columns < _NARROW else shortened(" ".join(about.split()), width),
            )


def keys_of_questions(environ: Mapping[str, str]) -> KeyBindings:
    """Return the key bindings: Enter sends, other keys add lines, complete, or open `$EDITOR`."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add(Keys.ControlM, filter=typing)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif _continues_on_next_line(buffer):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add(*NEW_LINE, filter=typing)
    @keys.add(Keys.ControlJ, filter=typing)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add(Keys.ControlI, filter=typing)
    def tab(event: KeyPressEvent) -> None:
        complete(event.current_buffer)

    @keys.add(Keys.Backspace, filter=typing)
    def backspace(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.selection_state is not None:
            buffer.cut_selection()
        elif not buffer.delete_before_cursor(event.arg):
            event.app.output.bell()
        if buffer.complete_while_typing():
            buffer.start_completion()

    @keys.add(Keys.ControlX, Keys.ControlE, filter=typing)
    def outside(event: KeyPressEvent) -> None:
        edit_externally(event.current_buffer, environ)

    return keys


def complete(buffer: Buffer) -> None:
    """Insert the common prefix of all completions; if it adds nothing, select the next completion."""
    offered = buffer.complete_state
    if offered is not None and offered.current_completion is not None:
        buffer.complete_next()
        return
    completions = [*buffer.completer.get_completions(buffer.document, CompleteEvent(completion_requested=True))]
    common = get_common_complete_suffix(buffer.document, completions)
    if common:
        buffer.insert_text(common)
    elif offered is not None:
        buffer.complete_next()
    else:
        buffer.start_completion()


def close_on_escape(keys: KeyProcessor, buffer: Buffer) -> None:
    """Make Esc close the completion menu at once; alone it does nothing else, and it still begins key sequences."""

    def look(_: object) -> None:
        if buffer.complete_state is not None and [press.key for press in keys.key_buffer] == [Keys.Escape]:
            buffer.complete_state = None
            buffer.on_completions_changed.fire()
            if not keys.input_queue:
                keys.key_buffer.clear()

    keys.after_key_press += look


def _continues_on_next_line(buffer: Buffer) -> bool:
    document = buffer.document
    return document.is_cursor_at_the_end_of_line and ends_with_backslash(document.current_line_before_cursor)


_EDITOR_VARIABLES = ("VISUAL", "EDITOR")


def edit_externally(buffer: Buffer, environ: Mapping[str, str]) -> None:
    """Open the text in the editor that `VISUAL` or `EDITOR` names; if that fails, say why below the text."""
    named = next((found for name in _EDITOR_VARIABLES if (found := read_variable(environ, name))), None)
    if named is None:
        _show_message(buffer, "Set VISUAL or EDITOR to the editor that Ctrl+X Ctrl+E is to open.")
        return

    def edit() -> None:
        try:
            with ignoring_interrupts():
                text = _edited(buffer.text, named)
        except (OSError, ValueError) as error:
            _show_message(buffer, f"{named} cannot be used: {error}")
        except subprocess.CalledProcessError as error:
            _show_message(buffer, f"{named} ended with {error.returncode}; the text is as it was.")
        else:
            buffer.document = Document(text, len(text))

    run_in_terminal(edit)


def _edited(text: str, editor: str) -> str:
    with tempfile.TemporaryDirectory(prefix="reenact-") as directory:  # only the user has access to it
        file = Path(directory, "message.md")
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        subprocess.run([*shlex.split(editor), str(file)], check=True)  # noqa: S603 - the user's own editor
        return file.read_bytes().decode().removesuffix("\n")


def _show_message(buffer: Buffer, what: str) -> None:
    buffer.validation_error = ValidationError(message=display_safe(what))
