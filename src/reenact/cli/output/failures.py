"""Failures: their exit codes, which depend on the type and never on the message, and hints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import msgspec
from typer import TyperException

from reenact.cli.settings.environment import read_variable
from reenact.cli.settings.values import BASE_URL, Variables
from reenact.domain.errors import (
    AlreadyExistsError,
    AuthenticationError,
    ConfigurationError,
    InvalidInputError,
    LLMError,
    LogAccessError,
    LogEncryptedError,
    LogLockedError,
    LogUnreachableError,
    LogUnusableError,
    NotFoundError,
    ReenactError,
    RequestTimeoutError,
    ServerUnreachableError,
    SessionForgottenError,
    SessionInUseError,
    SessionLockedError,
    SessionNotEncryptedError,
    WrongKeyError,
)


class ExitCode(IntEnum):
    """The exit codes; the last four are 128 plus the number of a signal, as in shells."""

    SUCCESS = 0
    UNEXPECTED = 1
    USAGE = 2
    AUTHENTICATION = 3
    NETWORK = 4
    TIMEOUT = 5
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    QUIT = 131
    TERMINATED = 143


class Problem(msgspec.Struct, frozen=True):
    """Why there is no result, or an incomplete one: the exit code, the stable type of the failure, and a message."""

    code: int
    type: str
    message: str


class NothingToContinueError(ConfigurationError):
    """There is no session that could be continued."""

    code = "nothing_to_continue"


class NoInputError(ConfigurationError):
    """There is no prompt, and no person to type one."""

    code = "no_input"


class WaitsForPersonError(ReenactError):
    """The session accepts no question until a person has decided about its calls."""

    code = "waiting_for_human_input"

    def __init__(self, session_id: str, calls: int) -> None:
        what = "a call waits" if calls == 1 else f"{calls} calls wait"
        super().__init__(
            f"{what} for a person in session {session_id}, which takes up nothing else before; "
            f"`reenact --resume {shlex.quote(session_id)}` asks about what waits, and /pending does"
        )
        self.session_id = session_id


class AnswerLostError(ReenactError):
    """The agent ended without reporting on the turn, because the log could not be written."""

    code = "answer_lost"


class ServerEndedError(ReenactError):
    """The server stopped listening without having been told to."""

    code = "server_ended"


class NoLogYetError(Exception):
    """There is no log yet, so there is nothing to do; the person has been told."""


class OutputLostError(ReenactError, OSError):
    """Standard output cannot be written any longer, although somebody may still read it."""

    code = "output_lost"

    def __init__(self, why: str, *, is_in_log: bool) -> None:
        kept = "; what was said so far is in the log" if is_in_log else ""
        super().__init__(f"standard output cannot be written: {why}{kept}")


class TerminatedError(BaseException):
    """The process was asked to end; `code` is its exit code."""

    def __init__(self, code: ExitCode = ExitCode.TERMINATED) -> None:
        super().__init__()
        self.code = code


_OF_KINDS: Final[Mapping[type[ReenactError], ExitCode]] = {
    **dict.fromkeys(
        (
            InvalidInputError,
            NotFoundError,
            AlreadyExistsError,
            LogEncryptedError,
            LogLockedError,
            LogUnusableError,
            SessionForgottenError,
            SessionInUseError,
            SessionLockedError,
            SessionNotEncryptedError,
            WaitsForPersonError,
        ),
        ExitCode.USAGE,
    ),
    AuthenticationError: ExitCode.AUTHENTICATION,
    LogAccessError: ExitCode.AUTHENTICATION,
    LogUnreachableError: ExitCode.NETWORK,
    ServerUnreachableError: ExitCode.NETWORK,
    RequestTimeoutError: ExitCode.TIMEOUT,
    WrongKeyError: ExitCode.AUTHENTICATION,
}

OF_TURNS: Final[Mapping[str, ExitCode]] = {
    "authentication_error": ExitCode.AUTHENTICATION,
    "permission_error": ExitCode.AUTHENTICATION,
    "api_connection_error": ExitCode.NETWORK,
    "api_error": ExitCode.NETWORK,
    "incomplete_stream": ExitCode.NETWORK,
    "overloaded_error": ExitCode.NETWORK,
    "rate_limit_error": ExitCode.NETWORK,
    "rate_limit_exceeded": ExitCode.NETWORK,
    "timeout_error": ExitCode.NETWORK,
    "billing_error": ExitCode.USAGE,
    "invalid_request_error": ExitCode.USAGE,
    "not_found_error": ExitCode.USAGE,
    "request_too_large": ExitCode.USAGE,
    "driver_error": ExitCode.UNEXPECTED,
}
"""Exit codes by the type of a failed turn, as in `error` events; any other type is unexpected."""
AGENT_FAILED = "agent_failed"
"""The type of a turn that failed because the agent that a person asked failed; the agent's failure sets the exit code.
"""
UNEXPECTED = "internal_error"
"""The type of an unforeseen failure."""
INTERRUPTED = Problem(ExitCode.INTERRUPTED, "interrupted", "interrupted")
UNAPPROVED = Problem(
    ExitCode.USAGE,
    "unapproved_tool_calls",
    "the model went on to ask for calls that no person is there to approve; --allowed-tools NAMES allows them",
)


def problem_of_turn(error_type: str, message: str) -> Problem:
    """Return the problem for a failed turn; `error_type` is the type of its `error` event.

    A timeout of the network or a 504 counts as a failure of the network: the exit code for timeouts means that the
    caller's own limit, `--timeout`, was reached.
    """
    return Problem(OF_TURNS.get(error_type, ExitCode.UNEXPECTED), error_type, printable(message))


def problem_of(error: BaseException) -> Problem:
    """Return the problem for an exception."""
    match error:
        case TyperException():
            return Problem(ExitCode.USAGE, "invalid_arguments", printable(error.format_message()))
        case KeyboardInterrupt():
            return INTERRUPTED
        case TerminatedError(code=code):
            return Problem(code, "terminated", "terminated")
        case LLMError():
            return problem_of_turn(error.type, error.message)
        case ReenactError():
            return Problem(code_of_kind(type(error)), error.code, printable(str(error)))
        case _:
            return Problem(ExitCode.UNEXPECTED, UNEXPECTED, printable(f"{type(error).__name__}: {error}"))


def timed_out(seconds: float) -> Problem:
    """Return the problem that there was no answer within the time limit."""
    return Problem(ExitCode.TIMEOUT, "timeout", f"there was no whole answer within {seconds:g} s")


def printable(text: str) -> str:
    """Replace lone surrogates, which arguments that are not UTF-8 have, so that the text can be encoded."""
    return text.encode("utf-8", "replace").decode()


def code_of_kind(kind: type[ReenactError]) -> ExitCode:
    """Return the exit code for errors of this class."""
    return next((code for known, code in _OF_KINDS.items() if issubclass(kind, known)), ExitCode.UNEXPECTED)


_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
_LATER = "the trouble is on the side of the API, or on the way to it: try again later"
_HINTS = {
    "authentication_error": "{where} refuses the key in {key}: is it whole, still valid, and one for this address?",
    "permission_error": "the key in {key} may not do this: ask for the permission, or choose another --model",
    "billing_error": "check the account that the key in {key} belongs to: its credit, or its plan",
    "not_found_error": "is there a model of this name (--model, {model}), and is it asked for at {where}?",
    "invalid_request_error": (
        "the API does not take the request as it is: see --model, --system-prompt, --tools and {url}"
    ),
    "request_too_large": "the conversation is too large for a request: begin a new one, or say less at once",
    "rate_limit_error": "more was asked than the account allows for now: try again later",
    "rate_limit_exceeded": "more was asked than the account allows for now: try again later",
    "overloaded_error": _LATER,
    "api_error": _LATER,
    "timeout_error": _LATER,
    "incomplete_stream": "what came is kept: ask again, with --continue",
    "storage_error": "check whether the disk that the log is on is full or failing",
    "session_not_found": "`reenact sessions` lists those that there are",
    "api_connection_error": "check the network and {variables}",
}


def hint_of(error_type: str, environ: Mapping[str, str], variables: Variables | None) -> str | None:
    """Return a hint for a failure of this type; None if the message needs none.

    For a provider of the user's own, `variables` is None.
    """
    hint = _HINTS.get(error_type)
    if hint is None or (variables is None and "{" in hint):
        return None
    key, url, model = msgspec.structs.astuple(variables) if variables is not None else ("", "", "")
    where = f"the API that {url} names" if url == BASE_URL or read_variable(environ, url) else "the API"
    set_ones = [name for name in (url, *_PROXIES) if name == BASE_URL or read_variable(environ, name)]
    return hint.format(key=key, url=url, model=model, where=where, variables=", ".join(set_ones) or url)
