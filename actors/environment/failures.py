"""Failed requests and drivers: their error types, whether and when a request is sent again, and `error` events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

import msgspec

from reenact.actors.environment.received_json import first_element, is_json_object
from reenact.actors.environment.tools.outcome import error_text
from reenact.domain.errors import ReenactError
from reenact.domain.plain import is_sequence
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
RETRYABLE_STATUS = frozenset({408, 409, 429})
LONGEST_WAIT = 60.0
"""The longest wait, in seconds, for which a `retry-after` is obeyed."""

_FIRST_WAIT = 0.5
_LONGEST_OWN_WAIT = 8.0
_MILLISECONDS = 1000
_TEXT_FIELDS = ("message", "error", "detail", "errors")
"""The fields in which servers put an error's text; the first one that is not empty is used."""


class Fault(Exception):
    """A request failed: why, whether it may be sent again, and how many seconds the server asks to wait.

    Whether it may be sent again follows from the type, unless it is given.
    """

    def __init__(
        self, error_type: str, message: str, *, retryable: bool | None = None, wait: float | None = None
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.retryable = error_type in RETRYABLE if retryable is None else retryable
        self.wait = wait


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


def may_be_sent_again(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a request with this response may be sent again; the header `x-should-retry` takes precedence."""
    verdict = headers.get("x-should-retry")
    if verdict in {"true", "false"}:
        return verdict == "true"
    return status in RETRYABLE_STATUS or status >= _SERVER_ERROR


def requested_wait(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` (seconds or a date) asks to wait, if present."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    import email.utils  # noqa: PLC0415 - loaded where there is a date, which is seldom

    try:
        moment = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - now())


def backoff(attempt: int, asked_for: float | None, chance: float) -> float:
    """Return the seconds to wait before sending a request again that failed for the `attempt`-th time, counted from 0.

    The wait doubles each time, up to a limit, and is shortened by up to a half by `chance` (0 to 1), so that requests
    that failed together are not sent again together. It is never shorter than what the server asked for, up to a
    minute.
    """
    own: float = min(_FIRST_WAIT * 2**attempt, _LONGEST_OWN_WAIT) * (1 - chance / 2)
    return max(own, min(asked_for or 0.0, LONGEST_WAIT))


def error_in(body: object) -> object:
    """Return the error in a body, or in an event: its `error` field, or else all of it."""
    body = first_element(body)
    return (body.get("error") or body) if is_json_object(body) else body


def error_text_in(error: object) -> str:
    """Return the text of an error, wherever it is in it; empty if there is none, as in an HTML page."""
    try:
        return _error_text_in(error)
    except RecursionError:
        return ""


def _error_text_in(error: object) -> str:
    if isinstance(error, str):
        return "" if error.lstrip().startswith("<") else error.strip()
    if is_sequence(error):
        return "; ".join(filter(None, map(_error_text_in, error)))
    said = next(filter(None, map(error.get, _TEXT_FIELDS)), None) if is_json_object(error) else None
    return "" if said is None else _error_text_in(said) or msgspec.json.encode(said).decode()


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None
