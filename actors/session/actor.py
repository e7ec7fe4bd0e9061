"""The session actor: records decisions about a session and its agent, and drives the agent's environment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec

from reenact.actors.envelopes import segments_of
from reenact.actors.environment.tools.outcome import error_text
from reenact.actors.idempotency import remembered
from reenact.actors.journal.api import Derived, Kept, Remembered, Segment
from reenact.actors.journal.lock import Owner
from reenact.actors.kernel import ActorContext, EventSourcedActor, Origin, Postponed
from reenact.actors.session.live_agent import LiveAgent
from reenact.actors.session.ports import Ports
from reenact.actors.session.timers import timers
from reenact.actors.session.turn_stream import published_of
from reenact.domain.children import ChildOrigin, ChildStarted, Parent
from reenact.domain.errors import (
    MessageRefusedError,
    RuntimeClosedError,
    SessionLockedError,
    ShardMovedError,
    StorageError,
    UnstorableError,
)
from reenact.domain.guards import GuardChecked, Guards, of_point, refusal_in
from reenact.domain.history.causes import cause_of
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.messages import Said, instant, is_blank
from reenact.domain.operations.table import MessageSendRequest, response_to
from reenact.domain.session import announce as announcing
from reenact.domain.session import child_turns as family
from reenact.domain.session import decide as deciding
from reenact.domain.session import state as states
from reenact.domain.session.agent import Failure, ReceivedAnswer, TurnContinued
from reenact.domain.session.branching import waiting, waits
from reenact.domain.session.child_calls import awaited
from reenact.domain.session.commands import (
    Approve,
    BeginChild,
    BranchSession,
    CancelSchedule,
    Compress,
    CreateSession,
    Delete,
    Finish,
    FireSchedule,
    GiveUpChildren,
    Interrupt,
    PassAnswer,
    Receive,
    Reject,
    Report,
    ReportChild,
    Respond,
    Resume,
    Run,
    ScheduleMessage,
    SessionCommand,
    Stop,
    Switch,
)
from reenact.domain.session.guarding import Question, questions
from reenact.domain.session.schedules import SECOND, Schedule
from reenact.domain.session.state import (
    SNAPSHOT_VERSION,
    BranchPoint,
    Session,
    SessionBranched,
    SessionCreated,
    SessionEvent,
    SessionInfo,
    evolve,
    kept,
    reading,
    session_from_snapshot,
)
from reenact.domain.session.turns import TOOL_USE, Decided
from reenact.domain.stream import events as heard_events
from reenact.domain.stream.events import Context

logger = logging.getLogger("reenact.session")
_ACTED_ON: Final = frozenset(
    {
        *(heard_events.UserMessage, heard_events.TurnStarted, heard_events.StepStarted, heard_events.ToolStarted),
        *(heard_events.AgentStarted, heard_events.ImageChanged, heard_events.AgentStopped),
    }
)
"""The event types on which the session itself acts; all others are passed to the environment unchanged."""
_ENDING_COMMANDS: Final = Interrupt, Stop, Delete
LOST = Failure("storage_error", "the log could not be written; the rest of the answer is lost", retryable=True)
_BROKEN: Final = "internal_error"
"""The type of a turn's failure if a command that the session sent itself could not be handled."""
Reply: TypeAlias = str | bool | SessionInfo | Schedule | Segment | ReportChild | None


def _is_continued(turn_id: str, events: Sequence[SessionEvent]) -> bool:
    return any(isinstance(event, TurnContinued) and event.turn_id == turn_id for event in events)


def _origin(begins: SessionCommand | SessionEvent) -> Origin | None:
    match begins:
        case BranchSession() | SessionBranched():
            return Origin(begins.origin, begins.version, begins.digest)
        case _:
            return None


def end_of_turn(command: object, error: BaseException, at: int) -> Finish | None:
    """Return the command that ends the turn of a session's own command, which has failed with this error.

    None if the command has no turn, or comes again: what the log did not record is decided again when it works.
    """
    is_unstorable = isinstance(error, UnstorableError)  # no failure of the log
    if isinstance(error, StorageError | RuntimeClosedError | SessionLockedError) and not is_unstorable:
        return None
    match command:
        case Finish() if _is_broken(command.so_far):
            return None
        case Finish() | Report() | Resume():
            return _failed(error, at, command.turn_id)
        case GiveUpChildren() | Interrupt() | ReportChild():
            return _failed(error, at)
        case _:
            return None


def _failed(error: BaseException, at: int, turn_id: str = "") -> Finish:
    """Return the command that ends the turn because of this error; without an id, the one under way."""
    told = f"an unexpected error has ended the turn: {error_text(error)}"
    failure = Failure(_BROKEN, told.encode(errors="backslashreplace").decode())
    return Finish(turn_id=turn_id, so_far=ReceivedAnswer(failure=failure, untold=True), at=at)


def _is_broken(so_far: ReceivedAnswer) -> bool:
    return so_far.untold and so_far.failure is not None and so_far.failure.type == _BROKEN


def _has_ended(answer: ReceivedAnswer) -> bool:
    return answer.stop_reason is not None or answer.failure is not None


def _check_passed(checked: Sequence[GuardChecked]) -> None:
    refusal = refusal_in(checked)
    if refusal is not None:
        raise MessageRefusedError(refusal.name, refusal.reason)


class SessionActor(EventSourcedActor[Session, SessionCommand, SessionEvent]):
    """One session: decides, records and updates its state; then lets the environment act."""

    category = "session"  # the stream is also the topic of the session's feed
    initial = Session()
    decide = staticmethod(deciding.decide)
    evolve = staticmethod(states.evolve)
    origin = staticmethod(_origin)
    timers = staticmethod(timers)
    snapshot_every = 500
    snapshot_version = SNAPSHOT_VERSION
    snapshot_type = msgspec.Raw
    to_snapshot = staticmethod(kept)
    from_snapshot = staticmethod(session_from_snapshot)
    quick_commands = frozenset({Receive})
    cause = staticmethod(cause_of)  # pyright: ignore[reportAssignmentType]  # it does not use the actor

    def __init__(self, context: ActorContext, ports: Ports) -> None:
        super().__init__(context)
        self._ports = ports
        self._agent = LiveAgent(context, ports)
        self._heard: Sequence[announcing.Announced] = ()
        self._recorded_at = 0

    def on_start(self) -> None:
        """Lock the session before its log is read: from now on no other process changes it.

        Raises:
            SessionLockedError: another process has locked it.
        """
        locks = self._ports.locks
        if locks is not None and not locks.claim(self.context.stream):
            owner = locks.owner_of(self.context.stream) or Owner(None)
            raise SessionLockedError(self.context.id, owner.pid, owner.host)

    def on_restored(self, state: Session) -> Session:
        """Let the conversation be read from the log on demand."""
        return reading(state, self._conversation)

    def on_recovered(self) -> Sequence[SessionCommand]:
        """Continue with the agent that is live in the log, or end it, depending on the runtime's `recovery`."""
        agent, turn, is_closing = self.state.agent, self.state.turn, self._ports.is_closing()
        if not is_closing:  # else sessions that are being closed would wake each other; the next start asks
            self._ask_family()
        if agent is None:
            if self.version:
                self._leave_to_others()
            return ()
        at = self._ports.now()
        published = (
            ReceivedAnswer() if turn is None else published_of(self._ports.journal, self.context.stream, turn.id)
        )
        if is_closing:  # this agent was being started
            return (Stop(agent_id=agent.id, reason="shutdown", at=at, so_far=published),)
        if self._ports.agent_is_known(agent.id):  # the log failed while this agent was running, and can be read again
            if self._agent.revive(self.state, agent.id):
                if turn is None:
                    return ()
                if self.state.round is None and _has_ended(published):
                    self._agent.published = turn.id, published
                else:  # also an answer that began a round, which has already been recorded
                    published = msgspec.structs.replace(published, failure=LOST, untold=True)
                return (Finish(turn_id=turn.id, so_far=published, at=at),)
        elif turn is None and self._comes_from_another_node() and self._agent.revive(self.state, agent.id):
            return ()
        elif self._ports.recovery == "resume" and turn is not None and self._agent.revive(self.state, agent.id):
            if self.state.round is not None:
                return (Resume(turn_id=turn.id, at=at),)
            if _has_ended(published):  # only its end was not recorded
                self._agent.published = turn.id, published
                return (Finish(turn_id=turn.id, so_far=published, at=at),)
            started = heard_events.TurnStarted(turn_id=turn.id, message_id=turn.message_id)
            again = heard_events.StepStarted(turn_id=turn.id, step=turn.steps)
            step = started if turn.steps == 1 else again
            context = announcing.of_turn(self.state)
            self._agent.ask(self.state, context, step, responding=published.responding)
            return ()
        return (Stop(agent_id=agent.id, reason="crash", at=at, so_far=published),)

    def evolve_all(self, state: Session, events: tuple[SessionEvent, ...]) -> Session:
        """Return the session after the events."""
        return events.after if isinstance(events, Decided) else super().evolve_all(state, events)

    def prepare(self, command: SessionCommand) -> SessionCommand:
        """Complete the command with what only the actor knows: the loop's rules, and the answer received so far."""
        match command:
            case Finish():
                command = self._with_answer_so_far(command)
            case CreateSession() | Switch() | ScheduleMessage() | CancelSchedule():
                return command
            case BeginChild():
                self._prepare_child(command)
                return command
            case ReportChild() if self.state.id is None:  # the child was imported without its parent
                return command
            case ReportChild():
                command = family.received(self.state, command, self._ports.new_id)
                if command.agent_id:
                    self._agent.prepare(self.state, command.agent_id)
            case FireSchedule():
                command = self._with_agent(command)
            case Stop(agent_id=""):  # `WAKE`
                self._ask_family()
                return command
            case BranchSession():
                new_id = self._ports.new_id
                ids = tuple((new_id("trn"), new_id("msg")) for _ in waiting(self.state, command.edit))
                image, revision = command.image_id, command.image_revision
                if not image:
                    image, revision = self.state.image_id, self.state.image_revision
                children = self._children_at(self.state, command.until)
                command = msgspec.structs.replace(
                    command,
                    ids=ids,
                    results_id=new_id("msg"),
                    image_id=image,
                    image_revision=revision,
                    children=children,
                )
                return command if command.edit is None else self._check_edit_guards(command)
            case Interrupt() | Stop() | Delete() if self._ends_turn(command):
                so_far = self._agent.so_far(self.state, command.so_far)
                command = msgspec.structs.replace(command, so_far=so_far)
            case Run():
                self._prepare_run(self.state, command)
            case Approve():
                self._agent.check_tool(self.state, command.call_id)
            case _:
                pass
        if isinstance(command, _ENDING_COMMANDS) and self.state.turn is None and self.state.round is None:
            return command
        command = self._with_rules(command)
        guards = self._agent.rules(self.state).guards
        return command if guards is None else self._check_guards(command, guards)

    def announce(
        self,
        command: SessionCommand,
        before: Session,
        events: tuple[SessionEvent, ...],
        after: Session,
        recorded_at: int,
    ) -> tuple[Kept, tuple[Segment, ...]]:
        """Return the session's feed entries, which are derived from the events when they are read, and the response.

        The response must not be published later than the effects of the command.
        """
        needs = announcing.needed(before, events)
        self._heard = announcing.announce(self.context.id, needs, events)
        self._recorded_at = recorded_at
        kept = Derived(announcing.TODAY, needs.stored(), segments_of(self._heard, recorded_at))
        return kept, self._response(command, after, recorded_at)

    def remember(
        self, command: SessionCommand, events: tuple[SessionEvent, ...], after: Session, recorded_at: int
    ) -> Remembered | None:
        """Return the request that the command carries out, with its response."""
        if not isinstance(command, IdempotentCommand) or command.once is None:
            return None
        if isinstance(command, Receive) and refusal_in(command.checked) is not None:
            return None
        answer: object
        match command:
            case Receive():
                answer = self._message_response(command, after)
            case Delete():
                answer = True
            case _:
                answer = self._reply_after(command, events, after, recorded_at)
        return remembered(command, answer, recorded_at)

    def on_committed(self, command: SessionCommand, events: tuple[SessionEvent, ...]) -> None:
        """Let the environment act on the durable events; if it cannot be asked to, the turn ends."""
        try:
            self._act_on(command, events)
        except Exception as error:
            self.context.me.tell(_failed(error, self._ports.now()))
            raise

    def _act_on(self, command: SessionCommand, events: tuple[SessionEvent, ...]) -> None:
        self._ports.log_works(self.context.id)
        heard, self._heard = self._heard, ()
        for context, data in heard:
            if type(data) not in _ACTED_ON:
                self._agent.tell(context, data)
                continue
            match data:
                case heard_events.UserMessage():
                    pass  # the environment gets it when its turn begins
                case heard_events.TurnStarted() if _is_continued(data.turn_id, events):
                    self._agent.enter(data.turn_id, context)
                case heard_events.TurnStarted() | heard_events.StepStarted():
                    self._agent.ask(self.state, context, data)
                case heard_events.ToolStarted() if self.state.children and self._is_child(data.id):
                    pass  # the call runs a child session, not a tool
                case heard_events.ToolStarted():
                    self._agent.run_tool(self.state, context, data)
                case heard_events.AgentStarted():
                    self._agent.start(self.state, data.agent_id)
                    self._agent.tell(context, data)
                case heard_events.ImageChanged():
                    self._agent.switch(self.state)
                    self._agent.tell(context, data)
                case heard_events.AgentStopped():
                    self._agent.tell(context, data)
                    self._agent.disconnect()
                    self._ports.agent_ends(data.agent_id)
                    self._leave_to_others()
                case _:
                    pass
        if self.state.children or self.state.parent is not None:
            self._tell_family(command, events)
        if isinstance(command, PassAnswer):
            self._publish_withheld(command)

    def reply(self, command: SessionCommand, events: tuple[SessionEvent, ...]) -> Reply:
        """Return the agent's id, the turn's id, the published response, or the session, depending on the command.

        Raises:
            MessageRefusedError: a guard has refused the message.
            EnvironmentFailedError: the environment of the agent that was to run could not be connected.
        """
        if isinstance(command, Receive):
            _check_passed(command.checked)
        elif isinstance(command, Run) and self.state.agent is not None:
            self._agent.check_connected(self.state.agent.id)
        return self._reply_after(command, events, self.state, self._recorded_at)

    def on_lost(self, error: Exception) -> None:
        """Dispose of the environment, as the log could not be written; the next incarnation reads the actual state."""
        self._agent.disconnect()
        agent = self.state.agent
        if isinstance(error, ShardMovedError):  # the next incarnation is on another node
            logger.info("session %s: %s", self.context.id, error)
            if agent is not None:
                self._ports.agent_ends(agent.id)
            return
        logger.error("session %s could not be recorded: %s", self.context.id, error)
        if agent is not None:
            self._ports.log_fails(self.context.id, error)

    def can_passivate(self) -> bool:
        """Return False for a live agent: its environment may hold state that is not in the log."""
        return self.state.agent is None

    def can_leave(self) -> bool:
        """Return whether no turn is running: another node can then continue with the agent."""
        return self.state.turn is None

    def on_stop(self) -> None:
        """Dispose of the environment, and unlock the session if no agent is live in it."""
        self._agent.disconnect()
        agent, nodes = self.state.agent, self._ports.nodes
        if agent is not None and nodes is not None and not nodes.may_start(self.context.stream):
            self._ports.agent_ends(agent.id)  # it stays live on another node
        if self._ports.locks is not None and self.state.agent is None:
            self._ports.locks.release(self.context.stream)

    def _prepare_run(self, session: Session, command: Run) -> None:
        """Prepare the environment of the agent to start; if one is live and waits for children, ask these.

        A child may have ended in another process, which could not report that while this one has locked the session.
        """
        if session.agent is None and session.id is not None and not session.deleted:
            self._agent.prepare(session, command.agent_id)
        elif session.turn is None and awaited(session):
            self._ask_family()

    def _prepare_child(self, command: BeginChild) -> None:
        """Prepare the environment of a child session; if none is available, its turn fails with that error."""
        if self.state.id is None:
            of_image = command.container_id, command.image_id, command.image_revision
            created = SessionCreated(command.session_id, *of_image, command.parent, command.budget)
            self._agent.prepare_child(evolve(Session(), created), command.agent_id)

    def _children_at(self, session: Session, position: int) -> tuple[ChildOrigin, ...]:
        """Return the origins of branches of the children that the session waits for, as they were at the position."""
        found: list[ChildOrigin] = []
        for child in awaited(session):
            begun = self._ports.session_at(child.id, position)
            if begun is None:
                continue
            state, link = begun
            origin = ChildOrigin(
                session_id=child.id,
                version=link.version,
                digest=link.digest.hex(),
                position=position,
                at=link.recorded_at,
                waits=waits(state, self._children_at(state, position)),
                steps=child.steps,
                usage=child.usage,
                cost=child.cost,
            )
            found.append(origin)
        return tuple(found)

    def _tell_family(self, command: SessionCommand, events: tuple[SessionEvent, ...]) -> None:
        """Send children and parent the commands that follow from the events."""
        before, new_id, at = self.version - len(events), self._ports.new_id, self._ports.now()
        for letter in family.family_commands(self.state, events, before, new_id=new_id, mark=self._mark, at=at):
            self._ports.tell_kin(*letter)
        if isinstance(command, Run | FireSchedule):
            self._ask_family()

    def _ask_family(self) -> None:
        """Ask children that have not reported their end for their state, and wake the parent, which asks in turn."""
        new_id, at = self._ports.new_id, self._ports.now()
        for letter in family.questions(self.state, self._child_starts, new_id=new_id, mark=self._mark, at=at):
            self._ports.tell_kin(*letter)

    def _child_starts(self) -> dict[str, family.Start]:
        rows = self._ports.journal.read(self.context.stream)
        return {
            row.event.child_id: family.Start(row.version, row.event.origin)
            for row in rows
            if isinstance(row.event, ChildStarted)
        }

    def _mark(self) -> tuple[int, int, str]:
        return self._ports.mark_of(self.context.id, self.version)

    def _is_child(self, call_id: str) -> bool:
        return any(child.call_id == call_id for child in self.state.children)

    def _comes_from_another_node(self) -> bool:
        nodes = self._ports.nodes
        return nodes is not None and not nodes.was_found(self.context.stream)

    def _conversation(self) -> Sequence[Said]:
        journal = self._ports.journal
        return self.replay(journal.read(self.context.stream, after=-1), journal).conversation

    def _leave_to_others(self) -> None:
        """Leave memory once no message waits, so that another process can lock the session."""
        if self._ports.locks is not None:
            self.ask_to_leave()

    def _with_agent(self, command: FireSchedule) -> FireSchedule:
        """Return the command with an agent if one must be started and can be; otherwise the message waits for one."""
        new_id, agent_id = self._ports.new_id, None
        if self.state.agent is None:
            agent_id = new_id("agt")
            try:
                self._agent.prepare(self.state, agent_id)
            except Exception:
                logger.exception("no agent can be started for a message that is due in session %s", self.context.id)
                agent_id = None
        return msgspec.structs.replace(
            command,
            at=self._ports.now(),
            agent_id=agent_id,
            turn_id=new_id("trn"),
            message_turn_id=new_id("trn"),
            message_id=new_id("msg"),
        )

    def _with_answer_so_far(self, command: Finish) -> Finish:
        """Return the command; if it ends a turn that failed unexpectedly, with the published part of the answer."""
        turn = self.state.turn
        if turn is None or command.turn_id not in ("", turn.id) or not _is_broken(command.so_far):
            return command
        so_far = self._agent.so_far(self.state, ReceivedAnswer())
        so_far = msgspec.structs.replace(so_far, failure=command.so_far.failure, untold=True)
        return msgspec.structs.replace(command, turn_id=turn.id, so_far=so_far)

    def _ends_turn(self, command: Interrupt | Stop | Delete) -> bool:
        """Return whether `decide` will end the current turn, so that its answer must not grow any further."""
        if isinstance(command, Delete):
            return True
        return self.state.agent is not None and command.agent_id in (None, self.state.agent.id)

    def _with_rules(self, command: SessionCommand) -> SessionCommand:
        rules = self._agent.rules(self.state)
        match command:
            case Receive() | Compress():
                return msgspec.structs.replace(command, rules=rules)
            case Finish() if command.so_far.stop_reason != TOOL_USE and self.state.round is None:
                return msgspec.structs.replace(command, rules=rules)
            case Run():
                turn_id, results_id = self._ports.new_id("trn"), self._ports.new_id("msg")
                return msgspec.structs.replace(command, rules=rules, turn_id=turn_id, results_id=results_id)
            case _:
                return msgspec.structs.replace(command, rules=rules, results_id=self._ports.new_id("msg"))

    def _check_guards(self, command: SessionCommand, guards: Guards) -> SessionCommand:
        """Apply the guards to the command.

        Raises:
            Postponed: guards must be asked first.
        """
        if isinstance(command, Finish) and (passed := self._pass_answer_command(command)) is not None:
            return passed
        asked = questions(self.state, command, guards)
        if asked:
            raise Postponed(partial(self._ask_guards, command, asked))
        match command:
            case Finish():
                return self._without_withheld(command)
            case Interrupt() | Stop() | Delete() if guards.answer:
                return msgspec.structs.replace(command, so_far=self._as_cut_short(command.so_far))
            case _:
                pass
        return command

    def _check_edit_guards(self, command: BranchSession) -> BranchSession:
        """Return the command if the guards of the branch's image accept the branch's first message.

        Raises:
            Postponed: guards must be asked first.
            MessageRefusedError: a guard refuses it.
        """
        image, revision = command.image_id, command.image_revision
        branch = msgspec.structs.replace(self.state, image_id=image, image_revision=revision)
        guards = self._ports.rules(branch).guards
        asked = () if guards is None else questions(branch, command, guards)
        if asked:
            raise Postponed(partial(self._ask_guards, command, asked))
        _check_passed(command.checked)
        return command

    def _ask_guards(
        self,
        command: SessionCommand,
        asked: Sequence[Question],
        again: Callable[[object], None],
        fail: Callable[[Exception], None],
    ) -> None:
        def then(checked: tuple[GuardChecked, ...]) -> None:
            at = self._ports.now()
            match command:
                case Receive() if refusal_in(checked) is not None:  # the log records only the verdict
                    again(msgspec.structs.replace(command, checked=(*command.checked, *checked), content=(), at=at))
                case BranchSession() | Receive() | Finish() | Approve():
                    again(msgspec.structs.replace(command, checked=(*command.checked, *checked), at=at))
                case _:
                    again(command)

        self._ports.ask_guards(asked, then, fail)

    def _pass_answer_command(self, command: Finish) -> PassAnswer | None:
        """Return the command that publishes a withheld answer, if its guards have accepted it."""
        of_answer, stream = of_point(command.checked, "answer"), self._agent.turn_stream
        if not of_answer or refusal_in(of_answer) is not None:
            return None
        if stream is None or not stream.withholds(command.turn_id):
            return None
        return PassAnswer(turn_id=command.turn_id, at=command.at, checked=of_answer)

    def _publish_withheld(self, command: PassAnswer) -> None:
        """Publish the answer: the guards' acceptance is durable."""
        stream = self._agent.turn_stream
        so_far = None if stream is None else stream.publish(command.turn_id)
        if so_far is not None:
            self._agent.finish(command.turn_id, so_far)

    def _without_withheld(self, command: Finish) -> Finish:
        """Return the end of an answer of which nothing is withheld any more; a refused answer is emptied."""
        so_far, stream = command.so_far, self._agent.turn_stream
        if refusal_in(of_point(command.checked, "answer")) is not None:
            if stream is not None and stream.withholds(command.turn_id):
                so_far = stream.close(command.turn_id)
            so_far = msgspec.structs.replace(so_far, content=())
            return msgspec.structs.replace(command, so_far=so_far)
        if stream is not None and is_blank(so_far.content):  # no guard is asked about a blank answer
            stream.publish(command.turn_id)
        return command

    def _as_cut_short(self, so_far: ReceivedAnswer) -> ReceivedAnswer:
        """Return an answer that was complete but not accepted by the guards as one that was cut short."""
        passed = None if self.state.turn is None else self.state.turn.passed
        if so_far.stop_reason is None or so_far.message_id == passed or is_blank(so_far.content):
            return so_far
        return msgspec.structs.replace(so_far, stop_reason=None, stop_sequence=None, stop_details=None)

    def _reply_after(self, command: SessionCommand, events: tuple[SessionEvent, ...], after: Session, at: int) -> Reply:
        match command:
            case Receive(request_id=None):
                return command.turn_id
            case Receive():
                return self._response(command, after, at)[0]
            case Switch():
                return (after.image_id, after.image_revision) == (command.image_id, command.image_revision)
            case ScheduleMessage():
                return Schedule(
                    id=command.schedule_id,
                    session_id=command.session_id,
                    content=command.content,
                    at=instant(command.due),
                    every=None if command.every is None else command.every / SECOND,
                    until=None if command.until is None else instant(command.until),
                    created_at=instant(at),
                )
            case CancelSchedule():
                return bool(events)
            case Run():
                return None if after.agent is None else after.agent.id
            case Approve() | Reject(resume=True) | Respond():
                return next(
                    (event.turn_id for event in events if isinstance(event, TurnContinued)),
                    None if after.turn is None else after.turn.id,
                )
            case BeginChild() | BranchSession(parent=Parent()):
                return None if events else family.reported(self.state, self._mark, self._ports.now())
            case CreateSession() | BranchSession():
                origin = None
                if isinstance(command, BranchSession):
                    origin = BranchPoint(session_id=command.origin, position=command.position, version=command.version)
                return SessionInfo(
                    id=command.session_id,
                    container_id=command.container_id,
                    image_id=command.image_id,
                    image_revision=command.image_revision,
                    created_at=instant(at),
                    origin=origin,
                )
            case _:
                return None

    def _response(self, command: SessionCommand, after: Session, at: int) -> tuple[Segment, ...]:
        if not isinstance(command, Receive) or command.request_id is None or refusal_in(command.checked) is not None:
            return ()
        context, result = self._message_response(command, after)
        response = response_to(MessageSendRequest.event_type)(request_id=command.request_id, result=result)
        return segments_of([(context, response)], at)

    def _message_response(self, command: Receive, after: Session) -> tuple[Context, dict[str, str | None]]:
        """Return the context and the result of the response to a request that sends a message."""
        result = {"turn_id": command.turn_id, "agent_id": command.agent_id, "session_id": after.id}
        request_id = command.request_id if command.once is None else command.once.id
        context = msgspec.structs.replace(announcing.about(after), turn_id=command.turn_id, correlation_id=request_id)
        return context, result
