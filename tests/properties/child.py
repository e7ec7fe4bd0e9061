"""A process that talks to an agent for as long as it lives, and says what it was promised; to be killed.

Its lines on standard output are JSON: `["acknowledged", turn id, question]` and `["heard", session id, event]`.
"""

from __future__ import annotations

import json
import sys
from threading import Event, Lock
from typing import Any

import msgspec

from reenact import Image, ReenactError, Runtime
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory

_printing = Lock()


def say(*words: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    with _printing:
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()


def talk(path: str, recovery: str, number: int) -> None:
    mock = MockEnvironmentFactory("long-stream", delays=False)
    runtime = Runtime.open(path, environment=mock, recovery="resume" if recovery == "resume" else "close")
    completed: dict[str, Event] = {}

    def hear(event: Envelope) -> None:
        if event.cursor is not None:
            data = msgspec.json.decode(msgspec.json.encode(event.data))
            say("heard", event.context.session_id, [event.cursor, event.type, event.context.turn_id, data])
        if event.type == "turn_completed":
            completed.setdefault(event.data.turn_id, Event()).set()

    runtime.events.on_all(hear)
    try:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="s")
    except ReenactError:
        runtime.images.register(Image(id="i"))
    if runtime.sessions.get("s") is None:
        runtime.sessions.create("c", "i", session_id="s")
    agent_id = runtime.sessions.run("s")
    while True:
        number += 1
        turn_id = runtime.agents.receive(agent_id, f"question {number}")
        say("acknowledged", turn_id, f"question {number}")
        if number % 3:
            completed.setdefault(turn_id, Event()).wait()


if __name__ == "__main__":
    talk(sys.argv[1], sys.argv[2], int(sys.argv[3]))
