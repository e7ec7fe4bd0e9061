"""Whatever a model asks for, tools come to, people decide and crashes cut short: log, state and world agree."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reenact import CallNotPendingError, Runtime
from reenact.actors.session import Recovery
from reenact.domain.messages import Said, ToolResultBlock, ToolUseBlock
from reenact.domain.people import PendingCall
from reenact.domain.session import Session
from reenact.testing import wait_until
from tests.runtime.witness import at_every_commit, check, copy_files, live_sessions, unfinished
from tests.runtime.world import ASKED, DENIED, IDEMPOTENT, UNKNOWN, Ran, Running, ToolError, World, check_log, check_runs, settle

ROWS_EVERY = 10
"""So many steps pass between two comparisons of the rows with the log."""
SEASONED = 6
"""So many steps pass at least between the opening of a runtime and its end."""
NAMES = (*sorted(IDEMPOTENT), *sorted(ASKED), "pay", "grind", DENIED, UNKNOWN, "ask_user")
QUESTIONS = (
    {"prompt": "Which?", "options": ["red", "blue"]},
    {"prompt": "How many?"},
    {"prompt": "Which ones?", "options": ["red", "blue"], "multi": True},
    {"prompt": ""},
)
OUTCOMES: tuple[object, ...] = ("fine", {"result": 42}, None, ToolError("it broke"), ValueError("no such thing"))

calls = st.lists(
    st.tuples(st.sampled_from(["a", "b", ""]), st.sampled_from(NAMES), st.integers(1, 2), st.sampled_from(QUESTIONS)),
    min_size=1,
    max_size=4,
)
stop_reasons = st.sampled_from(["tool_use", "tool_use", "tool_use", "tool_use", "max_tokens", "refusal"])
recoveries: st.SearchStrategy[Recovery] = st.sampled_from(["close", "resume"])
Calls = list[tuple[str, str, int, dict[str, Any]]]


class ToolsMachine(RuleBasedStateMachine):
    """Two sessions; what the model, the tools and people do is drawn from what they could do at that moment."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="reenact-"))
        self.path = self.directory / "0" / "agents.db"
        self.path.parent.mkdir()
        self.copies = 0
        self.count = 0
        self.steps = 0
        self.world = World()
        self.resumed: set[str] = set()
        self.runtime: Runtime
        self.open("close")

    def open(self, recovery: Recovery) -> None:
        self.world.release()
        if recovery == "resume" and self.path.exists():
            self.resumed |= unfinished(self.path)
        self.runtime = Runtime.open(
            self.path, environment=self.world, recovery=recovery, synchronous="OFF", tools=self.world.tools()
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

    # What can be drawn.

    def pick(self, data: st.DataObject, of: Any) -> Any:  # noqa: ANN401 - one of whatever is given
        return data.draw(st.sampled_from(sorted(of, key=str)))

    def has_question(self) -> bool:
        return bool(self.world.questions)

    def has_run(self) -> bool:
        return bool(self.world.running)

    def has_live(self) -> bool:
        return bool(self.live)

    def has_pending(self) -> bool:
        return bool(self.runtime.agents.pending())

    def is_seasoned(self) -> bool:
        return self.steps - self.opened_at >= SEASONED

    @initialize()
    def furnish(self) -> None:
        self.runtime.containers.create(container_id="c")
        self.runtime.images.register(self.world.image())
        self.begin()

    def begin(self) -> None:
        self.count += 1
        self.runtime.sessions.create("c", "i", session_id=f"s{self.count}")
        self.runtime.agents.receive(self.runtime.sessions.run(f"s{self.count}"), "Please")

    @precondition(lambda self: len(self.live) <= 1)
    @rule()
    def begin_another(self) -> None:
        self.begin()

    @precondition(lambda self: self.at_rest())
    @rule(data=st.data())
    def run_again(self, data: st.DataObject) -> None:
        session_id = self.pick(data, self.at_rest())
        self.runtime.agents.receive(self.runtime.sessions.run(session_id), "And now?")

    def at_rest(self) -> list[str]:
        live = self.live
        return [session.id for session in self.runtime.sessions.list_by_container("c") if session.id not in live]

    @precondition(has_live)
    @rule(data=st.data())
    def say(self, data: st.DataObject) -> None:
        self.runtime.agents.receive(self.live[self.pick(data, self.live)], "Please")

    # What the model answers.

    @precondition(has_question)
    @rule(data=st.data(), asked=calls, ending=stop_reasons, talks=st.booleans())
    def ask_for_tools(self, data: st.DataObject, asked: Calls, ending: str, talks: bool) -> None:  # noqa: FBT001 - drawn
        question = self.world.questions[self.pick(data, self.world.questions)]
        question.say(*(text("Let me see") if talks else ()), *told(asked), stop(ending))

    @precondition(has_question)
    @rule(data=st.data(), name=st.sampled_from(sorted(IDEMPOTENT | ASKED)), n=st.integers(1, 3))
    def ask_for_a_tool(self, data: st.DataObject, name: str, n: int) -> None:
        question = self.world.questions[self.pick(data, self.world.questions)]
        question.say(*told([("", name, n, {}), ("", "pay", n, {})]), stop("tool_use"))

    @precondition(has_question)
    @rule(data=st.data(), asked=calls, how=st.sampled_from(["end_turn", "refusal", "begins", "raises", "says", "ends"]))
    def answer(self, data: st.DataObject, asked: Calls, how: str) -> None:
        session_id = self.pick(data, self.world.questions)
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

    # What tools come to.

    @precondition(has_run)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def finish(self, data: st.DataObject, outcome: object) -> None:
        self.world.finish(self.picked_run(data), outcome)

    @precondition(has_run)
    @rule(outcome=st.sampled_from(OUTCOMES))
    def finish_all(self, outcome: object) -> None:
        for running in list(self.world.running):
            self.world.finish(running, outcome)

    def picked_run(self, data: st.DataObject) -> Running:
        number = data.draw(st.integers(0, len(self.world.running) - 1))
        return sorted(self.world.running, key=lambda one: (one.ran.session_id, one.ran.call_id, one.ran.starts))[number]

    # What people decide.

    def picked_call(self, data: st.DataObject) -> PendingCall:
        pending = self.runtime.agents.pending()
        return pending[data.draw(st.integers(0, len(pending) - 1))]

    @precondition(has_pending)
    @rule(data=st.data(), edited=st.sampled_from([None, {"n": 7}]))
    def approve(self, data: st.DataObject, edited: dict[str, Any] | None) -> None:
        call = self.picked_call(data)
        try:
            self.runtime.agents.approve(call, arguments=edited)
        except CallNotPendingError:
            assert call.kind != "approval"
        else:
            assert call.kind == "approval"
            assert call.id not in {
                one.id for one in self.runtime.agents.pending(session_id=call.session_id)
            }

    @precondition(has_pending)
    @rule(data=st.data(), resume=st.booleans())
    def reject(self, data: st.DataObject, resume: bool) -> None:  # noqa: FBT001 - drawn
        call = self.picked_call(data)
        self.runtime.agents.reject(call, "not today", resume=resume)
        left = {one.id for one in self.runtime.agents.pending(session_id=call.session_id)}
        assert call.id not in left
        assert resume or not left

    @precondition(has_pending)
    @rule(data=st.data())
    def respond(self, data: st.DataObject) -> None:
        call = self.picked_call(data)
        value: object = "red" if not call.multi else ["red"]
        try:
            self.runtime.agents.respond(call, value)
        except CallNotPendingError:
            assert call.kind == "approval"
        else:
            assert call.kind != "approval"

    # What cuts it short.

    @precondition(has_live)
    @rule(data=st.data(), how=st.sampled_from(["interrupt", "interrupt", "destroy", "delete"]))
    def cut_short(self, data: st.DataObject, how: str) -> None:
        session_id = self.pick(data, self.live)
        match how:
            case "interrupt":
                self.runtime.agents.interrupt(self.live[session_id])
            case "destroy":
                self.runtime.agents.destroy(self.live[session_id])
                assert session_id not in self.live
            case _:
                assert self.runtime.sessions.delete(session_id)
                assert not [call for call in self.runtime.agents.pending() if call.session_id == session_id]

    @precondition(is_seasoned)
    @rule(recovery=recoveries)
    def close_and_reopen(self, recovery: Recovery) -> None:
        waits = [call.id for call in self.runtime.agents.pending()]
        self.runtime.close()
        self.open(recovery)
        assert [call.id for call in self.runtime.agents.pending()] == waits

    @precondition(is_seasoned)
    @rule(recovery=recoveries)
    def crash_and_reopen(self, recovery: Recovery) -> None:
        settle(self.runtime, self.world)
        self.runtime.containers.list()
        waits = [call.id for call in self.runtime.agents.pending()]
        self.copies += 1
        path, runs = copy_files(self.path, self.directory / str(self.copies)), list(self.world.runs)
        self.runtime.close()
        self.path, self.world.runs = path, runs
        self.open(recovery)
        assert [call.id for call in self.runtime.agents.pending()] == waits

    @precondition(lambda self: self.is_seasoned() and (self.has_question() or self.has_run()))
    @rule(data=st.data(), moment=st.integers(1, 7), recovery=recoveries, asked=calls)
    def crash_on_the_way(self, data: st.DataObject, moment: int, recovery: Recovery, asked: Calls) -> None:
        """Crash after some commit while models answer and tools end; what came later did not happen."""
        copied: list[tuple[Path, list[Ran]]] = []

        def copy(count: int) -> None:
            if count == moment:
                self.copies += 1
                copied.append((copy_files(self.path, self.directory / str(self.copies)), list(self.world.runs)))

        at_every_commit(self.runtime, copy)
        for question in list(self.world.questions.values()):
            question.say(*told(asked), stop("tool_use"))
        for _ in range(2):
            settle(self.runtime, self.world)
            for running in list(self.world.running):
                self.world.finish(running, "fine")
        self.runtime.close()
        if copied:
            self.path, self.world.runs = copied[0]
        self.open(recovery)

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
TestTools.settings = settings(max_examples=max(20, settings().max_examples // 4), stateful_step_count=40)
