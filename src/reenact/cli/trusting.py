"""The extensions of whoever calls the command, and whether a person trusts the hooks and commands of a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from reenact.cli.commands import WORDS
from reenact.cli.console import Console
from reenact.cli.exact import harmless
from reenact.cli.extending import project_directory
from reenact.cli.failures import ExitCode, Problem
from reenact.cli.options import TrustOptions
from reenact.cli.settings import home_directory, state_directory
from reenact.domain.errors import ConfigurationError
from reenact.extensions.hooks import Hook
from reenact.extensions.loading import Extensions, Withheld, load, withheld_of
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
    """Ask the person whether these hooks may run and these commands be called, and remember it if they may."""
    from reenact.cli.editing import (  # noqa: PLC0415 - the line editor is loaded when somebody types
        editor_of_decisions,
        forget_what_was_typed,
        read_line,
    )

    project = harmless(withheld.project)
    if withheld.hooks:
        console.say(f"The project {project} has hooks: command lines that run by themselves.")
    for hook in withheld.hooks:
        console.say(f"  {hook_line(hook)}")
    if withheld.commands:
        count = len(withheld.commands)
        names = ", ".join(f"/{name}" for name in withheld.commands)
        console.say(f"The project {project} has {count} command{'s'[: count != 1]}: {names}")
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
    """Trust the hooks and commands of a project as they are now, or trust it no more, and return the exit code.

    Raises:
        ConfigurationError: there are none there that could run, or it cannot be remembered.
    """
    project = Path(os.path.realpath(project_directory(console) / (options.project or "")))
    if options.untrust:
        was_trusted = _trust(console).remove(project)
        console.say(f"{harmless(str(project))} is {'no longer' if was_trusted else 'not'} trusted")
        return ExitCode.SUCCESS
    withheld, problems = withheld_of(project)
    if withheld is None:
        why = f"; {problems[0].told()}" if problems else ""
        raise ConfigurationError(f"there are no hooks or commands in {project} that could run{why}")
    _trust(console).add(project, withheld.digest)
    console.say(f"{harmless(str(project))} is trusted with what it has now, until any of that is changed:")
    for hook in withheld.hooks:
        console.say(f"  {hook_line(hook)}")
    for command in withheld.commands.values():
        console.say(f"  {harmless(command.usage)}: {harmless(command.description)}")
    return ExitCode.SUCCESS


def why_not(withheld: Withheld) -> str:
    """Return that something does not run, why not, and what to do about it."""
    what = " and ".join(name for name, some in (("hooks", withheld.hooks), ("commands", withheld.commands)) if some)
    return (
        f"the {what} in {harmless(withheld.project)} do not run, for nobody has trusted them; "
        "`reenact extensions` lists them, `reenact extensions trust` trusts them"
    )


def untrusted(name: str, withheld: Withheld) -> Problem:
    """Return the problem that a command was called which nobody has trusted."""
    message = (
        f"/{name} is a command of the project {harmless(withheld.project)}, which nobody has trusted, so the model is "
        "not asked; `reenact extensions` says where the command is, `reenact extensions trust` trusts the project"
    )
    return Problem(ExitCode.USAGE, "untrusted_command", message)


def hook_line(hook: Hook) -> str:
    """Return the hook on a line: when it runs, and what; nothing in it can hide."""
    what = f"{hook.event} {hook.matcher}".rstrip()
    return f"{harmless(what)}: {harmless(hook.command)}"


def _trust(console: Console) -> Trust:
    return Trust(state_directory(console.environ))
