"""The key ring of the log, as options and environment name it."""

from __future__ import annotations

from collections.abc import Mapping

from reenact.actors.journal.key_ring import KeyRing
from reenact.cli.settings.environment import KEYS, given, ring_variable


def key_ring(environ: Mapping[str, str]) -> KeyRing | None:
    """Return the key ring that `REENACT_KEYS` names, a file or `env:` and a variable; None if it names none.

    Raises:
        ConfigurationError: the key ring does not exist, or cannot be used.
        MissingExtraError: the extra `encryption` is not installed.
    """
    named = given(environ, KEYS)
    if named is None:
        return None
    variable = ring_variable(environ)
    return KeyRing.file(named) if variable is None else KeyRing.environment(variable)
