"""Work done in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable


def at_once(work: Callable[[int], object], threads: int) -> None:
    """Do the work in several threads, each with its number; raise what one of them raises."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:  # noqa: BLE001 - raised below
            failures.append(failure)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for failure in failures:
        raise failure
