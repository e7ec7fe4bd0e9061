"""A program that talks to an agent for as long as it lives, and says what it was promised; to be killed.

It says `acknowledged, turn id, question` and `heard, event`.
"""

from __future__ import annotations

from threading import Event

from reenact import Image, ReenactError, Runtime
from reenact.actors.session.ports import Recovery
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, Reporter
from tests.runtime.witness import plain


def talk(reporter: Reporter, log: str, recovery: Recovery, number: int) -> None:
    mock = MockEnvironmentFactory("long-stream", delays=False)
    runtime = Runtime.open(log, environment=mock, recovery=recovery)
    completed: dict[str, Event] = {}

    def hear(event: Envelope) -> None:
        if event.cursor is not None:
            reporter.say("heard", plain(event))
        if event.type == "turn_completed":
            completed.setdefault(str(event.data["turn_id"]), Event()).set()

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
        reporter.say("acknowledged", turn_id, f"question {number}")
        if number % 3:
            completed.setdefault(turn_id, Event()).wait()
