"""The table of the relay: requests and replies that nodes have sent and their receivers have not yet taken."""

from __future__ import annotations

from typing import Final

# A request names the receiver of the reply, a reply does not. Each message is stored for milliseconds, so a crash of
# the server may empty the table: it also ends the connections, and callers that wait for a reply get an error. Most
# large messages are compressed already.
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
"""The statements that create it; `{schema}` is replaced by the schema."""
