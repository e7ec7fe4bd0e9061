"""The encoding of commands and their outcomes between nodes."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from reenact.domain.errors import ReenactError, ShardMovedError, from_wire
from reenact.domain.history.causes import FORMS
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.image import RegisterImage
from reenact.domain.operations.table import CommandError, refusal_of
from reenact.domain.session.commands import (
    Approve,
    BranchSession,
    CancelSchedule,
    CreateSession,
    Receive,
    Reject,
    Respond,
    Run,
    ScheduleMessage,
    Switch,
)
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import SessionInfo
from reenact.domain.stream.events import Context

Reply: TypeAlias = str | int | SessionInfo | Schedule | None
"""The reply of an entity's actor to a command from another node."""

_FORMS: Final = {name: kind for name, (kind, _) in FORMS.items() if issubclass(kind, IdempotentCommand)}
_NAMES: Final[dict[type[IdempotentCommand], str]] = {kind: name for name, kind in _FORMS.items()}
_REPLIES: Final[dict[type[IdempotentCommand], object]] = {
    RegisterImage: int,
    CreateSession: SessionInfo,
    BranchSession: SessionInfo,
    Switch: bool,
    ScheduleMessage: Schedule,
    CancelSchedule: bool,
    Run: str,
    Receive: str,
    Approve: str | None,
    Reject: str | None,
    Respond: str | None,
}
"""The types of the replies; all other commands get None."""
_encode = msgspec.msgpack.Encoder().encode


class Passed(msgspec.Struct, frozen=True, array_like=True):
    """A command for the actor with this id, whose streams have this category."""

    category: str
    id: str
    form: str
    fields: msgspec.Raw

    @property
    def command(self) -> IdempotentCommand:
        """The decoded command.

        Raises:
            KeyError, msgspec.ValidationError: it was sent by a later version and is unknown here.
        """
        return msgspec.msgpack.decode(self.fields, type=_FORMS[self.form])


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The outcome of a command: the reply, or the error; or that the actor is not on the node that was asked."""

    kind: Literal["reply", "refusal", "elsewhere"]
    content: msgspec.Raw = msgspec.Raw(b"\xc0")


_passed = msgspec.msgpack.Decoder(Passed)
_answer = msgspec.msgpack.Decoder(Answer)
_refusal = msgspec.msgpack.Decoder(CommandError)
ELSEWHERE: Final = _encode(Answer("elsewhere"))


def passed_bytes(category: str, id_: str, command: IdempotentCommand) -> bytes:
    """Return the encoded command."""
    return _encode((category, id_, _NAMES[type(command)], command))


def read_passed(body: bytes) -> Passed:
    """Decode a command."""
    return _passed.decode(body)


def reply_bytes(reply: object) -> bytes:
    """Return the encoded reply."""
    return _encode(("reply", reply))


def refusal_bytes(error: Exception) -> bytes:
    """Return the encoded error."""
    told = refusal_of(error) if isinstance(error, ReenactError) else CommandError(code="internal", message=repr(error))
    return _encode(("refusal", told))


def answer_of(command: IdempotentCommand, body: bytes) -> Reply | ReenactError:
    """Decode the command's outcome; `ShardMovedError` means that the actor is not there and has not received it."""
    answer = _answer.decode(body)
    if answer.kind == "elsewhere":
        return ShardMovedError(answer.kind)
    if answer.kind == "reply":
        return _reply_to(command, answer.content)
    told = _refusal.decode(answer.content)
    return from_wire(told.code, told.message, told.details)


def reply_of(command: IdempotentCommand, note: bytes) -> Reply:
    """Return the reply to the command when it was carried out, from what the log stores of it."""
    match command:
        case Receive():
            _, told = msgspec.msgpack.decode(note, type=tuple[Context, dict[str, str]])
            return told["turn_id"]
        case RegisterImage():
            _, revision = msgspec.msgpack.decode(note, type=tuple[str, int])
            return revision
        case _:
            return _reply_to(command, note)


def _reply_to(command: IdempotentCommand, encoded: bytes | msgspec.Raw) -> Reply:
    kind = _REPLIES.get(type(command))
    if kind is None:
        return None
    decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(kind)
    return decoder.decode(encoded)
