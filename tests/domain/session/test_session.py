"""Every command in every state: what follows from it, or why it is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reenact.domain.errors import AgentNotFoundError, AlreadyExistsError, ReenactError, SessionNotFoundError
from reenact.domain.messages import Said, TextBlock
from reenact.domain.session.agent import (
    Agent,
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    Failure,
    MessageAccepted,
    ReceivedAnswer,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.commands import SessionCommand
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionCreated, SessionDeleted, SessionEvent, evolve
from tests.domain.session.examples import (
    ANSWER,
    BUSY,
    CREATE,
    DELETE,
    DELETED,
    FAILED,
    FINISH,
    HELLO,
    IDLE,
    IDLE_SESSION,
    INTERRUPT,
    NEW,
    PART,
    RECEIVE,
    RUN,
    STOP,
    THINKING,
    accepted,
    replay,
)

AT = 2_000_001
BROKEN = Failure("overloaded_error", "too many", retryable=True)
CUT = TurnCompleted("t1", "interrupted", "interrupted", {}, 2.0, "thinking")
DONE = TurnCompleted("t1", "completed", "end_turn", {}, 2.0, "responding")
SAID = AnswerRecorded("t1", "m-answer", (TextBlock("Hi"),), "end_turn", False, {}, "m", AT)  # noqa: FBT003 - as stored
ACCEPTED = MessageAccepted("t9", "m-t9", HELLO, AT)

FOLLOWS: list[tuple[str, Session, SessionCommand, tuple[SessionEvent, ...]]] = [
    ("create new", NEW, CREATE, (SessionCreated("s", "c", "i", 1),)),
    ("run a session", IDLE_SESSION, RUN, (AgentStarted("b"),)),
    ("run what runs", IDLE, RUN, ()),
    ("run what is busy", BUSY, RUN, ()),
    ("receive when idle", IDLE, RECEIVE, (ACCEPTED, TurnStarted("t9", AT))),
    ("receive after an error", FAILED, RECEIVE, (ACCEPTED, TurnStarted("t9", AT))),
    ("receive when thinking", THINKING, RECEIVE, (ACCEPTED,)),
    ("receive when busy", BUSY, RECEIVE, (ACCEPTED,)),
    ("finish", THINKING, FINISH, (SAID, DONE)),
    ("finish with one waiting", BUSY, FINISH, (SAID, DONE, TurnStarted("t2", AT))),
    ("finish another turn", THINKING, replace(FINISH, turn_id="t2"), ()),
    ("finish when idle", IDLE, FINISH, ()),
    ("finish when deleted", DELETED, FINISH, ()),
    ("finish before there is anything", NEW, FINISH, ()),
    ("interrupt when idle", IDLE, INTERRUPT, ()),
    ("interrupt after an error", FAILED, INTERRUPT, ()),
    ("interrupt when thinking", THINKING, INTERRUPT, (TurnInterrupted("t1", "user"), CUT)),
    ("interrupt when busy", BUSY, INTERRUPT, (TurnInterrupted("t1", "user"), CUT, TurnStarted("t2", AT))),
    ("interrupt another agent", THINKING, replace(INTERRUPT, agent_id="z"), ()),
    ("interrupt nobody", IDLE_SESSION, INTERRUPT, ()),
    ("stop when idle", IDLE, STOP, (AgentStopped("a", "destroyed"),)),
    ("stop when thinking", THINKING, STOP, (TurnInterrupted("t1", "destroyed"), CUT, AgentStopped("a", "destroyed"))),
    ("stop another agent", THINKING, replace(STOP, agent_id="z"), ()),
    ("stop whoever it is", IDLE, replace(STOP, agent_id=None), (AgentStopped("a", "destroyed"),)),
    ("stop nobody", IDLE_SESSION, STOP, ()),
    ("delete a session", IDLE_SESSION, DELETE, (SessionDeleted("s"),)),
    ("delete when idle", IDLE, DELETE, (AgentStopped("a", "deleted"), SessionDeleted("s"))),
    (
        "delete when busy",
        BUSY,
        DELETE,
        (
            TurnInterrupted("t1", "deleted"),
            CUT,
            TurnCompleted("t2", "interrupted", "interrupted", {}, 0.0, "idle"),
            AgentStopped("a", "deleted"),
            SessionDeleted("s"),
        ),
    ),
]
REFUSED: list[tuple[str, Session, SessionCommand, type[ReenactError]]] = [
    ("create what exists", IDLE_SESSION, CREATE, AlreadyExistsError),
    ("create what is deleted", DELETED, CREATE, AlreadyExistsError),
    ("run what never was", NEW, RUN, SessionNotFoundError),
    ("run what is deleted", DELETED, RUN, SessionNotFoundError),
    ("receive without an agent", IDLE_SESSION, RECEIVE, AgentNotFoundError),
    ("receive for another agent", IDLE, replace(RECEIVE, agent_id="z"), AgentNotFoundError),
    ("receive when deleted", DELETED, RECEIVE, AgentNotFoundError),
    ("delete what never was", NEW, DELETE, SessionNotFoundError),
    ("delete what is deleted", DELETED, DELETE, SessionNotFoundError),
]


@pytest.mark.parametrize(("session", "command", "events"), [case[1:] for case in FOLLOWS], ids=[c[0] for c in FOLLOWS])
def test_this_follows_from_the_command(
    session: Session, command: SessionCommand, events: tuple[SessionEvent, ...]
) -> None:
    assert decide(session, command) == events


@pytest.mark.parametrize(("session", "command", "error"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_the_command_is_refused(session: Session, command: SessionCommand, error: type[ReenactError]) -> None:
    with pytest.raises(error):
        decide(session, command)


def test_an_error_keeps_the_partial_answer_and_says_what_went_wrong() -> None:
    broken = replace(FINISH, so_far=replace(PART, failure=BROKEN))

    answer, completed = decide(THINKING, broken)

    assert answer == AnswerRecorded("t1", "m-answer", (TextBlock("H"),), "error", True, {}, "m", AT)  # noqa: FBT003 - as stored
    assert completed == TurnCompleted("t1", "failed", "error", {}, 2.0, "responding", BROKEN)


def test_a_failure_that_nobody_has_heard_of_is_told_before_the_partial_answer() -> None:
    lost = replace(FINISH, so_far=replace(PART, failure=BROKEN, untold=True))

    failed, answer, completed = decide(THINKING, lost)

    assert failed == TurnFailed("t1", BROKEN)
    assert isinstance(answer, AnswerRecorded)
    assert isinstance(completed, TurnCompleted)
    assert evolve(THINKING, failed) == THINKING


def test_an_interrupt_keeps_the_partial_answer() -> None:
    _, answer, completed = decide(THINKING, replace(INTERRUPT, so_far=PART))

    assert isinstance(answer, AnswerRecorded)
    assert (answer.content, answer.stop_reason, answer.partial) == ((TextBlock("H"),), "interrupted", True)
    assert isinstance(completed, TurnCompleted)
    assert completed.from_state == "responding"


@pytest.mark.parametrize("command", [INTERRUPT, STOP, DELETE])
def test_what_ended_by_itself_just_before_is_not_interrupted(command: SessionCommand) -> None:
    told_too_late = replace(command, so_far=ANSWER)

    assert decide(THINKING, told_too_late)[:2] == (SAID, DONE)


def test_what_failed_by_itself_just_before_is_not_interrupted() -> None:
    told_too_late = replace(STOP, so_far=ReceivedAnswer(failure=BROKEN))

    assert decide(THINKING, told_too_late)[0] == TurnCompleted("t1", "failed", "error", {}, 2.0, "thinking", BROKEN)


@pytest.mark.parametrize(
    "so_far", [ReceivedAnswer(), replace(ANSWER, content=()), replace(ANSWER, content=(TextBlock(" \n"),))]
)
def test_a_blank_answer_is_not_recorded(so_far: ReceivedAnswer) -> None:
    (completed,) = decide(THINKING, replace(FINISH, so_far=so_far))

    assert isinstance(completed, TurnCompleted)
    assert (completed.outcome, completed.stop_reason) == ("completed", "end_turn")


def test_the_stop_reason_is_the_models_own() -> None:
    answer, completed = decide(THINKING, replace(FINISH, so_far=replace(ANSWER, stop_reason="max_tokens")))

    assert isinstance(answer, AnswerRecorded)
    assert isinstance(completed, TurnCompleted)
    assert (answer.stop_reason, completed.stop_reason) == ("max_tokens", "max_tokens")


def test_a_clock_that_steps_back_makes_no_negative_duration() -> None:
    _, completed = decide(THINKING, replace(FINISH, at=0))

    assert isinstance(completed, TurnCompleted)
    assert completed.duration == 0.0


def test_what_waited_is_taken_up_by_the_next_run() -> None:
    stopped = replay_on(
        BUSY, AgentStopped("a", "destroyed"), TurnCompleted("t1", "interrupted", "x", {}, 0, "thinking")
    )

    assert decide(stopped, RUN) == (AgentStarted("b"), TurnStarted("t2", AT))


def test_a_message_is_part_of_the_conversation_once_its_turn_begins() -> None:
    assert list(IDLE.conversation) == []
    assert list(BUSY.conversation) == [Said("user", HELLO)]
    assert list(evolve(BUSY, SAID).conversation) == [Said("user", HELLO), Said("assistant", SAID.content)]


def test_an_agent_fails_until_it_takes_up_its_next_message() -> None:
    assert FAILED.agent == Agent("a", failed=True)
    assert Agent("a", failed=True).state(FAILED.turn, None) == "error"
    assert replay_on(FAILED, accepted("t2"), TurnStarted("t2", 9)).agent == Agent("a")


def test_an_agents_state_is_idle_or_thinking() -> None:
    assert Agent("a").state(None, None) == "idle"
    assert Agent("a", failed=True).state(THINKING.turn, None) == "thinking"


def test_a_turn_that_never_began_ends_without_touching_the_one_that_runs() -> None:
    never_begun = TurnCompleted("t2", "interrupted", "interrupted", {}, 0.0, "idle")

    assert evolve(BUSY, never_begun) == BUSY


def test_history_without_an_agent_can_be_folded_too() -> None:
    orphaned = replay((SessionCreated("s", "c", "i", 1), accepted("t1"), TurnStarted("t1", 1), CUT))

    assert (orphaned.agent, orphaned.turn, orphaned.queue) == (None, None, ())


def test_deletion_empties_the_line() -> None:
    assert evolve(BUSY, SessionDeleted("s")).queue == ()
    assert evolve(BUSY, SessionDeleted("s")).deleted


def replay_on(session: Session, *events: SessionEvent) -> Session:
    for event in events:
        session = evolve(session, event)
    return session
