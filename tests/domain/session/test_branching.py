"""A session that branches off goes on with the history of another one, wherever it is left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from reenact.actors.environment.wire.messages import api_messages
from reenact.domain.errors import (
    AlreadyExistsError,
    CallNotPendingError,
    ImageNotFoundError,
    InvalidInputError,
    InvalidMessageError,
    ReenactError,
    SessionNotFoundError,
)
from reenact.domain.loop.events import AskedCall, HumanApproveRequired, ToolEdited, ToolPending, ToolResult
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.operations.checks import checked
from reenact.domain.operations.table import SessionBranchRequest
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy, call_digest
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    ToolsRequested,
    TurnCompleted,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.branching import before_last_message
from reenact.domain.session.commands import Approve, BranchSession, Receive, Reject, Run
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionBranched, SessionEvent, evolve, for_model
from reenact.domain.stream.events import Origin, SessionCreated, UserMessage
from reenact.projections.explain.history import believe
from reenact.testing.fake_rules import refusal
from tests.domain.session.announced import announced
from tests.domain.session.examples import BUSY, CREATED, DELETED, IDLE, NEW, THINKING, accepted, session
from tests.examples import examples
from tests.projections.histories import Step, lineage, play, steps

EDIT = (TextBlock("Instead"),)
BRANCH = BranchSession(
    session_id="twig",
    container_id="c",
    image_id="other",
    image_revision=2,
    origin="s",
    version=3,
    digest="d1",
    position=7,
    at=9_000_000,
    left_at=3_000_000,
    results_id="res",
)
BRANCHED = SessionBranched("twig", "c", "other", 2, "s", 3, "d1")
SEND = ToolUseBlock("t1", "send", {"to": "ann"})
RULES = Rules(policies=Policies(tools={"send": Policy("required")}))
TAKEN_UP = TurnStarted("t1", 1)


def branched(origin: Session, edit: tuple[TextBlock, ...] | None = None) -> tuple[tuple[SessionEvent, ...], Session]:
    """Return what is decided about a branch off the session, and the branch."""
    count = len(origin.queue) if edit is None else max(1, len(origin.queue))
    ids = tuple((f"new-t{number}", f"new-m{number}") for number in range(count))
    events = decide(origin, msgspec.structs.replace(BRANCH, edit=edit, ids=ids))
    return events, reduce(evolve, events, origin)


def test_a_branch_is_the_other_session_under_its_own_name_on_its_own_image() -> None:
    events, branch = branched(IDLE)

    assert events == (BRANCHED,)
    assert (branch.id, branch.container_id, branch.image_id, branch.image_revision) == ("twig", "c", "other", 2)
    assert branch.origin == Origin(session_id="s", version=3)
    assert branch.agent is None
    assert branch.conversation == IDLE.conversation


def test_a_branch_of_a_deleted_session_is_not_deleted() -> None:
    _, branch = branched(DELETED)

    assert not branch.deleted


def test_a_session_that_exists_is_not_begun_again() -> None:
    _, branch = branched(IDLE)

    with pytest.raises(AlreadyExistsError):
        decide(branch, BRANCH)


def test_nothing_branches_off_from_a_session_that_never_was() -> None:
    with pytest.raises(SessionNotFoundError) as refused:
        decide(NEW, BRANCH)

    assert refused.value.id == "s"


def test_a_turn_under_way_ends_where_the_history_was_left() -> None:
    events, branch = branched(THINKING)

    (completed,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert (completed.turn_id, completed.outcome, completed.duration) == ("t1", "interrupted", 2.999999)
    assert branch.turn is None


def test_messages_that_wait_wait_anew_under_ids_of_their_own() -> None:
    _, branch = branched(BUSY)

    assert [(queued.turn_id, queued.message_id, queued.at) for queued in branch.queue] == [
        ("new-t0", "new-m0", BRANCH.at)
    ]
    assert [queued.content for queued in branch.queue] == [queued.content for queued in BUSY.queue]


def test_another_message_takes_the_place_of_the_last_that_waits() -> None:
    waiting = session(CREATED, AgentStarted("a"), accepted("t1"), accepted("t2"))

    _, branch = branched(waiting, EDIT)

    assert [queued.content for queued in branch.queue] == [waiting.queue[0].content, EDIT]


def test_another_message_waits_also_where_none_did() -> None:
    _, branch = branched(DELETED, EDIT)

    assert [queued.content for queued in branch.queue] == [EDIT]


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ((), None),
        ((CREATED, AgentStarted("a")), None),
        ((CREATED, accepted("t1")), 1),
        ((CREATED, accepted("t1"), TAKEN_UP), 1),
        ((CREATED, accepted("t1"), AgentStarted("a"), TAKEN_UP, TurnInterrupted("t1", "user")), 2),
        ((CREATED, accepted("t1"), TAKEN_UP, accepted("t2"), accepted("t3")), 4),
    ],
)
def test_the_last_message_still_waits_at_the_end_or_before_it_was_taken_up(
    events: Sequence[SessionEvent], place: int | None
) -> None:
    assert before_last_message(events) == place


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"session_id": ""}, SessionNotFoundError),
        ({"image_id": "\ud800"}, ImageNotFoundError),
        ({"new_session_id": " "}, InvalidInputError),
        ({"at": 0}, InvalidInputError),
        ({"at": 1 << 63}, InvalidInputError),
        ({"edit": ""}, InvalidMessageError),
        ({"model": " "}, InvalidInputError),
        ({"system_prompt": "\ud800"}, InvalidInputError),
        ({"image_id": "i", "system_prompt": ""}, InvalidInputError),
    ],
)
def test_what_cannot_be_branched_off_is_refused(asked: dict[str, Any], error: type[ReenactError]) -> None:
    with pytest.raises(error):
        checked(msgspec.structs.replace(SessionBranchRequest(session_id="s"), **asked))


def test_what_can_be_branched_off_may_say_something_else() -> None:
    requests = [
        SessionBranchRequest(session_id="s"),
        SessionBranchRequest(session_id="s", at=1, edit="Instead", model="m", system_prompt="", new_session_id="b"),
        SessionBranchRequest(session_id="s", image_id="i"),
    ]

    assert [checked(request) for request in requests] == requests


def test_an_answer_whose_calls_were_not_taken_up_has_them_given_up() -> None:
    answer = asking("tool_use")
    left = evolve(THINKING, answer)

    events, branch = branched(left)

    assert ToolsRequested("t1", "thinking") in events
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    assert (result.id, result.is_error, result.ran) == ("t1", True, False)
    assert isinstance(branch.conversation[-1].content[0], ToolResultBlock)
    assert branch.round is None


def test_a_refused_answer_has_no_calls_to_give_up() -> None:
    left = evolve(THINKING, asking("refusal"))

    events, _ = branched(left)

    assert not [event for event in events if isinstance(event, ToolsRequested)]


def test_calls_that_wait_for_a_person_wait_in_both() -> None:
    left = waiting_session()

    events, branch = branched(left)

    assert events == (BRANCHED,)
    assert branch.round == left.round


def test_a_call_that_was_just_being_changed_is_given_up() -> None:
    left = evolve(waiting_session(), ToolEdited(id="t1", original=SEND.input, edited={"to": "eve"}))

    _, branch = branched(left)

    assert branch.round is None
    live = evolve(branch, AgentStarted("a2"))
    with pytest.raises(CallNotPendingError):
        decide(live, Approve(call_id="t1", turn_id="t9", at=1, rules=RULES))


def test_how_an_inherited_turn_ends_is_not_heard_of() -> None:
    events, _ = branched(BUSY)

    heard = [data for _, data in announced(BUSY, events)]

    assert [type(data) for data in heard] == [SessionCreated, UserMessage]
    assert isinstance(heard[0], SessionCreated)
    assert heard[0].origin == Origin(session_id="s", version=3)


@settings(max_examples=examples(30), deadline=None)
@given(steps)
def test_at_every_position_of_a_history_a_branch_can_go_on(chosen: list[Step]) -> None:
    rows = play(chosen).log.rows
    for session_id in ("a", "d"):
        left = Session()
        for row in lineage(rows, session_id):
            left = believe(left, row)
            events, branch = branched(left)

            assert left.id == row.stream.removeprefix("session/")
            assert (branch.id, branch.turn, branch.agent, branch.deleted) == ("twig", None, None, False)
            assert [one.content for one in branch.queue] == [one.content for one in left.queue]
            assert list(branch.conversation)[: len(left.conversation)] == list(left.conversation)
            assert branch.ledger.usage == left.ledger.usage
            assert branch.ledger.cost == left.ledger.cost
            assert waiting_calls(branch) <= waiting_calls(left)
            assert branch.round is None or branch.round.at("waiting")
            heard = [data for _, data in announced(left, events)]
            inherited = left.turn is not None
            assert isinstance(heard[0], SessionCreated)
            assert not inherited or all(isinstance(data, UserMessage) for data in heard[1:])
            _asks_validly(branch)


def asking(stop_reason: str) -> AnswerRecorded:
    return AnswerRecorded("t1", "m1", (SEND,), stop_reason, partial=False, usage={}, model="m", at=1)


def waiting_calls(of: Session) -> set[str]:
    return set() if of.round is None else {call.id for call in of.round.at("waiting")}


def waiting_session() -> Session:
    digest = call_digest("send", SEND.input, RULES.policies.revision)
    required = HumanApproveRequired(
        session_id="s", calls=(AskedCall("t1", "send", SEND.input, digest),), revision=RULES.policies.revision
    )
    answer = asking("tool_use")
    waiting = TurnCompleted("t1", "waiting", "waiting", {}, 0.0, "thinking")
    requested, pending = ToolsRequested("t1", "thinking"), ToolPending(ids=("t1",))
    events: tuple[SessionEvent, ...] = (answer, requested, required, pending, waiting)
    return reduce(evolve, events, THINKING)


def _asks_validly(branch: Session) -> None:
    """Let the branch run on, reject what waits, ask something more, and see whether the API would take it."""
    now = _told(branch, Run(session_id="twig", agent_id="a9", at=1, turn_id="go", results_id="r1", rules=RULES))
    while waiting := sorted(waiting_calls(now)):
        reject = Reject(call_id=waiting[0], turn_id=f"on-{waiting[0]}", at=1, results_id="r2", rules=RULES)
        now = _told(now, reject)
    receive = Receive(agent_id="a9", turn_id="last", message_id="last", content=EDIT, at=1, rules=RULES)
    now = _told(now, receive)
    assert now.turn is not None
    assert now.round is None
    messages = api_messages(for_model(now))
    called = {str(block["name"]) for message in messages for block in message["content"] if block["type"] == "tool_use"}
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in sorted(called)]
    body = {"model": "m", "max_tokens": 1, "messages": messages, "tools": tools}
    assert refusal({"x-api-key": "k", "anthropic-version": "2023-06-01"}, body, None) is None


def _told(now: Session, command: Run | Reject | Receive) -> Session:
    return reduce(evolve, decide(now, command), now)
