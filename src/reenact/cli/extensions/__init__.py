"""Extensions in a conversation: skills, commands, agents and hooks."""

from __future__ import annotations

import os

from reenact.cli.chat.answering import ChatExtensions
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.environment import settings_files


def load_extensions(options: TalkOptions, console: Console) -> ChatExtensions:
    """Load the extensions of the user and of the project, warn of problems, and return what they add to a conversation.

    In a chat the person is asked whether the project's hooks and commands may run.
    """
    if not any(os.path.lexists(file.parent) for file in settings_files(console.environ)):
        return ChatExtensions()
    from reenact.cli.extensions.extended import load_for_chat  # noqa: PLC0415 - not imported where there are no extensions

    return load_for_chat(options, console)
