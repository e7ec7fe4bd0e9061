"""Loading the extensions of a user and of a project: what is there, and what was passed over, and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from reenact.extensions import hooks as hooking
from reenact.extensions.agents import Agent, read_agent
from reenact.extensions.commands import Command, read_command
from reenact.extensions.files import MOST_IN_ALL, Allowance, is_folder, names_in, read_bytes, text_of
from reenact.extensions.frontmatter import LARGEST_IN_ALL, length_of_front_matter
from reenact.extensions.hooks import Hook, HookFile, read_hooks
from reenact.extensions.problems import MalformedError, Problem
from reenact.extensions.skills import FILE as SKILL_FILE
from reenact.extensions.skills import Skill, read_skill
from reenact.extensions.trust import digest_of

FOLDER: Final = ".reenact"
MOST: Final = 200
"""Skills, commands and agents, of each, that are read of a `.reenact`."""
_MARKDOWN: Final = ".md"
_NO_SKILL: Final = "README.md"
"""What may stand beside the skills and speak of them."""

Source: TypeAlias = Literal["user", "project"]
IsTrusted: TypeAlias = Callable[[Path, str], bool]
"""Tells whether a project is trusted, by its resolved path and the digest of its hooks and commands."""


class Named(Protocol):
    """What skills, commands and agents have in common."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...


One = TypeVar("One", bound=Named)


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """Hooks and commands of a project: what does not run before a person has trusted it, as it was read here.

    `digest` stands for the whole content of their files, and for their names.
    """

    project: str
    digest: str
    hooks: tuple[Hook, ...]
    commands: Mapping[str, Command]


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded, by names; the hooks that run, the user's first; and what was passed over.

    `replaced` has the path of each of the user's that one of the project stands for, by the path of that.
    """

    skills: Mapping[str, Skill] = {}
    commands: Mapping[str, Command] = {}
    agents: Mapping[str, Agent] = {}
    hooks: tuple[Hook, ...] = ()
    withheld: Withheld | None = None
    """What nobody has trusted yet: it does not run. Where the user has a command of the same name, that one does."""
    problems: tuple[Problem, ...] = ()
    replaced: Mapping[str, str] = {}
    hidden: tuple[str, ...] = ()
    """Names of commands, withheld or not, that cannot be typed, since there is a built-in one of that name."""

    @property
    def untrusted(self) -> tuple[str, ...]:
        """The names that call nothing until the project is trusted: no command of the user's, no built-in one."""
        commands = () if self.withheld is None else self.withheld.commands
        return tuple(name for name in commands if name not in self.commands and name not in self.hidden)

    def trusted(self) -> Extensions:
        """Return them with what was withheld in force."""
        if self.withheld is None:
            return self
        replaced = dict(self.replaced)
        return msgspec.structs.replace(
            self,
            commands=_merged([self.commands, self.withheld.commands], replaced),
            hooks=(*self.hooks, *self.withheld.hooks),
            withheld=None,
            replaced=replaced,
        )


def load(user: Path, project: Path, *, is_trusted: IsTrusted, reserved: Collection[str] = ()) -> Extensions:
    """Load what is in the `.reenact` of the user's home and of a project; what the project has holds.

    Whatever is wrong with a file is a problem, and the file is passed over. Links in a project are followed only inside
    of it. `reserved` are the names of built-in commands.
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
    return found.trusted() if withheld is not None and is_trusted(root, withheld.digest) else found


def withheld_of(project: Path) -> tuple[Withheld | None, tuple[Problem, ...]]:
    """Return what of a project has to be trusted, None if there is nothing, and what is wrong with others like it."""
    root = Path(os.path.realpath(project))
    folder = _Folder(root / FOLDER, root, "project")
    return folder.withheld(), tuple(folder.problems)


class _Folder:
    """A `.reenact`, read part by part; `within` is what links in it may not lead out of."""

    def __init__(self, path: Path, within: Path | None, source: Source) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._within = within
        self._source: Source = source
        self._content = Allowance(MOST_IN_ALL, "it is not read: the files have more than {} bytes together")
        self._yaml = Allowance(
            LARGEST_IN_ALL, "it is not read: the front matter of the files has more than {} characters together"
        )
        self._is_there = self._looked()

    def _looked(self) -> bool:
        """Return whether it is a folder; if it is something else, that is the only problem."""
        try:
            is_there = is_folder(self.path)
        except FileNotFoundError:
            return False
        except MalformedError as error:
            self._pass_over(self.path, error)
            return False
        if not is_there:
            self._pass_over(self.path, MalformedError("it is to be a folder"))
        return is_there

    def skills(self) -> dict[str, Skill]:
        folder = self.path / "skills"
        paths = (folder / name for name in self._names(folder))
        return self._gather(self._skill(path) for path in self._first(folder, filter(self._is_of_skill, paths)))

    def commands(self) -> dict[str, Command]:
        return self._gather(self._command(path) for path in self._files("commands"))

    def agents(self) -> dict[str, Agent]:
        return self._gather(self._agent(path) for path in self._files("agents"))

    def hooks(self) -> HookFile:
        path = self.path / hooking.FILE
        if not self._is_there:
            return HookFile()
        try:
            found = read_hooks(read_bytes(path, self._within), path=_shown(path), source=self._source)
        except FileNotFoundError:
            return HookFile()
        except MalformedError as error:
            self._pass_over(path, error)
            return HookFile()
        self.problems += found.problems
        return found

    def withheld(self) -> Withheld | None:
        """Return the hooks and commands, with the digest of what was read of them here, None if there are none."""
        commands = self.commands()
        found = self.hooks()
        if not commands and not found.hooks:
            return None
        digests = {f"commands/{name}": command.digest for name, command in commands.items()}
        digest = digest_of({**digests, hooking.FILE: found.digest})
        return Withheld(project=str(self._within), digest=digest, hooks=found.hooks, commands=commands)

    def _is_of_skill(self, path: Path) -> bool:
        """Return whether it is the folder of a skill, having told of what somebody may take for a skill."""
        if self._is_folder(path):
            return True
        if path.suffix.lower() == _MARKDOWN and path.name != _NO_SKILL:
            self._pass_over(path, MalformedError(f"it is no skill: that is a folder with a {SKILL_FILE} in it"))
        return False

    def _is_markdown(self, path: Path) -> bool:
        """Return whether it is what a command or an agent is, having told of what somebody may take for one."""
        if path.name.endswith(_MARKDOWN):
            return True
        if path.suffix.lower() == _MARKDOWN:
            self._pass_over(path, MalformedError(f"it is not read: its name is to end in {_MARKDOWN}"))
        elif self._is_folder(path):
            where = f"put it into {path.parent.name} itself"
            self._pass_over(path, MalformedError(f"it is a folder, and what is in it is not read: {where}"))
        return False

    def _is_folder(self, path: Path) -> bool:
        """Return whether it is a folder, having told of what cannot be known."""
        try:
            return is_folder(path)
        except FileNotFoundError:  # it was there a moment ago
            pass
        except MalformedError as error:
            self._pass_over(path, error)
        return False

    def _first(self, folder: Path, paths: Iterable[Path]) -> list[Path]:
        """Return the first of the paths, so many as are read."""
        found = list(paths)
        if len(found) > MOST:
            self._pass_over(folder, MalformedError(f"it has {len(found)} of them; the first {MOST} are read"))
        return found[:MOST]

    def _skill(self, folder: Path) -> Skill | None:
        path = folder / SKILL_FILE
        text = self._text(path, missing="there is no such file; it is what makes a folder a skill")
        if text is None:
            return None
        return self._read(
            path,
            lambda: read_skill(text, name=folder.name, path=_shown(path), folder=_shown(folder), source=self._source),
        )

    def _command(self, path: Path) -> Command | None:
        text = self._text(path)
        if text is None:
            return None
        return self._read(path, lambda: read_command(text, name=path.stem, path=_shown(path), source=self._source))

    def _agent(self, path: Path) -> Agent | None:
        text = self._text(path)
        if text is None:
            return None
        return self._read(path, lambda: read_agent(text, name=path.stem, path=_shown(path), source=self._source))

    def _files(self, kind: str) -> list[Path]:
        folder = self.path / kind
        return self._first(folder, filter(self._is_markdown, (folder / name for name in self._names(folder))))

    def _names(self, folder: Path) -> list[str]:
        if not self._is_there:
            return []
        try:
            return names_in(folder, self._within)
        except MalformedError as error:
            self._pass_over(folder, error)
            return []

    def _text(self, path: Path, *, missing: str = "it was there a moment ago") -> str | None:
        try:
            text = text_of(read_bytes(path, self._within, self._content))
            self._yaml.take(length_of_front_matter(text))
        except FileNotFoundError:
            self._pass_over(path, MalformedError(missing))
        except MalformedError as error:
            self._pass_over(path, error)
        else:
            return text
        return None

    def _read(self, path: Path, read: Callable[[], One]) -> One | None:
        try:
            return read()
        except MalformedError as error:
            self._pass_over(path, error)
            return None

    def _gather(self, found: Iterator[One | None]) -> dict[str, One]:
        """Return what was found by its names; of two of the same name the first holds."""
        named: dict[str, One] = {}
        for one in found:
            if one is None:
                continue
            first = named.setdefault(one.name, one)
            if first is not one:
                self.problems.append(Problem(one.path, None, f"{first.path} has the name {one.name!r} already"))
        return named

    def _pass_over(self, path: Path, error: MalformedError) -> None:
        self.problems.append(Problem(_shown(path), error.line, error.message))


def _merged(found: Iterable[Mapping[str, One]], replaced: dict[str, str]) -> dict[str, One]:
    merged: dict[str, One] = {}
    for of_folder in found:
        for name, one in of_folder.items():
            if name in merged:
                replaced[one.path] = merged[name].path
            merged[name] = one
    return dict(sorted(merged.items()))


def _shown(path: Path) -> str:
    """Return the path as UTF-8 can hold it, on one line."""
    return "\\n".join(os.fsencode(path).decode("utf-8", "replace").splitlines())
