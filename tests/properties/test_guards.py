"""Whatever is said, asked for, refused, interrupted and cut short: nothing gets by a guard, and the log says why."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import (
    AgentNotFoundError,
    Guards,
    Image,
    MessageRefusedError,
    Policies,
    Policy,
    Runtime,
    RuntimeClosedError,
    Said,
    ToolResultBlock,
    tool,
)
from reenact.actors.session.ports import Recovery
from reenact.domain.session.state import Session
from reenact.domain.stream.events import STREAM
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until
from tests.examples import examples
from tests.logs import copy_log, log_at
from tests.runtime.guarding import Doorkeeper, check_guarded
from tests.runtime.witness import PATIENCE, check, journal_of, live_sessions, unfinished

WORDS = ("pay", "both", "tell", "look", "break", "blank")


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
def pay(amount: int = 1) -> str:
    """Pay, if a person lets it."""
    return f"paid {amount}"


def model(said: Sequence[Said]) -> Iterator[MockEvent]:
    """Do what the first word of the message asks for; tell, once there are results."""
    word = "tell" if isinstance(said[-1].content[0], ToolResultBlock) else said[-1].text.split()[0]
    yield MockEvent("message_start")
    calls = {"look": ("look",), "pay": ("pay",), "both": ("look", "pay")}.get(word, ())
    if word in {"tell", "break", "both"}:
        yield MockEvent("text_delta", data={"text": f"{word} "})
        yield MockEvent("text_delta", data={"text": "more"})
    for one in calls:
        yield MockEvent("tool_call", data={"name": one, "input": {}})
    if word == "break":
        yield MockEvent("error", data={"message": "it broke off"})
    yield MockEvent("message_stop", data={"stop_reason": "tool_use" if calls else "end_turn"})


class Gate:
    """One session, whose keeper of all points says what is drawn, while anything else may happen."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.directory = Path(tempfile.mkdtemp(prefix="reenact-"))
        self.threads = ThreadPoolExecutor(64)  # each message waits for its guard
        self.mock = MockEnvironmentFactory("model", {"model": model}, delays=False)
        self.keeper = Doorkeeper()
        self.sending: dict[str, Future[str]] = {}
        self.deciding: list[Future[str | None]] = []
        self.resumed: set[str] = set()
        self.count = self.copies = 0
        self.log = log_at(self.directory / "agents.db")
        self.runtime: Runtime
        self.open("close")
        self.runtime.containers.create(container_id="c")
        policies = Policies(tools={"pay": Policy("required")})
        self.runtime.images.register(Image(id="i", tools=(look, pay), guards=self.guards, policies=policies))
        self.runtime.sessions.create("c", "i", session_id="s")
        self.agent = self.runtime.sessions.run("s")

    def open(self, recovery: Recovery) -> None:
        self.runtime = Runtime.open(
            self.log,
            environment=self.mock,
            guards=[self.keeper],
            tools=[look, pay],
            recovery=recovery,
            synchronous="OFF",
        )

    @property
    def state(self) -> Session:
        return live_sessions(self.runtime)["s"][0]

    def settle(self) -> None:
        wait_until(self.is_quiet, timeout=PATIENCE)

    def is_quiet(self) -> bool:
        """Whether nothing happens before the keeper says something."""
        asked, turn = self.keeper.asked, self.state.turn
        if turn is not None and not any(one.turn_id == turn.id and one.point != "message" for one in asked):
            return False
        waiting = [text for text, sent in self.sending.items() if not sent.done()]
        if {one.text for one in asked if one.point == "message"}.issuperset(waiting):
            return all(sent.done() for sent in self.deciding) or any(one.point == "call" for one in asked)
        return False

    def send(self, word: str) -> None:
        self.count += 1
        text, runtime, agent = f"{word} {self.count}", self.runtime, self.agent
        self.sending[text] = self.threads.submit(lambda: runtime.agents.receive(agent, text))
        self.settle()

    def go_on(self, reason: str | None, amount: int | None) -> None:
        """Have the keeper say something, and a person approve what waits, with this amount."""
        self.keeper.say(reason)
        self.settle()
        known = {one.call_id for one in self.keeper.asked}
        for call in self.runtime.agents.pending() if amount is not None else ():
            if call.id not in known:
                self.deciding.append(self.threads.submit(self.approved, self.runtime, call.id, amount))
        self.settle()

    @staticmethod
    def approved(runtime: Runtime, call_id: str, amount: int | None) -> str | None:
        return runtime.agents.approve(call_id, arguments={"amount": amount})

    def disturb(self, how: str) -> None:
        match how:
            case "interrupt":
                self.runtime.agents.interrupt(self.agent)
            case "destroy":
                self.runtime.agents.destroy(self.agent)
                self.agent = self.runtime.sessions.run("s")
            case _:
                self.crash("resume" if how == "resume" else "close")
        self.settle()

    def crash(self, recovery: Recovery) -> None:
        self.copies += 1
        copy = copy_log(self.log, f"crash{self.copies}")
        self.stop()
        self.log = copy
        if recovery == "resume":
            self.resumed |= unfinished(copy)
        self.open(recovery)
        self.agent = self.runtime.sessions.run("s")

    def stop(self) -> None:
        self.runtime.close()
        errors = [one.exception(PATIENCE) for one in self.sending.values()]
        errors += [one.exception(PATIENCE) for one in self.deciding]
        for error in errors:
            if error is not None:
                assert getattr(error, "code", "") in {
                    *(MessageRefusedError.code, AgentNotFoundError.code, RuntimeClosedError.code, "call_not_pending")
                }
        self.sending, self.deciding = {}, []
        self.keeper.say()

    def close(self) -> None:
        self.runtime.close()
        self.keeper.say()
        self.threads.shutdown()
        shutil.rmtree(self.directory)

    def check(self) -> None:
        check(self.runtime, resumed=self.resumed)
        journal = journal_of(self.runtime)
        rows = journal.read_feed("session/s", limit=100_000)
        entries = [entry for row in rows for part in row.segments for entry in part.entries if entry.type in STREAM]
        told = [msgspec.convert(entry.data, STREAM[entry.type]) for entry in entries]
        check_guarded([recorded.event for recorded in journal.read("session/s")], told, self.guards)


Step: TypeAlias = Callable[[Gate], None]


def sending(word: str) -> Step:
    return lambda gate: gate.send(word)


def approving(reason: str | None) -> Step:
    return lambda gate: gate.go_on(reason, 1)


def going_on(reason: str | None) -> Step:
    return lambda gate: gate.go_on(reason, None)


def disturbing(how: str) -> Step:
    return lambda gate: gate.disturb(how)


steps: st.SearchStrategy[Step] = st.one_of(
    st.sampled_from(WORDS).map(sending),
    st.sampled_from([None, None, "no"]).map(approving),
    st.sampled_from([None, "no"]).map(going_on),
    st.sampled_from(["interrupt", "destroy", "close", "resume"]).map(disturbing),
)
guards = st.tuples(st.sets(st.sampled_from(["message", "call", "answer"]), min_size=1), st.booleans()).map(
    lambda drawn: msgspec.convert(
        {**dict.fromkeys(drawn[0], ("keeper",)), "hold": drawn[1] and "answer" in drawn[0]}, Guards
    )
)


@given(chosen=guards, does=st.lists(steps, max_size=12))
@settings(max_examples=examples(24))
def test_nothing_gets_by_a_guard(chosen: Guards, does: list[Step]) -> None:
    gate = Gate(chosen)
    try:
        for step in does:
            step(gate)
        while gate.keeper.asked:
            gate.keeper.say()
            gate.settle()
        gate.check()
        gate.stop()
    finally:
        gate.close()
