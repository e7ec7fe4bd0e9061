"""The text in another editor: the one that the person has named, and no other."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.validation import ValidationError

from reenact.cli.interrupts import interrupts_are_for_others
from reenact.cli.settings import given
from reenact.domain.legible import harmless

_NAMED_BY: Final = ("VISUAL", "EDITOR")
_NAME_ONE: Final = "Set VISUAL or EDITOR to the editor that Ctrl+X Ctrl+E is to open."


def edit_outside(buffer: Buffer, environ: Mapping[str, str]) -> None:
    """Open the text in the editor that `VISUAL` or `EDITOR` names; a line below it says why it stays as it is."""
    named = next((found for name in _NAMED_BY if (found := given(environ, name))), None)
    if named is None:
        _tell(buffer, _NAME_ONE)
        return

    def edit() -> None:
        try:
            with interrupts_are_for_others():
                text = _edited(buffer.text, named)
        except (OSError, ValueError) as error:
            _tell(buffer, f"{named} cannot be used: {error}")
        except subprocess.CalledProcessError as error:
            _tell(buffer, f"{named} ended with {error.returncode}; the text is as it was.")
        else:
            buffer.document = Document(text, len(text))

    run_in_terminal(edit)


def _edited(text: str, editor: str) -> str:
    with tempfile.TemporaryDirectory(prefix="reenact-") as directory:  # which nobody else can look into
        file = Path(directory, "message.md")
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        subprocess.run([*shlex.split(editor), str(file)], check=True)  # noqa: S603 - it is theirs
        return file.read_bytes().decode().removesuffix("\n")


def _tell(buffer: Buffer, what: str) -> None:
    buffer.validation_error = ValidationError(message=harmless(what))
