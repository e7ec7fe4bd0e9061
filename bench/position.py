"""Appends with hand-written SQL, which only locks the row with the log's position, as ours does.

The order `{"append": {"seconds": N, "rows": N, "bytes": N}}` lets it append that many rows of that many bytes
repeatedly for N seconds; it returns the number of appends.
"""

from __future__ import annotations

import os
import time
from typing import Final

from bench.children import given, order, report
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect

MADE: Final = """
    CREATE TABLE {schema}.bare_log AS SELECT number, position FROM {schema}.log;
    CREATE TABLE {schema}.bare_steps (LIKE {schema}.steps INCLUDING ALL);
    CREATE FUNCTION {schema}.append_by_hand(name text, rows integer, payload bytea) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        last bigint;
    BEGIN
        SELECT number INTO last FROM {schema}.bare_log FOR UPDATE;
        INSERT INTO {schema}.bare_steps (
            number, stream, recorded_at, version, position, count, cursor, heard, digest, feed
        )
        SELECT last + place, name, 0, last + place, last + place, 1, 1, 1, payload, payload
            FROM generate_series(1, rows) AS place;
        UPDATE {schema}.bare_log SET number = number + rows, position = position + rows;
    END
    $$
"""
"""Makes its tables beside those of a log, and the function that appends."""


def main(url: str) -> None:
    """Carry out orders until standard input ends."""
    address = address_of(url)
    append = f"SELECT {address.schema}.append_by_hand(%s, %s, %s)".encode()
    with connect(address) as connection:
        report(ready=True)
        while (told := order()) is not None:
            how = told["append"]
            parameters = f"process/{os.getpid()}", how["rows"], bytes(how["bytes"])
            commits, over = 0, time.monotonic() + how["seconds"]
            while time.monotonic() < over:
                connection.execute(append, parameters)
                commits += 1
            report(commits=commits)


if __name__ == "__main__":
    main(**given())
