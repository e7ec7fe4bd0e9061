"""What drivers report waits while the log commits, but for the end of an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from reenact.actors.environment.driver_runner import Reports
from reenact.actors.environment.failures import is_about_length
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.stream.events import ContextCompressed, MessageStop, StreamError, TextDelta
from tests.environment.support import PATIENCE
from tests.kernel.test_event_loop import on


class Told:
    """A receptor that only takes note of what it is told."""

    def __init__(self) -> None:
        self.of: list[Reports] = []

    def tell(self, message: Reports) -> None:
        self.of.append(message)


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    loop = EventLoopThread()
    yield loop
    loop.close()


def report(loop: EventLoopThread, *calls: Callable[[], object]) -> None:
    """Make the calls on the loop, as a driver does."""
    for call in calls:
        on(loop, call)


def test_deltas_wait_for_the_commit_and_are_told_of_together(loop: EventLoopThread) -> None:
    receptor = Told()
    reports = Reports("trn_1", receptor.tell, loop)
    deltas = [TextDelta(text=text) for text in "abc"]
    on(loop, loop.commit_begins)

    report(loop, *(lambda delta=delta: reports(delta) for delta in deltas))
    assert receptor.of == []
    over = threading.Event()
    loop.call_between_commits(over.set)
    loop.commit_is_over()

    assert over.wait(PATIENCE)
    assert receptor.of == [reports]
    assert reports.take() == deltas


@pytest.mark.parametrize("end", [MessageStop(), StreamError(type="api_error", message="no", retryable=False)])
def test_the_end_of_an_answer_does_not_wait(loop: EventLoopThread, end: MessageStop | StreamError) -> None:
    receptor = Told()
    reports = Reports("trn_1", receptor.tell, loop)
    on(loop, loop.commit_begins)

    report(loop, lambda: reports(TextDelta(text="a")), lambda: reports(end))

    assert receptor.of == [reports]
    assert reports.take() == [TextDelta(text="a"), end]
    over = threading.Event()
    loop.call_between_commits(over.set)
    loop.commit_is_over()
    assert over.wait(PATIENCE)
    assert reports.take() == []


def test_what_is_reported_after_the_loop_is_closed_is_told_to_nobody_who_waits_for_a_commit() -> None:
    loop, receptor = EventLoopThread(), Told()
    reports = Reports("trn_1", receptor.tell, loop)
    on(loop, loop.commit_begins)
    loop.close()

    reports(TextDelta(text="a"))

    assert receptor.of == []


TOO_LONG = StreamError(type="invalid_request_error", message="prompt is too long: 9 tokens > 8 maximum")


def test_that_the_conversation_is_too_long_is_kept_back_until_an_answer_has_begun(loop: EventLoopThread) -> None:
    receptor = Told()
    reports = Reports("trn_1", receptor.tell, loop)

    reports.may_be_shortened = True
    report(loop, lambda: reports(ContextCompressed(summary="s", kept=1)))
    reports.may_be_shortened = True
    report(loop, lambda: reports(TOO_LONG))
    assert (reports.too_long, reports.ended, len(reports.take())) == (TOO_LONG, False, 1)

    report(loop, lambda: reports(TextDelta(text="a")), lambda: reports(TOO_LONG))
    assert (reports.ended, reports.take()) == (True, [TextDelta(text="a"), TOO_LONG])


@pytest.mark.parametrize(
    "message",
    [
        "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000",
        "Input is too long for requested model.",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "Your input exceeds the context window of this model.",
        "the request exceeds the available context size, try increasing it",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 143000 tokens.",
    ],
)
def test_the_words_of_each_api_for_a_conversation_that_is_too_long_are_known(message: str) -> None:
    assert is_about_length(StreamError(type="invalid_request_error", message=message))
    assert not is_about_length(StreamError(type="overloaded_error", message=message, retryable=True))


@pytest.mark.parametrize("message", ["max_tokens: 99 > 64", "messages.0: text is blank", "invalid x-api-key"])
def test_other_refusals_are_not_about_the_length(message: str) -> None:
    assert not is_about_length(StreamError(type="invalid_request_error", message=message))
