"""What processes do until they are killed, and what they say that they were promised."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from reenact import Runtime
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.session.ports import Recovery
from reenact.domain.session.state import SessionBranched, SessionCreated
from reenact.events import Envelope
from reenact.testing import Reporter, wait_until
from tests.crashes.world import World
from tests.runtime.witness import PATIENCE, Ears, fold, journal_of, plain


class Life:
    """A process with an agent of the session `s`; it reports all that it hears and all that is promised to it."""

    def __init__(self, runtime: Runtime, world: World, reporter: Reporter) -> None:
        self.runtime = runtime
        self.world = world
        self.reporter = reporter
        self.ears = Ears()
        self.events = runtime.events.on_all(self._hear)
        self.agent = runtime.sessions.run("s")
        reporter.say("ran", self.agent)

    def ask(self, question: str) -> str:
        """Send the agent a message; return its turn."""
        turn_id = self.runtime.agents.receive(self.agent, question)
        self.reporter.say("accepted", turn_id, question)
        return turn_id

    def ask_and_wait(self, question: str) -> None:
        """Send the agent a message, and wait until its turn is over."""
        self.ears.wait("turn_completed", turn_id=self.ask(question))

    def hold(self) -> str:
        """Have the agent begin an answer that does not go on."""
        turn_id = self.ask("hold")
        self.ears.wait("text_delta", turn_id=turn_id)
        return turn_id

    def request(self, request_id: str, type_: str, **data: Any) -> None:  # noqa: ANN401 - whatever JSON holds
        """Carry out a request that is carried out once."""
        self.reporter.say("asked", request_id, type_, data)
        answer = self.runtime.request(type_, {**data, "request_id": request_id}).data
        self.reporter.say("answered", request_id, answer)

    def _hear(self, event: Envelope) -> None:
        if event.context.session_id == "s" and event.cursor is not None:
            self.reporter.say("heard", plain(event))
        self.ears(event)


def text(life: Life) -> None:
    """Ask for two answers, one after the other."""
    life.ask_and_wait("one")
    life.ask_and_wait("two")


def tools(life: Life) -> None:
    """Have four tools run at once: plain and coroutine functions, idempotent and not."""
    life.ask_and_wait("use pay send peek look")


def approval(life: Life) -> None:
    """Have a tool wait for a person beside one that does not, and let it run."""
    life.ask_and_wait("use buy look")
    (call,) = life.runtime.agents.pending()
    turn_id = life.runtime.agents.approve(call)
    life.reporter.say("approved", call.id)
    life.ears.wait("turn_completed", turn_id=turn_id)


def queue(life: Life) -> None:
    """Have two messages wait for an answer that is under way."""
    turns = [life.hold(), life.ask("two"), life.ask("three")]
    life.world.factory.gate.open()
    for turn_id in turns:
        life.ears.wait("turn_completed", turn_id=turn_id)


def interrupt(life: Life) -> None:
    """Interrupt an answer behind which a message waits."""
    turns = [life.hold(), life.ask("two")]
    life.runtime.agents.interrupt(life.agent)
    life.reporter.say("interrupted", turns[0])
    for turn_id in turns:
        life.ears.wait("turn_completed", turn_id=turn_id)


def destroy(life: Life) -> None:
    """Destroy an agent in the middle of an answer, and run the session again."""
    turns = [life.hold(), life.ask("two")]
    life.runtime.agents.destroy(life.agent)
    life.reporter.say("interrupted", turns[0])
    life.agent = life.runtime.sessions.run("s")
    life.reporter.say("ran", life.agent)
    life.ears.wait("turn_completed", turn_id=turns[1])


def delete(life: Life) -> None:
    """Delete a session in the middle of an answer behind which a message waits."""
    life.hold()
    life.ask("two")
    life.runtime.sessions.delete("s")
    life.reporter.say("deleted")


def requests(life: Life) -> None:
    """Send requests that are carried out once."""
    life.request("r1", "container_create_request", name="once")
    life.request("r2", "message_send_request", session_id="s", content="once")
    life.request("r3", "session_create_request", container_id="c", image_id="i")
    life.ears.wait("turn_completed")


def compaction(life: Life) -> None:
    """Acknowledge what was heard, and let go of the deltas of turns that are over."""
    life.ask_and_wait("one")
    life.ask_and_wait("use look")
    life.reporter.arm()
    with life.runtime.events.subscribe("s", "client") as subscription:
        last = subscription.take()[-1].cursor
        subscription.ack(last)
    life.reporter.say("acknowledged", last)
    life.reporter.say("compacted", life.runtime.events.compact().deltas)
    life.ask_and_wait("two")


def branch(life: Life) -> None:
    """Branch a session in the middle of an answer behind which a message waits, and let both go on."""
    turns = [life.hold(), life.ask("two")]
    life.runtime.sessions.branch("s", new_session_id="b")
    life.reporter.say("branched")
    life.runtime.sessions.run("b")
    wait_until(lambda: life.runtime.sessions.messages("b")[-1].text == "you said two.", PATIENCE, "the branch")
    life.world.factory.gate.open()
    for turn_id in turns:
        life.ears.wait("turn_completed", turn_id=turn_id)


WORKLOADS: dict[str, Callable[[Life], None]] = {
    work.__name__: work
    for work in (text, tools, approval, queue, interrupt, destroy, delete, requests, compaction, branch)
}


def live(reporter: Reporter, home: Path, workload: str) -> None:
    """Do some work on the furnished log."""
    with World(home) as world, world.opened() as runtime:
        WORKLOADS[workload](Life(runtime, world, reporter))


def recover(reporter: Reporter, home: Path, recovery: Recovery) -> None:
    """Open the log that a killed process has left, and wait until what is taken up again is over."""
    with World(home, holds=False) as world, world.opened(recovery) as runtime:
        reporter.say("open")
        settle(runtime)


def settle(runtime: Runtime) -> None:
    """Wait until no turn is under way."""
    wait_until(partial(_is_quiet, runtime), PATIENCE, "turns to end")


def _is_quiet(runtime: Runtime) -> bool:
    journal = journal_of(runtime)
    return all(fold(journal, session_id).turn is None for session_id in sessions_in(journal))


def sessions_in(journal: StoredJournal) -> list[str]:
    """Return the sessions that the log has, branches and deleted ones too."""
    return [
        one.event.session_id
        for one in journal.read_all(limit=1_000_000)
        if isinstance(one.event, SessionCreated | SessionBranched)
    ]


def as_json(value: object) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value as it is said."""
    return json.loads(msgspec.json.encode(value))
