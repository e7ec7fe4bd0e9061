"""What is small arrives at once."""

from __future__ import annotations

import time

from reenact.server import Server
from tests.reliability.wire import Wire


def test_no_frame_waits_for_the_one_before_to_be_confirmed(agent: str, server: Server) -> None:
    waited: list[float] = []

    with Wire(server.url) as wire:
        for number in range(300):
            wire.subscribe("s", after=0, name=f"{number}")
            begun = time.monotonic()
            wire.read("session_created", name=f"{number}")
            waited.append(time.monotonic() - begun)
            if number >= 30 and min(waited) < 0.03:
                break

    assert min(waited) < 0.03, "40 ms is what a system delays the confirmation of what it has received"
