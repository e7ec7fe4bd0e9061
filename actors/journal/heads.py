"""Where each stream and each topic ends: remembered for those written last, read from the log for the others."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import TypeAlias

from reenact.actors.journal.chain import FEED_GENESIS, STREAM_GENESIS

Head: TypeAlias = tuple[int, bytes]
"""The last version of a stream, or the last cursor of a topic, and the digest of the record that holds it."""

_LAST_EVENT = """
    SELECT originator_version, digest FROM stored_events
    WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1
"""
_LAST_ROW = """
    SELECT first_cursor + count - 1, digest FROM feed
    WHERE topic = ? ORDER BY first_cursor DESC LIMIT 1
"""


class Heads:
    """The ends of all streams and topics, as they are within the open transaction of the writer's connection."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        """Remember up to `limit` streams and as many topics."""
        self._connection = connection
        self._limit = limit
        self._streams: OrderedDict[str, Head] = OrderedDict()
        self._topics: OrderedDict[str, Head] = OrderedDict()

    def stream(self, stream: str) -> Head:
        """Return the version and the digest at the end of the stream."""
        head = self._streams.get(stream)
        if head is None:
            head = self._streams[stream] = self._read(_LAST_EVENT, stream) or (0, STREAM_GENESIS)
        else:
            self._streams.move_to_end(stream)
        return head

    def topic(self, topic: str) -> Head:
        """Return the cursor and the digest at the end of the topic's feed."""
        head = self._topics.get(topic)
        if head is None:
            head = self._topics[topic] = self._read(_LAST_ROW, topic) or (0, FEED_GENESIS)
        else:
            self._topics.move_to_end(topic)
        return head

    def move_stream(self, stream: str, version: int, digest: bytes) -> None:
        """Remember that the stream now ends there."""
        self._streams[stream] = (version, digest)

    def move_topic(self, topic: str, cursor: int, digest: bytes) -> None:
        """Remember that the topic's feed now ends there."""
        self._topics[topic] = (cursor, digest)

    def forget(self) -> None:
        """Trust nothing that is remembered: a transaction was rolled back."""
        self._streams.clear()
        self._topics.clear()

    def trim(self) -> None:
        """Forget what was used least recently, down to the limit; only between transactions."""
        for heads in (self._streams, self._topics):
            while len(heads) > self._limit:
                heads.popitem(last=False)

    def _read(self, query: str, name: str) -> Head | None:
        head: Head | None = self._connection.execute(query, (name,)).fetchone()
        return head
