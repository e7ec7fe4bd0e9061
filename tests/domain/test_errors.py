"""Errors carry a stable code and the values that a caller acts on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from reenact.domain import errors
from reenact.domain.errors import (
    AgentNotFoundError,
    AlreadyExistsError,
    CallNotPendingError,
    ConflictError,
    ContainerNotFoundError,
    ImageNotFoundError,
    InvalidMessageError,
    LLMError,
    LogLockedError,
    LogTooNewError,
    LogUnusableError,
    MailboxFullError,
    MissingExtraError,
    NotFoundError,
    ReenactError,
    RemoteError,
    RequestReusedError,
    RequestTimeoutError,
    SessionNotFoundError,
    StaleApprovalError,
    StorageError,
    StorageFullError,
    ToolUnavailableError,
    UnknownEventTypeError,
    UnknownScenarioError,
    details_of,
    from_wire,
    needing_extra,
    opened_before_fork,
)
from reenact.domain.operations.table import CommandError, refusal_of
from reenact.domain.tools import InvalidArgumentsError, MCPServerError


def kinds(of: type[ReenactError]) -> Iterator[type[ReenactError]]:
    yield of
    for kind in of.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from kinds(kind)


def test_every_error_has_a_code_of_its_own() -> None:
    found = list(dict.fromkeys(kinds(ReenactError)))

    codes = [kind.code for kind in found]

    assert len(found) > 20
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ContainerNotFoundError("x"), "container"),
        (ImageNotFoundError("x"), "image"),
        (SessionNotFoundError("x"), "session"),
        (AgentNotFoundError("x"), "agent"),
    ],
)
def test_what_is_not_found_is_named(error: NotFoundError, kind: str) -> None:
    assert (error.id, error.code, str(error)) == ("x", f"{kind}_not_found", f"{kind} 'x' does not exist")
    assert isinstance(error, LookupError)


def test_what_the_model_s_api_did_not_do_is_told_in_its_words() -> None:
    error = LLMError("overloaded_error", "try later", retryable=True)

    assert (error.type, error.message, error.retryable) == ("overloaded_error", "try later", True)
    assert str(error) == "overloaded_error: try later"


def test_errors_are_the_built_in_ones_too() -> None:
    assert issubclass(InvalidMessageError, ValueError)
    assert issubclass(RequestTimeoutError, TimeoutError)
    assert issubclass(UnknownScenarioError, LookupError)
    assert issubclass(LogTooNewError, LogUnusableError)
    assert issubclass(StorageFullError, StorageError)


def test_errors_say_their_values() -> None:
    locked, unknown = LogLockedError("a.db", 42), UnknownScenarioError("x", ("a", "b"))
    conflict, exists = ConflictError("session/s", 1, 2), AlreadyExistsError("session", "s")

    assert (locked.path, locked.pid, "process 42" in str(locked)) == ("a.db", 42, True)
    assert "another process" in str(LogLockedError("a.db", None))
    assert "process 42; close it there, open a copy, or share it: `reenact serve` and Runtime.connect" in str(locked)
    assert "by this process; use the runtime that has it open, or close that" in str(
        LogLockedError("a.db", 42, here=True)
    )
    assert (unknown.name, unknown.known, "a, b" in str(unknown)) == ("x", ("a", "b"), True)
    assert (conflict.stream, conflict.expected, conflict.actual) == ("session/s", 1, 2)
    assert "session 's'" in str(exists)


def test_errors_about_calls_name_the_call_and_what_to_do() -> None:
    settled, stale = CallNotPendingError("a"), StaleApprovalError("b", "the policies have changed")

    assert (settled.call_id, settled.code, isinstance(settled, LookupError)) == ("a", "call_not_pending", True)
    assert str(settled) == (
        "call 'a' cannot be decided like that: it was decided already, or never asked for; "
        "`agents.pending` lists the calls that wait"
    )
    assert (stale.call_id, stale.code) == ("b", "stale_approval")
    assert str(stale) == "the approval of call 'b' does not hold: the policies have changed; look at the call again"


def test_a_full_mailbox_says_how_much_it_holds() -> None:
    full = MailboxFullError(7)

    assert (full.limit, str(full).startswith("7 messages wait already")) == (7, True)


def test_a_forked_process_is_told_what_to_open_and_where() -> None:
    error = opened_before_fork("connection")

    assert error.code == "runtime_closed"
    assert str(error).startswith("the connection works only in the process that opened it")
    assert str(error).endswith("open one here, after the fork")


def test_what_cannot_be_imported_names_the_innermost_extra_that_brings_it() -> None:
    with (
        pytest.raises(MissingExtraError) as missing,
        needing_extra("server", "a server"),
        needing_extra("client", "a connection to a server"),
    ):
        raise ModuleNotFoundError("No module named 'websockets'")

    assert (missing.value.code, missing.value.extra) == ("missing_extra", "client")
    assert str(missing.value) == (
        "a connection to a server needs packages that are not installed (No module named 'websockets'): "
        "pip install 'reenact[client]'"
    )
    assert isinstance(missing.value, ImportError)


def takes_a_message(kind: type[ReenactError]) -> bool:
    """Return whether a message is all that it is made of."""
    return not any("__init__" in vars(base) for base in kind.__mro__ if base.__module__ == errors.__name__)


ONE_OF_EACH: list[ReenactError] = [
    *(kind("it went wrong") for kind in kinds(ReenactError) if takes_a_message(kind)),
    ContainerNotFoundError("x"),
    errors.ReadTooLongError(10),
    SessionNotFoundError("\0😀"),
    AlreadyExistsError("session", "s"),
    CallNotPendingError("a", "it is over"),
    StaleApprovalError("b", "the policies have changed"),
    errors.MessageRefusedError("no_secrets", "it holds a key"),
    ToolUnavailableError("pay"),
    ConflictError("session/s", 1, 2),
    LogLockedError("a.db", None),
    MissingExtraError("a server", "server", "no module named 'uvicorn'"),
    errors.SessionLockedError("s", None),
    errors.SessionForgottenError("s"),
    errors.SessionInUseError("s", ("t", "u")),
    errors.SessionNotEncryptedError("s"),
    errors.LogEncryptedError("a.db"),
    errors.NodeUnreadyError(),
    errors.ShardMovedError("session/s"),
    MailboxFullError(7),
    LLMError("overloaded_error", "try later", retryable=True),
    UnknownScenarioError("x", ("a", "b")),
    UnknownEventTypeError("x"),
    RequestReusedError("r"),
    errors.TurnTimeoutError("t"),
    errors.TurnNotFoundError("t"),
    errors.InvalidOutputError("t", "it is not a palindrome"),
    errors.AgentStoppedError("a", "s", "t"),
    errors.EnvironmentFailedError("a", "no route"),
    InvalidArgumentsError("f", ["`x` is missing", "`y` is not a number"]),
    MCPServerError("m", "is gone"),
    RemoteError("out_of_stock", "none is left"),
    errors.ExportUnusableError("a.jsonl", 3, "it is cut off", stream="session/s", version=2),
    errors.HistoryDiffersError("a.db", "session/s", 2, "it says something else"),
]


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_an_error_that_has_travelled_is_what_it_was(error: ReenactError) -> None:
    told = msgspec.json.decode(msgspec.json.encode(refusal_of(error)), type=CommandError)

    arrived = from_wire(told.code, told.message, told.details)

    assert (type(arrived), arrived.code, str(arrived)) == (type(error), error.code, str(error))
    assert (vars(arrived), arrived.args) == (vars(error), error.args)


def test_there_is_one_of_each() -> None:
    untested = set(kinds(ReenactError)) - {type(error) for error in ONE_OF_EACH}

    assert untested == {
        errors.NotFoundError,
        errors.ImageNotFoundError,
        errors.AgentNotFoundError,
        errors.UnknownCommandError,
    }


def test_an_error_whose_code_is_not_known_keeps_it() -> None:
    error = from_wire("out_of_stock", "none is left", {"left": 0})

    assert (type(error), error.code, str(error)) == (RemoteError, "out_of_stock", "none is left")


@pytest.mark.parametrize("value", [object(), {"a": 1}, float("nan"), "\ud800", 2**64, (1, b"x"), [{}]])
def test_what_cannot_travel_stays_behind(value: Any) -> None:  # noqa: ANN401 - anything
    error = SessionNotFoundError("s")
    error.id = value

    assert details_of(error) == {}


@pytest.mark.parametrize("name", ["args", "code", "__class__", "_x", "", "a b", "with_traceback"])
def test_no_detail_takes_the_place_of_what_an_error_is(name: str) -> None:
    error = from_wire("invalid_input", "no", {name: "changed"})

    assert (type(error), error.code) == (errors.InvalidInputError, "invalid_input")
    assert (error.args, vars(error)) == (("no",), {})


def test_an_error_of_a_users_own_is_known_by_its_own_code_and_else_by_that_of_its_base() -> None:
    class SoldOutError(errors.InvalidInputError):
        code = "sold_out"

    class VerySoldOutError(SoldOutError):
        pass

    assert type(from_wire("sold_out", "no")) is SoldOutError
    assert type(from_wire("invalid_input", "no")) is errors.InvalidInputError
    assert refusal_of(VerySoldOutError("no")).code == "sold_out"
