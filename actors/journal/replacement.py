"""Replaces several rows of a feed by one sealed row, in such a way that no other change can pass as part of it."""

from __future__ import annotations

from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.requests import Replacement
from reenact.actors.journal.store import Store
from reenact.domain.chain import GENESIS
from reenact.domain.errors import LogUnusableError
from reenact.domain.stream.feed import pack_feed, unpack_feed


def replace(store: Store, request: Replacement, codec: EventCodec) -> Exception | None:
    """Replace the rows in the store's open transaction, or return why they stay.

    The last of the rows stays, with its digest, its events and what is derived from these, and replaces the others,
    which have no events. So the next row still follows it, and the end of the stream is unchanged.
    """
    topic, first_cursor, last_cursor = request.topic, request.first_cursor, request.last_cursor
    rows = list(store.rows(topic, first_cursor, last_cursor))
    begin = next((index for index, row in enumerate(rows) if row.heard and row.cursor == first_cursor), len(rows))
    run = rows[begin:]
    if not run or run[-1].cursor + run[-1].heard - 1 != last_cursor or any(row.count for row in run[:-1]):
        return ValueError(f"no rows of the feed of {topic!r} hold exactly the cursors {first_cursor} to {last_cursor}")
    previous, expected = GENESIS, 1
    if rows[0].cursor < first_cursor:
        previous, expected = rows[0].digest, rows[0].cursor + rows[0].heard
        rows, begin = rows[1:], begin - 1
    digests = [previous, *(row.digest for row in rows)]
    for row, before in zip(rows, digests, strict=False):
        is_missing = row.cursor != expected
        if is_missing or not row.follows(before):  # once sealed, the change would go unnoticed
            problem = f"cursor {expected} is missing" if is_missing else "the row or the one before it was changed"
            message = f"{store.name}: the feed of {topic!r} is damaged at cursor {row.cursor} ({problem})"
            return LogUnusableError(f"{message}; restore a copy of the log")
        expected += row.heard
    *gone, last = run
    try:
        events = None if last.events is None else codec.opened_events(last.events)
        part = unpack_feed(codec.opened(last.feed or b""), topic, events)
    except ValueError as error:
        message = f"{store.name}: row {last.cursor} of the feed of {topic!r} cannot be decoded ({error})"
        return LogUnusableError(f"{message}; restore a copy of the log")
    feed = pack_feed(request.segments, part.version, part.needs)
    if last.key is not None and codec.vault is not None:
        feed = codec.vault.seal(topic, feed)
    sealed = last.replaced(
        digests[len(rows) - 1],
        behind=digests[begin],
        cause=last.cause,
        events=last.events,
        feed=feed,
        cursor=first_cursor,
        heard=last_cursor - first_cursor + 1,
    )
    store.replace(gone, sealed)
    return None
