"""What a tool can be told of the call that runs it."""

from __future__ import annotations

import msgspec


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Whose call is being run: a tool that has a parameter of this type is given it, and the model knows nothing of it.

    `idempotency_key` is the same when the call is run again after a crash: hand it to services that take one, and the
    effect happens once. Outside of an agent all of it is empty.
    """

    session_id: str = ""
    agent_id: str = ""
    turn_id: str = ""
    call_id: str = ""
    idempotency_key: str = ""
