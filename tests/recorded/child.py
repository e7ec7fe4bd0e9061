"""A process that records a mock for as long as it lives, and prints a line for each turn that has come to its end."""

from __future__ import annotations

import sys
import threading

from reenact import Image, Runtime
from reenact.testing import MockEnvironmentFactory, RecordedEnvironment


def talk(recording: str) -> None:
    environment = RecordedEnvironment.record(recording, MockEnvironmentFactory("long-stream", delays=False))
    with Runtime.in_memory(environment=environment) as runtime:
        done = threading.Semaphore(0)
        runtime.events.on("turn_completed", lambda _: done.release())
        runtime.images.register(Image(id="i"))
        number = 0
        while True:
            number += 1
            runtime.request("message_send_request", {"image_id": "i", "content": f"question {number}"})
            done.acquire()
            print(number, flush=True)  # noqa: T201 - what the test waits for


if __name__ == "__main__":
    talk(sys.argv[1])
