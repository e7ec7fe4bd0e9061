"""Digests of calls that leave without some of their arguments: they go, too, for they would prove a guess right.

Nobody can approve such a call any more, since it is not the one that was asked about.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from reenact.domain.loop import events as loop
from reenact.domain.marks import mark
from reenact.projections.audit.taking import FIELD

_NO_DIGEST: Final = mark(FIELD)  # without the key: nobody has to recognise a digest


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Approvals:
    """Follows the calls that people are asked about, as they were and as they leave, in the order of an export."""

    def __init__(self) -> None:
        self._changed: dict[str, set[str]] = {}

    def branch(self, stream: str, origin: str) -> None:
        """Take note that the stream goes on with the calls of another one."""
        if origin in self._changed:
            self._changed[stream] = set(self._changed[origin])

    def without_digests(self, stream: str, before: msgspec.Struct, left: msgspec.Struct) -> msgspec.Struct:
        """Return what is left of an event without digests of calls that have changed."""
        match left:
            case loop.HumanApproveRequired() if isinstance(before, loop.HumanApproveRequired):
                if before is not left:
                    calls = [self._asked(stream, *pair) for pair in zip(before.calls, left.calls, strict=True)]
                    return msgspec.structs.replace(left, calls=tuple(calls))
            case loop.ToolEdited() if isinstance(before, loop.ToolEdited):
                if before.edited is not left.edited:
                    self._changed.setdefault(stream, set()).add(left.id)
            case loop.ToolApproved() if left.id in self._changed.get(stream, ()):
                return msgspec.structs.replace(left, digest=_NO_DIGEST)
            case _:
                pass
        return left

    def without_digest(self, stream: str, command: _Struct) -> _Struct:
        """Return what is left of a command, without the digest that it names if it may be that of such a call."""
        if stream in self._changed and isinstance(getattr(command, "digest", None), str):
            return msgspec.structs.replace(command, digest=_NO_DIGEST)
        return command

    def _asked(self, stream: str, before: loop.AskedCall, left: loop.AskedCall) -> loop.AskedCall:
        if left.arguments is before.arguments:
            return left
        self._changed.setdefault(stream, set()).add(left.id)
        return msgspec.structs.replace(left, digest=_NO_DIGEST)
