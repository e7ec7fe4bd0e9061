"""The errors of Reenact, each with a stable code and the values that a caller acts on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import ClassVar, TypeGuard

_NEAR = 0.5
"""How much of two names must be the same pairs of letters for one to be meant by the other."""


class ReenactError(Exception):
    """The root of every error that Reenact raises on purpose.

    `code` is stable: the command protocol and the command line's JSON carry it.
    """

    code: str = "internal_error"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
        """Have it pickled as it is: what `__init__` was given is not known any more."""
        return _remade, (type(self), self.args), vars(self)


def _remade(kind: type[ReenactError], args: tuple[object, ...]) -> ReenactError:
    error = kind.__new__(kind)
    error.args = args
    return error


class InvalidInputError(ReenactError, ValueError):
    """A value handed in cannot be accepted; nothing was recorded."""

    code = "invalid_input"


class InvalidMessageError(InvalidInputError):
    """A message is empty, blank, too large, or not valid Unicode."""

    code = "invalid_message"


class ConfigurationError(InvalidInputError):
    """A runtime was asked for with settings that cannot work."""

    code = "invalid_configuration"


class MissingExtraError(ConfigurationError, ImportError):
    """What was asked for needs packages that are not installed; `pip install 'reenact[EXTRA]'` brings them."""

    code = "missing_extra"

    def __init__(self, what: str, extra: str, why: object) -> None:
        super().__init__(f"{what} needs packages that are not installed ({why}): pip install 'reenact[{extra}]'")
        self.extra = extra


@contextmanager
def needing_extra(extra: str, what: str) -> Generator[None]:
    """Raise `MissingExtraError` if a package of the extra, which `what` needs, cannot be imported."""
    try:
        yield
    except ImportError as error:
        if isinstance(error, MissingExtraError):
            raise
        raise MissingExtraError(what, extra, error) from error


class UnknownEventTypeError(InvalidInputError):
    """The event type is not in the catalogue."""

    code = "unknown_event_type"

    def __init__(self, type: object, known: Iterable[str] = ()) -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"there is no event type {type!r}{meant(type, known)}; see reenact.events.CATALOGUE")
        self.type = type


class UnknownCommandError(InvalidInputError):
    """The command protocol has no request of this type."""

    code = "unknown_command"

    def __init__(self, type: object, known: Iterable[str] = ()) -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"there is no request type {type!r}{meant(type, known)}; see reenact.events.REQUESTS")
        self.type = type


class UnknownScenarioError(InvalidInputError, LookupError):
    """A mock was asked for a scenario that nobody defined."""

    code = "unknown_scenario"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no scenario {name!r}; defined are: {', '.join(known)}")
        self.name = name
        self.known = known


class AlreadyExistsError(ReenactError):
    """The id that was supplied has been used before."""

    code = "already_exists"

    def __init__(self, kind: str, id: str) -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"{kind} {id!r} exists already, or existed once; ids are never used again")
        self.kind = kind
        self.id = id


class NotFoundError(ReenactError, LookupError):
    """Something that was named does not exist."""

    code = "not_found"
    kind: ClassVar[str] = "entity"

    def __init__(self, id: str, hint: str = "") -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"{self.kind} {id!r} does not exist{hint and f'; {hint}'}")
        self.id = id


class ContainerNotFoundError(NotFoundError):
    """No container has this id."""

    code = "container_not_found"
    kind = "container"


class ImageNotFoundError(NotFoundError):
    """No image has this id."""

    code = "image_not_found"
    kind = "image"


class SessionNotFoundError(NotFoundError):
    """No session has this id, or it was deleted."""

    code = "session_not_found"
    kind = "session"


class AgentNotFoundError(NotFoundError):
    """No live agent has this id."""

    code = "agent_not_found"
    kind = "agent"


class TurnNotFoundError(NotFoundError):
    """No turn has this id."""

    code = "turn_not_found"
    kind = "turn"


class LLMError(ReenactError):
    """The model's API did not do what was asked of it; `type` says why, as the API names it."""

    code = "llm_error"

    def __init__(self, type: str, message: str, *, retryable: bool = False) -> None:  # noqa: A002 - the API's word
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.retryable = retryable


class RuntimeClosedError(ReenactError):
    """The runtime was closed; open it again to go on."""

    code = "runtime_closed"


class MailboxFullError(ReenactError):
    """An actor has as many messages waiting as it may; send this one again later, or ask and wait for the replies."""

    code = "mailbox_full"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} messages wait already, and no more may; the message was not taken in")
        self.limit = limit


class DeadlockError(ReenactError, RuntimeError):
    """An actor was about to wait for its own reply, directly or through others that wait for it; tell it instead."""

    code = "deadlock"


class RequestTimeoutError(ReenactError, TimeoutError):
    """No answer came in time; what was asked for may still happen."""

    code = "timeout"


class TurnTimeoutError(RequestTimeoutError):
    """The turn has not ended in time; it goes on, and can be waited for."""

    code = "turn_timeout"

    def __init__(self, turn_id: str) -> None:
        super().__init__(
            f"turn {turn_id!r} has not ended in time; it goes on, once no call of the session waits for a person "
            "(`agents.pending`): `turns.wait` waits for it"
        )
        self.turn_id = turn_id


class SessionForgottenError(ReenactError):
    """The session was forgotten: what was said in it can be read by nobody any more."""

    code = "session_forgotten"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} was forgotten; its content is gone for good")
        self.session_id = session_id


class SessionNotEncryptedError(ReenactError):
    """The session, or a part of it, was recorded without keys, so that there is no key to destroy."""

    code = "session_not_encrypted"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} was recorded without keys, at least in part, and cannot be forgotten; "
            "a log that is opened with keys=KeyRing.file(path) encrypts what comes from then on"
        )
        self.session_id = session_id


class SessionInUseError(ReenactError):
    """Other sessions rest on this one: branches of it, the session that called it, or sessions that it called."""

    code = "session_in_use"

    def __init__(self, session_id: str, dependents: Iterable[str]) -> None:
        self.session_id = session_id
        self.dependents = tuple(dependents)
        super().__init__(
            f"session {session_id!r} cannot be forgotten alone: {', '.join(self.dependents)} would miss it; "
            "family=True forgets them all"
        )


class AgentStoppedError(ReenactError):
    """The agent was stopped before it took up a message, which stays queued in its session."""

    code = "agent_stopped"

    def __init__(self, agent_id: str, session_id: str, turn_id: str) -> None:
        super().__init__(
            f"agent {agent_id!r} was stopped before turn {turn_id!r} began; the message is queued: "
            f"run session {session_id!r} to have it answered"
        )
        self.agent_id = agent_id
        self.session_id = session_id
        self.turn_id = turn_id


class StorageError(ReenactError):
    """The log could not be read or written; what was not acknowledged was not recorded."""

    code = "storage_error"


class ReadTooLongError(StorageError, TimeoutError):
    """Reading the log for one question took longer than it may; ask for less."""

    code = "log_read_too_long"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the log was read for more than {seconds:g} seconds for this; ask for less")
        self.seconds = seconds


class StorageFullError(StorageError):
    """No space is left for the log; free some and send the command again."""

    code = "storage_full"


class UnstorableError(StorageError, InvalidInputError):
    """An event holds what cannot be stored, or could not be read again; give its fields what they declare."""

    code = "unstorable"


class LogLockedError(StorageError):
    """Another process, or another runtime of this one, is writing this log."""

    code = "log_locked"

    def __init__(self, path: str, pid: int | None, host: str | None = None, *, here: bool = False) -> None:
        if here:
            how = "this process; use the runtime that has it open, or close that first"
        else:
            how = (
                f"{_process(pid, host)}; close it there, open a copy, or share it: `reenact serve` and Runtime.connect"
            )
        super().__init__(f"{path} is being written by {how}")
        self.path = path
        self.pid = pid
        self.host = host


class SessionLockedError(ReenactError):
    """Another process has this session open."""

    code = "session_locked"

    def __init__(self, session_id: str, pid: int | None, host: str | None = None) -> None:
        owner = _process(pid, host)
        super().__init__(f"session {session_id!r} is open in {owner}; close it there, or go on in a branch of it")
        self.session_id = session_id
        self.pid = pid
        self.host = host


class LogUnusableError(StorageError):
    """The file is not a log, is damaged, or cannot be opened here."""

    code = "log_unusable"


class reading:  # noqa: N801 - reads as the function that it is used as
    """Raise `LogUnusableError` in place of whatever else is raised while something of the log is made sense of.

    A file can hold anything, also what decodes and cannot have happened. Our own errors stay as they are.
    """

    def __init__(self, what: str) -> None:
        """Name what is read, such as an event by its version and stream."""
        self._what = what

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say what cannot be read, and why."""
        if isinstance(error, Exception) and not isinstance(error, ReenactError):
            why = f"{type(error).__name__}: {error}"
            raise LogUnusableError(f"{self._what} cannot be read ({why:.300}); verify the log") from error


class CheckpointError(InvalidInputError):
    """What a log is to be held to is not a checkpoint, is damaged, or is that of another log."""

    code = "checkpoint_unusable"


class LogUnreachableError(StorageError):
    """The database server of the log cannot be reached, or has ended the connection; try again when it is back."""

    code = "log_unreachable"


class LogAccessError(StorageError):
    """The database server of the log asked for a password, and refused the connection."""

    code = "log_access_denied"


class LogTooNewError(LogUnusableError):
    """The log was written by a newer version of Reenact than this one can read."""

    code = "log_too_new"


class LogEncryptedError(StorageError):
    """The log is encrypted, and was opened without its key ring: `keys=KeyRing.file(…)`."""

    code = "log_encrypted"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is encrypted; name its key ring, as keys=KeyRing.file(path), or --keys FILE on the command line"
        )


class KeyRingError(StorageError):
    """The key ring cannot be used now; what was not acknowledged was not recorded, and nothing is lost."""

    code = "key_ring"


class WrongKeyError(KeyRingError):
    """The key ring has not the key with which the log's keys are wrapped."""

    code = "wrong_key"


class ConflictError(StorageError):
    """Another writer has moved the stream on; read it again and decide again."""

    code = "conflict"

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"stream {stream!r} is at version {actual}, not {expected}")
        self.stream = stream
        self.expected = expected
        self.actual = actual


class NodeUnreadyError(StorageError):
    """The node does not own its share of the shards yet, or its lease has run out."""

    code = "node_unready"

    def __init__(self) -> None:
        super().__init__("this node does not own its share of the log's shards yet; ask another node, or again soon")


class ShardMovedError(StorageError):
    """Another node has taken over the stream; send the command again, and it is passed on to that node."""

    code = "shard_moved"

    def __init__(self, stream: str) -> None:
        super().__init__(f"another node has taken over {stream!r}; send the command again")
        self.stream = stream


class CallNotPendingError(ReenactError, LookupError):
    """No call of this id waits for what a person wants to do to it."""

    code = "call_not_pending"

    def __init__(self, call_id: str, why: str = "it was decided already, or never asked for") -> None:
        super().__init__(
            f"call {call_id!r} cannot be decided like that: {why}; `agents.pending` lists the calls that wait"
        )
        self.call_id = call_id


class StaleApprovalError(ReenactError):
    """An approval is bound to the exact call and the policies it was asked under; these are others."""

    code = "stale_approval"

    def __init__(self, call_id: str, why: str) -> None:
        super().__init__(f"the approval of call {call_id!r} does not hold: {why}; look at the call again")
        self.call_id = call_id


class ToolUnavailableError(ReenactError):
    """A call cannot be approved, for the function behind its tool is not there; it goes on waiting."""

    code = "tool_unavailable"

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"{tool} cannot be approved: the function behind it is not there. Hand it in with tools= when the runtime "
            "is opened (--tools on the command line), and approve the call then; until then it goes on waiting"
        )
        self.tool = tool


class InvalidAnswerError(InvalidInputError):
    """A question that a person was asked does not take this answer."""

    code = "invalid_answer"


class InvalidOutputError(ReenactError):
    """The answer fits the schema, but not the type that was asked for, which has rules of its own; the turn is over."""

    code = "output_invalid"

    def __init__(self, turn_id: str, problem: str) -> None:
        super().__init__(f"the answer of turn {turn_id!r} fits its schema, but not its type: {problem}")
        self.turn_id = turn_id
        self.problem = problem


class MessageRefusedError(ReenactError):
    """A guard has refused a message: it was not accepted, and the log has the verdict alone."""

    code = "message_refused"

    def __init__(self, guard: str, reason: str) -> None:
        super().__init__(f"guard {guard!r} refuses the message: {reason}")
        self.guard = guard
        self.reason = reason


class AuthenticationError(ReenactError):
    """The server does not know the token, or none was given."""

    code = "authentication"


class ServerUnreachableError(ReenactError, ConnectionError):
    """The server cannot be reached; what was asked for may have happened all the same."""

    code = "unreachable"


class ProtocolError(ReenactError):
    """The other side speaks another version of the protocol, or none."""

    code = "protocol"


class RequestReusedError(InvalidInputError):
    """A request id was used before, for another request; give each request an id of its own."""

    code = "request_reused"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request id {request_id!r} was used for another request; give this one an id of its own")
        self.request_id = request_id


class RecordingError(ReenactError):
    """A recording cannot be read, or does not hold what it is asked for."""

    code = "recording"


class ExportUnusableError(InvalidInputError):
    """A file is no whole and true export of a log; nothing of it was taken in.

    `line` counts from 1; `stream` and `version` are those of the record where it shows, if it is one.
    """

    code = "export_unusable"

    def __init__(
        self, name: str, line: int, problem: str, *, stream: str | None = None, version: int | None = None
    ) -> None:
        where = f"{name}, line {line}"
        if stream is not None:
            where += f" ({stream!r}" + ("" if version is None else f", {version}") + ")"
        super().__init__(f"{where}: {problem}")
        self.name = name
        self.line = line
        self.problem = problem
        self.stream = stream
        self.version = version


class HistoryDiffersError(StorageError, InvalidInputError):
    """What was to be taken in contradicts what the log holds already; nothing was taken in."""

    code = "history_differs"

    def __init__(self, log: str, stream: str, version: int, why: str) -> None:
        super().__init__(f"{log} has another history of {stream!r}, from {version} on: {why}; import into another log")
        self.log = log
        self.stream = stream
        self.version = version


class RedactionError(ConfigurationError):
    """A policy asks for what cannot be taken out of a log without breaking it; nothing was exported."""

    code = "redaction"


class RemoteError(ReenactError):
    """A server raised an error that this version does not know; `code` is the one that it came with."""

    code = "remote_error"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def details_of(error: ReenactError) -> dict[str, object]:
    """Return the values that the error carries beside its message, as far as they can travel as JSON."""
    return {name: value for name, value in vars(error).items() if name[:1] != "_" and _travels(value)}


def meant(name: object, known: Iterable[str]) -> str:
    """Return which of the known names is nearest to the name, as a question in brackets, or "" if none is near."""
    pairs = _pairs(str(name))
    likeness = {one: 2 * len(pairs & _pairs(one)) / (len(pairs) + len(_pairs(one)) or 1) for one in known}
    nearest = max(likeness, key=likeness.__getitem__, default="")
    return f" (did you mean {nearest!r}?)" if likeness.get(nearest, 0) >= _NEAR else ""


def _pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}


def from_wire(code: str, message: str, details: Mapping[str, object] | None = None) -> ReenactError:
    """Return the error that has this code, with the same message and the same values, sequences as tuples.

    A code that is not known here makes a `RemoteError`.
    """
    kind = next((kind for kind in _kinds(ReenactError) if kind.code == code), None)
    if kind is None:
        return RemoteError(code, message)
    error = kind.__new__(kind, message)  # not called: its arguments are what the message was made from
    error.args = (message,)
    vars(error).update(
        (name, tuple(value) if _is_sequence(value) else value)
        for name, value in (details or {}).items()
        if name.isidentifier() and name[0] != "_" and not hasattr(ReenactError, name)
    )
    return error


def _process(pid: int | None, host: str | None) -> str:
    process = f"process {pid}" if pid else "another process"
    return f"{process} on {host}" if host else process


def _kinds(kind: type[ReenactError]) -> Iterator[type[ReenactError]]:
    """Yield the kinds of error that have a code of their own, those before that are less special."""
    yield kind
    for special in kind.__subclasses__():
        for one in _kinds(special):
            if one.code != kind.code:
                yield one


def _is_sequence(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)


def _travels(value: object) -> bool:
    if _is_sequence(value):
        return all(map(_travels, value))
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and -(2**63) <= value < 2**64)
