"""What people are asked by agents, and what they may hand in to decide it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeGuard

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.events import Option
from reenact.domain.loop.rounds import Kind
from reenact.domain.messages import MAX_MESSAGE_BYTES, check_text

DEEPEST: Final = 100
"""So many lists and objects may be nested in each other."""
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 64) - 1


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person: to approve it, or to answer the question that it asks.

    `arguments` are exactly those that it would run with, and `digest` stands for the call and for the policies under
    which it waits: an approval with the digest does not hold for anything else. `reason` says why a person is asked.
    `prompt`, `options` and `multi` are the question's. `agent_id` is None while the session has no live agent; who
    decides about the call starts one. `since` is when the call began to wait.
    """

    id: str
    session_id: str
    agent_id: str | None
    turn_id: str
    kind: Kind
    name: str
    arguments: dict[str, Any]
    digest: str
    reason: str
    prompt: str | None
    options: tuple[Option, ...] | None
    multi: bool
    since: datetime


def check_arguments(arguments: object) -> dict[str, Any]:
    """Return a copy of the arguments of a call, or raise `InvalidInputError` unless they are a JSON object."""
    if not _is_mapping(arguments):
        msg = f"the arguments of a call are a JSON object, not {type(arguments).__name__}"
        raise InvalidInputError(msg)
    copied: dict[str, Any] = check_json("arguments", {**arguments})
    return copied


def check_json(what: str, value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a copy of a JSON value, or raise `InvalidInputError` that names the part of it which is none.

    Tuples count as lists. Numbers are finite, and whole ones have at most 64 bits; the whole has at most 10 MiB.
    """
    wrong = _what_is_wrong(value, what, DEEPEST)
    if wrong is not None:
        raise InvalidInputError(wrong)
    told = msgspec.json.encode(value)
    if len(told) > MAX_MESSAGE_BYTES:
        msg = f"{what} has {len(told)} bytes as JSON; at most {MAX_MESSAGE_BYTES} are accepted"
        raise InvalidInputError(msg)
    return msgspec.json.decode(told)


def check_reason(reason: object) -> str:
    """Return the reason for a rejection, which may be empty, or raise `InvalidInputError`."""
    return "" if reason == "" else check_text("the reason", reason, limit=MAX_MESSAGE_BYTES)


def _what_is_wrong(value: object, where: str, depth: int) -> str | None:
    match value:
        case None | bool():
            return None
        case str():
            return None if _is_unicode(value) else f"{where} is not valid Unicode"
        case int():
            return None if _SMALLEST <= value <= _LARGEST else f"{where} is an integer of more than 64 bits"
        case float():
            return None if math.isfinite(value) else f"{where} is {value!r}, which JSON does not have"
        case _ if depth == 0:
            return f"{where} is nested more than {DEEPEST} deep"
        case _ if _is_array(value):
            items = (_what_is_wrong(one, f"{where}[{number}]", depth - 1) for number, one in enumerate(value))
            return next((wrong for wrong in items if wrong), None)
        case _ if _is_object(value):
            fields = (_of_field(key, one, where, depth) for key, one in value.items())
            return next((wrong for wrong in fields if wrong), None)
        case _:
            return f"{where} is a {type(value).__name__}, which is no JSON value"


def _of_field(key: object, value: object, where: str, depth: int) -> str | None:
    if not isinstance(key, str) or not _is_unicode(key):
        return f"{where} has the key {key!r}, which is not text"
    return _what_is_wrong(value, f"{where}.{key}", depth - 1)


def _is_array(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _is_object(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, dict)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
