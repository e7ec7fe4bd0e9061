"""Arguments, checked before anything is started: each error names the argument and what it may be."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.screen.size import checked_size


def seconds(value: float, name: str, *, positive: bool = False) -> float:
    """Return the number of seconds.

    Raises:
        TerminalTestError: it is none (`INVALID_CONFIG`).
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (positive and value == 0):
        least = "greater than 0" if positive else "0 (look once) or more"
        raise invalid(f"{name}: a finite number of seconds is wanted, {least}, not {value!r}")
    return float(value)


def whole(value: int, name: str, least: int) -> int:
    """Return the whole number, which is not to be less than `least`.

    Raises:
        TerminalTestError: it is none (`INVALID_CONFIG`).
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise invalid(f"{name}: a whole number is wanted, {least} or more, not {value!r}")
    return value


def size(cols: int, rows: int) -> tuple[int, int]:
    """Return columns and rows.

    Raises:
        TerminalTestError: no terminal has this size (`INVALID_CONFIG`).
    """
    return checked_size(whole(cols, "cols", 1), whole(rows, "rows", 1))


def command_line(command: str | os.PathLike[str] | Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
    """Return the name of the program and its arguments. A text is one word: it is not split.

    Raises:
        TerminalTestError: they are none (`INVALID_CONFIG`).
    """
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise invalid(f"args: a sequence of texts is wanted, not {args!r}")
    if not isinstance(command, (str, os.PathLike, Sequence)) or isinstance(command, bytes):
        raise invalid(f"command: a text, a path or a sequence of texts is wanted, not {command!r}")
    words: list[object] = [command] if isinstance(command, (str, os.PathLike)) else list(command)
    line = tuple(_word(word) for word in (*words, *args))
    if not line or not line[0]:
        raise invalid("command: the name of a program is wanted; it is empty")
    return line


def directory(cwd: str | os.PathLike[str] | None) -> Path | None:
    """Return the working directory, absolute, so that it stays the same until the start.

    Raises:
        TerminalTestError: it is no path (`INVALID_CONFIG`).
    """
    if cwd is None:
        return None
    if not isinstance(cwd, (str, os.PathLike)) or "\0" in os.fsdecode(cwd):
        raise invalid(f"cwd: the path of a directory is wanted, not {cwd!r}")
    return Path(os.fsdecode(cwd)).absolute()


def variables(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables.

    Raises:
        TerminalTestError: one cannot be in an environment (`INVALID_CONFIG`).
    """
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise invalid(f"env: {name!r} cannot be the name of a variable; a text without `=` and NUL is wanted")
        if not isinstance(value, str) or "\0" in value:
            raise invalid(f"env: the value of {name} is to be a text without NUL, not {value!r}")
    return dict(env or {})


def signal_number(name: str | int) -> signal.Signals:
    """Return the signal with this name, with or without its `SIG`, or this number.

    Raises:
        TerminalTestError: there is none (`INVALID_CONFIG`).
    """
    try:
        if isinstance(name, int):
            return signal.Signals(name)
        return signal.Signals["SIG" + str(name).upper().removeprefix("SIG")]
    except (KeyError, ValueError):
        known = ", ".join(each.name for each in signal.Signals)
        raise invalid(f"signal: there is no {name!r}; there are {known}") from None


def invalid(message: str) -> TerminalTestError:
    """Return an error about an argument."""
    return TerminalTestError(TerminalTestErrorType.INVALID_CONFIG, message)


def _word(word: object) -> str:
    text = os.fspath(word) if isinstance(word, os.PathLike) else word
    if not isinstance(text, str) or "\0" in text:
        raise invalid(f"command and args: texts without NUL are wanted, not {word!r}")
    return text
