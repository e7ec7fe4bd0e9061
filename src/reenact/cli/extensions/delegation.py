"""Letting an agent answer in a session of its own, and its answer become that of a turn in the person's session."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

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
from reenact.cli.chat.answering import AGENTS, Answering, usage_of_agents
from reenact.cli.chat.conversation import Attending, Conversation
from reenact.cli.chat.current import definition_of
from reenact.cli.output.answers import Answer, unasked
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode, Problem
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.configuration import check_price, read_prices
from reenact.domain.content import check_content
from reenact.domain.errors import ConfigurationError
from reenact.domain.events import Envelope, MessageStart, MessageStop, StreamData, TextDelta, TurnStarted
from reenact.domain.image import Definition
from reenact.domain.messages import Said, text_of
from reenact.domain.turns import COST_LIMIT
from reenact.extensions.kinds import Agent, Skill, image_of, missing_tools


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

    _producer: SystemBusProducer | None = None

    def __init__(self, inner: Receptor) -> None:
        self._inner = inner

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
                self._receptor.emit(answer, str(event.data["turn_id"]))
            return answer is not None

        def sieved(handler: Handler) -> Handler:
            return lambda event: None if has_answer(event) else handler(event)

        self._inner.connect(ConsumerProxy(consumer, sieved))


class Delegation:
    """Asks agents; the model of this run stands in the place of those that sessions were created with."""

    answerer: Answering | None = None
    """Who answers in this run."""

    def __init__(self, options: TalkOptions, console: Console, skills: Mapping[str, Skill]) -> None:
        self.answers = DelegatedAnswers()
        self.asked: dict[str, list[str]] = {}
        """The sessions of agents that were asked in this run, by those in which they were."""
        self._options = options
        self._console = console
        self._skills = tuple(skills.values())

    def ask(self, attending: Attending, agent: Agent, message: str, whole: str) -> Answer:
        """Return the agent's answer to the message, with which a turn of the conversation has answered the `whole`."""
        conversation = attending.conversation
        session = self._definition(conversation)
        refusal = self._refusal(agent, session, conversation)
        if refusal is not None:
            return unasked(conversation.shown_id, refusal)
        conversation.run()
        missing = missing_tools(agent, session)
        if missing:
            self._console.warn(f"@{agent.name} lists tools that are not available: {', '.join(missing)}")
        image = image_of(agent, session, self._skills)
        with Conversation.beside(conversation, image, container=AGENTS) as own:
            self._console.say(f"@{agent.name} answers in session {own.session_id}")
            self.answers.children.add(own.session_id)
            self.asked.setdefault(conversation.session_id, []).append(own.session_id)
            answer = replace(attending, conversation=own).ask(message)
        if answer.problem is not None or answer.waits:
            return answer
        self.answers.put(
            conversation.session_id,
            DelegatedAnswer(
                asked=text_of(check_content(attending.content_of(whole))),
                name=agent.name,
                text=answer.text,
                session=answer.session_id,
            ),
        )
        brought = replace(attending, hear=attending.echo).ask(whole)
        kept = {name: getattr(brought, name) for name in ("session_id", "agent_id", "turn_id", "waits", "problem")}
        return msgspec.structs.replace(answer, **kept, duration=answer.duration + brought.duration)

    def _refusal(self, agent: Agent, session: Definition, conversation: Conversation) -> Problem | None:
        """Return why the agent is not asked, if it would cost what the session may not, or nobody knows what."""
        limit = session.cost_limit
        if limit is None:
            return None
        spent = 0.0 if conversation.is_new else self._spent(conversation)
        if limit.is_exceeded(spent) and limit.on_exceeded != "warn":
            who = "the session, with the agents asked from it,"
            what = f"{who} has spent {spent:.6g}, and may spend {limit.max_total:.6g} (--max-cost)"
            return Problem(ExitCode.USAGE, COST_LIMIT, f"@{agent.name} is not asked: {what}")
        answerer = self.answerer
        if answerer is None or (agent.model is None and answerer.mock is not None):
            return None
        try:
            check_price(
                answerer.model_of(agent.model, session.model),
                {**answerer.known_prices, **read_prices(self._options.prices)},
                "what its session costs has a limit (--max-cost)",
            )
        except ConfigurationError as error:
            return Problem(ExitCode.USAGE, ConfigurationError.code, f"@{agent.name} is not asked: {error}")
        return None

    def _spent(self, conversation: Conversation) -> float:
        """Return what the session and the agents asked from it have cost."""
        session_id, runtime = conversation.session_id, conversation.runtime
        others = usage_of_agents(runtime, session_id, self.asked.get(session_id, ()))
        return runtime.sessions.usage(session_id).cost + sum(usage.cost for _, usage in others)

    def _definition(self, conversation: Conversation) -> Definition:
        """Return what the session was created with, but for the model of this run."""
        created = definition_of(conversation, self._options.database, self._console)
        return msgspec.structs.replace(created, model=(self.answerer and self.answerer.model) or created.model)
