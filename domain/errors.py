"""The errors of Reenact, each with a stable code and the values that a caller needs to handle it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import ClassVar, TypeGuard

_LEAST_LIKENESS = 0.5
"""The share of letter pairs that two names must have in common for one to be suggested for the other."""


class ReenactError(Exception):
    """The base class of every error that Reenact raises on purpose.

    `code` is stable: the command protocol and the command line's JSON carry it.
    """

    code: str = "internal_error"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
        """Pickle the error by its attributes: the arguments of `__init__` are not kept."""
        return _remade, (type(self), self.args), vars(self)


def shown(value: object) -> str:
    """Return the representation of a value that a caller gave; `repr` fails if it is nested too deeply."""
    try:
        return repr(value)
    except RecursionError:
        return f"<a deeply nested {type(value).__name__}>"


def _remade(kind: type[ReenactError], args: tuple[object, ...]) -> ReenactError:
    error = kind.__new__(kind)
    error.args = args
    return error


class InvalidInputError(ReenactError, ValueError):
    """A given value cannot be accepted; nothing was recorded."""

    code = "invalid_input"


class InvalidMessageError(InvalidInputError):
    """A message is empty, blank, too large, or not valid Unicode."""

    code = "invalid_message"


class ConfigurationError(InvalidInputError):
    """The given settings are not valid."""

    code = "invalid_configuration"


class MissingExtraError(ConfigurationError, ImportError):
    """The feature needs packages that are not installed; `pip install 'reenact[EXTRA]'` installs them."""

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
        super().__init__(f"there is no event type {shown(type)}{meant(type, known)}; see reenact.events.CATALOGUE")
        self.type = type


class UnknownCommandError(InvalidInputError):
    """The command protocol has no request of this type."""

    code = "unknown_command"

    def __init__(self, type: object, known: Iterable[str] = ()) -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"there is no request type {shown(type)}{meant(type, known)}; see reenact.events.REQUESTS")
        self.type = type


class UnknownScenarioError(InvalidInputError, LookupError):
    """A mock was asked for a scenario that is not defined."""

    code = "unknown_scenario"

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no scenario {name!r}; defined are: {', '.join(known)}")
        self.name = name
        self.known = known


class AlreadyExistsError(ReenactError):
    """The given id has been used before."""

    code = "already_exists"

    def __init__(self, kind: str, id: str) -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"{kind} {id!r} exists already, or existed once; ids are never used again")
        self.kind = kind
        self.id = id


class NotFoundError(ReenactError, LookupError):
    """The named entity does not exist."""

    code = "not_found"
    kind: ClassVar[str] = "entity"

    def __init__(self, id: str, hint: str = "") -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"{self.kind} {shown(id)} does not exist{hint and f'; {hint}'}")
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
    """The request to the model's API failed; `type` says why, as the API names it."""

    code = "llm_error"

    def __init__(self, type: str, message: str, *, retryable: bool = False) -> None:  # noqa: A002 - the API's word
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.retryable = retryable


class RuntimeClosedError(ReenactError):
    """The runtime was closed; open it again to go on."""

    code = "runtime_closed"


def opened_before_fork(what: str) -> RuntimeClosedError:
    """Return the error for calls in a process that was forked from the one that opened `what`, such as "runtime"."""
    return RuntimeClosedError(
        f"the {what} works only in the process that opened it, and this one was forked from that: open one here, after "
        "the fork"
    )


def tied_to_process(opened: object) -> TypeError:
    """Return the error for a copy or a pickle of what belongs to the process that opened it."""
    return TypeError(
        f"{type(opened).__name__} cannot be copied or pickled, since it belongs to the process that opened it; "
        "another process opens one of its own, or connects to a server"
    )


class MailboxFullError(ReenactError):
    """An actor's mailbox is full; send the message again later, or use `ask` and wait for the replies."""

    code = "mailbox_full"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} messages wait already, and no more may; the message was not taken in")
        self.limit = limit


class DeadlockError(ReenactError, RuntimeError):
    """An actor was about to wait for its own reply, directly or through other waiting actors; use `tell` instead."""

    code = "deadlock"


class RequestTimeoutError(ReenactError, TimeoutError):
    """No answer came in time; the request may still take effect."""

    code = "timeout"


class TurnTimeoutError(RequestTimeoutError):
    """The turn has not ended in time; it continues, and can be waited for again."""

    code = "turn_timeout"

    def __init__(self, turn_id: str) -> None:
        super().__init__(
            f"turn {turn_id!r} has not ended in time; it goes on, once no call of the session waits for a person "
            "(`agents.pending`): `turns.wait` waits for it"
        )
        self.turn_id = turn_id


class SessionForgottenError(ReenactError):
    """The session was forgotten: its content can no longer be read by anyone."""

    code = "session_forgotten"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} was forgotten; its content is gone for good")
        self.session_id = session_id


class SessionNotEncryptedError(ReenactError):
    """The session, or a part of it, was recorded without encryption, so that there is no key to destroy."""

    code = "session_not_encrypted"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!r} was recorded without keys, at least in part, and cannot be forgotten; "
            "a log that is opened with keys=KeyRing.file(path) encrypts what comes from then on"
        )
        self.session_id = session_id


class SessionInUseError(ReenactError):
    """Other sessions depend on this one: branches of it, the session that called it, or sessions that it called."""

    code = "session_in_use"

    def __init__(self, session_id: str, dependents: Iterable[str]) -> None:
        self.session_id = session_id
        self.dependents = tuple(dependents)
        super().__init__(
            f"session {session_id!r} cannot be forgotten alone: {', '.join(self.dependents)} would miss it; "
            "family=True, or --family on the command line, forgets them all"
        )


class AgentStoppedError(ReenactError):
    """The agent was stopped before it began the turn of a message, which stays queued in its session."""

    code = "agent_stopped"

    def __init__(self, agent_id: str, session_id: str, turn_id: str) -> None:
        super().__init__(
            f"agent {agent_id!r} was stopped before turn {turn_id!r} began; the message is queued: "
            f"run session {session_id!r} to have it answered"
        )
        self.agent_id = agent_id
        self.session_id = session_id
        self.turn_id = turn_id


class EnvironmentFailedError(ReenactError):
    """The agent has stopped again because its environment could not be connected; nothing was sent to it."""

    code = "environment_failed"

    def __init__(self, agent_id: str, problem: str) -> None:
        super().__init__(f"agent {agent_id!r} could not start: {problem}")
        self.agent_id = agent_id
        self.problem = problem


class StorageError(ReenactError):
    """The log could not be read or written; anything not acknowledged was not recorded."""

    code = "storage_error"


class ReadTooLongError(StorageError, TimeoutError):
    """Reading the log for one request took longer than allowed; ask for less."""

    code = "log_read_too_long"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the log was read for more than {seconds:g} seconds for this; ask for less")
        self.seconds = seconds


class StorageFullError(StorageError):
    """No space is left for the log; free some and send the command again."""

    code = "storage_full"


class UnstorableError(StorageError, InvalidInputError):
    """An event holds a value that cannot be stored or read back; give its fields values of their declared types."""

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
    """Context manager that turns any error raised while data of the log is decoded into `LogUnusableError`.

    A file can hold anything, also data that can be decoded but is impossible. Reenact's own errors pass unchanged.
    """

    def __init__(self, what: str) -> None:
        """Take the name of what is read, such as an event's version and stream."""
        self._what = what

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise `LogUnusableError` with what cannot be read, and why."""
        if isinstance(error, Exception) and not isinstance(error, ReenactError):
            why = f"{type(error).__name__}: {error}"
            raise LogUnusableError(f"{self._what} cannot be read ({why:.300}); verify the log") from error


class CheckpointError(InvalidInputError):
    """The given checkpoint is not a checkpoint, is damaged, or belongs to another log."""

    code = "checkpoint_unusable"


class LogUnreachableError(StorageError):
    """The database server of the log cannot be reached, or has ended the connection; try again when it is back."""

    code = "log_unreachable"


class LogAccessError(StorageError):
    """The database server of the log requires a password, and refused the connection."""

    code = "log_access_denied"


class LogTooNewError(LogUnusableError):
    """The log was written by a newer version of Reenact than this one can read."""

    code = "log_too_new"


class LogEncryptedError(StorageError):
    """The log is encrypted, but was opened without its key ring: `keys=KeyRing.file(…)`."""

    code = "log_encrypted"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is encrypted; name its key ring, as keys=KeyRing.file(path), or --keys FILE on the command line"
        )


class KeyRingError(StorageError):
    """The key ring cannot be used now; anything not acknowledged was not recorded, and nothing is lost."""

    code = "key_ring"


class WrongKeyError(KeyRingError):
    """The key ring does not have the key with which the log's keys are wrapped."""

    code = "wrong_key"


class ConflictError(StorageError):
    """Another writer has appended to the stream; read it again and decide again."""

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
    """Another node now owns the stream; send the command again, and it is forwarded to that node."""

    code = "shard_moved"

    def __init__(self, stream: str) -> None:
        super().__init__(f"another node has taken over {stream!r}; send the command again")
        self.stream = stream


class CallNotPendingError(ReenactError, LookupError):
    """No call with this id waits for this kind of decision by a person."""

    code = "call_not_pending"

    def __init__(self, call_id: str, why: str = "it was decided already, or never asked for") -> None:
        super().__init__(
            f"call {call_id!r} cannot be decided like that: {why}; `agents.pending` lists the calls that wait"
        )
        self.call_id = call_id


class StaleApprovalError(ReenactError):
    """An approval is bound to the exact call and to the policies under which it was asked for; these have changed."""

    code = "stale_approval"

    def __init__(self, call_id: str, why: str) -> None:
        super().__init__(f"the approval of call {call_id!r} does not hold: {why}; look at the call again")
        self.call_id = call_id


class ToolUnavailableError(ReenactError):
    """A call cannot be approved because the function behind its tool is not available; it continues to wait."""

    code = "tool_unavailable"

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"{tool} cannot be approved: the function behind it is not there. Hand it in with tools= when the runtime "
            "is opened (--tools on the command line), and approve the call then; until then it goes on waiting"
        )
        self.tool = tool


class InvalidAnswerError(InvalidInputError):
    """The answer does not fit the question that the person was asked."""

    code = "invalid_answer"


class InvalidOutputError(ReenactError):
    """The answer fits the schema, but not the requested type, which has rules of its own; the turn has ended."""

    code = "output_invalid"

    def __init__(self, turn_id: str, problem: str) -> None:
        super().__init__(f"the answer of turn {turn_id!r} fits its schema, but not its type: {problem}")
        self.turn_id = turn_id
        self.problem = problem


class MessageRefusedError(ReenactError):
    """A guard refused a message: it was not accepted, and the log holds only the verdict."""

    code = "message_refused"

    def __init__(self, guard: str, reason: str) -> None:
        super().__init__(f"guard {guard!r} refuses the message: {reason}")
        self.guard = guard
        self.reason = reason


class AuthenticationError(ReenactError):
    """The server does not know the token, or none was given."""

    code = "authentication"


class ServerUnreachableError(ReenactError, ConnectionError):
    """The server cannot be reached; the request may have taken effect all the same."""

    code = "unreachable"


class ProtocolError(ReenactError):
    """The other side uses another version of the protocol, or does not use it at all."""

    code = "protocol"


class RequestReusedError(InvalidInputError):
    """A request id was used before for a different request; give each request an id of its own."""

    code = "request_reused"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request id {request_id!r} was used for another request; give this one an id of its own")
        self.request_id = request_id


class RecordingError(ReenactError):
    """A recording cannot be read, or does not hold what is asked for."""

    code = "recording"


class ExportUnusableError(InvalidInputError):
    """A file is not a complete and intact export of a log; nothing was imported.

    `line` counts from 1; `stream` and `version` are those of the record at that line, if it is one.
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
    """The import contradicts the history that the log holds already; nothing was imported."""

    code = "history_differs"

    def __init__(self, log: str, stream: str, version: int, why: str) -> None:
        super().__init__(f"{log} has another history of {stream!r}, from {version} on: {why}; import into another log")
        self.log = log
        self.stream = stream
        self.version = version


class RedactionError(ConfigurationError):
    """A redaction policy would remove data without which the log cannot be read; nothing was exported."""

    code = "redaction"


class RemoteError(ReenactError):
    """A server raised an error that this version does not know; `code` is the server's code."""

    code = "remote_error"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def details_of(error: ReenactError) -> dict[str, object]:
    """Return the values that the error carries besides its message, as far as they can be sent as JSON."""
    return {name: value for name, value in vars(error).items() if name[:1] != "_" and _is_sendable(value)}


def meant(name: object, known: Iterable[str]) -> str:
    """Return the known name most similar to `name` as a question in brackets, or "" if none is similar enough."""
    pairs = _pairs(name) if isinstance(name, str) else set[str]()
    likeness = {one: 2 * len(pairs & _pairs(one)) / (len(pairs) + len(_pairs(one)) or 1) for one in known}
    nearest = max(likeness, key=likeness.__getitem__, default="")
    return f" (did you mean {nearest!r}?)" if likeness.get(nearest, 0) >= _LEAST_LIKENESS else ""


def _pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}


def from_wire(code: str, message: str, details: Mapping[str, object] | None = None) -> ReenactError:
    """Return the error that has this code, with the same message and the same values; lists become tuples.

    An unknown code gives a `RemoteError`.
    """
    kind = next((kind for kind in _error_classes(ReenactError) if kind.code == code), None)
    if kind is None:
        return RemoteError(code, message)
    error = kind.__new__(kind, message)  # without __init__, whose arguments are those from which the message was made
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


def _error_classes(kind: type[ReenactError]) -> Iterator[type[ReenactError]]:
    """Yield the error classes that have a code of their own, each before its subclasses."""
    yield kind
    for special in kind.__subclasses__():
        for one in _error_classes(special):
            if one.code != kind.code:
                yield one


def _is_sequence(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return isinstance(value, list | tuple)


def _is_sendable(value: object) -> bool:
    if _is_sequence(value):
        return all(map(_is_sendable, value))
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and -(2**63) <= value < 2**64)
