"""A client that asks while nodes come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from reenact.client.runtime import RemoteRuntime
from reenact.testing import wait_until

PATIENCE = 120.0


class Asking:
    """Asks one question after the other, on a thread, until it is told to end."""

    def __init__(self, connect: Callable[[], RemoteRuntime]) -> None:
        self.asked: list[str] = []
        self.failure: Exception | None = None
        self.messages: list[str] = []
        self._connect = connect
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asking")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join()

    def go_on(self) -> None:
        """Return when some questions more have been answered, or asking has failed."""
        until = len(self.asked) + 5
        wait_until(lambda: len(self.asked) >= until or self.failure is not None, PATIENCE, "answers")

    def check(self) -> None:
        """Check that each question was answered, and that the conversation has each of them once, in order."""
        if self.failure is not None:
            raise self.failure
        assert self.messages == ["first", *self.asked]

    def _run(self) -> None:
        try:
            with self._connect() as remote:
                session = remote.ask("first").session_id
                while not self._ends.is_set():
                    question = f"question {len(self.asked)}"
                    assert remote.ask(question, session=session, timeout=PATIENCE).outcome == "completed"
                    self.asked.append(question)
                self.messages = [each.text for each in remote.sessions.messages(session) if each.role == "user"]
        except Exception as error:  # noqa: BLE001 - the test raises it
            self.failure = error
