"""What can be typed in a conversation: one table, from which help, completion and obedience are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Choices(Protocol):
    """What can be typed now."""

    def commands(self) -> Mapping[str, str]:
        """Return each command, as `/word`, and what it does; built in or of an extension."""
        ...

    def agents(self) -> Mapping[str, str]:
        """Return each agent, as `@name`, and what it is for."""
        ...

    def arguments(self, word: str) -> Sequence[tuple[str, str]]:
        """Return what may stand behind the command `/word`: each value, and words about it.

        It is asked while somebody types, so it is quick and never raises: what cannot be told is left out.
        """
        ...
