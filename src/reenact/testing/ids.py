"""Ids that a test can foresee."""

from __future__ import annotations

import threading
from collections import Counter


class SequentialIds:
    """Makes `prefix_0001`, `prefix_0002` and so on, counted for each prefix; to be given to `Runtime.open(ids=...)`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: Counter[str] = Counter()

    def __call__(self, prefix: str) -> str:
        """Return the next id with this prefix."""
        with self._lock:
            self._made[prefix] += 1
            return f"{prefix}_{self._made[prefix]:04d}"
