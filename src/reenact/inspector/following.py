"""The feed of a log that is only read: events that other processes write are delivered to subscribers here."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping

from reenact.actors.feed.hub import Feed
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.kernel.timetable import microseconds
from reenact.domain.errors import InvalidInputError, RuntimeClosedError
from reenact.domain.operations.table import Response
from reenact.domain.stream.events import Envelope

LOOK = 0.05
"""Seconds between two reads of the log while a session is followed."""
REST = 1.0
"""Seconds between two reads while the log cannot be read."""
_logger = logging.getLogger("reenact.inspector")


class FeedOnly:
    """A feed without a runtime: requests are refused, because pages act by their forms alone."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed

    def request(self, type: str, data: Mapping[str, object], timeout: float | None) -> Envelope[Response]:  # noqa: A002 - as a runtime has it
        """Refuse the request.

        Raises:
            InvalidInputError: always.
        """
        raise InvalidInputError(f"{type!r} cannot be carried out here: this server only reads the log")


class ReadOnlyLog:
    """A log that is only read, and its feed, which reads published events from the log. Thread-safe.

    A thread checks the ends of the followed sessions, and lets their subscribers read up to there.
    """

    def __init__(self, log: StoredJournal) -> None:
        """Set the log, which the caller has to close after this."""
        self._log = log
        self.feed = Feed(log, new_id=_new_id, now=microseconds)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reenact-inspector-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following the log. Idempotent."""
        self._ending.set()
        self._thread.join()
        self.feed.close()

    def advance(self) -> None:
        """Check once for new events of the followed sessions.

        Raises:
            StorageError: the log cannot be read.
        """
        for topic in self.feed.topics:
            end = self._log.feed_end(topic.name)
            if end > topic.end:
                self.feed.advance_to(topic.name, topic.end + 1, end)

    def _run(self) -> None:
        is_failing = False
        while not self._ending.wait(REST if is_failing else LOOK):
            try:
                self.advance()
            except RuntimeClosedError:
                return
            except Exception:
                if not is_failing:
                    _logger.exception("the log cannot be read now; it is tried again")
                is_failing = True
            else:
                is_failing = False


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
