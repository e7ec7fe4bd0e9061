"""Which session is meant by what somebody has typed of its id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reenact._runtime import Runtime
from reenact.domain.errors import InvalidInputError, SessionNotFoundError

_PREFIX: Final = "ses_"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")


def numbered_or_named(runtime: Runtime, named: str, listed: Sequence[str]) -> str:
    """Return the id of the session that is meant: by its id, its beginning, or its number among those listed.

    Raises:
        InvalidInputError: there is no such number, or several begin so.
        SessionNotFoundError: there is no such session.
    """
    if not _NUMBER.fullmatch(named) or runtime.sessions.get(named) is not None:
        return session_named(runtime, named)
    if int(named) > len(listed):
        raise InvalidInputError(f"there is no session number {named}: /sessions lists {len(listed)}")
    return listed[int(named) - 1]


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
