"""A server whose mock answers out of a tap, told what to do line by line. Its arguments are LOG PORT RECOVERY."""

from __future__ import annotations

import sys

from reenact import Image, Runtime
from reenact.server import Server
from tests.reliability.tap import Tap, TapFactory


def main(log: str, port: int, recovery: str) -> None:
    """Serve until standard input ends."""
    tap = Tap()
    with Runtime.open(
        log,
        environment=TapFactory(tap),
        recovery="resume" if recovery == "resume" else "close",
        synchronous="OFF",
        default_image=Image(id="i"),
    ) as runtime:
        if runtime.containers.get("c") is None:
            runtime.containers.create(container_id="c")
        with Server(runtime, port=port) as server:
            sys.stdout.write(f"listening on {server.url}\n")
            sys.stdout.flush()
            for line in sys.stdin:
                match line.split():
                    case ["allow", count]:
                        tap.allow(int(count))
                    case ["open"]:
                        tap.open()
                    case ["shut"]:
                        tap.shut()
                    case words:
                        raise ValueError(f"what is {words}?")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
