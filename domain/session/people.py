"""Calls that wait for a person, and checks of the values with which a person decides about them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.events import Option
from reenact.domain.loop.rounds import Kind
from reenact.domain.messages import MAX_MESSAGE_BYTES, check_text
from reenact.domain.plain import Json, JsonDict, JsonObject, is_mapping, plain
from reenact.domain.structs import FrozenByName


class Caller(FrozenByName):
    """A session above a child session: the image it uses, and its call that started the child."""

    session_id: str
    image_id: str
    call_id: str


class PendingCall(FrozenByName):
    """A call that waits for a person: to approve it, or to answer the question that it asks.

    `arguments` are exactly those that it would run with, and `digest` identifies the call and the policies under which
    it waits: an approval with the digest is valid for nothing else. `reason` says why a person is asked. `prompt`,
    `options` and `multi` are the question's. `agent_id` is None while the session has no live agent; a decision about
    the call starts one. `since` is when the call began to wait. `path` lists the sessions above a child session, from
    the root on; it is empty for a session without parent.
    """

    id: str
    session_id: str
    agent_id: str | None
    turn_id: str
    kind: Kind
    name: str
    arguments: JsonObject
    digest: str
    reason: str
    prompt: str | None
    options: tuple[Option, ...] | None
    multi: bool
    since: datetime
    path: tuple[Caller, ...] = ()


def check_arguments(arguments: object) -> JsonDict:
    """Return a copy of the arguments of a call, or raise `InvalidInputError` unless they are a JSON object."""
    if not is_mapping(arguments):
        raise InvalidInputError(f"the arguments of a call must be a JSON object, not {type(arguments).__name__}")
    copied = check_json("arguments", arguments)
    assert isinstance(copied, dict)
    return copied


def check_json(what: str, value: object) -> Json:
    """Return a copy of a JSON value, or raise `InvalidInputError` that names the part which is not JSON.

    Tuples count as lists. Numbers are finite, and whole ones have at most 64 bits; the whole has at most 10 MiB.
    """
    told = msgspec.json.encode(plain(what, value))
    if len(told) > MAX_MESSAGE_BYTES:
        raise InvalidInputError(f"{what} has {len(told)} bytes as JSON; at most {MAX_MESSAGE_BYTES} are accepted")
    copy: Json = msgspec.json.decode(told)
    return copy


def check_reason(reason: object) -> str:
    """Return the reason that a person gives, which may be empty, or raise `InvalidInputError`."""
    return "" if reason == "" else check_text("the reason", reason, limit=MAX_MESSAGE_BYTES)
