"""Which engines there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.screen.model import Engine

_KNOWN: Final = {
    "ghostty": ("reenact.terminal.screen.ghostty", "GhosttyEngine", "terminal"),
    "pyte": ("reenact.terminal.screen.pyte", "PyteEngine", "pyte"),
}
"""The module, the class in it, and the extra that brings its library."""


def engine_named(name: str) -> Callable[[int, int], Engine]:
    """Return what makes an engine of this name, `ghostty` or `pyte`, from columns and rows.

    Raises:
        TerminalTestError: `INVALID_CONFIG`; there is no such engine, or its library is not installed.
    """
    if name not in _KNOWN:
        known = " or ".join(repr(each) for each in _KNOWN)
        raise TerminalTestError(TerminalTestErrorType.INVALID_CONFIG, f"there is no engine {name!r}: say {known}")
    module, made, extra = _KNOWN[name]
    try:
        engine: Callable[[int, int], Engine] = getattr(importlib.import_module(module), made)
    except (ImportError, OSError) as error:  # OSError: its library cannot be loaded here
        raise TerminalTestError(
            TerminalTestErrorType.INVALID_CONFIG,
            f"the engine {name!r} cannot be used here: {error}. `pip install 'reenact[{extra}]'` brings what it needs",
            error,
        ) from error
    return engine
