"""Why something happened: what each event of a session follows from."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings

from reenact.domain.history.causes import AnyCommand
from reenact.domain.history.explanation import Cause, Outside, causes_of
from reenact.domain.history.stored import STORED
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    Failure,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    ReceivedAnswer,
    ResultsRecorded,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.commands import BranchSession, Finish, Interrupt, Receive, Run, Stop
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionEvent
from tests.examples import examples
from tests.projections.audited import decided, events_of, played
from tests.projections.histories import RULES, Step, World, lineage, steps

NAMES = {kind: name for name, kind in STORED.items()}
SEARCH = ToolUseBlock("look", "search", {})
SEND = ToolUseBlock("mail", "send", {"to": "ann"})
SURE = ToolUseBlock("sure", "ask_user", {"prompt": "Sure?"})
HI = ReceivedAnswer(message_id="hi", content=(TextBlock("Hi"),), stop_reason="end_turn", model="small")
NOTHING = ReceivedAnswer()
STARTS = {Outside("caller"), Outside("crash"), Outside("shutdown")}


def world() -> World:
    """Return a world in which session a has an agent that was asked something."""
    return played([])


def history(world: World, session_id: str = "a") -> list[SessionEvent]:
    return events_of(lineage(world.log.rows, session_id))


def causes(world: World, session_id: str = "a") -> list[Cause]:
    return causes_of(decided(lineage(world.log.rows, session_id)))


def told(world: World) -> list[tuple[str, list[str], Outside | None]]:
    """Return each event of session a by its name, with the names of those it follows from."""
    events = history(world)
    names = [NAMES[type(event)] for event in events]
    return [
        (name, [names[place] for place in cause.places], cause.outside)
        for name, cause in zip(names, causes(world), strict=True)
        if name != "rules-recorded"
    ]


def last(world: World, name: str) -> tuple[list[str], Outside | None]:
    return next((causes, outside) for one, causes, outside in reversed(told(world)) if one == name)


def test_a_message_is_answered_because_it_came() -> None:
    one = world()
    one.answer("a", HI)

    assert told(one) == [
        ("session-created", [], Outside("caller")),
        ("agent-started", [], Outside("caller")),
        ("message-accepted", [], Outside("message")),
        ("turn-started", ["message-accepted"], None),
        ("answer-recorded", ["turn-started"], Outside("model", "small")),
        ("turn-completed", ["answer-recorded"], None),
    ]


def test_a_message_says_by_which_request_it_came() -> None:
    events: list[SessionEvent] = [MessageAccepted("t", "m", (), 1, "req-7")]

    assert causes_of([(Receive, events)]) == [Cause((), Outside("message", "req-7"))]


def test_a_message_that_waited_is_taken_up_when_the_turn_before_it_ends_or_an_agent_comes() -> None:
    one = world()
    one.say("a", "And?")
    one.answer("a", HI)
    assert last(one, "turn-started") == (["message-accepted", "turn-completed"], None)

    one.say("a", "Then?")
    one.stop("a", NOTHING)
    one.run("a")
    assert last(one, "turn-started") == (["message-accepted", "agent-started"], None)


def test_calls_run_because_the_answer_asks_for_them_and_their_results_go_back() -> None:
    one = world()
    one.ask("a", SEARCH)
    one.report("a")

    assert told(one)[4:] == [
        ("answer-recorded", ["turn-started"], Outside("model", "small")),
        ("tools-requested", ["answer-recorded"], None),
        ("tool-started", ["tools-requested"], None),
        ("tool-result", ["tool-started"], Outside("tool", "search")),
        ("results-recorded", ["tool-result"], None),
        ("step-started", ["results-recorded"], None),
    ]


def test_people_decide_because_they_are_asked_and_the_turn_goes_on_because_they_decided() -> None:
    one = world()
    one.ask("a", SEND, SURE)
    one.approve("a", "mail", {"to": "bob"})
    one.respond("a", "Yes", "sure")
    one.report("a", "mail")

    assert told(one)[6:] == [
        ("human-approve-required", ["tools-requested"], None),
        ("human-prompt-required", ["tools-requested"], None),
        ("tool-pending", ["human-approve-required", "human-prompt-required"], None),
        ("turn-completed", ["tool-pending"], None),
        ("tool-edited", ["human-approve-required"], Outside("person", "ann")),
        ("tool-approved", ["tool-edited"], Outside("person", "ann")),
        ("turn-continued", ["tool-approved"], None),
        ("tool-started", ["tool-approved"], None),
        ("human-responded", ["human-prompt-required"], Outside("person", "bob")),
        ("tool-result", ["human-responded"], None),
        ("tool-result", ["tool-started"], Outside("tool", "send")),
        ("results-recorded", ["tool-result", "tool-result"], None),
        ("step-started", ["results-recorded"], None),
    ]


def test_a_rejected_call_is_answered_because_a_person_rejected_it() -> None:
    one = world()
    one.ask("a", SEND, SURE)
    one.reject("a", "mail")
    assert last(one, "tool-result") == (["tool-rejected"], None)

    one.reject("a", "sure", resume=False)
    assert last(one, "tool-rejected") == (["human-prompt-required"], Outside("person"))


def test_a_person_who_stops_the_turn_interrupts_it_and_the_other_calls() -> None:
    one = world()
    one.ask("a", SEND, SEARCH)
    one.reject("a", "mail", resume=False)

    assert told(one)[-5:] == [
        ("tool-result", ["tool-rejected"], None),
        ("turn-interrupted", ["turn-started", "tool-rejected"], None),
        ("tool-result", ["tool-started", "turn-interrupted"], None),
        ("results-recorded", ["tool-result", "tool-result"], None),
        ("turn-completed", ["turn-interrupted"], None),
    ]


def test_calls_that_still_wait_are_given_up_because_a_person_stopped_what_there_was() -> None:
    one = world()
    one.ask("a", SEND, SURE)
    one.reject("a", "mail", resume=False)

    assert told(one)[-2] == ("tool-result", ["human-prompt-required", "tool-rejected"], None)


def test_what_a_policy_denies_is_answered_because_it_was_asked_for() -> None:
    one = world()
    one.rules = Rules(policies=Policies(deny=("send",)))
    one.ask("a", SEND)
    assert last(one, "tool-result") == (["tools-requested"], None)

    one.rules = Rules(policies=Policies(tools={"send": Policy("required")}))
    one.ask("a", SEND)
    one.stop("a", NOTHING)
    one.rules = Rules(policies=Policies(deny=("send",)))
    one.run("a")
    assert last(one, "tool-result") == (["human-approve-required", "agent-started"], None)


def test_people_are_asked_anew_because_an_agent_came_with_other_policies() -> None:
    one = world()
    one.ask("a", SEND)
    one.stop("a", NOTHING)
    one.rules = RULES["y"]
    one.run("a")

    assert last(one, "human-approve-required") == (["human-approve-required", "agent-started"], None)


def test_what_ran_when_the_process_ended_runs_again_is_lost_or_asked_about_because_of_the_crash() -> None:
    one = world()
    one.rules = Rules(policies=Policies(), idempotent=("search", "send"))
    one.ask("a", SEARCH, SEND, ToolUseBlock("pay", "pay", {}))
    one.rules = Rules(policies=Policies(tools={"send": Policy("required")}), idempotent=("search", "send"))
    one.resume("a")

    assert told(one)[-4:] == [
        ("tool-result", ["tool-started"], Outside("crash")),
        ("human-approve-required", ["tool-started"], Outside("crash")),
        ("tool-pending", ["human-approve-required"], None),
        ("tool-started", ["tool-started"], Outside("crash")),
    ]
    one.approve("a", "mail")
    assert last(one, "tool-started") == (["tool-approved"], None)


@pytest.mark.parametrize(
    ("kind", "reason", "outside"),
    [
        (Interrupt, "user", Outside("caller", "user")),
        (Interrupt, "crash", Outside("caller", "crash")),
        (Stop, "crash", Outside("crash")),
        (Stop, "shutdown", Outside("shutdown")),
        (Stop, "destroyed", Outside("caller", "destroyed")),
    ],
)
def test_what_ends_a_turn_early_came_from_outside(kind: type[AnyCommand], reason: str, outside: Outside) -> None:
    before: list[SessionEvent] = [AgentStarted("x"), MessageAccepted("t", "m", (), 1), TurnStarted("t", 1)]
    events: list[SessionEvent] = [
        TurnInterrupted("t", reason),
        AnswerRecorded("t", "a", (TextBlock("Hal"),), "interrupted", True, {}, None, 2),  # noqa: FBT003 - as stored
        TurnCompleted("t", "interrupted", "interrupted", {}, 0.0, "thinking"),
        AgentStopped("x", reason),
    ]

    assert causes_of([(None, before), (kind, events)])[3:] == [
        Cause((2,), outside),
        Cause((2, 3), Outside("model")),
        Cause((3,)),
        Cause((), outside),
    ]


def test_waiting_calls_of_an_interrupted_session_are_given_up_because_a_caller_wants_it() -> None:
    one = world()
    one.ask("a", SEND)
    one.interrupt("a", NOTHING)

    assert last(one, "tool-result") == (["human-approve-required"], Outside("caller"))


def test_a_message_that_never_got_its_turn_ended_with_the_session() -> None:
    one = world()
    one.say("a", "And?")
    one.delete("a")

    assert told(one)[-3:] == [
        ("turn-completed", ["message-accepted"], Outside("caller", "deleted")),
        ("agent-stopped", [], Outside("caller", "deleted")),
        ("session-deleted", [], Outside("caller")),
    ]


def test_a_turn_fails_because_the_environment_does() -> None:
    one = world()
    one.answer("a", ReceivedAnswer(failure=Failure("api_error", "broken")))
    assert last(one, "turn-completed") == (["turn-started"], Outside("environment", "api_error"))

    one.say("a")
    one.answer("a", ReceivedAnswer(failure=Failure("storage_error", "no space"), untold=True))
    assert last(one, "turn-failed") == (["turn-started"], Outside("environment", "storage_error"))
    assert last(one, "turn-completed") == (["turn-failed"], None)


def test_calls_under_which_the_environment_fails_are_given_up_because_of_it() -> None:
    one = world()
    one.ask("a", SEARCH)
    one.answer("a", ReceivedAnswer(failure=Failure("storage_error", "no space"), untold=True))

    assert last(one, "tool-result") == (["tool-started"], Outside("environment"))


def test_a_tool_that_fails_has_itself_to_blame() -> None:
    one = world()
    one.ask("a", SEARCH)
    one.report("a", result="broken", is_error=True)

    assert last(one, "tool-result") == (["tool-started"], Outside("tool", "search"))


@pytest.mark.parametrize("on_exceeded", ["warn", "interrupt", "stop"])
def test_a_limit_is_exceeded_because_of_what_was_done(on_exceeded: str) -> None:
    one = world()
    limit = CostLimit(1.0, "warn" if on_exceeded == "warn" else "interrupt" if on_exceeded == "interrupt" else "stop")
    one.rules = Rules(prices={"small": Price(1e6, 0.0)}, cost_limit=limit)
    one.answer("a", msgspec.structs.replace(HI, usage={"input_tokens": 5}))
    one.say("a", "And?")

    names = {"warn": "warning", "interrupt": "turn-interrupted", "stop": "turn-completed"}
    assert last(one, names[on_exceeded]) == (["turn-started"], None)


def test_a_summary_is_made_because_the_model_is_asked() -> None:
    one = world()
    one.answer("a", HI)
    one.say("a", "And?")
    one.compress("a", {})

    assert last(one, "context-compressed") == (["turn-started"], Outside("model", "small"))


BRANCHED = SessionBranched("b", "c", "i", 1, "a", 1, "")


def test_a_branch_follows_from_the_event_behind_which_it_branches_off() -> None:
    one = world()
    one.ask("a", SEARCH, SEND)
    answered = ToolResult(id="look", name="search", result="in any words", is_error=True)
    denied = ToolResult(id="mail", name="send", result="likewise", ran=False)
    shared = [event for event in history(one) if not isinstance(event, RulesRecorded)]
    begun: list[SessionEvent] = [
        BRANCHED,
        TurnInterrupted("trn_1", "branched"),
        answered,
        denied,
        MessageAccepted("t9", "m9", (), 9),
    ]
    branched = len(shared)

    found = causes_of(
        [
            (Finish, shared),
            (BranchSession, begun),
            (Run, [AgentStarted("y")]),
            (Receive, [MessageAccepted("t8", "m8", (), 9)]),
        ]
    )

    assert found[branched:] == [
        Cause((branched - 1,), Outside("caller")),
        Cause((3, branched)),
        Cause((branched - 1, branched)),
        Cause((6, branched)),
        Cause((branched,)),
        Cause((), Outside("caller")),
        Cause((), Outside("message")),
    ]
    assert causes_of([(BranchSession, [BRANCHED])])[0] == Cause((), Outside("caller"))


@given(steps)
@settings(max_examples=examples(60))
def test_every_event_follows_from_earlier_ones_or_from_outside_and_each_chain_comes_from_there(
    chosen: list[Step],
) -> None:
    one = played(chosen)
    for session_id in "abcdefgh":
        events = history(one, session_id)
        found = causes(one, session_id)

        assert len(found) == len(events)
        for place, cause in enumerate(found):
            assert cause.places or cause.outside
            assert all(earlier < place for earlier in cause.places)
            if not cause.places:
                assert cause.outside is not None
                assert cause.outside.kind in ("message", "caller", "crash", "shutdown")
            check(events, place, [events[earlier] for earlier in cause.places], cause.outside)


def check(events: Sequence[SessionEvent], place: int, causes: Sequence[SessionEvent], outside: Outside | None) -> None:
    """Hold the causes of an event to what can be looked up."""
    event, before = events[place], events[:place]
    match event:
        case TurnStarted():
            asked = [one for one in before if isinstance(one, MessageAccepted) and one.turn_id == event.turn_id]
            assert causes[:1] == asked
            assert all(
                isinstance(one, TurnCompleted | AgentStarted | ResultsRecorded | ImageChanged) for one in causes[1:]
            )
        case AnswerRecorded() | ContextCompressed():
            asking = [one for one in before if isinstance(one, TurnStarted | StepStarted)]
            assert causes[0] is asking[-1]
            assert outside == Outside("model", event.model)
        case ToolsRequested():
            assert causes == [next(one for one in reversed(before) if isinstance(one, AnswerRecorded))]
        case StepStarted():
            assert causes == [next(one for one in reversed(before) if isinstance(one, ResultsRecorded))]
        case ResultsRecorded():
            begin = max(number for number, one in enumerate(before) if isinstance(one, ToolsRequested))
            assert causes == [one for one in before[begin:] if isinstance(one, ToolResult)]
        case TurnContinued():
            decisions = (ToolApproved, ToolEdited, ToolRejected, HumanResponded, ToolResult)
            assert isinstance(causes[0], decisions)
        case LimitWarning():
            assert isinstance(causes[0], TurnStarted | ResultsRecorded)
        case TurnCompleted(outcome="waiting"):
            assert any(isinstance(one, ToolPending) for one in causes)
        case MessageAccepted():
            assert all(isinstance(one, SessionBranched | ScheduleFired) for one in causes)
        case SessionBranched():
            assert causes == [before[-1]]
        case _:
            check_other(event, causes, outside)


def check_other(event: SessionEvent, causes: Sequence[SessionEvent], outside: Outside | None) -> None:
    match event:
        case SessionCreated() | MessageScheduled():
            assert not causes
        case AgentStarted():
            assert all(isinstance(one, ScheduleFired) for one in causes)
        case ScheduleCancelled() | ScheduleFired():
            (scheduled,) = causes
            assert isinstance(scheduled, MessageScheduled)
            assert scheduled.schedule_id == event.schedule_id
        case HandoverRequested(call_id=str() as call_id):
            (started,) = causes
            assert isinstance(started, ToolStarted)
            assert started.id == call_id
        case ImageChanged() if causes:
            assert isinstance(causes[0], HandoverRequested)
            assert causes[0].image_id == event.image_id
            assert all(isinstance(one, TurnCompleted | ResultsRecorded) for one in causes[1:])
        case _:
            check_call(event, causes, outside)


def check_call(event: SessionEvent, causes: Sequence[SessionEvent], outside: Outside | None) -> None:
    match event:
        case ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
            assert outside == Outside("person", event.by)
            asked_of = (HumanApproveRequired, HumanPromptRequired, HumanSelectRequired, ToolEdited)
            assert isinstance(causes[0], asked_of)
        case ToolPending():
            assert all(
                isinstance(one, HumanApproveRequired | HumanPromptRequired | HumanSelectRequired) for one in causes
            )
        case ToolStarted():
            assert isinstance(causes[0], ToolsRequested | ToolApproved | ToolStarted)
            assert isinstance(causes[0], ToolsRequested) or causes[0].id == event.id
        case ToolResult() if event.ran:
            assert isinstance(causes[0], ToolStarted)
            assert causes[0].id == event.id
        case _:
            pass
