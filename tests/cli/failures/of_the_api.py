"""What the API refuses, before it answers and in the middle of its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.cli.failures.rows import ANYTHING, Call, Row, Section, error
from tests.cli.failures.stage import Stage

TRIES: Final = 5
"""How often a request is sent that may be sent again."""
SOME: Final = "This much\n"
_KEY: Final = "the API that ANTHROPIC_BASE_URL names refuses the key in ANTHROPIC_API_KEY: …"
_LATER: Final = "the trouble is on the side of the API, or on the way to it: try again later"
_TOO_MUCH: Final = "more was asked than the account allows for now: try again later"
_AS_IT_IS: Final = (
    "the API does not take the request as it is: see --model, --system-prompt, --tools and ANTHROPIC_BASE_URL"
)
HINTS: Final = {
    "authentication_error": _KEY,
    "permission_error": "the key in ANTHROPIC_API_KEY may not do this: ask for the permission, …",
    "billing_error": "check the account that the key in ANTHROPIC_API_KEY belongs to: …",
    "not_found_error": "is there a model of this name (--model, ANTHROPIC_MODEL), and …",
    "invalid_request_error": _AS_IT_IS,
    "request_too_large": "the conversation is too large for a request: begin a new one, or say less at once",
    "rate_limit_error": _TOO_MUCH,
    "overloaded_error": _LATER,
    "api_error": _LATER,
    "timeout_error": _LATER,
}


def refuses(status: int, kind: str, words: str | None = None) -> Callable[[Stage], Call]:
    """Return what asks an API that refuses with this status, as often as it is asked."""

    def happens(stage: Stage) -> Call:
        for _ in range(TRIES):
            stage.api.error(status, kind, message=stage.words if words is None else words)
        return Call()

    return happens


def stops(kind: str) -> Callable[[Stage], Call]:
    """Return what asks an API that says in the middle of its answer what is wrong."""

    def happens(stage: Stage) -> Call:
        stage.api.reply(deltas=["This much", " and no more"], error_after=3, error_type=kind)
        return Call()

    return happens


def refusal(status: int, kind: str, code: int, *, again: bool = False) -> Row:
    """Return the row of a status."""
    return Row(
        what=f"{status} `{kind}`" + (f", {TRIES} times" if again else ""),
        happens=refuses(status, kind),
        code=code,
        type=kind,
        says=error(ANYTHING, HINTS[kind]),
        asked=True,
        quotes=True,
        requests=TRIES if again else 1,
    )


def stop(kind: str, code: int) -> Row:
    """Return the row of an `error` event in the middle of an answer."""
    return Row(
        what=f"`{kind}` in the middle of the answer",
        happens=stops(kind),
        code=code,
        type=kind,
        says=error(f"injected {kind}", HINTS.get(kind)),
        out=SOME,
        asked=True,
        requests=1,
    )


REFUSALS = Section(
    "The API refuses",
    (
        refusal(401, "authentication_error", 3),
        refusal(403, "permission_error", 3),
        Row(
            what="a key that it does not know",
            happens=lambda stage: Call(variables={"ANTHROPIC_API_KEY": "sk-ant-another-key"}),
            code=3,
            type="authentication_error",
            says=error("invalid x-api-key", _KEY),
            asked=True,
            requests=1,
        ),
        refusal(400, "invalid_request_error", 2),
        refusal(402, "billing_error", 2),
        refusal(404, "not_found_error", 2),
        refusal(413, "request_too_large", 2),
        refusal(422, "invalid_request_error", 2),
        refusal(429, "rate_limit_error", 4, again=True),
        refusal(500, "api_error", 4, again=True),
        refusal(502, "api_error", 4, again=True),
        refusal(503, "api_error", 4, again=True),
        refusal(504, "timeout_error", 4, again=True),
        refusal(529, "overloaded_error", 4, again=True),
        Row(
            what="401 with an unknown type: the status decides",
            happens=refuses(401, "invalid_api_key"),
            code=3,
            type="authentication_error",
            says=error(ANYTHING, _KEY),
            asked=True,
            quotes=True,
            requests=1,
        ),
        Row(
            what="401 with the type of a server that is down: likewise",
            happens=refuses(401, "overloaded_error"),
            code=3,
            type="authentication_error",
            says=error(ANYTHING, _KEY),
            asked=True,
            quotes=True,
            requests=1,
        ),
        Row(
            what="500 with the type of a key that is refused, 5 times: likewise",
            happens=refuses(500, "authentication_error"),
            code=4,
            type="api_error",
            says=error(ANYTHING, _LATER),
            asked=True,
            quotes=True,
            requests=TRIES,
        ),
        Row(
            what="400 with the type of a key that is refused: likewise",
            happens=refuses(400, "authentication_error"),
            code=2,
            type="invalid_request_error",
            says=error(ANYTHING, HINTS["invalid_request_error"]),
            asked=True,
            quotes=True,
            requests=1,
        ),
        Row(
            what="503 with an unknown type, 5 times",
            happens=refuses(503, "down"),
            code=4,
            type="api_error",
            says=error(ANYTHING, _LATER),
            asked=True,
            quotes=True,
            requests=TRIES,
        ),
        stop("overloaded_error", 4),
        stop("api_error", 4),
        stop("rate_limit_error", 4),
        stop("timeout_error", 4),
        stop("authentication_error", 3),
        stop("permission_error", 3),
        stop("invalid_request_error", 2),
        stop("billing_error", 2),
        stop("not_found_error", 2),
        stop("request_too_large", 2),
        stop("something_new", 1),
    ),
)
SECTIONS = (REFUSALS,)
