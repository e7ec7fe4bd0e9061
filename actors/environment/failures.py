"""Makes `error` events of failures outside, with the error types of the Messages API."""

from __future__ import annotations

import re

from reenact.actors.environment.tools.outcome import error_text
from reenact.domain.errors import ReenactError
from reenact.domain.stream.events import Envelope, StreamData, StreamError, ToolResult, ToolStarted

RETRYABLE = frozenset(
    {
        "rate_limit_error",
        "rate_limit_exceeded",
        "overloaded_error",
        "api_error",
        "timeout_error",
        "api_connection_error",
        "incomplete_stream",
    }
)
"""The error types of failures that may not occur again when the same message is sent again."""

_TYPES_BY_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_TOO_LONG = re.compile(
    r"(?:prompt|input) is too long|context (?:length|window|size|limit)|maximum prompt length|input token count"
    r"|reduce the length",
    re.IGNORECASE,
)
"""The words of various APIs for a conversation that is longer than the model's context window."""
_KNOWN = RETRYABLE | frozenset(_TYPES_BY_STATUS.values())
_KEY_ERRORS = frozenset({"authentication_error", "permission_error"})
_SERVER_ERROR = 500
_LONGEST_MESSAGE = 2000
_LIBRARIES = frozenset({"anthropic", "openai", "httpx", "httpx2"})


def failure(error_type: str, message: str, *, retryable: bool | None = None) -> StreamError:
    """Return the `error` event of that type; whether it is retryable follows from the type, unless it is given."""
    if retryable is None:
        retryable = error_type in RETRYABLE
    return StreamError(type=error_type, message=message[:_LONGEST_MESSAGE], retryable=retryable)


def type_of_refusal(said: str | None, status: int) -> str:
    """Return a refused request's error type: the body's if it is of the same kind as the status's, else that.

    So an invalid key is not mistaken for a server that is down, whatever a gateway writes into the body.
    """
    by_status = _TYPES_BY_STATUS.get(status, "api_error" if status >= _SERVER_ERROR else "invalid_request_error")
    return said if said in _KNOWN and _kind_of(said) == _kind_of(by_status) else by_status


def is_about_length(error: StreamError) -> bool:
    """Return whether the API has refused the conversation because it is too long; only the error's text says so."""
    return not error.retryable and bool(_TOO_LONG.search(error.message))


def _kind_of(error_type: str) -> str:
    if error_type in RETRYABLE:
        return "network"
    return "authentication" if error_type in _KEY_ERRORS else "request"


def failure_of(error: BaseException) -> StreamError:
    """Return the `error` event for an exception of a driver."""
    return failure(type_of(error), error_text(error).encode(errors="backslashreplace").decode())


def is_mistake(error: BaseException) -> bool:
    """Return whether this is a programming error: neither an error of an API or a network nor one of Reenact's own."""
    return not isinstance(error, ReenactError) and type_of(error) == "driver_error"


def failure_of_handler(heard: Envelope, error: BaseException) -> StreamData:
    """Return the event to emit when an effector raises: the tool call fails if it was for one, else the turn does."""
    message = f"the environment failed on {heard.type}: {error_text(error)}".encode(errors="backslashreplace").decode()
    if isinstance(heard.data, ToolStarted):
        return ToolResult(id=heard.data.id, name=heard.data.name, result=message, is_error=True)
    return StreamError(type="environment_error", message=message)


def type_of(error: BaseException) -> str:
    """Return the error type of an exception of an SDK, its HTTP library, or the system."""
    # Compared by name: a library that is not loaded has raised nothing, and SDKs may change their HTTP library.
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in _LIBRARIES}
    if "APIStatusError" in kinds:
        return type_of_refusal(getattr(error, "type", None), getattr(error, "status_code", _SERVER_ERROR))
    if isinstance(error, TimeoutError) or kinds & {"APITimeoutError", "TimeoutException"}:
        return "timeout_error"
    if isinstance(error, ConnectionError) or kinds & {"APIConnectionError", "TransportError"}:
        return "api_connection_error"
    return "api_error" if "DecodingError" in kinds else "driver_error"
