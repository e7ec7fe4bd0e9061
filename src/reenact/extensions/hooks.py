"""Hooks: command lines that run when something happens, as `hooks.json` says in the form of Claude Code."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import msgspec

from reenact.domain.tools import is_array, is_object
from reenact.extensions.files import text_of
from reenact.extensions.problems import MalformedError, Problem

FILE: Final = "hooks.json"
TIMEOUT: Final = 60.0
"""Seconds that a hook is given, unless it says otherwise."""
LONGEST: Final = 3_600.0
EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
"""What hooks are told of."""

_ELSEWHERE: Final = frozenset(
    {
        "Notification",
        "PermissionRequest",
        "PostCompact",
        "PostToolUseFailure",
        "PreCompact",
        "SessionEnd",
        "Setup",
        "SubagentStart",
        "SubagentStop",
    }
)
_ALL: Final = frozenset({"", "*"})
_WITH_A_MATCHER: Final = frozenset({"PreToolUse", "PostToolUse", "SessionStart"})
_HARMLESS: Final = frozenset({"type", "command", "timeout", "description", "statusMessage"})


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A command line, and what it is told of: `event`, for the tools (or sources) that `matcher` matches whole.

    `timeout` is in seconds.
    """

    event: str
    matcher: str
    command: str
    timeout: float
    path: str
    source: str

    def fits(self, what: str) -> bool:
        """Return whether the hook is told of an event about a tool, or a beginning, of this name."""
        return self.matcher in _ALL or re.fullmatch(self.matcher, what) is not None


class HookFile(msgspec.Struct, frozen=True):
    """The hooks of a file, what is wrong with others in it, and the digest of the whole, by which it is trusted."""

    hooks: tuple[Hook, ...]
    problems: tuple[Problem, ...]
    digest: str


def read_hooks(content: bytes, *, path: str, source: str) -> HookFile:
    """Return the hooks in the content of a file.

    Raises:
        MalformedError: it is no JSON object.
    """
    text = text_of(content)
    events = _object(text)
    hooks: list[Hook] = []
    problems: list[Problem] = []
    for event, groups in events.items():
        line = _line_of(text, event)
        if event not in EVENTS:
            problems.append(Problem(path, line, _unknown(event)))
            continue
        for where, found in _found(event, groups):
            try:
                hooks.append(_hook(event, *found, path=path, source=source))
            except MalformedError as error:
                problems.append(Problem(path, line, f"{where}: {error.message}"))
    return HookFile(tuple(hooks), tuple(problems), hashlib.sha256(content).hexdigest())


def _object(text: str) -> dict[str, Any]:
    """Return the events and what is to run: at the top, or under `hooks`."""
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise MalformedError(f"it is no JSON: {error.msg}", error.lineno) from None
    except (RecursionError, ValueError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MalformedError(f"it is no JSON: {said}") from None
    if is_object(content) and is_object(content.get("hooks")):
        content = content["hooks"]
    if not is_object(content):
        raise MalformedError('it is to be an object: {"PreToolUse": [{"matcher": …, "hooks": [{"command": …}]}]}', 1)
    return content


def _unknown(event: str) -> str:
    if event in _ELSEWHERE:
        return f"hooks are not told of {event} here, but of {', '.join(EVENTS)}"
    return f"there is no event {event!a:.80}; there are {', '.join(EVENTS)}"


def _found(event: str, groups: object) -> Iterator[tuple[str, tuple[object, object]]]:
    """Yield each hook of an event, with its place and the group that it is in; what is none comes to light later."""
    if not is_array(groups):
        yield event, (groups, None)
        return
    for number, group in enumerate(groups):
        hooks = group.get("hooks") if is_object(group) else None
        if not is_array(hooks):
            yield f"{event}[{number}]", (group, None)
            continue
        for place, hook in enumerate(hooks):
            yield f"{event}[{number}].hooks[{place}]", (group, hook)


def _hook(event: str, group: object, hook: object, *, path: str, source: str) -> Hook:
    if hook is None:
        raise MalformedError('it is to be a list of {"matcher": …, "hooks": [{"type": "command", "command": …}]}')
    if not is_object(hook):
        raise MalformedError('it is to be {"type": "command", "command": …}')
    if hook.get("type", "command") != "command":
        raise MalformedError(f"`type` is {hook['type']!r:.80}, and only `command` is run here")
    command = hook.get("command")
    if not isinstance(command, str) or not command.strip() or not _is_command_line(command):
        raise MalformedError("`command` is to be a command line")
    if unknown := [key for key in hook if key not in _HARMLESS]:
        raise MalformedError(f"{', '.join(map(repr, unknown)):.80} could change when it runs, and is not known here")
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
    if matcher is None or event not in _WITH_A_MATCHER:
        return ""
    if not isinstance(matcher, str):
        raise MalformedError("`matcher` is to be text")
    try:
        with warnings.catch_warnings(action="ignore"):  # of what a later Python may read otherwise
            re.compile(matcher if matcher not in _ALL else "")
    except (re.error, RecursionError, OverflowError) as error:
        raise MalformedError(f"`matcher` is no regular expression: {error}") from None
    return matcher


def _seconds(value: object) -> float:
    if value is None:
        return TIMEOUT
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 < value <= LONGEST):
        raise MalformedError(f"`timeout` is to be a number of seconds, above 0 and up to {LONGEST:g}")
    return float(value)


def _is_command_line(text: str) -> bool:
    """Return whether the system can be given the text as an argument."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def _line_of(text: str, event: str) -> int | None:
    place = text.find(json.dumps(event))
    return None if place < 0 else text.count("\n", 0, place) + 1
