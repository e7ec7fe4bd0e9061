"""One row in place of several in a topic's feed: whatever it leaves out, no other change can hide behind it."""

from __future__ import annotations

from reenact.actors.journal.chain import FEED_GENESIS, seal_digest
from reenact.actors.journal.feed_walk import check_feed
from reenact.actors.journal.requests import Replacement
from reenact.actors.journal.store import Store
from reenact.domain.errors import LogUnusableError


def replace(store: Store, request: Replacement) -> Exception | None:
    """Replace the rows in the store's open transaction, or return why they stay.

    The new row keeps the digest of the last one of them, so that the row behind it still follows it. Where the topic
    ends stays the same, too.
    """
    topic, first_cursor, last_cursor = request.topic, request.first_cursor, request.last_cursor
    rows = list(store.feed_rows(topic, first_cursor, last_cursor))
    previous, expected = FEED_GENESIS, 1
    if rows and rows[0][0] < first_cursor:
        begin, count, _, previous, _ = rows.pop(0)
        expected = begin + count
    if not rows or rows[0][0] != first_cursor or rows[-1][0] + rows[-1][1] - 1 != last_cursor:
        return ValueError(f"no rows of the feed of {topic!r} hold exactly the cursors {first_cursor} to {last_cursor}")
    name = topic.encode()
    finding = check_feed(name, ((name, *row) for row in rows), previous=previous, expected=expected)
    if finding is not None:
        # Sealed, it would pass as what was written.
        message = f"{store.name}: the feed of {topic!r} is damaged at cursor {finding.at} ({finding.problem})"
        return LogUnusableError(f"{message}; restore a copy of the log")
    last_row, _, _, digest, _ = rows[-1]
    count = last_cursor - first_cursor + 1
    sealed = seal_digest(previous, name, first_cursor, count, request.segments, digest=digest)
    store.replace_rows(topic, first_cursor, last_row, count=count, segments=request.segments, sealed=sealed)
    return None
