"""The live agent of a session: its environment, the events it gets, and the stream of its answers."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from reenact.actors.envelopes import enveloped, flat
from reenact.actors.environment.api import ChecksTools, Environment
from reenact.actors.journal.api import Entry
from reenact.actors.kernel import ActorContext
from reenact.actors.session.ports import Ports
from reenact.actors.session.turn_stream import Channel, TurnStream
from reenact.domain.errors import EnvironmentFailedError, ReenactError
from reenact.domain.loop.rules import Rules
from reenact.domain.session import announce as announcing
from reenact.domain.session.agent import Failure, HandoverRequested, ReceivedAnswer
from reenact.domain.session.commands import Compress, Finish, Report, SessionCommand, Stop
from reenact.domain.session.state import Session, for_model
from reenact.domain.session.turns import output_of
from reenact.domain.stream import events as heard_events
from reenact.domain.stream.events import Context, EventData
from reenact.domain.tools import Handover

_logger = logging.getLogger("reenact.session")


class LiveAgent:
    """The session actor's access to its agent, used by that actor only. The environment's output comes as commands."""

    def __init__(self, context: ActorContext, ports: Ports) -> None:
        self._context = context
        self._ports = ports
        self._me = context.me
        self._environment: Environment | None = None
        self._made: Environment | None = None
        self._environment_failure: Failure | None = None
        self._failed: tuple[str, Failure] | None = None
        self._channel: Channel | None = None
        self._rules: tuple[Rules, Rules] | None = None
        self.published: tuple[str, ReceivedAnswer] | None = None
        """A turn with the part of its answer that was published before a crash."""

    @property
    def turn_stream(self) -> TurnStream | None:
        """The stream on which its answers are published; None without an environment."""
        return None if self._channel is None else self._channel.turn_stream

    def rules(self, session: Session) -> Rules:
        """Return the rules of the loop of the session's agent."""
        if self._rules is None:
            rules = self._ports.rules(session)
            self._rules = rules, msgspec.structs.replace(rules, runs_tools=False)
        return self._rules[self._channel is not None and not self._channel.runs_tools]

    def prepare(self, session: Session, agent_id: str) -> None:
        """Create an environment for an agent about to start, unless there is one; exceptions are passed on."""
        if self._made is None:
            self._made = self._ports.make_environment(session, agent_id)

    def prepare_child(self, session: Session, agent_id: str) -> None:
        """Prepare the environment of a child session; if none is available, its turn fails with that error."""
        try:
            self.prepare(session, agent_id)
        except Exception as error:
            _logger.exception("agent %s cannot start: no environment could be made for it", agent_id)
            self._environment_failure = Failure("environment_error", f"no environment could be made: {error}")

    def check_connected(self, agent_id: str) -> None:
        """Raise `EnvironmentFailedError` if the agent is being stopped because its environment failed to connect."""
        if self._failed is not None and self._failed[0] == agent_id:
            raise EnvironmentFailedError(agent_id, self._failed[1].message)

    def start(self, session: Session, agent_id: str) -> None:
        """Connect the environment prepared for the agent, which has started; if that fails, stop the agent."""
        made, self._made = self._made, None
        failure, self._environment_failure = self._environment_failure, None
        if made is not None:
            failure = self._connect(session, agent_id, made)
        if failure is not None:
            self._stop(agent_id, failure)

    def revive(self, session: Session, agent_id: str) -> bool:
        """Create an environment for an agent that is live in the log; return False if that fails."""
        try:
            environment = self._ports.make_environment(session, agent_id)
        except Exception:
            _logger.exception("agent %s cannot go on: no environment could be made for it", agent_id)
            return False
        if self._connect(session, agent_id, environment) is not None:
            return False
        if session.turn is not None:  # results of its calls may arrive before the next answer
            self.enter(session.turn.id, announcing.of_turn(session))
        return True

    def switch(self, session: Session) -> None:
        """Replace the agent's environment by one of the session's current image."""
        self._rules = None
        self.disconnect()
        if session.agent is None:
            return
        agent_id = session.agent.id
        try:
            failure = self._connect(session, agent_id, self._ports.make_environment(session, agent_id))
        except Exception as error:
            _logger.exception("agent %s cannot go on: no environment could be made for it", agent_id)
            failure = Failure("environment_error", f"no environment could be made: {error!r}")
        if failure is not None:
            self._stop(agent_id, failure)

    def disconnect(self) -> None:
        """Dispose of the environment, of which nothing more is accepted. Idempotent."""
        if self._channel is not None:
            self._channel.turn_stream.end()
        for environment in (self._environment, self._made):
            if environment is not None:
                try:
                    environment.dispose()
                except Exception:
                    _logger.exception("the environment of session %s could not be disposed of", self._context.id)
        self._environment = self._made = self._channel = None

    def check_tool(self, session: Session, call_id: str) -> None:
        """Raise `ToolUnavailableError` if an approval would be consumed by a call that cannot run."""
        call = session.call(call_id)
        environment: object = self._environment
        if call is None or call.stage != "waiting" or call.question is not None:  # a question is not an approval
            return
        if any(agent.name == call.name for agent in self.rules(session).agents):  # a child session needs no function
            return
        if isinstance(environment, ChecksTools):
            environment.check_tool(call.name)

    def so_far(self, session: Session, given: ReceivedAnswer) -> ReceivedAnswer:
        """Return what has arrived of the answer that ends now, and accept no more of it."""
        turn = session.turn
        if turn is None or self._channel is None:
            return given
        if self.published is not None and self.published[0] == turn.id:
            return self.published[1]
        return self._channel.turn_stream.close(turn.id)

    def ask(
        self,
        session: Session,
        context: Context,
        started: heard_events.TurnStarted | heard_events.StepStarted,
        *,
        responding: bool = False,
    ) -> None:
        """Let the environment answer a turn, or a step of a turn, that has started."""
        channel, turn = self._channel, session.turn
        if channel is None or turn is None or turn.id != started.turn_id:
            return
        self.published = None
        rules = self.rules(session)
        channel.said = for_model(session)
        channel.too_long = session.summarise or (
            rules.compress_at is not None and session.context_tokens > rules.compress_at
        )
        channel.wanted = output_of(turn, rules)
        channel.turn_stream.open(turn.id, flat(context), responding=responding)
        if isinstance(started, heard_events.TurnStarted) and channel.wants(heard_events.UserMessage.event_type):
            self.tell(context, heard_events.UserMessage(message=announcing.question_of(turn, channel.said[-1])))
        self.tell(context, started)

    def enter(self, turn_id: str, context: Context) -> None:
        """Accept results of the turn's calls; the model is not asked yet."""
        if self._channel is not None:
            self._channel.turn_stream.enter(turn_id, flat(context))

    def run_tool(self, session: Session, context: Context, started: heard_events.ToolStarted) -> None:
        """Let the environment run a call; a call that requests a hand-over is answered here."""
        handover = self.rules(session).handovers.get(started.name)
        if handover is not None:
            self._answer_handover(context.turn_id or "", started.id, handover)
            return
        if self._channel is not None:
            self._channel.said = for_model(session)
            self._channel.turn_stream.expect(started.id)
        self.tell(context, started)

    def tell(self, context: Context, data: EventData) -> None:
        """Pass an event to the environment, if it subscribes to it."""
        channel = self._channel
        if channel is not None and channel.wants(data.event_type):
            entry = Entry(data.event_type, self._ports.now(), data)
            channel.hear(enveloped(entry, context, self._ports.new_id("evt")))

    def finish(self, turn_id: str, so_far: ReceivedAnswer) -> None:
        """Let the session record the end of the answer."""
        self._tell_session(Finish(turn_id=turn_id, so_far=so_far, at=self._ports.now()))

    def _connect(self, session: Session, agent_id: str, environment: Environment) -> Failure | None:
        """Connect the environment to the agent; return the failure, if any."""
        guards = self.rules(session).guards
        turn_stream = TurnStream(
            self._context.stream,
            self._context.system.append_in_round,
            self._ports.now,
            self._ports.new_id,
            finish=self.finish,
            report=self._report,
            compress=self._compress,
            # With guards, something else may be appended before the end of the answer.
            append_last=self._context.system.append_with_next if guards is None else None,
            hold=guards is not None and guards.hold,
        )
        channel = Channel(turn_stream, self._ports.request, self._ports.spawn)
        self._environment, self._channel = environment, channel
        self._ports.agent_lives(agent_id, self._context.id, lambda: turn_stream.responding)
        try:
            environment.receptor.connect(turn_stream)
            environment.effector.connect(channel)
        except Exception as error:
            _logger.exception("the environment of session %s could not be connected", self._context.id)
            self.disconnect()
            self._ports.agent_ends(agent_id)  # at once: nobody is to send it a message before it has stopped
            return Failure("environment_error", f"the environment could not be connected: {error!r}")
        return None

    def _stop(self, agent_id: str, failure: Failure) -> None:
        self._failed = agent_id, failure
        so_far = ReceivedAnswer(failure=failure, untold=True)
        self._tell_session(Stop(agent_id=agent_id, reason="crash", at=self._ports.now(), so_far=so_far))

    def _answer_handover(self, turn_id: str, call_id: str, to: Handover) -> None:
        """Answer a call that requests a hand-over, without the environment."""
        asked = None
        try:
            asked = HandoverRequested(to.image, self._ports.newest_revision(to.image), to.history, call_id)
            result = f"{to.image} takes over when this turn ends, and answers what comes then."
        except ReenactError as error:
            result = f"There is no hand-over to {to.image}: {error}"
        at = self._ports.now()
        report = Report(turn_id=turn_id, call_id=call_id, result=result, is_error=asked is None, at=at, handover=asked)
        self._tell_session(report)

    def _report(self, turn_id: str, told: heard_events.ToolResult) -> None:
        report = Report(
            turn_id=turn_id,
            call_id=told.id or "",
            result=told.result,
            is_error=told.is_error,
            at=self._ports.now(),
        )
        self._tell_session(report)

    def _compress(self, turn_id: str, told: heard_events.ContextCompressed, then: Callable[[], None]) -> None:
        compress = Compress(
            turn_id=turn_id,
            summary=told.summary,
            kept=told.kept,
            usage=told.usage,
            model=told.model,
            at=self._ports.now(),
        )
        self._tell_session(compress, then)

    def _tell_session(self, command: SessionCommand, then: Callable[[], None] | None = None) -> None:
        """Send the session a command; call `then` when it has been handled or has failed."""
        if then is None:
            self._me.tell(command, here_and_now=True)
        else:
            self._me.ask_future(command).add_done_callback(lambda _: then())
