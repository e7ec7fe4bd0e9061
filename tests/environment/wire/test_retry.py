from __future__ import annotations

import pytest

from reenact.actors.environment.failures import LONGEST_WAIT, backoff, may_be_sent_again, requested_wait


@pytest.mark.parametrize(
    ("status", "again"),
    [(400, False), (401, False), (403, False), (404, False), (413, False), (408, True), (409, True), (429, True),
     (500, True), (503, True), (529, True)],
)  # fmt: skip
def test_only_some_refusals_are_worth_another_attempt(status: int, *, again: bool) -> None:
    assert may_be_sent_again(status, {}) is again


def test_the_server_has_the_last_word() -> None:
    assert not may_be_sent_again(529, {"x-should-retry": "false"})
    assert may_be_sent_again(400, {"x-should-retry": "true"})
    assert may_be_sent_again(529, {"x-should-retry": "perhaps"})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": f"Thu, 01 Jan {'9' * 20} 00:00:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_the_server_may_ask_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert requested_wait(headers, now=lambda: 60.0) == seconds


def test_the_wait_doubles_up_to_a_limit() -> None:
    assert [backoff(attempt, None, 0.0) for attempt in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_chance_shortens_the_wait_by_up_to_a_half() -> None:
    assert [backoff(1, None, chance) for chance in (0.0, 0.5, 1.0)] == [1.0, 0.75, 0.5]


def test_what_the_server_asks_for_is_granted_up_to_a_minute() -> None:
    assert backoff(0, 7.0, 1.0) == 7.0
    assert backoff(0, 0.0, 1.0) == 0.25
    assert backoff(0, 86_400.0, 0.0) == LONGEST_WAIT
