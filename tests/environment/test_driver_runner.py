"""What drivers report waits while the log commits, but for the end of an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from reenact.actors.environment.driver_runner import Reports
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.stream.events import MessageStop, StreamError, TextDelta
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
