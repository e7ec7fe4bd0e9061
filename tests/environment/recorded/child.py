"""A program that records a mock for as long as it lives, and tells of each turn that has come to its end."""

from __future__ import annotations

import threading

from reenact import Image, Runtime
from reenact.testing import MockEnvironmentFactory, RecordedEnvironment, Reporter


def record_on(reporter: Reporter, recording: str, log: str) -> None:
    environment = RecordedEnvironment.record(recording, MockEnvironmentFactory("long-stream", delays=False))
    with Runtime.open(log, environment=environment, synchronous="OFF") as runtime:
        done = threading.Semaphore(0)
        runtime.events.on("turn_completed", lambda _: done.release())
        runtime.images.register(Image(id="i"))
        number = 0
        while True:
            number += 1
            runtime.request("message_send_request", {"image_id": "i", "content": f"question {number}"})
            done.acquire()
            reporter.say(number)
