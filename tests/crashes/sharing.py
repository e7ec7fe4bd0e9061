"""What several processes do with one log at once, until they are killed or have done enough."""

from __future__ import annotations

import random
from pathlib import Path

from reenact import Image, Runtime
from reenact._runtime import SharedRuntime
from reenact.domain.errors import SessionLockedError
from reenact.events import Envelope
from reenact.testing import Reporter
from tests.crashes.world import World
from tests.runtime.witness import Ears, plain

QUESTIONS = ("one", "use pay look", "use peek send", "use buy", "two")


def share(reporter: Reporter, home: Path, seed: int, turns: int) -> None:
    """Have turns in sessions of one's own, and in those of others whom nobody has open; report what was promised."""
    chance = random.Random(seed)
    with World(home) as world, world.opened(kind=SharedRuntime) as runtime:
        ears = Ears()

        def hear(event: Envelope) -> None:
            if event.cursor is not None:
                reporter.say("heard", event.context.session_id, plain(event))
            ears(event)

        with runtime.events.on_all(hear):
            while turns:
                session_id = _chosen(runtime, world, chance)
                try:
                    agent = runtime.sessions.run(session_id)
                except SessionLockedError as locked:
                    reporter.say("refused", session_id, locked.pid)
                    continue
                for question in chance.sample(QUESTIONS, chance.randint(1, 3)):
                    if runtime.agents.pending(session_id=session_id):
                        for call in runtime.agents.pending(session_id=session_id):
                            turn_id = runtime.agents.reject(call)
                            ears.wait("turn_completed", turn_id=turn_id)
                    turn_id = runtime.agents.receive(agent, question)
                    reporter.say("accepted", session_id, turn_id)
                    assert turn_id in {turn.id for turn in runtime.sessions.turns(session_id)}
                    ears.wait("turn_completed", turn_id=turn_id)
                    turns = max(0, turns - 1)
                runtime.agents.destroy(agent)
    reporter.say("done")


def hold(reporter: Reporter, home: Path, session_id: str) -> None:
    """Begin an answer in a session that goes no further."""
    with World(home) as world, world.opened(kind=SharedRuntime) as runtime:
        ears = Ears(runtime)
        turn_id = runtime.agents.receive(runtime.sessions.run(session_id), "hold")
        ears.wait("text_delta", turn_id=turn_id)
        reporter.say("holds", turn_id)
        ears.wait("turn_completed", turn_id=turn_id)


def _chosen(runtime: Runtime, world: World, chance: random.Random) -> str:
    """Return a session: a new one, of an image that all register anew, or one that somebody has begun."""
    there = runtime.sessions.list_by_container("c")
    if len(there) > chance.randint(1, 12):
        return chance.choice(there).id
    runtime.images.register(Image(id="other", model=chance.choice(("m1", "m2", "m3")), tools=world.tools()))
    return runtime.sessions.create("c", chance.choice(("i", "other"))).id
