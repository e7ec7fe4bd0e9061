"""A node in a process of its own that writes to its shards for as long as it lives: `node_program.py URL NAME LEASE`.

It writes with the epoch it knows of even when it is not to take commands any more: the check of epochs alone must do.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection

import psycopg

from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect
from reenact.actors.nodes.ownership import Ownership
from reenact.actors.nodes.protocol import Epochs, Timing

WRITE = """
    BEGIN; SELECT {schema}.check_epochs('{owner}', ARRAY[{shard}], ARRAY[{epoch}::bigint]);
    INSERT INTO {schema}.written (shard, epoch, owner) VALUES ({shard}, {epoch}, '{owner}'); COMMIT
"""


class Tenant:
    """Leaves at once, and does not ask why."""

    def claimed(self, epochs: Epochs, given_back: Collection[int]) -> None:
        """Take them."""

    def leaving(self, shards: Collection[int], left: Callable[[int], None]) -> None:
        for shard in shards:
            left(shard)

    def lost(self, shards: Collection[int]) -> None:
        """Go on without them."""


def main(url: str, name: str, lease: float) -> None:
    node = Ownership(url, Tenant(), address=name, timing=Timing(lease=lease, tick=0.1))
    address = address_of(url)
    pause = threading.Event()
    connection = None
    while True:
        for shard in list(node.node.held):
            epoch = node.node.epoch_of(shard)
            if epoch is None:
                continue
            try:
                connection = connection or connect(address)
                connection.execute(
                    WRITE.format(schema=address.schema, owner=node.node.id, shard=shard, epoch=epoch).encode()
                )
                print(shard, epoch, node.node.id, flush=True)  # noqa: T201 - what was acknowledged
            except psycopg.errors.CheckViolation:
                assert connection is not None
                connection.execute("ROLLBACK")
            except psycopg.OperationalError:
                if connection is not None:
                    connection.close()
                connection = None
        pause.wait(0.02)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
