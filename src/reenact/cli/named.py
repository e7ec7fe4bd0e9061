"""Which session is meant by what somebody has typed of its id."""

from __future__ import annotations

from typing import Final

from reenact._runtime import Runtime
from reenact.domain.errors import InvalidInputError, SessionNotFoundError

_PREFIX: Final = "ses_"


def session_named(runtime: Runtime, named: str) -> str:
    """Return the id of the session that has this id, or the only one whose id begins so, with `ses_` or without it.

    Raises:
        InvalidInputError: several begin so.
        SessionNotFoundError: none does.
    """
    if runtime.sessions.get(named) is not None:
        return named
    everywhere = [one.id for room in runtime.containers.list() for one in runtime.sessions.list_by_container(room.id)]
    for beginning in (named, f"{_PREFIX}{named}"):
        found = [one for one in everywhere if one.startswith(beginning)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidInputError(f"{len(found)} sessions begin with {beginning!r}; type more of the id")
    raise SessionNotFoundError(named)
