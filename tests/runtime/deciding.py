"""An environment that runs tools, as users write one, around a model whose answers are written down beforehand."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from reenact import EnvironmentConfig, Runtime, ToolResultBlock
from reenact.actors.environment.api import SystemBusConsumer, SystemBusProducer
from reenact.domain.loop.ledger import Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Said
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.stream.events import ToolStarted
from reenact.events import Envelope
from tests.runtime.conftest import furnish
from tests.runtime.witness import Ears, check_decisions, check_rows, fold, journal_of, live_sessions, recorded_states

RULES = Rules(
    policies=Policies(tools={"send_email": Policy("required")}),
    prices={"model": Price(2.0, 10.0)},
    costs={"search": 0.5},
)
STRICTER = Rules(policies=Policies(tools={"send_email": Policy("always")}))

Call: TypeAlias = tuple[str, str, dict[str, Any]]
"""The id, the name and the arguments of a call."""
Answer: TypeAlias = str | list[Call]


class Desk:
    """Makes environments that share a model, the tools, and a list of what was run."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)
        self.heard: list[Sequence[Said]] = []
        self.ran: list[tuple[str, Mapping[str, Any]]] = []
        self.held: dict[str, Callable[[], None]] = {}
        self.holding: set[str] = set()
        self._lock = threading.Lock()

    def create(self, config: EnvironmentConfig) -> DeskEnvironment:
        return DeskEnvironment(self)

    def ask(self, *answers: Answer) -> None:
        """Write down what the model will say next."""
        self.answers.extend(answers)

    def run(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any, bool]:
        """Run a tool; return its result and whether that is an error."""
        with self._lock:
            self.ran.append((name, arguments))
        return ("out of order", True) if name == "broken" else ({"done": name}, False)

    def last_results(self) -> list[tuple[str, Any, bool]]:
        """Return what the model was told of its calls when it was asked last."""
        blocks = [block for block in self.heard[-1][-1].content if isinstance(block, ToolResultBlock)]
        return [(block.tool_use_id, block.content, block.is_error) for block in blocks]


class DeskReceptor:
    producer: SystemBusProducer

    def connect(self, producer: SystemBusProducer) -> None:
        self.producer = producer


class DeskEffector:
    """Asks the model when a turn or a step begins, and runs a tool when it is told to."""

    def __init__(self, desk: Desk, receptor: DeskReceptor) -> None:
        self._desk = desk
        self._receptor = receptor
        self._consumer: SystemBusConsumer

    def connect(self, consumer: SystemBusConsumer) -> None:
        self._consumer = consumer
        consumer.on("turn_started", self._ask)
        consumer.on("step_started", self._ask)
        consumer.on("tool_started", self._run)
        consumer.on("turn_completed", lambda _: None)

    def _ask(self, event: Envelope) -> None:
        self._desk.heard.append(self._consumer.conversation())
        answer = self._desk.answers.popleft() if self._desk.answers else "Done."
        turn_id = event.context.turn_id
        self._emit(turn_id, "message_start", {"model": "model"})
        if isinstance(answer, str):
            self._emit(turn_id, "text_delta", {"text": answer})
        else:
            for id_, name, arguments in answer:
                self._emit(turn_id, "tool_call", {"id": id_, "name": name, "input": arguments})
        self._emit(turn_id, "message_delta", {"usage": {"input_tokens": 1000, "output_tokens": 100}})
        self._emit(turn_id, "message_stop", {"stop_reason": "end_turn" if isinstance(answer, str) else "tool_use"})

    def _run(self, event: Envelope) -> None:
        data, turn_id = event.data, event.context.turn_id
        assert isinstance(data, ToolStarted)

        def finish() -> None:
            result, is_error = self._desk.run(data.name, data.input)
            told = {"id": data.id, "name": data.name, "result": result, "is_error": is_error}
            self._emit(turn_id, "tool_result", told)

        if data.name in self._desk.holding:
            self._desk.held[data.id] = finish
        else:
            finish()

    def _emit(self, turn_id: str | None, type_: str, data: dict[str, Any]) -> None:
        self._receptor.producer.emit({"type": type_, "data": data}, turn_id=turn_id)


class DeskEnvironment:
    name = "desk"

    def __init__(self, desk: Desk) -> None:
        self.receptor = DeskReceptor()
        self.effector = DeskEffector(desk, self.receptor)

    def dispose(self) -> None:
        """There is nothing to let go of."""


def begin(runtime: Runtime, *session_ids: str) -> Ears:
    """Create the sessions and run them; return who hears everything."""
    if runtime.containers.get("c") is None:
        furnish(runtime)
    ears = Ears(runtime)
    for session_id in session_ids or ("s",):
        runtime.sessions.create("c", "i", session_id=session_id)
        runtime.sessions.run(session_id)
    return ears


def agent_of(runtime: Runtime, session_id: str = "s") -> str:
    """Return the live agent of the session."""
    (agent_id,) = [agent.id for agent in runtime.agents.list() if agent.session_id == session_id]
    return agent_id


def say(runtime: Runtime, text: str = "Please", session_id: str = "s") -> str:
    """Say something to the session's agent; return the turn's id."""
    return runtime.agents.receive(agent_of(runtime, session_id), text)


def check(runtime: Runtime) -> None:
    """Hold live states, log and rows against each other."""
    journal = journal_of(runtime)
    for session_id, (state, version) in live_sessions(runtime).items():
        assert state == fold(journal, session_id, until=version), session_id
    check_rows(runtime, recorded_states(journal))
    check_decisions(journal)
