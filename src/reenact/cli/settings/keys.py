"""The key ring that the command line names for its log."""

from __future__ import annotations

from collections.abc import Mapping

from reenact.actors.journal.key_ring import KeyRing
from reenact.cli.settings.environment import KEYS, given, ring_variable


def key_ring(environ: Mapping[str, str]) -> KeyRing | None:
    """Return the key ring that the variable names, a file or `env:` and another variable; None if it names none.

    Raises:
        ConfigurationError: there is none, or it cannot be used.
        MissingExtraError: the extra `encryption` is not installed.
    """
    named = given(environ, KEYS)
    if named is None:
        return None
    variable = ring_variable(environ)
    return KeyRing.file(named) if variable is None else KeyRing.environment(variable)
