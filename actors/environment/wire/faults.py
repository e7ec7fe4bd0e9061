"""Failed requests: whether they are sent again, when, and the error's text."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Mapping

import msgspec

from reenact.actors.environment.received_json import first_element, is_json_object
from reenact.actors.environment.wire.stream import ERROR
from reenact.domain.plain import is_sequence

RETRYABLE_STATUS = frozenset({408, 409, 429})
LONGEST_WAIT = 60.0
"""The longest wait, in seconds, for which a `retry-after` is obeyed."""

_FIRST_WAIT = 0.5
_LONGEST_OWN_WAIT = 8.0
_SERVER_ERROR = 500
_MILLISECONDS = 1000
_TEXT_FIELDS = ("message", ERROR, "detail", "errors")
"""The fields in which servers put an error's text; the first one that is not empty is used."""


class Fault(Exception):
    """A request failed: why, whether it may be sent again, and how many seconds the server asks to wait."""

    def __init__(self, error_type: str, message: str, *, retryable: bool, wait: float | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.retryable = retryable
        self.wait = wait


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
    return (body.get(ERROR) or body) if is_json_object(body) else body


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
