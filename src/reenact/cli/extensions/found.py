"""Loads the extensions for a conversation, if there are any."""

from __future__ import annotations

import os

from reenact.cli.chat.answering import Extending, project_directory
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.environment import home_directory

_FOLDER = ".reenact"
"""Where extensions are, in the home directory and in that of a project."""


def extending(options: TalkOptions, console: Console, *, asks: bool) -> Extending:
    """Return what the extensions of the user and the project add, having said what is wrong with them.

    If it `asks`, a person is asked whether hooks of the project may run.
    """
    folders = (home_directory(console.environ) / _FOLDER, project_directory(console) / _FOLDER)
    if not any(map(os.path.lexists, folders)):
        return Extending()
    from reenact.cli.extensions.extended import extended  # noqa: PLC0415 - where there are none, nobody waits for it

    return extended(options, console, asks=asks)
