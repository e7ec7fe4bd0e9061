"""Checks arguments before a program is started; each error names the argument and its valid values."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from reenact.domain.plain import is_mapping
from reenact.terminal.errors import invalid, is_kit_error

__tracebackhide__ = is_kit_error

FilePath: TypeAlias = str | os.PathLike[str]
Command: TypeAlias = FilePath | Sequence[str]
"""A program by name or path, or with its arguments."""


def whole(value: object, name: str, least: int) -> int:
    """Return the value if it is an integer, and at least `least`.

    Raises:
        TerminalTestError: it is not (`INVALID_CONFIG`).
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise invalid(f"{name}: expected a whole number, {least} or more, got {value!r}")
    return value


def command_line(command: Command, args: Sequence[str]) -> tuple[str, ...]:
    """Return the name of the program and its arguments. A text is one word: it is not split.

    Raises:
        TerminalTestError: they are invalid (`INVALID_CONFIG`).
    """
    if isinstance(args, str):
        raise invalid(f"args: expected a sequence of strings, got the string {args!r}")
    words = (command,) if isinstance(command, (str, os.PathLike)) else command
    line = (*_words(words, "command"), *_words(args, "args"))
    if not line or not line[0]:
        raise invalid("command: the name of the program is empty")
    return line


def directory(cwd: FilePath | None) -> Path | None:
    """Return the absolute working directory, so that a later change of ours has no effect.

    Raises:
        TerminalTestError: it is not a path (`INVALID_CONFIG`).
    """
    if cwd is None:
        return None
    return Path(named(cwd, "cwd")).absolute()


def text(value: object) -> str:
    """Return the text.

    Raises:
        TerminalTestError: it is none (`INVALID_CONFIG`).
    """
    if not isinstance(value, str):
        raise invalid(f"text: expected a string, got {value!r}; `write` sends bytes")
    return value


def named(value: FilePath, what: str) -> str:
    """Return a path, a name or an argument as text, if the operating system can represent it.

    Raises:
        TerminalTestError: it is not text, or has an invalid character (`INVALID_CONFIG`).
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise invalid(f"{what}: expected a string or a path, got {value!r}")
    if not _can_be_passed(text):
        raise invalid(f"{what}: {text!r} has a NUL in it, or a character that cannot be encoded")
    return text


def variables(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables.

    Raises:
        TerminalTestError: a name or value is invalid in an environment (`INVALID_CONFIG`).
    """
    if not is_mapping(env or {}):
        raise invalid(f"env: expected a mapping of names to values, got {env!r}")
    given: list[tuple[object, object]] = list((env or {}).items())
    for name, value in given:
        if not isinstance(name, str) or not name or "=" in name or not _can_be_passed(name):
            raise invalid(f"env: {name!r} cannot be the name of a variable; use a non-empty string without `=` and NUL")
        if not isinstance(value, str) or not _can_be_passed(value):
            raise invalid(f"env: the value of {name} must be a string without NUL, not {value!r}")
    return dict(env or {})


def signal_number(name: str | int) -> signal.Signals:
    """Return the signal with this name, with or without `SIG`, or this number.

    Raises:
        TerminalTestError: there is no such signal (`INVALID_CONFIG`).
    """
    try:
        if isinstance(name, int):
            return signal.Signals(name)
        return signal.Signals["SIG" + str(name).upper().removeprefix("SIG")]
    except (KeyError, ValueError):
        known = ", ".join(each.name for each in signal.Signals)
        raise invalid(f"signal: there is no {name!r}; there are {known}") from None


def _words(words: Sequence[FilePath], name: str) -> tuple[str, ...]:
    try:
        return tuple(named(word, name) for word in words)
    except TypeError:
        raise invalid(f"{name}: expected a string, a path, or a sequence of those, got {words!r}") from None


def _can_be_passed(text: str) -> bool:
    """Return whether the text can be passed to a program."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
