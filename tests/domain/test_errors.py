"""Errors carry a stable code and the values that a caller acts on."""

from __future__ import annotations

from collections.abc import Iterator

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
    NotFoundError,
    ReenactError,
    RequestTimeoutError,
    SessionNotFoundError,
    StaleApprovalError,
    StorageError,
    StorageFullError,
    UnknownScenarioError,
)


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
    assert (unknown.name, unknown.known, "a, b" in str(unknown)) == ("x", ("a", "b"), True)
    assert (conflict.stream, conflict.expected, conflict.actual) == ("session/s", 1, 2)
    assert "session 's'" in str(exists)


def test_errors_about_calls_name_the_call_and_what_to_do() -> None:
    settled, stale = CallNotPendingError("a"), StaleApprovalError("b", "the policies have changed")

    assert (settled.call_id, settled.code, isinstance(settled, LookupError)) == ("a", "call_not_pending", True)
    assert str(settled) == (
        "call 'a' cannot be decided like that: it was decided already, or never asked for; see what is pending"
    )
    assert (stale.call_id, stale.code) == ("b", "stale_approval")
    assert str(stale) == "the approval of call 'b' does not hold: the policies have changed; look at the call again"


def test_a_full_mailbox_says_how_much_it_holds() -> None:
    full = MailboxFullError(7)

    assert (full.limit, str(full).startswith("7 messages wait already")) == (7, True)
