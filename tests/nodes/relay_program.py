"""A node in a process of its own that answers each request with its body: `relay_program.py URL NODE_ID`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from reenact.actors.nodes.relay import Relay


def echo(body: bytes, reply: Callable[[bytes], None]) -> None:
    reply(body)


def main(url: str, node_id: str) -> None:
    relay = Relay(url, node_id, echo)
    print("ready", flush=True)  # noqa: T201 - the test waits for it
    sys.stdin.read()
    relay.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
