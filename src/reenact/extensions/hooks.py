"""Hooks, which are command lines that run on events, as read from `hooks.json`; and the projects a person trusts."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reenact._files import replacing
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_array, is_object
from reenact.extensions.files import KeyPath, MalformedError, Problem, read_bytes, read_json, text_of

FILE = "hooks.json"
TIMEOUT = 60.0
"""Default timeout of a hook in seconds."""
LONGEST = 3_600.0
"""Maximum timeout of a hook in seconds."""
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
"""The events that hooks can be for."""

MOST = 200
"""Maximum number of hooks in a file."""
MOST_PROBLEMS = 20
"""Maximum number of problems of a file that are reported individually."""

_LONGEST_MATCHER = 500
"""Maximum length of a regular expression, since compiling one takes time."""
_WRAPPED = "hooks"
"""The key that may contain the events."""
_ALL = frozenset({"", "*"})
_WITH_A_MATCHER = frozenset({"PreToolUse", "PostToolUse", "SessionStart"})
_OF_GROUPS = frozenset({"hooks", "matcher", "description"})
_HARMLESS = frozenset({"type", "command", "timeout", "description", "statusMessage"})


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A command line and the event it runs on; `matcher` must match the whole name of the tool (or the source).

    `timeout` is in seconds.
    """

    event: str
    matcher: str
    command: str
    timeout: float
    source: str
    path: str

    def fits(self, what: str) -> bool:
        """Return whether the hook runs for an event about a tool or source of this name."""
        return self.matcher in _ALL or re.fullmatch(self.matcher, what) is not None


class HookFile(msgspec.Struct, frozen=True):
    """The hooks of a file, the problems with invalid ones, and the digest of the file; empty if there is no file."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[Problem, ...] = ()
    digest: str = ""


def read_hooks(content: bytes, *, path: str, source: str) -> HookFile:
    """Return the hooks in the content of a file.

    Raises:
        MalformedError: the content is not a valid JSON object.
    """
    events, lines = _events(text_of(content))
    hooks: list[Hook] = []
    problems: list[Problem] = []

    def skip(where: KeyPath, message: str) -> None:
        problems.append(Problem(path, lines.get(where), message))

    left = MOST
    for event, groups in events.items():
        if event not in EVENTS:
            skip((event,), f"there are no hooks for {event!a:.80} here; there are for {', '.join(EVENTS)}")
            continue
        for where, found in _found(event, groups):
            left -= 1
            if left < 0:
                skip(where, f"{_path_text(where)}: it is not read, because {MOST} others come before it")
                continue
            try:
                hooks.append(_hook(event, *found, path=path, source=source))
            except MalformedError as error:
                skip(where, f"{_path_text(where)}: {error.message}")
    if len(problems) > MOST_PROBLEMS:
        problems[MOST_PROBLEMS:] = [Problem(path, None, f"and {len(problems) - MOST_PROBLEMS:,} more")]
    return HookFile(tuple(hooks), tuple(problems), hashlib.sha256(content).hexdigest())


def _events(text: str) -> tuple[dict[str, object], Mapping[KeyPath, int]]:
    """Return the hooks by event, which are at the top level or under `hooks`, and the lines of all values."""
    content, lines = read_json(text)
    if not is_object(content):
        raise MalformedError('it must be an object: {"PreToolUse": [{"matcher": …, "hooks": [{"command": …}]}]}', 1)
    wrapped = content.get(_WRAPPED)
    if not is_object(wrapped):
        return content, lines
    for event in EVENTS:
        if event in content:
            raise MalformedError(f"{event} is beside `{_WRAPPED}`, and must be in it", lines[event,])
    return wrapped, {path[1:]: line for path, line in lines.items() if path[:1] == (_WRAPPED,)}


def _found(event: str, groups: object) -> Iterator[tuple[KeyPath, tuple[object, object]]]:
    """Yield each hook of an event with its path and its group; invalid entries too, which `_hook` refuses."""
    if not is_array(groups):
        yield (event,), (groups, None)
        return
    for number, group in enumerate(groups):
        hooks = group.get("hooks") if is_object(group) else None
        if not is_array(hooks):
            yield (event, number), (group, None)
            continue
        for place, hook in enumerate(hooks):
            yield (event, number, "hooks", place), (group, hook)


def _hook(event: str, group: object, hook: object, *, path: str, source: str) -> Hook:
    if hook is None:
        raise MalformedError('it must be a list of {"matcher": …, "hooks": [{"type": "command", "command": …}]}')
    if not is_object(hook):
        raise MalformedError('it must be {"type": "command", "command": …}')
    if hook.get("type", "command") != "command":
        raise MalformedError(f"`type` is {hook['type']!r:.80}, and only `command` is run here")
    command = hook.get("command")
    if not isinstance(command, str) or not command.strip() or not _is_command_line(command):
        raise MalformedError("`command` must be a command line")
    if unknown := [key for key in hook if key not in _HARMLESS]:
        raise MalformedError(f"{', '.join(map(repr, unknown)):.80} could change when it runs, and is not known here")
    if is_object(group) and (unknown := [key for key in group if key not in _OF_GROUPS]):
        raise MalformedError(f"{', '.join(map(repr, unknown)):.80} beside it could change when it runs")
    return Hook(
        event=event,
        matcher=_matcher(event, group),
        command=command,
        timeout=_seconds(hook.get("timeout")),
        path=path,
        source=source,
    )


def _matcher(event: str, group: object) -> str:
    matcher = group.get("matcher") if is_object(group) else None
    if matcher is not None and not isinstance(matcher, str):
        raise MalformedError("`matcher` must be text")
    if matcher is None or event not in _WITH_A_MATCHER:
        return ""
    if len(matcher) > _LONGEST_MATCHER:
        raise MalformedError(f"`matcher` has {len(matcher):,} characters; {_LONGEST_MATCHER:,} are read at most")
    try:
        with warnings.catch_warnings(action="ignore"):  # future warnings about syntax
            re.compile(matcher if matcher not in _ALL else "")
    except (re.error, RecursionError, OverflowError) as error:
        raise MalformedError(f"`matcher` is not a valid regular expression: {error}") from None
    return matcher


def _seconds(value: object) -> float:
    if value is None:
        return TIMEOUT
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 < value <= LONGEST):
        raise MalformedError(f"`timeout` must be a number of seconds, above 0 and up to {LONGEST:g}")
    return float(value)


def _is_command_line(text: str) -> bool:
    """Return whether the text can be passed as an argument to a program."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _path_text(path: KeyPath) -> str:
    """Return the path in JavaScript's notation."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


_TRUSTED = "trusted.json"


def digest_of(digests: Mapping[str, str]) -> str:
    """Return a digest over the names and digests of several things."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


class Trust:
    """The trusted projects, in a file of the directory: each is trusted with content of exactly one digest."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _TRUSTED

    def covers(self, project: Path, digest: str) -> bool:
        """Return whether content with this digest is trusted in the project; False if the file cannot be read."""
        try:
            return self._read().get(str(project)) == digest
        except MalformedError:
            return False

    def add(self, project: Path, digest: str) -> None:
        """Trust content with this digest in this project, instead of what was trusted there before.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        with self._locked():
            self._write({**self._trusted(), str(project): digest})

    def remove(self, project: Path) -> bool:
        """Revoke trust in the project; return whether it was trusted.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        with self._locked():
            kept = self._trusted()
            if kept.pop(str(project), None) is None:
                return False
            self._write(kept)
            return True

    def _trusted(self) -> dict[str, str]:
        try:
            return self._read()
        except MalformedError as error:
            raise ConfigurationError(f"{self._path}: {error.message}; mend or remove it") from error

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(text_of(read_bytes(self._path, None)), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except msgspec.ValidationError:
            raise MalformedError("it must be an object with texts in it") from None
        except msgspec.DecodeError:
            raise MalformedError("it is not valid JSON") from None

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Lock out other processes between reading and writing the file, so that no change is lost."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = os.open(self._path.parent, os.O_RDONLY)
        except OSError as error:
            self._trusted()  # may raise a more precise error
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # released when it is closed
            yield
        finally:
            os.close(folder)

    def _write(self, kept: dict[str, str]) -> None:
        """Replace the file atomically, so that nobody reads half of one."""
        with replacing(self._path, hint=", so that nothing is remembered") as file:
            file.write(json.dumps(kept, indent=1, sort_keys=True).encode())
