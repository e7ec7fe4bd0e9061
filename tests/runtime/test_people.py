"""People decide about calls: whatever happens in between, each call is decided once, and the conversation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from reenact import (
    AgentNotFoundError,
    AsyncRuntime,
    InvalidInputError,
    Runtime,
    SessionNotFoundError,
    ToolResultBlock,
    ToolUseBlock,
)
from reenact.actors.idempotency import Attempt
from reenact.domain.errors import CallNotPendingError, InvalidAnswerError, StaleApprovalError
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.rules import Rules
from reenact.domain.operations.table import Response, SessionRunRequest
from reenact.domain.session.people import PendingCall
from reenact.domain.session.state import Session
from reenact.domain.session.told import ToolCallInfo, TurnInfo, UsageInfo
from reenact.testing import wait_until
from tests.journal.server import running_server
from tests.logs import copy_log, drop_tables
from tests.runtime.conftest import Open
from tests.runtime.deciding import RULES, STRICTER, Answer, Desk, agent_of, begin, check, say
from tests.runtime.witness import Ears, at_every_commit

SEND: list[Any] = [("t1", "send_email", {"to": "ann"})]
TWO: list[Any] = [("t1", "send_email", {"to": "ann"}), ("t2", "send_email", {"to": "bob"})]
MIXED: list[Any] = [("t1", "search", {"q": "x"}), ("t2", "send_email", {"to": "bob"})]
PROMPT: list[Any] = [("t1", "ask_user", {"prompt": "Which colour?"})]
SELECT: list[Any] = [("t1", "ask_user", {"prompt": "Which?", "options": ["red", "blue"], "multi": True})]


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rules], None]:
    """Let these rules hold, and give what lets others hold."""

    def hold(these: Rules) -> None:
        def rules_of(_ports: object, _session: Session) -> Rules:
            return these

        monkeypatch.setattr("reenact.actors.runtime._Ports.rules", rules_of)

    hold(RULES)
    return hold


@pytest.fixture
def desk() -> Desk:
    return Desk()


def waiting(runtime: Runtime, desk: Desk, *answers: Answer, session_id: str = "s") -> tuple[Ears, list[PendingCall]]:
    """Return once the session waits for people, with what it waits for."""
    desk.ask(*answers)
    ears = begin(runtime, session_id)
    ears.wait("turn_completed", turn_id=say(runtime, session_id=session_id))
    return ears, runtime.agents.pending(session_id=session_id)


def texts(runtime: Runtime, session_id: str = "s") -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in runtime.sessions.messages(session_id)]


def test_a_call_that_needs_approval_waits_and_is_listed_with_all_that_a_person_must_know(
    opened: Open, desk: Desk
) -> None:
    runtime = opened(environment=desk)

    ears, (call,) = waiting(runtime, desk, SEND)

    assert (call.id, call.session_id, call.kind, call.name) == ("t1", "s", "approval", "send_email")
    assert (call.arguments, call.prompt, call.options, call.multi) == ({"to": "ann"}, None, None, False)
    assert (call.agent_id, call.turn_id) == (agent_of(runtime), ears.of("turn_started")[0].data["turn_id"])
    assert call.reason
    assert len(call.digest) == 64
    assert call.since <= datetime.now(UTC)
    assert runtime.agents.pending() == runtime.agents.pending(call.agent_id) == [call]
    assert [event.data["outcome"] for event in ears.of("turn_completed")] == ["waiting"]
    info = runtime.agents.get(agent_of(runtime))
    assert info is not None
    assert (info.state, info.turn_id) == ("waiting_for_human_input", None)
    assert desk.ran == []
    check(runtime)


@pytest.mark.parametrize("anew", [False, True])
def test_an_approval_survives_restarts_and_lets_the_conversation_go_on(
    opened: Open, desk: Desk, log: str, *, anew: bool
) -> None:
    runtime = opened(environment=desk)
    _, (asked,) = waiting(runtime, desk, SEND, "Sent.")
    runtime.close()
    if anew:
        drop_tables(log)
    opened(environment=desk).close()
    runtime = opened(environment=desk)
    ears = Ears(runtime)
    (call,) = runtime.agents.pending()
    assert (call.agent_id, call.id, call.digest, call.since) == (None, asked.id, asked.digest, asked.since)

    turn_id = runtime.agents.approve(call, by="ann")

    (completed,) = ears.wait("turn_completed", turn_id=turn_id)
    assert (completed.data["outcome"], desk.ran) == ("completed", [("send_email", {"to": "ann"})])
    assert texts(runtime) == [("user", "Please"), ("assistant", ""), ("user", ""), ("assistant", "Sent.")]
    (info,) = runtime.sessions.tool_calls("s")
    assert (info.decision, info.decided_by, info.ran, info.result) == ("approved", "ann", True, {"done": "send_email"})
    assert runtime.agents.pending() == []
    check(runtime)


def test_a_rejected_call_is_not_run_and_the_model_is_told_why(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, _ = waiting(runtime, desk, SEND, "Then not.")

    turn_id = runtime.agents.reject("t1", "too early", by="bob")

    (completed,) = ears.wait("turn_completed", turn_id=turn_id)
    assert (completed.data["outcome"], desk.ran) == ("completed", [])
    ((_, content, is_error),) = desk.last_results()
    assert is_error
    assert "too early" in content
    (info,) = runtime.sessions.tool_calls("s")
    assert (info.decision, info.decided_by, info.ran) == ("rejected", "bob", False)
    check(runtime)


def test_a_rejection_that_does_not_resume_has_the_model_not_asked_again(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, _ = waiting(runtime, desk, TWO)
    queued = say(runtime, "Something else")

    turn_id = runtime.agents.reject("t1", resume=False)

    ears.wait("turn_completed", turn_id=queued)
    assert (turn_id, runtime.agents.pending(), desk.ran) == (None, [], [])
    assert [info.stage for info in runtime.sessions.tool_calls("s")] == ["answered", "answered"]
    assert [turn.outcome for turn in runtime.sessions.turns("s")] == ["waiting", "completed"]
    assert texts(runtime)[-2:] == [("user", "Something else"), ("assistant", "Done.")]
    check(runtime)


def test_the_turn_that_a_decision_begins_is_named_even_if_there_is_no_money_left_for_it(
    opened: Open, desk: Desk, rules: Callable[[Rules], None]
) -> None:
    rules(msgspec.structs.replace(RULES, cost_limit=CostLimit(0.4)))
    runtime = opened(environment=desk)
    ears, _ = waiting(runtime, desk, MIXED)
    say(runtime, "And?")

    turn_id = runtime.agents.reject("t2")

    (completed,) = ears.wait("turn_completed", turn_id=turn_id)
    assert completed.data["stop_reason"] == "cost_limit_exceeded"
    assert [turn.id for turn in runtime.sessions.turns("s")].index(turn_id or "") == 1


def test_an_edited_call_runs_with_the_new_arguments(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, SEND)

    turn_id = runtime.agents.approve(call, arguments={"to": "eve", "cc": ("x", "y")}, by="ann")

    ears.wait("turn_completed", turn_id=turn_id)
    assert desk.ran == [("send_email", {"to": "eve", "cc": ["x", "y"]})]
    (info,) = runtime.sessions.tool_calls("s")
    assert (info.decision, info.original, info.arguments) == ("edited", {"to": "ann"}, desk.ran[0][1])
    assert ToolUseBlock("t1", "send_email", {"to": "ann"}) in runtime.sessions.messages("s")[1].content
    check(runtime)


def test_a_question_is_answered_in_words(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, PROMPT, "Nice.")

    turn_id = runtime.agents.respond(call, "Red", by="ann")

    ears.wait("turn_completed", turn_id=turn_id)
    assert (call.kind, call.prompt, call.options) == ("prompt", "Which colour?", None)
    assert desk.last_results() == [("t1", "Red", False)]
    assert runtime.sessions.tool_calls("s")[0].decision == "answered"
    check(runtime)


def test_a_question_with_options_takes_only_these_and_waits_until_it_gets_them(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, SELECT)

    with pytest.raises(InvalidAnswerError, match="none of the options: 'red', 'blue'"):
        runtime.agents.respond("t1", ["green"])
    with pytest.raises(CallNotPendingError, match="waits for an answer"):
        runtime.agents.approve(call)
    assert runtime.agents.pending() == [call]
    turn_id = runtime.agents.respond("t1", ("blue",))

    ears.wait("turn_completed", turn_id=turn_id)
    assert (call.kind, call.multi, [option.value for option in call.options or ()]) == ("select", True, ["red", "blue"])
    assert desk.last_results() == [("t1", '["blue"]', False)]
    check(runtime)


def test_messages_wait_while_a_person_is_asked_and_follow_what_was_asked_before(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, SEND, "Sent.", "And now this.")
    queued = say(runtime, "And?")
    info = runtime.agents.get(agent_of(runtime))

    turn_id = runtime.agents.approve(call)

    ears.wait("turn_completed", turn_id=queued)
    assert info is not None
    assert (info.state, info.queued, info.turn_id) == ("waiting_for_human_input", 1, None)
    said = ["Please", "", "", "Sent.", "And?", "And now this."]
    assert [text for _, text in texts(runtime)] == said
    assert [turn.id for turn in runtime.sessions.turns("s")] == [call.turn_id, turn_id, queued]
    check(runtime)


def test_an_interrupt_ends_the_waiting(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, SEND)

    runtime.agents.interrupt(agent_of(runtime))

    assert runtime.agents.pending() == []
    with pytest.raises(CallNotPendingError, match="'t1'"):
        runtime.agents.approve(call)
    info = runtime.agents.get(agent_of(runtime))
    assert info is not None
    assert info.state == "idle"
    results = runtime.sessions.messages("s")[-1]
    assert (results.role, results.turn_id, results.text) == ("user", None, "")
    ears.wait("turn_completed", turn_id=say(runtime, "Go on"))
    assert desk.ran == []
    check(runtime)


def test_each_call_of_an_answer_is_decided_by_itself_and_the_model_goes_on_when_all_are(
    opened: Open, desk: Desk
) -> None:
    runtime = opened(environment=desk)
    ears, (first, second) = waiting(runtime, desk, TWO)
    asked = len(desk.heard)

    one = runtime.agents.approve(first)
    ears.wait("turn_completed", turn_id=one)
    assert (len(desk.heard), runtime.agents.pending()) == (asked, [second])
    other = runtime.agents.reject(second)
    ears.wait("turn_completed", turn_id=other)

    assert desk.ran == [("send_email", {"to": "ann"})]
    assert [(id_, is_error) for id_, _, is_error in desk.last_results()] == [("t1", False), ("t2", True)]
    turns = runtime.sessions.turns("s")
    assert [turn.id for turn in turns] == [first.turn_id, one, other]
    assert [(turn.outcome, turn.steps) for turn in turns] == [("waiting", 1), ("waiting", 0), ("completed", 1)]
    check(runtime)


def test_who_answers_one_of_several_questions_is_told_that_nothing_goes_on_yet(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, _ = waiting(runtime, desk, [("t1", "ask_user", {"prompt": "A?"}), ("t2", "ask_user", {"prompt": "B?"})])

    assert runtime.agents.respond("t1", "a") is None
    turn_id = runtime.agents.respond("t2", "b")

    ears.wait("turn_completed", turn_id=turn_id)
    assert desk.last_results() == [("t1", "a", False), ("t2", "b", False)]


def test_what_needs_nobody_runs_while_the_rest_waits(opened: Open, desk: Desk) -> None:
    desk.holding.add("search")
    runtime = opened(environment=desk)
    desk.ask(MIXED)
    ears = begin(runtime)
    turn_id = say(runtime)
    ears.wait("tool_started")
    info = runtime.agents.get(agent_of(runtime))
    assert info is not None
    assert (info.state, info.turn_id) == ("tool_executing", turn_id)

    approved_in = runtime.agents.approve("t2")
    wait_until(lambda: "t1" in desk.held)
    desk.held["t1"]()

    ears.wait("turn_completed", turn_id=turn_id)
    assert approved_in == turn_id
    assert [name for name, _ in desk.ran] == ["send_email", "search"]
    assert [id_ for id_, _, _ in desk.last_results()] == ["t1", "t2"]
    check(runtime)


def test_an_approval_does_not_hold_for_other_policies(opened: Open, desk: Desk, rules: Callable[[Rules], None]) -> None:
    runtime = opened(environment=desk)
    _, (call,) = waiting(runtime, desk, SEND)
    runtime.close()
    rules(STRICTER)
    runtime = opened(environment=desk)
    ears = Ears(runtime)

    with pytest.raises(StaleApprovalError, match="'t1'"):
        runtime.agents.approve(call)
    (now,) = runtime.agents.pending()
    turn_id = runtime.agents.approve(now)

    ears.wait("turn_completed", turn_id=turn_id)
    assert now.digest != call.digest
    assert desk.ran == [("send_email", {"to": "ann"})]
    check(runtime)


def test_an_approval_by_a_digest_holds_for_that_call_only(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, SEND)

    with pytest.raises(StaleApprovalError, match="not what they were"):
        runtime.agents.approve("t1", digest="0" * 64)
    turn_id = runtime.agents.approve("t1", digest=call.digest)

    ears.wait("turn_completed", turn_id=turn_id)
    assert len(desk.ran) == 1


def test_of_many_who_approve_a_call_at_once_one_does(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, SEND)

    def approve(number: int) -> str | None:
        try:
            return runtime.agents.approve(call, by=str(number))
        except CallNotPendingError:
            return ""

    with ThreadPoolExecutor(8) as threads:
        turns = [turn for turn in threads.map(approve, range(8)) if turn]

    ears.wait("turn_completed", turn_id=turns[0])
    assert (len(turns), len(desk.ran)) == (1, 1)
    check(runtime)


def test_a_call_id_that_waits_in_several_sessions_needs_a_session_or_an_agent(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    waiting(runtime, desk, SEND, session_id="s")
    ears, _ = waiting(runtime, desk, SEND, session_id="other")

    with pytest.raises(InvalidInputError, match="'t1' waits in 2 sessions: 's', 'other'; say which"):
        runtime.agents.approve("t1")
    assert desk.ran == []
    one = runtime.agents.approve("t1", session_id="other")
    ears.wait("turn_completed", turn_id=one)
    other = runtime.agents.reject("t1", agent_id=agent_of(runtime, "s"))
    ears.wait("turn_completed", turn_id=other)

    assert len(desk.ran) == 1
    assert runtime.agents.pending() == []
    check(runtime)


def test_a_call_waits_on_when_its_agent_is_destroyed_and_is_gone_with_its_session(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    _, (call,) = waiting(runtime, desk, SEND)

    runtime.agents.destroy(agent_of(runtime))
    (left,) = runtime.agents.pending()
    runtime.sessions.delete("s")

    assert (left.id, left.digest, left.agent_id) == (call.id, call.digest, None)
    assert runtime.agents.pending() == []
    with pytest.raises(CallNotPendingError):
        runtime.agents.approve(call)
    check(runtime)


def test_deciding_about_a_call_starts_the_sessions_agent(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, (call,) = waiting(runtime, desk, PROMPT)
    runtime.agents.destroy(agent_of(runtime))

    turn_id = runtime.agents.respond("t1", "Red")

    ears.wait("turn_completed", turn_id=turn_id)
    assert agent_of(runtime) != call.agent_id
    assert desk.last_results() == [("t1", "Red", False)]
    check(runtime)


def test_who_decides_just_as_the_agent_ends_is_told_which_agent_has(
    opened: Open, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = opened(environment=desk)
    waiting(runtime, desk, SEND)
    agent_id = agent_of(runtime)
    run = runtime._do.session_run

    def run_and_destroy(request: SessionRunRequest, attempt: Attempt) -> str:
        running = run(request, attempt)
        runtime.agents.destroy(running)
        return running

    monkeypatch.setattr(runtime._do, "session_run", run_and_destroy)

    with pytest.raises(AgentNotFoundError, match=agent_id):
        runtime.agents.approve("t1")

    assert [call.id for call in runtime.agents.pending()] == ["t1"]


def test_what_does_not_wait_starts_no_agent(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    begin(runtime, "s")
    runtime.agents.destroy(agent_of(runtime))

    for decide in (runtime.agents.approve, runtime.agents.reject):
        with pytest.raises(CallNotPendingError, match="'t1'"):
            decide("t1", session_id="s")
    with pytest.raises(CallNotPendingError, match=r"`agents\.pending` lists the calls that wait"):
        runtime.agents.respond("t1", "Red")

    assert runtime.agents.list() == []


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], "must be a JSON object, not list"),
        ("to", "must be a JSON object, not str"),
        ({"to": object()}, r"arguments\.to is a object, which is not a JSON value"),
        ({"to": [1, {2, 3}]}, r"arguments\.to\[1\] is a set"),
        ({"to": {1: 2}}, r"arguments\.to has the key 1"),
        ({"to": float("nan")}, r"arguments\.to is nan"),
        ({"to": 1 << 64}, "more than 64 bits"),
        ({"to": "\ud800"}, "not valid Unicode"),
        ({"to": "x" * 11_000_000}, "at most 10485760"),
    ],
)
def test_arguments_that_cannot_be_recorded_are_refused_and_the_call_waits_on(
    opened: Open,
    desk: Desk,
    arguments: Any,  # noqa: ANN401 - of any kind
    wrong: str,
) -> None:
    runtime = opened(environment=desk)
    waiting(runtime, desk, SEND)

    with pytest.raises(InvalidInputError, match=wrong):
        runtime.agents.approve("t1", arguments=arguments)

    assert len(runtime.agents.pending()) == 1


def test_nonsense_is_refused_in_so_many_words(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    _, (call,) = waiting(runtime, desk, PROMPT)
    begin(runtime, "other")
    agents: Any = runtime.agents

    refusals: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: agents.respond("t1", {1, 2}), InvalidInputError, "the answer is a set"),
        (lambda: agents.respond("t1", 7), InvalidAnswerError, "must be answered with text, not 7"),
        (lambda: agents.respond(7, "Red"), InvalidInputError, "give the id of a call, or a PendingCall, not int"),
        (lambda: agents.respond(call, "Red", session_id="other"), InvalidInputError, "belongs to session 's'"),
        (lambda: agents.respond("t1", "Red", session_id="other"), CallNotPendingError, "'t1'"),
        (lambda: agents.respond("t1", "Red", session_id="gone"), SessionNotFoundError, "'gone'"),
        (lambda: agents.respond("t1", "Red", agent_id="gone"), AgentNotFoundError, "'gone'"),
        (lambda: agents.respond("\ud800", "Red"), CallNotPendingError, "t1|ud800"),
        (lambda: agents.respond("t1", "Red", by=" "), InvalidInputError, "who decides is empty"),
        (lambda: agents.approve("t1", digest=7), InvalidInputError, "the digest must be text, not int"),
        (lambda: agents.reject("t1", 7), InvalidInputError, "the reason must be text, not int"),
        (lambda: agents.pending("a", session_id="s"), InvalidInputError, "not both"),
        (lambda: agents.pending("gone"), AgentNotFoundError, "'gone'"),
        (lambda: agents.pending(session_id="gone"), SessionNotFoundError, "'gone'"),
        (lambda: runtime.sessions.turns("gone"), SessionNotFoundError, "'gone'"),
        (lambda: runtime.sessions.tool_calls("gone"), SessionNotFoundError, "'gone'"),
        (lambda: runtime.sessions.usage("gone"), SessionNotFoundError, "'gone'"),
    ]
    for act, error, why in refusals:
        with pytest.raises(error, match=why):
            act()

    assert runtime.agents.pending() == [call]


def test_what_was_used_adds_up_by_model_by_tool_and_by_turn(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, _ = waiting(runtime, desk, MIXED)

    ears.wait("turn_completed", turn_id=runtime.agents.approve("t2"))

    used = runtime.sessions.usage("s")
    tokens = {"input_tokens": 2000, "output_tokens": 200}
    assert used.models["model"].usage == used.usage == tokens
    assert used.models["model"].calls == 2
    assert used.models["model"].cost == pytest.approx(0.006)
    assert (used.tools["search"].calls, used.tools["search"].cost, used.tools["search"].unpriced) == (1, 0.5, 0)
    assert (used.tools["send_email"].calls, used.tools["send_email"].unpriced) == (1, 1)
    assert used.unpriced == 1
    assert used.cost == pytest.approx(0.506)
    assert [turn.cost for turn in runtime.sessions.turns("s")] == [pytest.approx(0.503), pytest.approx(0.003)]
    assert [turn.usage for turn in runtime.sessions.turns("s")] == [{"input_tokens": 1000, "output_tokens": 100}] * 2


def test_a_tool_that_fails_is_told_so_to_the_model_and_to_people(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    desk.ask([("t1", "broken", {})])
    ears = begin(runtime)

    ears.wait("turn_completed", turn_id=say(runtime))

    (call,) = runtime.sessions.tool_calls("s")
    assert (call.stage, call.is_error, call.ran, call.attempts, call.result) == (
        "answered",
        True,
        True,
        1,
        "out of order",
    )
    assert call.started_at is not None
    assert call.ended_at is not None
    assert call.started_at <= call.ended_at
    assert desk.last_results() == [("t1", "out of order", True)]


def test_whenever_the_process_ends_the_call_is_decided_once_and_the_conversation_goes_on(
    opened: Open, desk: Desk, log: str
) -> None:
    runtime = opened(environment=desk)
    desk.ask(MIXED)
    copies: list[str] = []
    at_every_commit(runtime, lambda count: copies.append(copy_log(log, str(count))))
    ears = begin(runtime)
    ears.wait("turn_completed", turn_id=say(runtime))
    ears.wait("turn_completed", turn_id=runtime.agents.approve("t2"))
    runtime.close()
    decided: list[str] = []

    for copy in copies:
        again = Desk("Well.")
        runtime = opened(copy, environment=again)
        if runtime.sessions.get("s") is not None:
            decided.append(finished(runtime, again))
        runtime.close()

    assert set(decided) - {"was cut short"} == {"nothing asked", "approved now", "was approved"}


def finished(runtime: Runtime, desk: Desk) -> str:
    """Decide what waits, say something more, and return what has become of the call that needs approval."""
    ears = Ears(runtime)
    runtime.sessions.run("s")
    waiting_now = runtime.agents.pending()
    for call in waiting_now:
        ears.wait("turn_completed", turn_id=runtime.agents.approve(call))
    ears.wait("turn_completed", turn_id=say(runtime, "And?"))
    check(runtime)
    messages = [message for message in runtime.sessions.messages("s") if not message.partial]  # of which nothing ran
    blocks = [block for message in messages for block in message.content]
    asked = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
    assert [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)] == asked
    assert runtime.agents.pending() == []
    sent = [call for call in runtime.sessions.tool_calls("s") if call.id == "t2"]
    if not sent:
        return "nothing asked"
    if waiting_now:
        assert desk.ran == [("send_email", {"to": "bob"})]
        return "approved now"
    assert desk.ran == []
    if sent[0].decision is None:  # the answer that asks was whole, but nobody had been asked about it
        assert sent[0].is_error
        assert not sent[0].ran
        return "was cut short"
    assert sent[0].decision == "approved"
    return "was approved"


async def decide_asynchronously(log: str, desk: Desk) -> list[str | None]:
    """Do what there is to do in a session of three answers that ask people something."""
    async with AsyncRuntime.open(log, environment=desk) as runtime:
        agents, ears = runtime.agents, Ears(runtime._runtime)
        (call,) = await agents.pending()
        done = [await agents.approve(call, arguments={"to": "eve"})]
        ears.wait("turn_completed", turn_id=done[-1])
        (call,) = await agents.pending(session_id="s")
        done.append(await agents.reject(call, "no"))
        ears.wait("turn_completed", turn_id=done[-1])
        (call,) = await agents.pending(call.agent_id)
        done.append(await agents.respond(call, "Red"))
        ears.wait("turn_completed", turn_id=done[-1])
        assert [turn.id for turn in await runtime.sessions.turns("s")][1:] == done
        assert [one.decision for one in await runtime.sessions.tool_calls("s")] == ["edited", "rejected", "answered"]
        assert (await runtime.sessions.usage("s")).models["model"].calls == 4
        return done


def test_an_asyncio_caller_decides_by_the_same_names(opened: Open, desk: Desk, log: str) -> None:
    runtime = opened(environment=desk)
    waiting(runtime, desk, SEND, SEND, PROMPT, "Done.")
    runtime.close()

    done = asyncio.run(decide_asynchronously(log, desk))

    assert len(set(done)) == 3
    assert desk.ran == [("send_email", {"to": "eve"})]


def test_requests_decide_as_the_facades_do(opened: Open, desk: Desk) -> None:
    runtime = opened(environment=desk)
    ears, _ = waiting(runtime, desk, SEND, SEND, PROMPT, "Done.")

    def ask(type_: str, **data: Any) -> Any:  # noqa: ANN401 - any JSON value
        return runtime.request(type_, data).data.result

    (told,) = ask("agent_pending_request")
    assert msgspec.convert(told, PendingCall) == runtime.agents.pending()[0]
    approved = ask("agent_approve_request", call_id="t1", digest=told["digest"], arguments={"to": "eve"}, by="ann")
    ears.wait("turn_completed", turn_id=approved)
    again = runtime.agents.pending()[0].id
    ears.wait("turn_completed", turn_id=ask("agent_reject_request", call_id=again, reason="no", session_id="s"))
    question = runtime.agents.pending()[0].id
    with pytest.raises(InvalidAnswerError) as refused:
        ask("agent_respond_request", call_id=question, value=7)
    ears.wait("turn_completed", turn_id=ask("agent_respond_request", call_id=question, value="Red"))
    with pytest.raises(CallNotPendingError):
        ask("agent_respond_request", call_id=question, value="Red")

    responses = ears.wait("agent_respond_response", count=3)
    errors = [event.data.error for event in responses if isinstance(event.data, Response)]
    codes = [error and error.code for error in errors]
    assert codes == [refused.value.code, None, "call_not_pending"]
    assert desk.ran == [("send_email", {"to": "eve"})]
    calls = msgspec.convert(ask("session_tool_calls_request", session_id="s"), list[ToolCallInfo])
    assert calls == runtime.sessions.tool_calls("s")
    assert msgspec.convert(ask("session_turns_request", session_id="s"), list[TurnInfo]) == runtime.sessions.turns("s")
    assert msgspec.convert(ask("session_usage_request", session_id="s"), UsageInfo) == runtime.sessions.usage("s")


def test_a_session_that_waits_for_a_person_moves_with_its_agent_and_is_decided_there(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    locks = tmp_path_factory.getbasetemp().parent / "runtime"
    locks.mkdir(mode=0o700, exist_ok=True)
    with running_server(locks) as server:
        url, first, second = server.new_log(), Desk(), Desk("Well.")
        leaving = Runtime.open(url, environment=first)
        _, (call, *_) = waiting(leaving, first, SEND)
        agent = leaving.agents.list()[0].id
        with Runtime.open(url, environment=second) as staying:
            leaving.close()
            assert [each.id for each in staying.agents.list()] == [agent]
            turn = staying.agents.approve(call.id)
            assert turn is not None
            assert staying.turns.wait(turn, timeout=60).text == "Well."
