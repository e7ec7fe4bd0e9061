"""The extensions of whoever calls the command, and whether a person trusts the hooks of a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from reenact.cli.commands import WORDS
from reenact.cli.console import Console
from reenact.cli.exact import harmless
from reenact.cli.extending import project_directory
from reenact.cli.failures import ExitCode
from reenact.cli.options import TrustOptions
from reenact.cli.settings import home_directory, state_directory
from reenact.domain.errors import ConfigurationError
from reenact.extensions.hooks import Hook
from reenact.extensions.loading import Extensions, Withheld, hooks_of, load
from reenact.extensions.trust import Trust

_QUESTION: Final = "Do you trust them? [y]es, [n]o: "


def loaded(console: Console) -> Extensions:
    """Return the extensions of the user and of the project."""
    return load(
        home_directory(console.environ),
        project_directory(console),
        is_trusted=_trust(console).covers,
        reserved={word.removeprefix("/") for word in WORDS},
    )


def may_trust(withheld: Withheld, console: Console) -> bool:
    """Ask the person whether these hooks may run, and remember it if they may."""
    from reenact.cli.editing import (  # noqa: PLC0415 - the line editor is loaded when somebody types
        editor_of_decisions,
        forget_what_was_typed,
        read_line,
    )

    console.say(f"The project {harmless(withheld.project)} has hooks: command lines that run by themselves.")
    for hook in withheld.hooks:
        console.say(f"  {hook_line(hook)}")
    editor = editor_of_decisions(console)
    forget_what_was_typed(editor)
    try:
        if read_line(editor, _QUESTION).casefold() not in {"y", "yes"}:
            return False
    except (EOFError, KeyboardInterrupt):
        return False
    _trust(console).add(Path(withheld.project), withheld.digest)
    return True


def trust(options: TrustOptions, console: Console) -> int:
    """Trust the hooks of a project as they are now, or trust it no more, and return the exit code.

    Raises:
        ConfigurationError: there are no hooks there that could run, or it cannot be remembered.
    """
    project = Path(os.path.realpath(project_directory(console) / (options.project or "")))
    if options.untrust:
        was_trusted = _trust(console).remove(project)
        console.say(f"{harmless(str(project))} is {'no longer' if was_trusted else 'not'} trusted")
        return ExitCode.SUCCESS
    found = hooks_of(project)
    if not found.hooks:
        why = f"; {found.problems[0].told()}" if found.problems else ""
        raise ConfigurationError(f"there are no hooks in {project} that could run{why}")
    _trust(console).add(project, found.digest)
    console.say(f"{harmless(str(project))} is trusted with these hooks, until they are changed:")
    for hook in found.hooks:
        console.say(f"  {hook_line(hook)}")
    return ExitCode.SUCCESS


def hook_line(hook: Hook) -> str:
    """Return the hook on a line: when it runs, and what; nothing in it can hide."""
    what = f"{hook.event} {hook.matcher}".rstrip()
    return f"{harmless(what)}: {harmless(hook.command)}"


def _trust(console: Console) -> Trust:
    return Trust(state_directory(console.environ))
