"""Whatever a model asks for, tools come to, people decide and crashes cut short: log, state and world agree."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reenact import CallNotPendingError, Runtime
from reenact.actors.session.ports import Recovery
from reenact.domain.messages import Said, ToolResultBlock, ToolUseBlock
from reenact.domain.session.people import PendingCall
from reenact.domain.session.state import Session
from reenact.testing import wait_until
from tests.logs import copy_log, is_begun, log_at
from tests.runtime.witness import at_every_commit, check, live_sessions, unfinished
from tests.runtime.world import (
    ASKED,
    DENIED,
    IDEMPOTENT,
    UNKNOWN,
    Question,
    Ran,
    ToolError,
    World,
    check_log,
    check_runs,
    settle,
)

ROWS_EVERY = 10
"""So many steps pass between two comparisons of the rows with the log."""
MOST_LIVE = 2
SEASONED = 6
"""So many steps pass at least between the opening of a runtime and its end."""
NAMES = (*sorted(IDEMPOTENT), *sorted(ASKED), "pay", "grind", DENIED, UNKNOWN, "ask_user")
RUNNABLE = ("fetch", "pay", "sweep", "grind", "risky", "once", "ask_user")
QUESTIONS = (
    {"prompt": "Which?", "options": ["red", "blue"]},
    {"prompt": "How many?"},
    {"prompt": "Which ones?", "options": ["red", "blue"], "multi": True},
    {"prompt": ""},
)
OUTCOMES: tuple[object, ...] = ("fine", {"result": 42}, None, ToolError("it broke"), ValueError("no such thing"))

numbers = st.integers(0, 11)
calls = st.lists(
    st.tuples(st.sampled_from(["a", "b", ""]), st.sampled_from(NAMES), st.integers(1, 2), st.sampled_from(QUESTIONS)),
    min_size=1,
    max_size=4,
)
stop_reasons = st.sampled_from(["tool_use", "tool_use", "tool_use", "tool_use", "max_tokens", "refusal"])
recoveries: st.SearchStrategy[Recovery] = st.sampled_from(["close", "resume"])
Calls = list[tuple[str, str, int, dict[str, Any]]]


def pick(number: int, names: Iterable[str]) -> str:
    found = sorted(names)
    return found[number % len(found)]


class ToolsMachine(RuleBasedStateMachine):
    """Two sessions; what the model, the tools and people do is drawn from what they could do at that moment."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="reenact-"))
        self.log = log_at(self.directory / "agents.db")
        self.copies = 0
        self.count = 0
        self.steps = 0
        self.world = World()
        self.resumed: set[str] = set()
        self.runtime: Runtime
        self.open("close")

    def open(self, recovery: Recovery) -> None:
        self.world.release()
        if recovery == "resume" and is_begun(self.log):
            self.resumed |= unfinished(self.log)
        self.runtime = Runtime.open(
            self.log, environment=self.world, recovery=recovery, synchronous="OFF", tools=self.world.tools()
        )
        self.world.serve(self.runtime)
        self.opened_at = self.steps

    @property
    def states(self) -> dict[str, Session]:
        return {id_: state for id_, (state, _) in live_sessions(self.runtime).items() if not state.deleted}

    @property
    def live(self) -> dict[str, str]:
        return {agent.session_id: agent.id for agent in self.runtime.agents.list()}

    def state_of(self, agent_id: str) -> str | None:
        agent = self.runtime.agents.get(agent_id)
        return None if agent is None else agent.state

    # What there is to choose from; nothing of it decides how much is drawn.

    @property
    def at_rest(self) -> list[str]:
        live = self.live
        return [session.id for session in self.runtime.sessions.list_by_container("c") if session.id not in live]

    def pick_question(self, number: int) -> Question:
        return self.world.questions[pick(number, self.world.questions)]

    def pick_call(self, number: int) -> PendingCall:
        pending = self.runtime.agents.pending()
        return pending[number % len(pending)]

    @initialize()
    def furnish(self) -> None:
        self.runtime.containers.create(container_id="c")
        self.runtime.images.register(self.world.image())
        self.begin()

    def begin(self) -> None:
        self.count += 1
        self.runtime.sessions.create("c", "i", session_id=f"s{self.count}")
        self.runtime.agents.receive(self.runtime.sessions.run(f"s{self.count}"), "Please")

    def go_on(self, number: int) -> None:
        """Do what moves things when there is nothing to do of the kind that was drawn."""
        if self.world.questions:
            self.pick_question(number).say(
                *told([("", RUNNABLE[number % len(RUNNABLE)], number, QUESTIONS[0])]), stop("tool_use")
            )
        elif self.world.running:
            self.finish(number, "fine")
        elif self.runtime.agents.pending():
            self.decide(number, "approves")
        else:
            self.say(number)

    @rule(number=numbers)
    def say(self, number: int) -> None:
        if self.live:
            self.runtime.agents.receive(self.live[pick(number, self.live)], "Please")
        else:
            self.run(number)

    @rule(number=numbers)
    def run(self, number: int) -> None:
        if number % 2 and self.at_rest:
            session_id = pick(number, self.at_rest)
            self.runtime.agents.receive(self.runtime.sessions.run(session_id), "And now?")
        elif len(self.live) < MOST_LIVE:
            self.begin()
        else:
            self.go_on(number)

    # What the model answers.

    @rule(number=numbers, asked=calls, ending=stop_reasons, talks=st.booleans())
    def ask_for_tools(self, number: int, asked: Calls, ending: str, talks: bool) -> None:  # noqa: FBT001 - drawn
        if not self.world.questions:
            return self.go_on(number)
        words = text("Let me see") if talks else ()
        return self.pick_question(number).say(*words, *told(asked), stop(ending))

    @rule(number=numbers, name=st.sampled_from(sorted(IDEMPOTENT | ASKED)), n=st.integers(1, 3))
    def ask_for_a_tool(self, number: int, name: str, n: int) -> None:
        if not self.world.questions:
            return self.go_on(number)
        return self.pick_question(number).say(*told([("", name, n, {}), ("", "pay", n, {})]), stop("tool_use"))

    @rule(number=numbers, asked=calls, how=st.sampled_from(["end_turn", "refusal", "begins", "raises", "says", "ends"]))
    def answer(self, number: int, asked: Calls, how: str) -> None:
        if not self.world.questions:
            return self.go_on(number)
        session_id = pick(number, self.world.questions)
        question = self.world.questions[session_id]
        match how:
            case "begins":
                question.say(*told(asked), *text("Well"), ends=False)
                agent_id = self.live[session_id]
                wait_until(lambda: self.state_of(agent_id) == "responding", what="the words to be heard")
            case "raises":
                question.say(*told(asked), error=RuntimeError("the line broke"))
            case "says":
                question.say(*text("Well"), ("error", {"type": "overloaded_error", "message": "busy"}))
            case "ends":
                question.say(*told(asked))
            case _:
                question.say(*text("Here"), stop(how))
        return None

    # What tools come to.

    @rule(number=numbers, outcome=st.sampled_from(OUTCOMES))
    def finish(self, number: int, outcome: object) -> None:
        if not self.world.running:
            return self.go_on(number)
        running = sorted(self.world.running, key=lambda one: (one.ran.session_id, one.ran.call_id, one.ran.starts))
        return self.world.finish(running[number % len(running)], outcome)

    @rule(number=numbers, outcome=st.sampled_from(OUTCOMES))
    def finish_all(self, number: int, outcome: object) -> None:
        if not self.world.running:
            return self.go_on(number)
        for running in list(self.world.running):
            self.world.finish(running, outcome)
        return None

    # What people decide.

    @rule(number=numbers, how=st.sampled_from(["approves", "approves", "edits", "rejects", "stops", "responds"]))
    def decide(self, number: int, how: str) -> None:
        if not self.runtime.agents.pending():
            return self.go_on(number)
        call, agents = self.pick_call(number), self.runtime.agents
        try:
            match how:
                case "approves" | "edits":
                    agents.approve(call, arguments={"n": 7} if how == "edits" else None)
                case "responds":
                    agents.respond(call, ["red"] if call.multi else "red")
                case _:
                    agents.reject(call, "not today", resume=how == "rejects")
        except CallNotPendingError:
            assert (call.kind == "approval") == (how == "responds")
        else:
            assert how in {"rejects", "stops"} or (call.kind == "approval") == (how != "responds")
            left = {one.id for one in agents.pending(session_id=call.session_id)}
            assert call.id not in left
            assert how != "stops" or not left
        return None

    # What cuts it short.

    @rule(number=numbers, how=st.sampled_from(["interrupt", "interrupt", "destroy", "delete"]))
    def cut_short(self, number: int, how: str) -> None:
        if not self.live:
            return self.go_on(number)
        session_id = pick(number, self.live)
        match how:
            case "interrupt":
                self.runtime.agents.interrupt(self.live[session_id])
            case "destroy":
                self.runtime.agents.destroy(self.live[session_id])
                assert session_id not in self.live
            case _:
                assert self.runtime.sessions.delete(session_id)
                assert not [call for call in self.runtime.agents.pending() if call.session_id == session_id]
        return None

    @property
    def is_seasoned(self) -> bool:
        return self.steps - self.opened_at >= SEASONED

    @rule(number=numbers, recovery=recoveries)
    def close_and_reopen(self, number: int, recovery: Recovery) -> None:
        if not self.is_seasoned:
            return self.go_on(number)
        waits = [call.id for call in self.runtime.agents.pending()]
        self.runtime.close()
        self.open(recovery)
        assert [call.id for call in self.runtime.agents.pending()] == waits
        return None

    @rule(number=numbers, recovery=recoveries)
    def crash_and_reopen(self, number: int, recovery: Recovery) -> None:
        if not self.is_seasoned:
            return self.go_on(number)
        self.runtime.containers.list()
        waits = [call.id for call in self.runtime.agents.pending()]
        log, runs = self.copied()
        self.runtime.close()
        self.log, self.world.runs = log, runs
        self.open(recovery)
        assert [call.id for call in self.runtime.agents.pending()] == waits
        return None

    @rule(number=numbers, moment=st.integers(1, 7), recovery=recoveries, asked=calls)
    def crash_on_the_way(self, number: int, moment: int, recovery: Recovery, asked: Calls) -> None:
        """Crash after some commit while models answer and tools end; what came later did not happen."""
        if not self.is_seasoned or not (self.world.questions or self.world.running):
            return self.go_on(number)
        copies: list[tuple[str, list[Ran]]] = []

        def copy(count: int) -> None:
            if count == moment:
                copies.append(self.copied())

        at_every_commit(self.runtime, copy)
        for question in list(self.world.questions.values()):
            question.say(*told(asked), stop("tool_use"))
        for _ in range(2):
            settle(self.runtime, self.world)
            for running in list(self.world.running):
                self.world.finish(running, "fine")
        self.runtime.close()
        if copies:
            self.log, self.world.runs = copies[0]
        return self.open(recovery)

    def copied(self) -> tuple[str, list[Ran]]:
        """Return what a crash would leave now: the files, and what has run."""
        self.copies += 1
        return copy_log(self.log, str(self.copies)), list(self.world.runs)

    # What must be true after every step.

    @invariant()
    def state_log_rows_and_world_agree(self) -> None:
        if not self.runtime.containers.get("c"):
            return
        settle(self.runtime, self.world)
        check_log(self.runtime, resumed=self.resumed)
        check_runs(self.runtime, self.world)
        for state in self.states.values():
            check_said(state)
        self.steps += 1
        if self.steps % ROWS_EVERY == 0:
            check(self.runtime, resumed=self.resumed)

    def teardown(self) -> None:
        settle(self.runtime, self.world)
        check(self.runtime, resumed=self.resumed)
        self.runtime.close()
        self.world.release()
        shutil.rmtree(self.directory)


def text(words: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return (("text_delta", {"text": words}),)


def stop(reason: str) -> tuple[str, dict[str, Any]]:
    return ("message_stop", {"stop_reason": reason})


def told(asked: Calls) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("tool_call", {"id": id_, "name": name, "input": question if name == "ask_user" else {"n": n}})
        for id_, name, n, question in asked
    ]


def check_said(state: Session) -> None:
    """Every call of an answer that asked for tools is answered once, in the message that follows."""
    said: list[Said] = list(state.conversation)
    for number, one in enumerate(said):
        asked = [block.id for block in one.content if isinstance(block, ToolUseBlock)]
        answers = [block.tool_use_id for block in one.content if isinstance(block, ToolResultBlock)]
        if answers:
            before = [block.id for block in said[number - 1].content if isinstance(block, ToolUseBlock)]
            assert answers == before
        if state.round is not None and number == len(said) - 1:
            assert asked == [call.id for call in state.round.calls]
    ids = [block.id for one in said for block in one.content if isinstance(block, ToolUseBlock)]
    assert len(ids) == len(set(ids))


TestTools = ToolsMachine.TestCase
TestTools.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=40)
