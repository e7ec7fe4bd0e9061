"""What to do about a failure: words for whoever called the command, by the type of the failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reenact.cli.settings import given

_KEY: Final = "ANTHROPIC_API_KEY"
_URL: Final = "ANTHROPIC_BASE_URL"
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
_LATER: Final = "the trouble is on the side of the API, or on the way to it: try again later"
_HINTS: Final = {
    "authentication_error": "{where} refuses the key in {key}: is it whole, still valid, and one for this address?",
    "permission_error": "the key in {key} may not do this: ask for the permission, or choose another --model",
    "billing_error": "see to the account that the key in {key} belongs to: its credit, or its plan",
    "not_found_error": "is there a model of this name (--model, ANTHROPIC_MODEL), and is it asked for at {where}?",
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
    "storage_error": "see whether the disk that the log is on is full, or fails",
    "session_not_found": "`reenact sessions` lists those that there are",
    "api_connection_error": "see to the network, and to {variables}",
}


def hint_of(error_type: str, environ: Mapping[str, str]) -> str | None:
    """Return what may help against a failure of this type; None if its message says all there is to say."""
    hint = _HINTS.get(error_type)
    if hint is None:
        return None
    where = f"the API that {_URL} names" if given(environ, _URL) else "the API"
    set_ones = [name for name in (_URL, *_PROXIES) if given(environ, name)]
    return hint.format(key=_KEY, url=_URL, where=where, variables=", ".join(set_ones) or _URL)
