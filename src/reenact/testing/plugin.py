"""Fixtures for pytest. Every test run loads this module, so it imports almost nothing until a fixture is used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import reenact
from reenact import testing

LEAVE_TIME = 5.0
"""Seconds that a thread may take to end when its system is closed."""


@pytest.fixture
def manual_clock() -> testing.ManualClock:
    """A clock that advances only when the test says so."""
    return testing.ManualClock()


@pytest.fixture
def sequential_ids() -> testing.SequentialIds:
    """Predictable ids: `prefix_0001`, and so on."""
    return testing.SequentialIds()


@pytest.fixture
def actor_system(manual_clock: testing.ManualClock) -> Iterator[reenact.ActorSystem]:
    """A system on a log of its own and the `manual_clock`; the test fails if it leaves actors or threads behind."""
    with _nothing_left(), reenact.ActorSystem.in_memory(clock=manual_clock) as system:
        yield system


@pytest.fixture
def faulty_journal() -> Iterator[testing.FaultyJournal]:
    """A journal on a log of its own that can be told to fail, for an `ActorSystem(journal, codec=journal.codec)`."""
    from reenact.actors.journal.codec import EventCodec  # noqa: PLC0415 - see above
    from reenact.actors.journal.opening import open_journal, private_directory  # noqa: PLC0415 - see above

    with ExitStack() as undo:
        path = private_directory(undo) / "log.db"
        yield undo.enter_context(testing.FaultyJournal(open_journal(path, EventCodec(()), synchronous="OFF")))


@pytest.fixture
def kit_for() -> Generator[Callable[..., testing.EventSourcedTestKit[object, object, object]]]:
    """Makes kits that are closed at the end of the test; has the parameters of `EventSourcedTestKit`."""
    with ExitStack() as undo:
        yield lambda *args, **kwargs: undo.enter_context(testing.EventSourcedTestKit(*args, **kwargs))


@pytest.fixture(scope="session")
def crash_test() -> Iterator[testing.CrashTest]:
    """Runs programs in processes of their own that are killed; shared by all tests of a run."""
    with testing.CrashTest() as crashes:
        yield crashes


@contextmanager
def _nothing_left() -> Generator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + LEAVE_TIME
    new = [thread for thread in threading.enumerate() if thread not in before and thread.name.startswith("reenact-")]
    for thread in new:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = sorted(thread.name for thread in new if thread.is_alive())
    if left:
        pytest.fail(f"threads are left although their system is closed: {', '.join(left)}")
