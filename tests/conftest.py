"""What holds for every test: it stops what it started, and chance repeats itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pykka
import pytest
from hypothesis import HealthCheck, settings

LEAVE_TIME = 2.0
"""Seconds that a thread may take to end after it was told to."""

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None, max_examples=100)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2_000,
    stateful_step_count=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Fail the test that leaves an actor registered or a thread alive, and name what it left."""
    threads_before = set(threading.enumerate())
    actors_before = set(pykka.ActorRegistry.get_all())

    yield

    actors = [actor for actor in pykka.ActorRegistry.get_all() if actor not in actors_before]
    for actor in actors:
        actor.stop(block=True, timeout=LEAVE_TIME)
    threads = _still_alive_after(LEAVE_TIME, set(threading.enumerate()) - threads_before)
    assert not actors, f"actors left registered: {sorted(str(actor) for actor in actors)}"
    assert not threads, f"threads left alive: {sorted(thread.name for thread in threads)}"


def _still_alive_after(seconds: float, threads: set[threading.Thread]) -> list[threading.Thread]:
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in threads if thread.is_alive()]
