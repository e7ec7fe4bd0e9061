"""A client that writes down what it gets and acknowledges now and then, to be killed. Its arguments: URL FILE EVERY.

Each event is a line of the file, as JSON. It says `done` at the end of a turn.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from reenact import Runtime


def main(url: str, file: Path, every: int) -> None:
    """Follow the session `s` until it is killed."""
    with (
        Runtime.connect(url) as runtime,
        runtime.events.subscribe("s", "follower") as subscription,
        file.open("ab", buffering=0) as lines,
    ):
        for number, event in enumerate(subscription, start=1):
            lines.write(msgspec.json.encode(event) + b"\n")
            if number % every == 0:
                subscription.ack()
            if event.type == "turn_completed":
                sys.stdout.write("done\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
