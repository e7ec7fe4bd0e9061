"""Any sequence of commands to a session, against a naive reading of what was asked."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reenact.domain.errors import ReenactError
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import (
    AnswerRecorded,
    Failure,
    MessageAccepted,
    ReceivedAnswer,
    StopReason,
    TurnCompleted,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.commands import CreateSession, Delete, Finish, Interrupt, Receive, Run, SessionCommand, Stop
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionEvent, evolve, kept, reading, session_from_snapshot
from tests.domain.history.retraced import Step, check_retraced
from tests.domain.session.announced import announced
from tests.domain.session.examples import HELLO, replay
from tests.domain.stream.grammar import Grammar, Heard

agents = st.sampled_from("ab")
texts = st.sampled_from([(), (TextBlock(" "),), (TextBlock("Hi"),)])


def _so_far(content: tuple[TextBlock, ...], ending: str) -> ReceivedAnswer:
    return ReceivedAnswer(
        message_id="m" if content else None,
        content=content,
        stop_reason="end_turn" if ending == "whole" else None,
        failure=Failure("api_error", "broken") if ending == "broken" else None,
    )


parts = st.builds(_so_far, texts, st.sampled_from(["part", "part", "whole", "broken"]))
ends = st.builds(_so_far, texts, st.sampled_from(["whole", "broken"]))


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.steps: list[Step] = []
        self.history: list[SessionEvent] = []
        self.heard: list[Heard] = []
        self.exists = False
        self.live: str | None = None
        self.running: str | None = None
        self.waiting: list[str] = []
        self.asked: list[str] = []
        self.ended: dict[str, str] = {}

    def ask(self, command: SessionCommand, *, ends: ReceivedAnswer | None = None) -> tuple[SessionEvent, ...] | None:
        """Decide and believe; None stands for a refusal. `ends` is what the turn under way has come to."""
        before = self.session
        try:
            events = decide(before, command)
        except ReenactError:
            return None
        if events:
            self.steps.append(Step(command, events))
        if ends is not None and self.running is not None and events:
            self._hear_stream(self.running, ends)
        for context, data in announced(before, events):
            told = Heard(len(self.heard) + 1, data.event_type, context.turn_id, dict(data))
            self.heard.append(told)
        for event in events:
            self.session = evolve(self.session, event)
        self.history.extend(events)
        return events

    def _hear_stream(self, turn_id: str, ends: ReceivedAnswer) -> None:
        """Hear what an environment would have said for the answer to be what it is."""
        said: list[tuple[str, dict[str, object]]] = []
        text = "".join(block.text for block in ends.content if isinstance(block, TextBlock))
        if ends.message_id is not None or ends.stop_reason is not None:
            said.append(("message_start", {}))
        if ends.responding:
            said.append(("agent_state_changed", {"previous": "thinking", "current": "responding"}))
            said.append(("text_delta", {"text": text}))
        if ends.stop_reason is not None:
            said.append(("message_stop", {}))
        if ends.failure is not None:
            said.append(("error", {}))
        self.heard.extend(
            Heard(cursor, type_, turn_id, data) for cursor, (type_, data) in enumerate(said, len(self.heard) + 1)
        )

    def turn_is_cut(self, events: tuple[SessionEvent, ...], so_far: ReceivedAnswer) -> None:
        """Expect the turn under way to have ended, once, as `so_far` says."""
        turn = self.running
        if turn is None:
            assert not [event for event in events if isinstance(event, TurnInterrupted | AnswerRecorded)]
            return
        outcome = "failed" if so_far.failure else "completed" if so_far.stop_reason else "interrupted"
        completed = [event for event in events if isinstance(event, TurnCompleted) and event.turn_id == turn]
        assert [event.outcome for event in completed] == [outcome]
        answers = [event for event in events if isinstance(event, AnswerRecorded)]
        assert [answer.partial for answer in answers] == [outcome != "completed"] * (
            so_far.content == (TextBlock("Hi"),)
        )
        assert any(isinstance(event, TurnInterrupted) for event in events) == (outcome == "interrupted")
        self.ended[turn] = outcome
        self.running = None

    def take_up(self) -> None:
        """The next that waits is answered if somebody is there to do it."""
        if self.live is not None and self.running is None and self.waiting:
            self.running = self.waiting.pop(0)

    def responded(self, so_far: ReceivedAnswer) -> ReceivedAnswer:
        """Text was said in the part of the answer that there is."""
        return ReceivedAnswer(
            message_id=so_far.message_id,
            content=so_far.content,
            stop_reason=so_far.stop_reason,
            failure=so_far.failure,
            responding=bool(so_far.content),
        )

    def teardown(self) -> None:
        check_retraced(self.steps, self.session)

    @rule()
    def create(self) -> None:
        never_was = not self.asked and not self.history

        events = self.ask(CreateSession(session_id="s", container_id="c", image_id="i", image_revision=1))

        assert (events is not None) == never_was
        self.exists = self.exists or never_was

    @rule(agent=agents)
    def run(self, agent: str) -> None:
        events = self.ask(Run(session_id="s", agent_id=agent, at=len(self.history)))

        assert (events is not None) == self.exists
        if self.exists and self.live is None:
            self.live = agent
            self.take_up()
        assert self.session.agent is None or self.session.agent.id == self.live

    @rule(agent=agents)
    def receive(self, agent: str) -> None:
        turn_id = f"t{len(self.asked)}"

        events = self.ask(
            Receive(agent_id=agent, turn_id=turn_id, message_id=f"m{turn_id}", content=HELLO, at=len(self.history))
        )

        assert (events is not None) == (self.live == agent)
        if self.live == agent:
            self.asked.append(turn_id)
            self.waiting.append(turn_id)
            self.take_up()

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), so_far=ends)
    def finish(self, data: st.DataObject, so_far: ReceivedAnswer) -> None:
        turn_id = data.draw(st.sampled_from(self.asked[-3:]))
        so_far = self.responded(so_far)

        events = self.ask(Finish(turn_id=turn_id, so_far=so_far, at=len(self.history)), ends=so_far)

        assert events is not None
        if turn_id != self.running:
            assert events == ()
        else:
            self.turn_is_cut(events, so_far)
            self.take_up()

    @rule(agent=agents, so_far=parts)
    def interrupt(self, agent: str, so_far: ReceivedAnswer) -> None:
        so_far = self.responded(so_far)

        events = self.ask(Interrupt(agent_id=agent, reason="user", at=len(self.history), so_far=so_far), ends=so_far)

        assert events is not None
        if agent != self.live:
            assert events == ()
        else:
            self.turn_is_cut(events, so_far)
            self.take_up()

    @rule(agent=agents | st.none(), reason=st.sampled_from(["destroyed", "shutdown", "crash"]), so_far=parts)
    def stop(self, agent: str | None, reason: StopReason, so_far: ReceivedAnswer) -> None:
        so_far = self.responded(so_far)

        events = self.ask(Stop(agent_id=agent, reason=reason, at=len(self.history), so_far=so_far), ends=so_far)

        assert events is not None
        if self.live is None or agent not in {None, self.live}:
            assert events == ()
        else:
            self.turn_is_cut(events, so_far)
            self.live = None

    @rule(so_far=parts)
    def delete(self, so_far: ReceivedAnswer) -> None:
        so_far = self.responded(so_far)

        events = self.ask(Delete(session_id="s", at=len(self.history), so_far=so_far), ends=so_far)

        assert (events is not None) == self.exists
        if events is not None:
            self.turn_is_cut(events, so_far)
            self.ended.update(dict.fromkeys(self.waiting, "interrupted"))
            self.waiting = []
            self.live = None
            self.exists = False

    @invariant()
    def the_history_alone_gives_the_state(self) -> None:
        assert replay(self.history) == self.session

    @invariant()
    def a_snapshot_keeps_the_state(self) -> None:
        assert reading(session_from_snapshot(kept(self.session)), lambda: self.session.conversation) == self.session

    @invariant()
    def the_state_is_what_was_asked_for(self) -> None:
        session = self.session
        assert (None if session.agent is None else session.agent.id) == self.live
        assert (None if session.turn is None else session.turn.id) == self.running
        assert [queued.turn_id for queued in session.queue] == self.waiting
        assert session.deleted == bool(self.history and not self.exists)

    @invariant()
    def turns_begin_in_the_order_of_their_messages(self) -> None:
        accepted = [event.turn_id for event in self.history if isinstance(event, MessageAccepted)]
        begun = [event.turn_id for event in self.history if isinstance(event, TurnStarted)]
        assert accepted == self.asked
        assert begun == accepted[: len(begun)]

    @invariant()
    def every_turn_ends_once(self) -> None:
        ends_of = Counter(event.turn_id for event in self.history if isinstance(event, TurnCompleted))
        unfinished = {*self.waiting, *([self.running] if self.running else [])}
        assert ends_of == Counter(turn for turn in self.asked if turn not in unfinished)
        assert {
            event.turn_id: event.outcome for event in self.history if isinstance(event, TurnCompleted)
        } == self.ended

    @invariant()
    def what_is_heard_keeps_the_order_that_was_promised(self) -> None:
        Grammar().read(self.heard)


TestSession = SessionMachine.TestCase
