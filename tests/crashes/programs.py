"""Small."""
from __future__ import annotations
import threading
from pathlib import Path
from reenact import Image, Runtime
from reenact.testing import MockEnvironmentFactory

def talk(reporter, log):
    with Runtime.open(log, environment=MockEnvironmentFactory("default", delays=False), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="s")
        agent = runtime.sessions.run("s")
        done = threading.Event()
        runtime.events.on("turn_completed", lambda _: done.set())
        turn = runtime.agents.receive(agent, "Hello")
        reporter.say("accepted", turn)
        done.wait()
