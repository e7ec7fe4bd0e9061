"""Loads the extensions of a conversation, if there are any."""

from __future__ import annotations

import os

from reenact.cli.chat.answering import ChatExtensions, project_directory
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.environment import home_directory

_FOLDER = ".reenact"
"""Folder of the extensions, in the home directory and in the directory of a project."""


def load_extensions(options: TalkOptions, console: Console, *, asks: bool) -> ChatExtensions:
    """Load the extensions of the user and of the project, warn of problems, and return what they add to a chat.

    If `asks` is true, the person is asked whether the project's hooks and commands may run.
    """
    folders = (home_directory(console.environ) / _FOLDER, project_directory(console) / _FOLDER)
    if not any(map(os.path.lexists, folders)):
        return ChatExtensions()
    from reenact.cli.extensions.extended import load_for_chat  # noqa: PLC0415 - not imported where there are no extensions

    return load_for_chat(options, console, asks=asks)
