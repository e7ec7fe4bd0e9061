"""`extensions`: what was loaded and from where, what does not run, and what was skipped and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from reenact.cli.extensions.trust import loaded
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import ExtensionsOptions
from reenact.domain.legible import harmless
from reenact.extensions.agents import Agent
from reenact.extensions.files import Problem
from reenact.extensions.loading import Extensions
from reenact.extensions.skills import Skill

L = TypeVar("L", bound=msgspec.Struct)
_BUILT_IN: Final = "it cannot be called, since a command of this name is built in"
_UNTRUSTED: Final = "does not run: the project is not trusted"


class ListedExtension(msgspec.Struct, frozen=True, kw_only=True):
    """A skill or an agent, as a program reads of it."""

    name: str
    description: str
    source: str
    path: str
    replaces: str | None = None
    """The path of the user's own, for which this one stands."""
    notes: tuple[str, ...] = ()


class ListedCommand(ListedExtension, frozen=True, kw_only=True):
    """A command likewise; `runs` is false if it cannot be called, and `notes` say why."""

    runs: bool


class ListedHook(msgspec.Struct, frozen=True, kw_only=True):
    """A hook likewise; `runs` is false while nobody has trusted the project."""

    event: str
    matcher: str
    command: str
    timeout: float
    source: str
    path: str
    runs: bool


class ExtensionPage(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found."""

    skills: tuple[ListedExtension, ...]
    commands: tuple[ListedCommand, ...]
    agents: tuple[ListedExtension, ...]
    hooks: tuple[ListedHook, ...]
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """Yield it as lines for people."""
        if not any((self.skills, self.commands, self.agents, self.hooks, self.problems)):
            yield "There are no extensions in ~/.reenact and ./.reenact."
        yield from _section("Skills", self.skills, "")
        yield from _section("Commands", self.commands, "/")
        yield from _section("Agents", self.agents, "@")
        if self.hooks:
            yield "Hooks"
        for hook in self.hooks:
            yield f"  {harmless(f'{hook.event} {hook.matcher}'.rstrip())}: {harmless(hook.command)}"
            yield f"    {hook.source}: {hook.path}{'' if hook.runs else f' ({_UNTRUSTED})'}"
        if self.problems:
            yield "Skipped"
        for problem in self.problems:
            yield f"  {problem.told()}"


def extensions(options: ExtensionsOptions, console: Console) -> int:
    """Print the extensions; exit with 1 if any file was skipped."""
    found = loaded(console)
    page = _page(found)
    console.show(page, options.output_format, *page.lines())
    return ExitCode.UNEXPECTED if found.problems else ExitCode.SUCCESS


def _page(found: Extensions) -> ExtensionPage:
    withheld = () if found.withheld is None else found.withheld.hooks
    return ExtensionPage(
        skills=_extensions(found.skills, found),
        commands=tuple(_listed_commands(found)),
        agents=_extensions(found.agents, found),
        hooks=tuple(_listed(ListedHook, hook, runs=hook not in withheld) for hook in (*found.hooks, *withheld)),
        problems=found.problems,
    )


def _extensions(named: Mapping[str, Skill | Agent], found: Extensions) -> tuple[ListedExtension, ...]:
    return tuple(_listed(ListedExtension, one, replaces=found.replaced.get(one.path)) for one in named.values())


def _listed_commands(found: Extensions) -> Iterator[ListedCommand]:
    """Yield the commands by their names, and of one name that in force before the one that is withheld."""
    withheld = () if found.withheld is None else found.withheld.commands.values()
    reasons = [*((one, ()) for one in found.commands.values()), *((one, (_UNTRUSTED,)) for one in withheld)]
    for command, reason in sorted(reasons, key=lambda of: of[0].name):
        why_not = (*((_BUILT_IN,) if command.name in found.hidden else ()), *reason)
        replaces, notes = found.replaced.get(command.path), (*why_not, *command.notes)
        yield _listed(ListedCommand, command, replaces=replaces, notes=notes, runs=not why_not)


def _listed(kind: type[L], one: msgspec.Struct, **more: object) -> L:
    """Return of an extension what is listed, and more."""
    same = {name: getattr(one, name) for name in kind.__struct_fields__ if hasattr(one, name)}
    return msgspec.convert({**same, **more}, kind)


def _section(title: str, several: Iterable[ListedExtension], mark: str) -> Iterator[str]:
    for number, one in enumerate(several):
        if number == 0:
            yield title
        yield f"  {mark}{one.name}  {one.description}"
        yield f"    {one.source}: {one.path}"
        if one.replaces is not None:
            yield f"    in the place of {one.replaces}"
        for note in one.notes:
            yield f"    {note}"
