"""The table of the relay: requests and replies that nodes have sent and their receivers have not taken yet."""

from __future__ import annotations

from typing import Final

# A request names who is to have the reply, a reply names nobody. Each message stands here for milliseconds, so a crash
# of the server may empty the table: it ends the connections, too, and whoever waits for a reply is told of that.
# Most of the large ones are compressed already.
RELAY_TABLES: Final = (
    """
    CREATE UNLOGGED TABLE {schema}.messages (
        recipient text COLLATE "C" NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        request bigint NOT NULL,
        reply_to text COLLATE "C",
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        body bytea NOT NULL,
        PRIMARY KEY (recipient, number)
    )
    """,
    "ALTER TABLE {schema}.messages ALTER COLUMN body SET STORAGE EXTERNAL",
)
"""What makes it, in the schema that is put in."""
