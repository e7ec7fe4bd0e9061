"""Telling hooks of what happens in a conversation, for as long as the person and the time that there is allow."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from reenact.cli.failures import INTERRUPTED, Problem, timed_out
from reenact.cli.interrupts import interrupting
from reenact.extensions.firing import Hooks
from reenact.extensions.verdicts import Verdict

_LOOK_AROUND: Final = 0.2
"""Seconds after which to wake up: a signal that comes just before somebody begins to wait does not end the wait."""


class Patience:
    """The seconds that are left of `--timeout`, None if there is no end to them."""

    def __init__(self, seconds: float | None) -> None:
        self._all = seconds
        self._spent = 0.0

    @property
    def left(self) -> float | None:
        """How many are left."""
        return None if self._all is None else max(0.0, self._all - self._spent)

    def spend(self, seconds: float) -> None:
        """Take away so many."""
        self._spent += seconds

    def over(self) -> Problem:
        """Return the problem that none are left."""
        return timed_out(self._all or 0.0)


def tell(
    hooks: Hooks, event: str, session_id: str, *, about: str = "", facts: Mapping[str, Any], patience: Patience
) -> Verdict | Problem:
    """Return what the hooks make of the event, or why they were ended before: Ctrl+C, or there was no time left.

    They are told on another thread, so that a request to end is obeyed here at once, and none begins unseen.
    """
    if not hooks.listen_to(event):
        return Verdict()
    stop = threading.Event()
    told: Future[Verdict] = Future()

    def fire() -> None:
        try:
            told.set_result(hooks.fire(event, session_id, about=about, facts=facts, stop=stop))
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            told.set_exception(error)

    try:
        with interrupting(stop.set):
            threading.Thread(target=fire, name=f"reenact-hooks-{event}", daemon=True).start()
            verdict = _awaited(told, patience.left)
        if verdict is None:
            return patience.over()
        return INTERRUPTED if stop.is_set() else verdict
    finally:
        stop.set()


def _awaited(told: Future[Verdict], seconds: float | None) -> Verdict | None:
    """Return what the hooks say, None if they take longer."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _LOOK_AROUND if deadline is None else min(_LOOK_AROUND, deadline - time.monotonic())
        try:
            return told.result(max(0.0, left))
        except TimeoutError:
            if deadline is not None and time.monotonic() >= deadline:
                return None
