"""Loads the extensions of a user and of a project, and collects what was skipped and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

from reenact.extensions import hooks as hooking
from reenact.extensions.files import (
    MOST_IN_ALL,
    Allowance,
    MalformedError,
    Problem,
    is_folder,
    names_in,
    read_bytes,
    text_of,
)
from reenact.extensions.frontmatter import LARGEST_IN_ALL, Document, Extension, Where, read_document
from reenact.extensions.hooks import Hook, HookFile, digest_of, read_hooks
from reenact.extensions.kinds import FILE as SKILL_FILE
from reenact.extensions.kinds import Agent, Command, Skill, read_agent, read_command, read_skill

FOLDER = ".reenact"
MOST = 200
"""Maximum number of skills, commands and agents, each, that are read from a `.reenact`."""
_MARKDOWN = ".md"
_NO_SKILL = "README.md"
"""A file beside the skills that is ignored without a note."""

Source: TypeAlias = Literal["user", "project"]
IsTrusted: TypeAlias = Callable[[Path, str], bool]
"""Returns whether a project is trusted, given its resolved path and the digest of its hooks and commands."""


One = TypeVar("One", bound=Extension)
T = TypeVar("T")


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks and commands of a project, as they were read; they do not run until a person has trusted them.

    `digest` covers the names and the whole content of their files.
    """

    project: str
    digest: str
    hooks: tuple[Hook, ...]
    commands: Mapping[str, Command]


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """The loaded extensions by name; the hooks that run, the user's first; and what was skipped.

    `replaced` maps the path of a project's extension to the path of the user's extension that it replaces.
    """

    skills: Mapping[str, Skill] = {}
    commands: Mapping[str, Command] = {}
    agents: Mapping[str, Agent] = {}
    hooks: tuple[Hook, ...] = ()
    withheld: Withheld | None = None
    """What is not trusted yet and does not run. If the user has a command of the same name, that one runs."""
    problems: tuple[Problem, ...] = ()
    replaced: Mapping[str, str] = {}
    hidden: tuple[str, ...] = ()
    """Names of commands, withheld or not, that cannot be called because a built-in command has the name."""

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The names of withheld commands, unless the user's or a built-in command has the name."""
        commands = () if self.withheld is None else self.withheld.commands
        return tuple(name for name in commands if name not in self.commands and name not in self.hidden)

    def trusting(self, withheld: Withheld) -> Extensions:
        """Return the extensions with those that were withheld in force."""
        replaced = dict(self.replaced)
        return msgspec.structs.replace(
            self,
            commands=_merged([self.commands, withheld.commands], replaced),
            hooks=(*self.hooks, *withheld.hooks),
            withheld=None,
            replaced=replaced,
        )


def load(user: Path, project: Path, *, is_trusted: IsTrusted, reserved: Collection[str] = ()) -> Extensions:
    """Load the `.reenact` folders of the user's home and of a project; for equal names, the project's applies.

    Every error in a file is a problem, and the file is skipped. Links in a project are followed only inside the
    project. `reserved` are the names of built-in commands.
    """
    root = Path(os.path.realpath(project))
    of_user = _Folder(user / FOLDER, None, "user")
    of_project = _Folder(root / FOLDER, root, "project")
    same = os.path.realpath(of_user.path) == os.path.realpath(of_project.path)
    folders = (of_user,) if same else (of_user, of_project)
    replaced: dict[str, str] = {}
    skills = _merged([folder.skills() for folder in folders], replaced)
    agents = _merged([folder.agents() for folder in folders], replaced)
    commands = of_user.commands()
    withheld = None if same else of_project.withheld()
    found = Extensions(
        skills=skills,
        commands=commands,
        agents=agents,
        hooks=of_user.hooks().hooks,
        withheld=withheld,
        problems=tuple(problem for folder in folders for problem in folder.problems),
        replaced=replaced,
        hidden=tuple(sorted({*commands, *(withheld.commands if withheld else ())} & {*reserved})),
    )
    return found.trusting(withheld) if withheld is not None and is_trusted(root, withheld.digest) else found


def withheld_of(project: Path) -> tuple[Withheld | None, tuple[Problem, ...]]:
    """Return what of a project needs trust, None if there is nothing, and the problems with the project's files."""
    root = Path(os.path.realpath(project))
    folder = _Folder(root / FOLDER, root, "project")
    return folder.withheld(), tuple(folder.problems)


class _Folder:
    """A `.reenact` folder, read part by part; links in it must not lead out of `within`."""

    def __init__(self, path: Path, within: Path | None, source: Source) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._within = within
        self._source: Source = source
        self._content = Allowance(MOST_IN_ALL, "it is not read: the files have more than {} bytes together")
        self._yaml = Allowance(
            LARGEST_IN_ALL, "it is not read: the front matter of the files has more than {} characters together"
        )
        self._is_there = self._is_folder(self.path)
        if not (self._is_there or self.problems) and self.path.exists():
            self.report(self.path, "it must be a folder")

    def skills(self) -> dict[str, Skill]:
        folder = self.path / "skills"
        folders = self._first(folder, filter(self._is_of_skill, (folder / name for name in self._names(folder))))
        return self._named(self._skill(folder) for folder in folders)

    def commands(self) -> dict[str, Command]:
        return self._named(self._read(path, read_command, path.stem) for path in self._files("commands"))

    def agents(self) -> dict[str, Agent]:
        return self._named(self._read(path, read_agent, path.stem) for path in self._files("agents"))

    def hooks(self) -> HookFile:
        path = self.path / hooking.FILE

        def read() -> HookFile:
            return read_hooks(read_bytes(path, self._within), path=_shown(path), source=self._source)

        found = self._tried(path, read, HookFile()) if self._is_there else HookFile()
        self.problems += found.problems
        return found

    def withheld(self) -> Withheld | None:
        """Return the hooks and commands, with the digest of the content that was read; None if there are none."""
        commands = self.commands()
        found = self.hooks()
        if not commands and not found.hooks:
            return None
        digests = {f"commands/{name}": command.digest for name, command in commands.items()}
        digest = digest_of({**digests, hooking.FILE: found.digest})
        return Withheld(project=str(self._within), digest=digest, hooks=found.hooks, commands=commands)

    def _is_of_skill(self, path: Path) -> bool:
        """Return whether the path is the folder of a skill; report files that look like skills."""
        if self._is_folder(path):
            return True
        if path.suffix.lower() == _MARKDOWN and path.name != _NO_SKILL:
            self.report(path, f"it is not a skill: that is a folder with a {SKILL_FILE} in it")
        return False

    def _is_markdown(self, path: Path) -> bool:
        """Return whether the path is a Markdown file; report paths that look like commands or agents."""
        if path.name.endswith(_MARKDOWN):
            return True
        if path.suffix.lower() == _MARKDOWN:
            self.report(path, f"it is not read: its name must end in {_MARKDOWN}")
        elif self._is_folder(path):
            where = f"put it into {path.parent.name} itself"
            self.report(path, f"it is a folder, and what is in it is not read: {where}")
        return False

    def _is_folder(self, path: Path) -> bool:
        """Return whether the path is a folder; report a path that cannot be examined."""
        return self._tried(path, lambda: is_folder(path), otherwise=False)

    def _first(self, folder: Path, paths: Iterable[Path]) -> list[Path]:
        """Return the first paths, as many as are read; report if there are more."""
        found = list(paths)
        if len(found) > MOST:
            self.report(folder, f"it has {len(found)} of them; the first {MOST} are read")
        return found[:MOST]

    def _skill(self, folder: Path) -> Skill | None:
        read = partial(read_skill, folder=_shown(folder))
        missing = "there is no such file; it is what makes a folder a skill"
        return self._read(folder / SKILL_FILE, read, folder.name, missing)

    def _files(self, kind: str) -> list[Path]:
        folder = self.path / kind
        return self._first(folder, filter(self._is_markdown, (folder / name for name in self._names(folder))))

    def _names(self, folder: Path) -> list[str]:
        if not self._is_there:
            return []
        return self._tried(folder, lambda: names_in(folder, self._within), [])

    def _read(
        self, path: Path, read: Callable[[Document, Where], One], name: str, missing: str = "it was there a moment ago"
    ) -> One | None:
        """Return the extension in the file; `name` is used if the file has none."""

        def read_file() -> One:
            text = text_of(read_bytes(path, self._within, self._content))
            return read(read_document(text, self._yaml), Where(name, _shown(path), self._source))

        return self._tried(path, read_file, None, missing)

    def _tried(self, path: Path, read: Callable[[], T], otherwise: T, missing: str | None = None) -> T:
        """Return what is read, or, if that fails, report it and return `otherwise`.

        That there is no such file is reported only with the message `missing`.
        """
        try:
            return read()
        except FileNotFoundError:
            if missing is not None:
                self.report(path, missing)
        except MalformedError as error:
            self.report(path, error.message, error.line)
        return otherwise

    def _named(self, found: Iterable[One | None]) -> dict[str, One]:
        """Return the extensions by name; of two with the same name, the first is used."""
        named: dict[str, One] = {}
        for one in filter(None, found):
            first = named.setdefault(one.name, one)
            if first is not one:
                self.problems.append(Problem(one.path, None, f"{first.path} has the name {one.name!r} already"))
        return named

    def report(self, path: Path, problem: str, line: int | None = None) -> None:
        self.problems.append(Problem(_shown(path), line, problem))


def _merged(found: Iterable[Mapping[str, One]], replaced: dict[str, str]) -> dict[str, One]:
    merged: dict[str, One] = {}
    for of_folder in found:
        for name, one in of_folder.items():
            if name in merged:
                replaced[one.path] = merged[name].path
            merged[name] = one
    return dict(sorted(merged.items()))


def _shown(path: Path) -> str:
    """Return the path on one line, without bytes that are not UTF-8."""
    return "\\n".join(os.fsencode(path).decode("utf-8", "replace").splitlines())
