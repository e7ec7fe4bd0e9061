"""Answers that an agent gave in a session of its own, brought back as a turn of the person's without asking a model."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from reenact._runtime import Runtime
from reenact.actors.environment.api import (
    ConsumerProxy,
    Effector,
    Environment,
    EnvironmentProxy,
    Handler,
    Receptor,
    SystemBusConsumer,
    SystemBusProducer,
)
from reenact.domain.events import Envelope, MessageStart, MessageStop, StreamData, TextDelta, TurnStarted
from reenact.domain.history import UsageInfo
from reenact.domain.messages import Said, text_of

AGENTS: Final = "agents"
"""The container of the sessions in which agents answer."""


class DelegatedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent has answered to what was asked, in a session of its own."""

    asked: str
    name: str
    text: str
    session: str


class DelegatedAnswers:
    """Answers of agents, kept until the turn begins that asks for them; at most one for a session. Thread-safe."""

    def __init__(self) -> None:
        self.children: set[str] = set()
        """The sessions in which agents answer."""
        self._lock = threading.Lock()
        self._by_session: dict[str, DelegatedAnswer] = {}

    def put(self, session_id: str, answer: DelegatedAnswer) -> None:
        """Keep the answer to what this session is asked next."""
        with self._lock:
            self._by_session[session_id] = answer

    def take(self, session_id: str, conversation: Sequence[Said]) -> DelegatedAnswer | None:
        """Return the answer to what the conversation ends with, if it is here."""
        with self._lock:
            answer = self._by_session.get(session_id)
            if answer is None or not conversation or text_of(conversation[-1].content) != answer.asked:
                return None
            return self._by_session.pop(session_id)


class DelegatingEnvironment(EnvironmentProxy):
    """An environment that answers what an agent has answered already, and leaves all else to another one."""

    def __init__(self, inner: Environment, session_id: str, answers: DelegatedAnswers) -> None:
        receptor = _Receptor(inner.receptor)
        super().__init__(inner, receptor, _Effector(inner.effector, receptor, session_id, answers))


class _Receptor:
    """The other's way in, and what is brought."""

    def __init__(self, inner: Receptor) -> None:
        self._inner = inner
        self._producer: SystemBusProducer | None = None

    def connect(self, producer: SystemBusProducer) -> None:
        """Emit to this producer from now on."""
        self._producer = producer
        self._inner.connect(producer)

    def emit(self, answer: DelegatedAnswer, turn_id: str) -> None:
        """Say what the agent has answered; the message has the id of the session in which it did."""
        text = (TextDelta(text=answer.text),) if answer.text else ()
        start = MessageStart(message_id=answer.session, model=f"@{answer.name}")
        events: tuple[StreamData, ...] = (start, *text, MessageStop())
        if self._producer is not None:
            self._producer.emit_all(events, turn_id=turn_id)


@dataclass
class _Effector:
    """The other's way out, which does not hear of turns whose answer is there."""

    _inner: Effector
    _receptor: _Receptor
    _session_id: str
    _answers: DelegatedAnswers

    def connect(self, consumer: SystemBusConsumer) -> None:
        """Act on what this consumer hears."""

        def has_answer(event: Envelope) -> bool:
            if event.type != TurnStarted.event_type:
                return False
            answer = self._answers.take(self._session_id, consumer.conversation())
            if answer is not None:
                self._receptor.emit(answer, event.data["turn_id"])
            return answer is not None

        def sieved(handler: Handler) -> Handler:
            return lambda event: None if has_answer(event) else handler(event)

        self._inner.connect(ConsumerProxy(consumer, sieved))


_OF_AGENTS: Final = "agent-"
"""How the ids of the images of agents begin."""


def usage_of_agents(runtime: Runtime, session_id: str, asked_now: Iterable[str] = ()) -> list[tuple[str, UsageInfo]]:
    """Return the names of agents, and what the session of each has used that was asked from this session.

    The log names those that have answered: their answers here have the ids of their sessions. `asked_now` are those of
    this run, also if they have not.
    """
    answered = (message.id for message in runtime.sessions.messages(session_id) if message.role == "assistant")
    found: list[tuple[str, UsageInfo]] = []
    for one in dict.fromkeys((*answered, *asked_now)):
        session = runtime.sessions.get(one)
        if session is not None and session.container_id == AGENTS:
            found.append((session.image_id.removeprefix(_OF_AGENTS), runtime.sessions.usage(one)))
    return found
