"""Polls for a condition that other threads bring about, instead of sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_FIRST: Final = 0.0005
_LONGEST: Final = 0.02


def wait_until(condition: Callable[[], T], timeout: float = 60.0, what: str = "a condition") -> T:
    """Wait until the condition is true, and return what it returned; it is looked at again and again.

    Raises:
        AssertionError: it was not true within `timeout` seconds; `what` says what was waited for.
    """
    nothing_happens = threading.Event()
    deadline = time.monotonic() + timeout
    pause = _FIRST
    while True:
        found = condition()
        if found:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(f"waited {timeout:g} seconds for {what}, in vain; it was {found!r} at the end")
        nothing_happens.wait(min(pause, left))
        pause = min(pause * 2, _LONGEST)
