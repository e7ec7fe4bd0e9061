"""Any sequence of calls, closings and crashes: a naive model of the facades agrees with every answer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reenact import (
    AgentNotFoundError,
    AlreadyExistsError,
    ContainerNotFoundError,
    Image,
    ImageNotFoundError,
    Message,
    ReenactError,
    Runtime,
    SessionNotFoundError,
)
from tests.examples import examples
from tests.logs import copy_log, log_at
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import Ears, at_every_commit, check

T = TypeVar("T")
CHUNKS = "".join(f"chunk-{number} " for number in range(100))
ANSWERS: dict[str, tuple[str | None, str]] = {
    "default": ("Hello from mock!", "completed"),
    "simple-text": ("Hi", "completed"),
    "with-thinking": ("Answer", "completed"),
    "with-tool": ("Let me checkI found files", "completed"),
    "long-stream": (CHUNKS, "completed"),
    "blank": (None, "completed"),
    "error": (None, "failed"),
    "breaking-off": ("Half an", "failed"),
    "held": ("Once upon", "completed"),
    "held-silent": (None, "completed"),
}
"""What each scenario comes to when nobody cuts it short: the answer's text, and the turn's outcome."""

PARTS = {"held": "Once", "held-silent": None}
"""What of an answer is there while the gate holds it."""

STOP_REASONS = {"completed": "end_turn", "failed": "error", "interrupted": "interrupted"}


class Turn(msgspec.Struct):
    id: str
    question: str
    scenario: str | None = None
    answer: str | None = None
    outcome: str | None = None

    def end(self, outcome: str, answer: str | None) -> None:
        self.outcome, self.answer = outcome, answer

    @property
    def running(self) -> bool:
        return self.scenario is not None and self.outcome is None


class Conversation(msgspec.Struct):
    """A session as a person remembers it."""

    id: str
    container: str
    image: str
    revision: int
    turns: list[Turn] = []
    agent: str | None = None
    failed: bool = False
    deleted: bool = False

    @property
    def current(self) -> Turn | None:
        return next((turn for turn in self.turns if turn.running), None)

    @property
    def waiting(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.scenario is None and turn.outcome is None]

    def go_on(self, scenario: str) -> None:
        """Answer what waits, as far as the scenario lets it."""
        while self.agent is not None and self.current is None and self.waiting:
            turn = self.waiting[0]
            turn.scenario = scenario
            self.failed = False
            if scenario not in PARTS:
                self.finish(turn)

    def finish(self, turn: Turn) -> None:
        answer, outcome = ANSWERS[turn.scenario or ""]
        turn.end(outcome, answer)
        self.failed = outcome == "failed"

    def cut(self) -> None:
        turn = self.current
        if turn is not None:
            turn.end("interrupted", PARTS[turn.scenario or ""])
            self.failed = False

    def state(self) -> str:
        turn = self.current
        if turn is not None:
            return "responding" if PARTS[turn.scenario or ""] else "thinking"
        return "error" if self.failed else "idle"

    def said(self) -> list[tuple[str, str, str | None, bool]]:
        said: list[tuple[str, str, str | None, bool]] = []
        for turn in self.turns:
            said.append(("user", turn.question, None, False))
            if turn.answer is not None and turn.outcome is not None:
                said.append(("assistant", turn.answer, STOP_REASONS[turn.outcome], turn.outcome != "completed"))
        return said


container_ids = st.sampled_from(["c1", "c2"])
image_ids = st.sampled_from(["i1", "i2"])
session_ids = st.sampled_from(["s1", "s2", "s3"])
names = st.sampled_from([None, "workspace"])
prompts = st.sampled_from([None, "Be brief.", "Be kind."])
scenarios = st.sampled_from([*ANSWERS, "held", "held"])


class FacadesMachine(RuleBasedStateMachine):
    """Ids come from a few, so that they collide; `agents` are the ids that were ever handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="reenact-"))
        self.log = log_at(self.directory / "agents.db")
        self.copies = 0
        self.mock = GatedFactory()
        self.scenario = "default"
        self.containers: dict[str, str | None] = {}
        self.images: dict[str, list[str | None]] = {}
        self.sessions: dict[str, Conversation] = {}
        self.agents: list[str] = ["agt_unknown"]
        self.runtime: Runtime
        self.ears: Ears
        self.open()

    # What is under test.

    def open(self) -> None:
        self.runtime = Runtime.open(self.log, environment=self.mock, synchronous="OFF")
        self.ears = Ears(self.runtime)

    def attempt(self, call: Callable[[], T]) -> T | type[ReenactError]:
        try:
            return call()
        except ReenactError as error:
            return type(error)

    def settle(self) -> None:
        """Wait until everything that the model expects to be over is over, and what it expects to run is heard of."""
        for session in self.sessions.values():
            current = session.current
            if session.agent is not None and current is not None:
                self.ears.wait("text_delta" if PARTS[current.scenario or ""] else "message_start", turn_id=current.id)

    def answered(self, *sessions: Conversation) -> None:
        """Let the model answer what waits, and wait until the runtime has."""
        for session in sessions:
            before = {turn.id for turn in session.turns if turn.outcome is not None}
            session.go_on(self.scenario)
            for turn in session.turns:
                if turn.outcome is not None and turn.id not in before:
                    self.ears.wait("turn_completed", turn_id=turn.id)
        self.settle()

    def of_agent(self, agent_id: str) -> Conversation | None:
        return next((session for session in self.sessions.values() if session.agent == agent_id), None)

    @initialize()
    def furnish(self) -> None:
        self.create_container("c1", None)
        self.register_image("i1", None)
        self.begin()

    @rule(container_id=container_ids, name=names)
    def create_container(self, container_id: str, name: str | None) -> None:
        created = self.attempt(lambda: self.runtime.containers.create(name, container_id=container_id))

        if container_id in self.containers:
            assert created is AlreadyExistsError
        else:
            assert created == self.runtime.containers.get(container_id)
            self.containers[container_id] = name

    @rule(image_id=image_ids, prompt=prompts)
    def register_image(self, image_id: str, prompt: str | None) -> None:
        registered = self.runtime.images.register(Image(id=image_id, system_prompt=prompt))

        revisions = self.images.setdefault(image_id, [])
        if revisions[-1:] != [prompt]:
            revisions.append(prompt)
        assert (registered.id, registered.system_prompt, registered.revision) == (image_id, prompt, len(revisions))
        assert registered == self.runtime.images.get(image_id)

    @rule(session_id=session_ids, container_id=container_ids, image_id=image_ids)
    def create_session(self, session_id: str, container_id: str, image_id: str) -> None:
        created = self.attempt(lambda: self.runtime.sessions.create(container_id, image_id, session_id=session_id))

        if container_id not in self.containers:
            assert created is ContainerNotFoundError
        elif image_id not in self.images:
            assert created is ImageNotFoundError
        elif session_id in self.sessions:
            assert created is AlreadyExistsError
        else:
            revision = len(self.images[image_id])
            self.sessions[session_id] = Conversation(session_id, container_id, image_id, revision)
            assert created == self.runtime.sessions.get(session_id)

    @precondition(lambda self: len([session for session in self.sessions.values() if session.agent]) <= 1)
    @rule()
    def begin(self) -> None:
        """Create a session and run it, so that there is always somebody to talk to."""
        session_id = f"s{len(self.sessions) + 4}"
        self.create_session(session_id, "c1", "i1")
        self.run(session_id)

    @rule(data=st.data())
    def run_again(self, data: st.DataObject) -> None:
        self.run(data.draw(st.sampled_from(["s_unknown", *self.sessions])))

    def run(self, session_id: str) -> None:
        agent_id = self.attempt(lambda: self.runtime.sessions.run(session_id))

        session = self.sessions.get(session_id)
        if session is None or session.deleted:
            assert agent_id is SessionNotFoundError
        elif session.agent is not None:
            assert agent_id == session.agent
        else:
            assert isinstance(agent_id, str)
            assert agent_id not in self.agents
            self.agents.append(agent_id)
            session.agent, session.failed = agent_id, False
            self.answered(session)

    @rule(data=st.data(), question=st.sampled_from(["Hello", "And then?"]))
    def receive(self, data: st.DataObject, question: str) -> None:
        agent_id = data.draw(st.sampled_from(self.agents))

        turn_id = self.attempt(lambda: self.runtime.agents.receive(agent_id, question))

        session = self.of_agent(agent_id)
        if session is None:
            assert turn_id is AgentNotFoundError
        else:
            assert isinstance(turn_id, str)
            session.turns.append(Turn(turn_id, question))
            self.answered(session)

    @precondition(lambda self: any(session.agent for session in self.sessions.values()))
    @rule(data=st.data(), question=st.sampled_from(["Hello", "And then?"]), scenario=scenarios)
    def say(self, data: st.DataObject, question: str, scenario: str) -> None:
        live = [session for session in self.sessions.values() if session.agent]
        self.set_scenario(scenario)

        self.send(data.draw(st.sampled_from(live)), question)

    @rule(scenario=scenarios)
    def set_scenario(self, scenario: str) -> None:
        self.mock.set_scenario(scenario)
        self.scenario = scenario

    @precondition(lambda self: any(session.current for session in self.sessions.values()))
    @rule()
    def open_the_gate(self) -> None:
        held = [(session, session.current) for session in self.sessions.values()]

        self.mock.gate.open()

        for session, turn in held:
            if turn is not None:
                self.ears.wait("turn_completed", turn_id=turn.id)
                session.finish(turn)
        self.answered(*self.sessions.values())

    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        agent_id = data.draw(st.sampled_from(self.agents))

        self.runtime.agents.interrupt(agent_id)

        session = self.of_agent(agent_id)
        if session is not None:
            session.cut()
            self.answered(session)

    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        agent_id = data.draw(st.sampled_from(self.agents))

        self.runtime.agents.destroy(agent_id)

        session = self.of_agent(agent_id)
        if session is not None:
            session.cut()
            session.agent = None

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        session_id = data.draw(st.sampled_from(["s_unknown", *self.sessions]))
        deleted = self.runtime.sessions.delete(session_id)

        session = self.sessions.get(session_id)
        assert deleted == (session is not None and not session.deleted)
        if session is not None:
            session.cut()
            session.agent, session.deleted = None, True
            for turn in session.waiting:
                turn.end("interrupted", None)

    @rule()
    def close_and_reopen(self) -> None:
        self.runtime.close()
        self._nobody_is_live()
        self.open()

    @rule()
    def crash_and_reopen(self) -> None:
        self.runtime.containers.list()
        copy = self._copied()
        self.runtime.close()
        self.log = copy
        self._nobody_is_live()
        self.open()

    @precondition(lambda self: any(session.agent for session in self.sessions.values()))
    @rule(
        data=st.data(), moment=st.integers(1, 6), scenario=st.sampled_from(["default", "breaking-off", "with-thinking"])
    )
    def crash_between_two_appends_of_a_turn(self, data: st.DataObject, moment: int, scenario: str) -> None:
        """Crash while a message is answered; what is found afterwards is what had been recorded by then."""
        session = data.draw(st.sampled_from([session for session in self.sessions.values() if session.agent]))
        copies: list[str] = []
        acknowledged: list[str] = []

        def copy(count: int) -> None:
            if count == moment:
                acknowledged.extend(turn.id for turn in session.turns)
                copies.append(self._copied())

        at_every_commit(self.runtime, copy)
        self.set_scenario(scenario)
        self.send(session, "Hello")
        self.runtime.close()
        self.log = copies[0] if copies else self.log
        if not copies:
            self._nobody_is_live()
            self.open()
            return
        self._nobody_is_live()
        self.open()
        self._remember_what_is_there(session, acknowledged)

    def send(self, session: Conversation, question: str) -> None:
        """Have the session's live agent answer a question, or let it wait."""
        turn_id = self.runtime.agents.receive(session.agent or "", question)
        session.turns.append(Turn(turn_id, question))
        self.answered(session)

    def _remember_what_is_there(self, session: Conversation, acknowledged: list[str]) -> None:
        messages = self.runtime.sessions.messages(session.id)
        recorded = {message.turn_id for message in messages}
        assert set(acknowledged) <= recorded
        session.turns = [turn for turn in session.turns if turn.id in recorded]
        for turn in session.turns[-1:]:
            answers = [message for message in messages if message.turn_id == turn.id and message.role == "assistant"]
            assert len(answers) <= 1
            for answer in answers:
                assert (ANSWERS[turn.scenario or self.scenario][0] or "").startswith(answer.text)
            if turn.outcome in {"completed", "failed"} and not [a for a in answers if not a.partial]:
                cut = (
                    answers[0].stop_reason == "interrupted" if answers else ANSWERS[turn.scenario or ""][0] is not None
                )
                turn.end("interrupted" if cut else turn.outcome, answers[0].text if answers else None)

    def _copied(self) -> str:
        self.copies += 1
        return copy_log(self.log, str(self.copies))

    def _nobody_is_live(self) -> None:
        for session in self.sessions.values():
            session.cut()
            session.agent, session.failed = None, False

    # What must be true after every step.

    @invariant()
    def the_lists_are_what_the_model_remembers(self) -> None:
        runtime = self.runtime
        assert {info.id: info.name for info in runtime.containers.list()} == self.containers
        assert [info.id for info in runtime.containers.list()] == list(self.containers)
        assert {info.id: (info.revision, info.system_prompt) for info in runtime.images.list()} == {
            id_: (len(revisions), revisions[-1]) for id_, revisions in self.images.items()
        }
        for container_id in self.containers:
            listed = runtime.sessions.list_by_container(container_id)
            assert [(info.id, info.image_id, info.image_revision) for info in listed] == [
                (session.id, session.image, session.revision)
                for session in self.sessions.values()
                if session.container == container_id and not session.deleted
            ]

    @invariant()
    def the_agents_are_what_the_model_remembers(self) -> None:
        live = [session for session in self.sessions.values() if session.agent]
        listed = {info.id: info for info in self.runtime.agents.list()}
        assert set(listed) == {session.agent for session in live}
        for session in live:
            info = listed[session.agent or ""]
            assert (info.session_id, info.state, info.queued) == (session.id, session.state(), len(session.waiting))
            assert info.turn_id == (session.current.id if session.current else None)
            assert self.runtime.agents.get(info.id) == info
        for agent_id in self.agents:
            assert (self.runtime.agents.get(agent_id) is None) == (agent_id not in listed)

    @invariant()
    def the_messages_are_what_the_model_remembers(self) -> None:
        for session in self.sessions.values():
            if session.deleted:
                assert self.attempt(partial(self.runtime.sessions.messages, session.id)) is SessionNotFoundError
            else:
                messages = self.runtime.sessions.messages(session.id)
                assert [_told(message) for message in messages] == session.said()

    @invariant()
    def live_state_log_and_rows_agree(self) -> None:
        grammars = check(self.runtime)
        for session in self.sessions.values():
            turns = grammars[session.id].turns
            assert {id_: turn.outcome for id_, turn in turns.items()} == {
                turn.id: turn.outcome for turn in session.turns
            }

    def teardown(self) -> None:
        self.runtime.close()
        shutil.rmtree(self.directory)


def _told(message: Message) -> tuple[str, str, str | None, bool]:
    return message.role, message.text, message.stop_reason, message.partial


TestFacades = FacadesMachine.TestCase
TestFacades.settings = settings(max_examples=max(examples(20), settings().max_examples // 4), stateful_step_count=40)
