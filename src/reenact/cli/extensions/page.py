"""The command `extensions`: lists what was loaded, withheld or skipped, and manages trust in a project's hooks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from reenact.cli.chat.commands import WORDS
from reenact.cli.output.console import Console
from reenact.cli.output.exact import SHOWN, show
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import ExtensionsOptions, TrustOptions
from reenact.cli.settings.environment import home_directory, project_directory, state_directory
from reenact.domain.errors import ConfigurationError
from reenact.domain.legible import display_safe
from reenact.extensions.files import Problem
from reenact.extensions.frontmatter import Extension
from reenact.extensions.hooks import Hook, Trust
from reenact.extensions.loading import Extensions, Withheld, load, withheld_of

_TRUSTED = "{} is trusted with what it has now, until any of that is changed"
_WIDTH = 100
"""Width in columns of what is printed without a question."""


def loaded(console: Console) -> Extensions:
    """Load the extensions of the user and of the project."""
    return load(
        home_directory(console.environ),
        project_directory(console.environ),
        is_trusted=_trust(console).covers,
        reserved={word.removeprefix("/") for word in WORDS},
    )


def may_trust(withheld: Withheld, console: Console) -> bool:
    """Ask the person whether these hooks and commands may run, and remember a yes."""
    from reenact.cli.editor.editor import (  # noqa: PLC0415 - imported only when a person is asked
        discard_typed_ahead,
        editor_of_decisions,
        read_line,
    )

    screen = console.screen()

    def say(line: str, style: str | None = None) -> None:
        screen.print(line, style=style, soft_wrap=False)

    def show_most(most: int | None) -> None:
        say(_headline(withheld), "bold")
        show(_content(withheld), screen.width, most, write=screen.print, say=say)
        say(_headline(withheld), "bold")

    editor = editor_of_decisions(console)
    show_most(SHOWN)
    discard_typed_ahead(editor)
    try:
        while (answer := read_line(editor, "Do you trust them? [y]es, [n]o: ").casefold()) in {"v", "view"}:
            show_most(None)
    except (EOFError, KeyboardInterrupt):
        return False
    if answer not in {"y", "yes"}:
        return False
    _trust(console).add(Path(withheld.project), withheld.digest)
    return True


def trust(options: TrustOptions, console: Console) -> int:
    """Trust the hooks and commands of a project as they are now, or revoke that trust, and return the exit code.

    A person sees them and is asked, unless `--yes` is given; without a person they are printed and trusted.

    Raises:
        ConfigurationError: the project has no hooks or commands that could run, or the trust cannot be saved.
    """
    project = Path(os.path.realpath(project_directory(console.environ) / (options.project or "")))
    if options.untrust:
        was_trusted = _trust(console).remove(project)
        console.say(f"{display_safe(str(project))} is {'no longer' if was_trusted else 'not'} trusted")
        return ExitCode.SUCCESS
    withheld, problems = withheld_of(project)
    if withheld is None:
        why = f"; {problems[0].told()}" if problems else ""
        raise ConfigurationError(f"there are no hooks or commands in {project} that could run{why}")
    if console.has_person and not console.in_ci and not options.yes:
        if not may_trust(withheld, console):
            console.say(f"{display_safe(str(project))} is not trusted with what it has now")
            return ExitCode.UNEXPECTED
        console.say(_TRUSTED.format(display_safe(str(project))) + ".")
        return ExitCode.SUCCESS
    _trust(console).add(project, withheld.digest)
    console.say(_TRUSTED.format(display_safe(str(project))) + ":")

    def say(line: str, _style: str | None = None) -> None:
        console.say(line)

    show(_content(withheld), _WIDTH, None, write=say, say=say)
    return ExitCode.SUCCESS


def _headline(withheld: Withheld) -> str:
    """Return a summary of what is to be trusted, without any text of the project."""
    hooks, commands = len(withheld.hooks), len(withheld.commands)
    of_hooks = f"{hooks} hook{'s'[: hooks != 1]}, command lines that run by themselves"
    of_commands = f"{commands} command{'s'[: commands != 1]}, texts that are sent as yours when you call them"
    return f"The project has {', and '.join(([of_hooks] if hooks else []) + ([of_commands] if commands else []))}."


def _content(withheld: Withheld) -> dict[str, object]:
    """Return everything that would be trusted, as a value that can be shown in whole."""
    content: dict[str, object] = {"project": withheld.project}
    if withheld.hooks:
        content["hooks"] = [_hook(hook) for hook in withheld.hooks]
    if withheld.commands:
        content["commands"] = {f"/{name}": command.body for name, command in withheld.commands.items()}
    return content


def _hook(hook: Hook) -> dict[str, object]:
    matcher = {"matcher": hook.matcher} if hook.matcher else {}
    return {"event": hook.event, **matcher, "command": hook.command, "timeout": hook.timeout}


def why_not(withheld: Withheld) -> str:
    """Return the sentence that hooks or commands do not run, why not, and what to do about it."""
    return f"{not_in_force(withheld)}; `reenact extensions` lists them, `reenact extensions trust` trusts them"


def not_in_force(withheld: Withheld) -> str:
    """Return the sentence that hooks or commands do not run, and why not."""
    what = " and ".join(name for name, some in (("hooks", withheld.hooks), ("commands", withheld.commands)) if some)
    return f"the {what} in {display_safe(withheld.project)} do not run, because nobody has trusted them"


def _trust(console: Console) -> Trust:
    return Trust(state_directory(console.environ))


_BUILT_IN = "it cannot be called, since a command of this name is built in"
_UNTRUSTED = "does not run: the project is not trusted"


class ListedExtension(msgspec.Struct, frozen=True, kw_only=True):
    """A skill, a command or an agent, as listed for programs."""

    name: str
    description: str
    source: str
    path: str
    replaces: str | None
    """The path of the user's own extension that this one replaces."""
    notes: tuple[str, ...]
    runs: bool | UnsetType = UNSET
    """Only of a command: whether it can be called; if not, `notes` say why."""


class ListedHook(Hook, frozen=True, kw_only=True):
    """A hook, as listed for programs; `runs` is false while nobody has trusted the project."""

    runs: bool


class ExtensionPage(msgspec.Struct, frozen=True, kw_only=True):
    """All extensions that were found."""

    skills: tuple[ListedExtension, ...]
    commands: tuple[ListedExtension, ...]
    agents: tuple[ListedExtension, ...]
    hooks: tuple[ListedHook, ...]
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """Yield the page as lines of text."""
        if not any((self.skills, self.commands, self.agents, self.hooks, self.problems)):
            yield "There are no extensions in ~/.reenact and ./.reenact."
        yield from _section("Skills", self.skills, "")
        yield from _section("Commands", self.commands, "/")
        yield from _section("Agents", self.agents, "@")
        if self.hooks:
            yield "Hooks"
        for hook in self.hooks:
            yield f"  {display_safe(f'{hook.event} {hook.matcher}'.rstrip())}: {display_safe(hook.command)}"
            yield f"    {hook.source}: {hook.path}{'' if hook.runs else f' ({_UNTRUSTED})'}"
        if self.problems:
            yield "Skipped"
        for problem in self.problems:
            yield f"  {problem.told()}"


def extensions(options: ExtensionsOptions, console: Console) -> int:
    """Print the extensions; return 1 if any file was skipped."""
    found = loaded(console)
    withheld = () if found.withheld is None else found.withheld.hooks
    page = ExtensionPage(
        skills=tuple(_listed(skill, found) for skill in found.skills.values()),
        commands=tuple(_listed_commands(found)),
        agents=tuple(_listed(agent, found) for agent in found.agents.values()),
        hooks=tuple(ListedHook(**asdict(hook), runs=hook not in withheld) for hook in (*found.hooks, *withheld)),
        problems=found.problems,
    )
    console.show(page, options.output_format, *page.lines())
    return ExitCode.UNEXPECTED if found.problems else ExitCode.SUCCESS


def _listed_commands(found: Extensions) -> Iterator[ListedExtension]:
    """Yield the commands sorted by name; of two with one name, the active one comes before the withheld one."""
    withheld = () if found.withheld is None else found.withheld.commands.values()
    for command in sorted((*found.commands.values(), *withheld), key=attrgetter("name")):
        why_not = [_BUILT_IN] if command.name in found.hidden else []
        if command in withheld:
            why_not.append(_UNTRUSTED)
        listed = _listed(command, found)
        yield replace(listed, notes=(*why_not, *listed.notes), runs=not why_not)


def _listed(extension: Extension, found: Extensions) -> ListedExtension:
    return ListedExtension(
        name=extension.name,
        description=extension.description,
        source=extension.source,
        path=extension.path,
        replaces=found.replaced.get(extension.path),
        notes=extension.notes,
    )


def _section(title: str, several: Iterable[ListedExtension], mark: str) -> Iterator[str]:
    for number, extension in enumerate(several):
        if number == 0:
            yield title
        yield f"  {mark}{extension.name}  {extension.description}"
        yield f"    {extension.source}: {extension.path}"
        if extension.replaces is not None:
            yield f"    in the place of {extension.replaces}"
        for note in extension.notes:
            yield f"    {note}"
