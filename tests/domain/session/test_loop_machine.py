"""Any loop of a session, with any outcome of tools, any answer of people and any crash, read naively afterwards."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reenact.domain.errors import (
    AgentNotFoundError,
    AlreadyExistsError,
    CallNotPendingError,
    InvalidAnswerError,
    ReenactError,
    StaleApprovalError,
)
from reenact.domain.loop.asking import ASK_USER
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolPending,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, TextBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.plain import Json
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.rules import Policy, call_digest
from reenact.domain.session.agent import (
    AgentStarted,
    Failure,
    ReceivedAnswer,
    ResultsRecorded,
    RulesRecorded,
    StepStarted,
    StopReason,
    ToolsRequested,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.session.commands import (
    Approve,
    Compress,
    CreateSession,
    Delete,
    Finish,
    Interrupt,
    Receive,
    Reject,
    Report,
    Respond,
    Resume,
    Run,
    SessionCommand,
    Stop,
)
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, evolve, for_model, kept, reading, session_from_snapshot
from reenact.domain.session.turns import COST_LIMIT, MAX_STEPS, REPEATED
from tests.domain.history.retraced import Step, check_retraced
from tests.domain.session import history as naive
from tests.domain.session.announced import announced
from tests.domain.session.examples import HELLO, replay
from tests.domain.session.history import Asked, Fact
from tests.domain.session.policies import EACH
from tests.domain.stream.grammar import Grammar, Heard

PRICES = {"m": Price(100.0, 500.0)}
COSTS = {"pay": 0.5, "look": 0.25}

call_inputs: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "look": st.sampled_from([{}, {"at": "a"}]),
    "pay": st.sampled_from([{"amount": 1}, {"amount": 2}]),
    "send": st.just({}),
    ASK_USER: st.sampled_from(
        [
            {"prompt": "Which?"},
            {"prompt": "Which?", "options": ["a", "b"]},
            {"prompt": "Which?", "options": ["a", "b"], "multi": True},
            {"prompt": " "},
        ]
    ),
}
calls = st.sampled_from(["look", "look", "pay", "pay", "send", ASK_USER]).flatmap(
    lambda name: st.builds(ToolUseBlock, st.sampled_from(["a", "b", "c", "", "m1_0"]), st.just(name), call_inputs[name])
)
said = st.lists(st.sampled_from([TextBlock("Hi"), TextBlock(" ")]), max_size=1)
usages = st.sampled_from([{}, {"input_tokens": 1_000, "output_tokens": 200}, {"input_tokens": 7}])
models = st.sampled_from(["m", "m", "x", None])


def _so_far(
    text: list[Block], asked: list[ToolUseBlock], ending: str, usage: dict[str, int], model: str | None
) -> ReceivedAnswer:
    content = (*text, *asked)
    return ReceivedAnswer(
        message_id="m1" if content or usage or ending != "part" else None,
        content=content,
        stop_reason="tool_use"
        if asked and ending == "whole"
        else {"whole": "end_turn", "cut": "max_tokens", "refused": "refusal"}.get(ending),
        usage=usage,
        model=model,
        responding=bool(text),
        failure=Failure("api_error", "broken") if ending == "broken" else None,
    )


some_calls = st.lists(calls, max_size=3)
asking = st.builds(_so_far, said, st.lists(calls, min_size=1, max_size=3), st.just("whole"), usages, models)
ends = st.builds(
    _so_far, said, some_calls, st.sampled_from(["whole", "whole", "whole", "cut", "refused", "broken"]), usages, models
)
parts = st.builds(_so_far, said, some_calls, st.sampled_from(["part", "whole", "broken"]), usages, models)
results = st.sampled_from([None, "sunny", {"t": 1}, [{"type": "text", "text": "sunny"}], 7])
any_value = st.sampled_from(["a", "b", "words", " ", 7, [], ["a"], ["b", "a"], ["a", "a"], ["c"], None])
limits = st.builds(
    Rules,
    max_steps=st.sampled_from([None, 4, 2, 1]),
    max_repeats=st.sampled_from([2, 1, None]),
    cost_limit=st.sampled_from(
        [None, None, CostLimit(0.6), CostLimit(0.1), CostLimit(0.6, "interrupt"), CostLimit(0.3, "warn")]
    ),
    prices=st.just(PRICES),
    costs=st.just(COSTS),
    idempotent=st.sampled_from([(), ("look",), ("look", "pay")]),
    policies=st.sampled_from(EACH),
    runs_tools=st.sampled_from([True] * 9 + [False]),
)


class LoopMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.steps: list[Step] = []
        self.facts: list[Fact] = []
        self.heard: list[Heard] = []
        self.in_force = Rules()
        self.resumed: set[str] = set()
        self.grammar = Grammar(resumed=self.resumed)
        self.cursor = 0
        self.count = 0
        self.accepted = 0
        self._read: tuple[int, list[Asked]] = (0, [])
        self._checked = 0

    # what is asked, and what is looked up to judge the answer

    def ask(self, command: SessionCommand) -> list[Any] | ReenactError:
        """Decide and believe, or return the refusal."""
        before, turn_id = self.session, naive.turn_under_way(self.facts)
        so_far = command.so_far if isinstance(command, Finish | Interrupt | Stop | Delete) else None
        is_asked = turn_id is not None and self.open is None
        try:
            events = decide(before, command)
        except ReenactError as refusal:
            return refusal
        if events:
            self.steps.append(Step(command, events))
        if events and so_far is not None and is_asked:
            self._hear_answer(turn_id, so_far)
        for context, data in announced(before, events):
            self._hear(data.event_type, context.turn_id, dict(data))
        for event in events:
            self.session = evolve(self.session, event)
        self.facts.extend(Fact(event, self.in_force) for event in events)
        return list(events)

    def _hear_answer(self, turn_id: str | None, so_far: ReceivedAnswer) -> None:
        """Hear what an environment would have said for the answer to be what it is."""
        if so_far.message_id is not None:
            self._hear("message_start", turn_id, {})
        if so_far.responding:
            self._hear("agent_state_changed", turn_id, {"previous": "thinking", "current": "responding"})
        for block in so_far.content:
            if isinstance(block, TextBlock):
                self._hear("text_delta", turn_id, {"text": block.text})
            elif isinstance(block, ToolUseBlock):
                self._hear("tool_call", turn_id, {"id": block.id, "name": block.name, "input": block.input})
        if so_far.stop_reason is not None:
            self._hear("message_stop", turn_id, {"stop_reason": so_far.stop_reason})
        if so_far.failure is not None:
            self._hear("error", turn_id, {})

    def _hear(self, type_: str, turn_id: str | None, data: dict[str, Any]) -> None:
        self.cursor += 1
        self.heard.append(Heard(self.cursor, type_, turn_id, data))

    def next(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    @property
    def at(self) -> int:
        return 1_000_000 * self.count

    @property
    def asked(self) -> list[Asked]:
        if self._read[0] != len(self.facts):
            self._read = len(self.facts), naive.all_asked(self.facts)
        return self._read[1]

    @property
    def open(self) -> Asked | None:
        return self.asked[-1] if self.asked and self.asked[-1].results is None else None

    @property
    def live(self) -> str | None:
        return None if self.session.agent is None else self.session.agent.id

    def with_rules(self) -> dict[str, Any]:
        return {"at": self.at, "rules": self.in_force, "results_id": self.next("r")}

    def some_call(self, data: st.DataObject, likely: list[str]) -> str:
        """Draw a call, mostly a likely one."""
        known = [id_ for asked in self.asked[-2:] for id_ in asked.calls]
        return data.draw(st.sampled_from([*likely * 4, *known, "unheard of"]))

    def teardown(self) -> None:
        check_retraced(self.steps, self.session)

    # what anybody can do

    @initialize(rules=limits)
    def create(self, rules: Rules) -> None:
        self.in_force = rules
        self.ask(CreateSession(session_id="s", container_id="c", image_id="i", image_revision=1))
        self.ask(Run(session_id="s", agent_id=self.next("agent"), turn_id=self.next("t"), **self.with_rules()))

    @precondition(lambda self: self.live is None)
    @rule(rules=limits, same=st.booleans())
    def run(self, rules: Rules, same: bool) -> None:  # noqa: FBT001 - drawn
        waiting, before = self.open, self.in_force
        self.in_force = before if same else rules

        events = self.ask(Run(session_id="s", agent_id=self.next("agent"), turn_id=self.next("t"), **self.with_rules()))

        assert isinstance(events, ReenactError) == naive.is_deleted(self.facts)
        if isinstance(events, list) and waiting is not None:
            if before.policies == self.in_force.policies:
                assert [type(event) for event in events if not isinstance(event, RulesRecorded)] == [AgentStarted]
            approvals = [id_ for id_ in waiting.waiting if id_ not in waiting.questions]
            if approvals and waiting.revision != self.in_force.policies.revision:
                asked = [call.id for event in events if isinstance(event, HumanApproveRequired) for call in event.calls]
                denied = [event.id for event in events if isinstance(event, ToolResult)]
                assert sorted(asked + denied) == sorted(approvals)

    @precondition(lambda self: self.live is not None and len(self.session.queue) < 1 + (self.count % 4 == 0))
    @rule()
    def receive(self) -> None:
        assert isinstance(self.ask(self._message(self.live)), list)
        self.accepted += 1

    def _message(self, agent_id: str | None) -> Receive:
        turn_id, message_id = self.next("t"), self.next("q")
        return Receive(
            agent_id=agent_id or "z",
            turn_id=turn_id,
            message_id=message_id,
            content=HELLO,
            at=self.at,
            rules=self.in_force,
        )

    @precondition(lambda self: self.count % 3 == 0)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["answer", "message", "interrupt", "stop", "run", "create", "approve"]),
        so_far=ends,
    )
    def do_something_senseless(self, data: st.DataObject, kind: str, so_far: ReceivedAnswer) -> None:
        """Whatever is of another turn, agent or time changes nothing."""
        under_way = naive.turn_under_way(self.facts)
        others = [turn for turn in [*naive.begun_turns(self.facts)[-3:], "unheard of"] if turn != under_way]
        match kind:
            case "answer":
                turn_id = data.draw(st.sampled_from(others))
                told = self.ask(Finish(turn_id=turn_id, so_far=so_far, **self.with_rules()))
            case "message":
                told = self.ask(self._message("another"))
                assert isinstance(told, AgentNotFoundError)
            case "interrupt":
                told = self.ask(Interrupt(agent_id="another", reason="user", so_far=so_far, **self.with_rules()))
            case "stop":
                told = self.ask(Stop(agent_id="another", reason="destroyed", so_far=so_far, **self.with_rules()))
            case "run":
                told = self.ask(Run(session_id="s", agent_id="another", **self.with_rules())) if self.live else []
            case "create":
                told = self.ask(CreateSession(session_id="s", container_id="c", image_id="i", image_revision=2))
                assert isinstance(told, AlreadyExistsError)
            case _:
                told = self.ask(Approve(call_id="unheard of", turn_id=self.next("t"), **self.with_rules()))
                assert isinstance(told, AgentNotFoundError if self.live is None else CallNotPendingError)
        assert told == [] or isinstance(told, ReenactError)

    @precondition(lambda self: naive.turn_under_way(self.facts) is not None and self.open is None)
    @rule(so_far=asking)
    def ask_for_tools(self, so_far: ReceivedAnswer) -> None:
        self._answer(so_far)

    @precondition(lambda self: naive.turn_under_way(self.facts) is not None and self.open is None)
    @rule(so_far=ends)
    def answer(self, so_far: ReceivedAnswer) -> None:
        self._answer(so_far)

    def _answer(self, so_far: ReceivedAnswer) -> None:
        turn_id = naive.turn_under_way(self.facts)
        assert turn_id is not None
        so_far = msgspec.structs.replace(so_far, message_id=data_id(so_far, self.count))
        calls = [block for block in so_far.content if isinstance(block, ToolUseBlock)]

        events = self.ask(Finish(turn_id=turn_id, so_far=so_far, **self.with_rules()))

        assert isinstance(events, list)
        goes_on = so_far.stop_reason == "tool_use" and self.in_force.runs_tools
        assert any(isinstance(event, ToolsRequested) for event in events) == goes_on
        if goes_on:
            asked = self.asked[-1]
            assert [(call.name, call.input) for call in calls] == asked.said()
            self._is_done_as_policies_say(asked, events)
        else:
            (completed,) = [event for event in events if isinstance(event, TurnCompleted) and event.turn_id == turn_id]
            assert completed.outcome == ("completed" if so_far.failure is None else "failed")

    def _is_done_as_policies_say(self, asked: Asked, events: list[Any]) -> None:
        ended = next((event.stop_reason for event in events if isinstance(event, TurnCompleted)), None)
        started = {event.id for event in events if isinstance(event, ToolStarted)}
        waits = {id_ for event in events if isinstance(event, ToolPending) for id_ in event.ids}
        if ended in {MAX_STEPS, REPEATED, COST_LIMIT} and not started and not waits:
            return
        for id_, call in asked.calls.items():
            verdict = judge(self.in_force.policies, call.name, call.input, self._approved_before(asked, call))
            valid = bool(str(call.input.get("prompt", "")).strip())
            expected = {"run": "waits" if valid else "starts", "ask": "waits", "deny": "is answered"}[verdict.decision]
            expected = "is answered" if call.name == ASK_USER and not valid else expected
            came = "starts" if id_ in started else "waits" if id_ in waits else "is answered"
            assert came == expected

    def _approved_before(self, asked: Asked, call: ToolUseBlock, *, until: int = 0) -> set[str]:
        """Return the digest of the call if a person has approved one like it before."""
        arguments = asked.arguments(call.id, until=until)
        like_it = any(
            round_.calls[event.id].name == call.name and round_.arguments(event.id, until=place) == arguments
            for round_ in naive.all_asked([*asked.before, *asked.facts[:until]])
            for place, event in enumerate(round_.events)
            if isinstance(event, ToolApproved)
        )
        return {call_digest(call.name, arguments)} if like_it else set()

    @precondition(
        lambda self: self.count % 4 == 0 and self.open is not None and naive.turn_under_way(self.facts) is not None
    )
    @rule(so_far=ends)
    def answer_under_calls(self, so_far: ReceivedAnswer) -> None:
        """Only a log that failed makes an answer come now; its failure is the turn's, and nobody has heard of it."""
        so_far = msgspec.structs.replace(so_far, untold=True)
        turn_id, asked = naive.turn_under_way(self.facts), self.open
        assert turn_id is not None
        assert asked is not None

        events = self.ask(Finish(turn_id=turn_id, so_far=so_far, **self.with_rules()))

        assert isinstance(events, list)
        assert bool(events) == (so_far.failure is not None)
        assert not asked.running or bool(events) == (self.open is None)
        if events:
            (told,) = [event for event in events if isinstance(event, TurnCompleted) and event.turn_id == turn_id]
            assert (told.outcome, told.failure) == ("failed", so_far.failure)

    @precondition(lambda self: self.open is not None and bool(self.open.running))
    @rule(data=st.data(), result=results, is_error=st.booleans())
    def report(self, data: st.DataObject, result: Json, is_error: bool) -> None:  # noqa: FBT001 - drawn
        asked, turn_id = self.open, naive.turn_under_way(self.facts)
        assert asked is not None
        assert turn_id is not None
        call_id = data.draw(st.sampled_from(asked.running))

        events = self._report(turn_id, call_id, result, is_error=is_error)

        assert isinstance(events, list)
        told = events[0]
        assert isinstance(told, ToolResult)
        assert (told.id, told.result, told.is_error, told.ran) == (call_id, result, is_error, True)
        assert told.cost == COSTS.get(asked.calls[call_id].name)

    @precondition(lambda self: self.open is not None and self.count % 3 == 0)
    @rule(data=st.data(), of_another_turn=st.booleans())
    def report_what_nobody_waits_for(self, data: st.DataObject, of_another_turn: bool) -> None:  # noqa: FBT001 - drawn
        asked, turn_id = self.open, naive.turn_under_way(self.facts)
        assert asked is not None
        call_id = self.some_call(data, asked.running if of_another_turn else list(asked.answered))

        if of_another_turn or turn_id is None or call_id not in asked.running:
            assert self._report("another" if of_another_turn else turn_id or "t", call_id, "late") == []

    def _report(self, turn_id: str, call_id: str, result: Json, *, is_error: bool = False) -> list[Any] | ReenactError:
        return self.ask(Report(turn_id=turn_id, call_id=call_id, result=result, is_error=is_error, **self.with_rules()))

    @precondition(lambda self: self.open is not None and (bool(self.live and self.open.waiting) or self.count % 4 == 0))
    @rule(
        data=st.data(),
        edited=st.sampled_from([None, None, {}, {"amount": 1}, {"amount": 9}]),
        binding=st.sampled_from(["none", "right", "right", "wrong", "old"]),
    )
    def approve(self, data: st.DataObject, edited: dict[str, Any] | None, binding: str) -> None:
        asked = self.open
        assert asked is not None
        id_ = self.some_call(data, [id_ for id_ in asked.waiting if id_ not in asked.questions])
        digest = "0" * 64 if binding == "wrong" else asked.digests.get(id_) if binding == "right" else None
        rules = self.with_rules()
        if binding == "old":  # the policies are others by now
            rules["rules"] = msgspec.structs.replace(self.in_force, policies=Policies(tools={"x": Policy()}))

        events = self.ask(Approve(call_id=id_, turn_id=self.next("t"), arguments=edited, digest=digest, **rules))

        if self.live is None:
            assert isinstance(events, AgentNotFoundError)
        elif id_ not in asked.waiting or id_ in asked.questions:
            assert isinstance(events, CallNotPendingError)
        elif binding in {"wrong", "old"}:
            assert isinstance(events, StaleApprovalError)
        else:
            assert isinstance(events, list)
            self._is_done_as_approved(events, asked.calls[id_], edited)

    def _is_done_as_approved(self, events: list[Any], call: ToolUseBlock, edited: dict[str, Any] | None) -> None:
        arguments = call.input if edited is None else edited
        denied = judge(self.in_force.policies, call.name, arguments).decision == "deny"
        approved = [event for event in events if isinstance(event, ToolApproved)]
        started = [event.id for event in events if isinstance(event, ToolStarted)]
        assert [event.id for event in approved] == ([] if denied else [call.id])
        assert started == ([call.id] if not denied and self.in_force.runs_tools else [])

    @precondition(lambda self: self.open is not None and (bool(self.live and self.open.waiting) or self.count % 4 == 0))
    @rule(data=st.data(), resume=st.sampled_from([True, True, False]))
    def reject(self, data: st.DataObject, resume: bool) -> None:  # noqa: FBT001 - drawn
        asked = self.open
        assert asked is not None
        id_ = self.some_call(data, asked.waiting)

        events = self.ask(Reject(call_id=id_, turn_id=self.next("t"), reason="no", resume=resume, **self.with_rules()))

        if self.live is None:
            assert isinstance(events, AgentNotFoundError)
        elif id_ not in asked.waiting:
            assert isinstance(events, CallNotPendingError)
        else:
            assert isinstance(events, list)
            assert [event.is_error for event in events if isinstance(event, ToolResult) and event.id == id_] == [True]
            assert not any(isinstance(event, ToolStarted) for event in events)
            assert resume or not any(isinstance(event, StepStarted) for event in events)

    @precondition(
        lambda self: self.open is not None and (bool(self.live and self.open.questions) or self.count % 4 == 0)
    )
    @rule(data=st.data(), value=any_value)
    def respond(self, data: st.DataObject, value: Json) -> None:
        asked = self.open
        assert asked is not None
        id_ = self.some_call(data, [id_ for id_ in asked.waiting if id_ in asked.questions])

        events = self.ask(Respond(call_id=id_, turn_id=self.next("t"), value=value, **self.with_rules()))

        if self.live is None:
            assert isinstance(events, AgentNotFoundError)
        elif id_ not in asked.waiting or id_ not in asked.questions:
            assert isinstance(events, CallNotPendingError)
        elif not fits(asked.questions[id_], value):
            assert isinstance(events, InvalidAnswerError)
        else:
            assert isinstance(events, list)
            assert events[:2] == [
                HumanResponded(id=id_, value=value),
                ToolResult(id=id_, name=ASK_USER, result=value, ran=False),
            ]

    @precondition(lambda self: self.count % 3 == 0 and naive.turn_under_way(self.facts) is not None)
    @rule(kept=st.integers(-1, 6), summary=st.sampled_from(["so far", " "]), usage=usages, model=models)
    def compress(self, kept: int, summary: str, usage: dict[str, int], model: str | None) -> None:
        turn_id, whole = naive.turn_under_way(self.facts), self.session.conversation
        before = self.session.summary
        assert turn_id is not None
        asked = self.open

        events = self.ask(
            Compress(
                turn_id=turn_id, summary=summary, kept=kept, usage=usage, model=model, at=self.at, rules=self.in_force
            )
        )

        assert isinstance(events, list)
        if events:
            told, *rest = for_model(self.session)
            assert told.text.endswith(summary)
            assert summary == "so far"
            assert kept >= 0
            assert kept <= len(rest) <= kept + 1
            assert rest == whole[len(whole) - len(rest) :]
            assert asked is None
        else:
            assert self.session.summary == before

    @precondition(lambda self: self.count % 4 == 0 and (naive.turn_under_way(self.facts) or self.open) is not None)
    @rule(so_far=parts)
    def interrupt(self, so_far: ReceivedAnswer) -> None:
        live, turn_id, asked = self.live, naive.turn_under_way(self.facts), self.open

        events = self.ask(Interrupt(agent_id=live or "z", reason="user", so_far=so_far, **self.with_rules()))

        assert isinstance(events, list)
        assert bool(events) == (live is not None and (turn_id is not None or asked is not None))
        if events:
            assert naive.turn_under_way(self.facts) != turn_id or turn_id is None
            assert self.open is None

    @precondition(lambda self: self.count % 5 == 0 and self.live is not None)
    @rule(so_far=parts, reason=st.sampled_from(["destroyed", "shutdown", "crash"]))
    def stop(self, so_far: ReceivedAnswer, reason: StopReason) -> None:
        live, asked = self.live, self.open

        events = self.ask(Stop(agent_id=None, reason=reason, so_far=so_far, **self.with_rules()))

        assert isinstance(events, list)
        assert bool(events) == (live is not None)
        assert self.live is None
        waiting = [] if asked is None else asked.waiting
        assert waiting == ([] if self.open is None else self.open.waiting)

    @precondition(lambda self: self.count % 3 == 0 and naive.turn_under_way(self.facts) is not None)
    @rule(rules=limits, same=st.booleans())
    def crash_and_resume(self, rules: Rules, same: bool) -> None:  # noqa: FBT001 - drawn
        turn_id, asked = naive.turn_under_way(self.facts), self.open
        assert turn_id is not None
        self.session = replay(fact.event for fact in self.facts)
        self.in_force = self.in_force if same else rules
        if asked is None:
            return  # the model is asked again
        running = [id_ for id_ in asked.running if asked.calls[id_].name in self.in_force.idempotent]
        self.resumed.add(turn_id)

        events = self.ask(Resume(turn_id=turn_id, **self.with_rules()))

        assert isinstance(events, list)
        again = [event.id for event in events if isinstance(event, ToolStarted)]
        waits = [id_ for event in events if isinstance(event, ToolPending) for id_ in event.ids]
        given_up = {event.id for event in events if isinstance(event, ToolResult)}
        assert {*again, *waits} <= set(running)
        assert {*again, *waits, *given_up} >= set(asked.running)
        assert not same or not self.in_force.runs_tools or again == running

    @precondition(lambda self: self.count > 80)
    @rule(so_far=parts)
    def delete(self, so_far: ReceivedAnswer) -> None:
        deleted = naive.is_deleted(self.facts)

        events = self.ask(Delete(session_id="s", so_far=so_far, **self.with_rules()))

        assert isinstance(events, ReenactError) == deleted
        assert self.live is None
        assert naive.queue(self.facts) == []

    # what must be true whatever was done

    @invariant()
    def everything_holds(self) -> None:
        if self._checked == len(self.facts):
            return
        self._checked = len(self.facts)
        self.the_history_alone_gives_the_state()
        self.a_snapshot_keeps_the_state()
        self.what_is_heard_keeps_the_order_that_was_promised()
        self.something_always_goes_on()
        self.every_call_is_answered_once_and_in_order()
        self.every_turn_ends_once()
        self.nothing_runs_that_may_not()
        self.the_conversation_is_valid_for_the_model()
        self.costs_add_up()
        self.limits_are_kept()
        self.the_same_again_and_again_is_stopped()

    def the_history_alone_gives_the_state(self) -> None:
        assert replay(fact.event for fact in self.facts) == self.session

    def a_snapshot_keeps_the_state(self) -> None:
        assert reading(session_from_snapshot(kept(self.session)), lambda: self.session.conversation) == self.session

    def what_is_heard_keeps_the_order_that_was_promised(self) -> None:
        grammar = self.grammar.read(self.heard)
        self.heard.clear()
        assert (None if grammar.current is None else grammar.current.id) == naive.turn_under_way(self.facts)
        assert grammar.waiting == naive.queue(self.facts)

    def something_always_goes_on(self) -> None:
        """An agent is at work, waits for a person, or has nothing to do."""
        turn_id, asked = naive.turn_under_way(self.facts), self.open
        session = self.session
        assert (None if session.turn is None else session.turn.id) == turn_id
        assert (session.round is None) == (asked is None)
        assert [queued.turn_id for queued in session.queue] == naive.queue(self.facts)
        assert turn_id is None or self.live is not None
        if asked is not None:
            assert asked.running if turn_id is not None else asked.waiting
            assert not (set(asked.running) & set(asked.waiting))
        elif turn_id is None and self.live is not None:
            assert not session.queue
        if session.agent is not None and turn_id is None:
            expected = {"waiting_for_human_input"} if asked is not None else {"idle", "error"}
            assert session.agent.state(None, session.round) in expected

    def every_call_is_answered_once_and_in_order(self) -> None:
        answers = Counter(fact.event.id for fact in self.facts if isinstance(fact.event, ToolResult))
        assert all(count == 1 for count in answers.values())
        for asked in self.asked:
            assert set(asked.answered) <= set(asked.calls)
            if asked.results is not None:
                told = [(block.tool_use_id, block.is_error) for block in asked.results.content]
                assert told == [(id_, asked.answered[id_].is_error) for id_ in asked.calls]
            else:
                assert self.open is not None
        told_ids = [fact.event.message_id for fact in self.facts if isinstance(fact.event, ResultsRecorded)]
        assert len(set(told_ids)) == len(told_ids)

    def every_turn_ends_once(self) -> None:
        ended = Counter(fact.event.turn_id for fact in self.facts if isinstance(fact.event, TurnCompleted))
        begun = Counter(naive.begun_turns(self.facts))
        assert all(count == 1 for count in (*ended.values(), *begun.values()))
        never_begun = set(ended) - set(begun)
        assert not never_begun or naive.is_deleted(self.facts)
        accepted = [fact.event.turn_id for fact in self.facts if isinstance(fact.event, TurnStarted)]
        assert len(accepted) + len(never_begun) + len(naive.queue(self.facts)) == self.accepted

    def nothing_runs_that_may_not(self) -> None:
        """What is denied never runs; what is asked about runs as it was approved, under the policies of that time."""
        for asked in self.asked:
            for number, fact in enumerate(asked.facts):
                if isinstance(fact.event, ToolStarted):
                    self._may_run(asked, number, fact)

    def _may_run(self, asked: Asked, number: int, fact: Fact) -> None:
        assert isinstance(fact.event, ToolStarted)
        id_, before = fact.event.id, asked.facts[:number]
        name, arguments = asked.calls[id_].name, asked.arguments(id_, until=number)
        assert name != ASK_USER
        assert fact.rules.runs_tools
        policies = fact.rules.policies
        mentions = [
            each
            for each in before
            if (isinstance(each.event, ToolApproved) and each.event.id == id_)
            or (isinstance(each.event, ToolPending) and id_ in each.event.ids)
        ]
        if mentions:
            approved = mentions[-1]
            assert isinstance(approved.event, ToolApproved), "it waits unapproved"
            assert approved.event.digest == call_digest(name, arguments, approved.rules.policies.revision)
            if approved.rules.policies.revision == policies.revision:
                return
        if judge(policies, name, arguments).decision != "run":
            approved_before = self._approved_before(asked, asked.calls[id_], until=number)
            assert judge(policies, name, arguments, approved_before).decision == "run"

    def the_conversation_is_valid_for_the_model(self) -> None:
        asked = self.asked
        whole = {id_ for each in asked for id_ in each.calls}
        open_ids = set[str]() if self.open is None else set(self.open.calls)
        naive.check_pairs(self.session.conversation, whole, open_ids)
        given = for_model(self.session)
        naive.check_pairs(given, whole, open_ids)
        if naive.turn_under_way(self.facts) is not None and self.open is None:
            assert given[0].role == given[-1].role == "user"
        results = [block for one in given for block in one.content if isinstance(block, ToolResultBlock)]
        assert all(block.tool_use_id in whole for block in results)

    def costs_add_up(self) -> None:
        ledger = self.session.ledger
        used = naive.spent(self.facts)
        assert ledger.cost == pytest.approx(naive.cost(self.facts))
        assert Counter(ledger.usage) == naive.usage(self.facts)
        by_name = Counter(name for name, _, _ in used)
        assert by_name == Counter(
            {f"model {name}": spent.calls for name, spent in ledger.models.items()}
            | {f"tool {name}": spent.calls for name, spent in ledger.tools.items()}
        )
        unpriced = sum(spent.unpriced for spent in (*ledger.models.values(), *ledger.tools.values()))
        assert unpriced == sum(cost is None for _, _, cost in used)
        for fact in self.facts:
            if isinstance(fact.event, TurnCompleted):
                turn_id = fact.event.turn_id
                assert Counter(fact.event.usage) == naive.usage(self.facts, turn_id)
                assert (fact.event.cost or 0.0) == pytest.approx(naive.cost(self.facts, turn_id))

    def limits_are_kept(self) -> None:
        warnings, cost = 0, 0.0
        for number, (event, rules) in enumerate((fact.event, fact.rules) for fact in self.facts):
            limit = rules.cost_limit
            over = limit is not None and cost > limit.max_total + 1e-6
            cost += naive.cost([self.facts[number]])
            match event:
                case StepStarted():
                    asked = naive.requests_in_line(self.facts[:number], event.turn_id)
                    assert rules.max_steps is None or asked < rules.max_steps
                    assert event.step == naive.requests(self.facts[:number], event.turn_id) + 1
                    assert not over or limit is None or limit.on_exceeded == "warn"
                case TurnStarted() if over and limit is not None and limit.on_exceeded != "warn":
                    after = [fact.event for fact in self.facts[number + 1 : number + 3]]
                    ended = next(one for one in after if isinstance(one, TurnCompleted))
                    assert (ended.turn_id, ended.stop_reason) == (event.turn_id, COST_LIMIT)
                case LimitWarning():
                    warnings += 1
                    assert over
                case TurnCompleted() if event.stop_reason == COST_LIMIT:
                    assert over
                    assert limit is not None
                    assert event.outcome == {"stop": "completed", "interrupt": "interrupted"}[limit.on_exceeded]
                case TurnCompleted() if event.stop_reason == MAX_STEPS:
                    assert event.outcome == "completed"
                    assert rules.max_steps is not None
                    assert naive.requests_in_line(self.facts[:number], event.turn_id) >= rules.max_steps
                case _:
                    pass
        assert warnings <= 1

    def the_same_again_and_again_is_stopped(self) -> None:
        every = self.asked
        for number, asked in enumerate(every):
            rules = asked.facts[0].rules
            ran = any(isinstance(event, ToolStarted | ToolPending) for event in asked.events)
            line = naive.line_of(asked.before, asked.turn_id)
            in_turn = [one for one in every[:number] if one.results is not None and one.results.turn_id in line]
            last = in_turn[-rules.max_repeats :] if rules.max_repeats is not None else []
            same = (
                len(last) == rules.max_repeats
                and all(one.came_to() == last[0].came_to() for one in last)
                and [(name, arguments) for name, arguments, _, _ in last[-1].came_to()] == asked.said()
            )
            completed = next((one for one in asked.events if isinstance(one, TurnCompleted)), None)
            after = [fact.event for fact in self.facts[len(asked.before) + len(asked.facts) :]]
            ended = completed or next((one for one in after if isinstance(one, TurnCompleted | StepStarted)), None)
            stopped = isinstance(ended, TurnCompleted) and ended.stop_reason == REPEATED
            asked_now = naive.requests_in_line(asked.before, asked.turn_id)
            limit = rules.cost_limit
            if limit is not None and limit.on_exceeded != "warn" and naive.cost(asked.before) > limit.max_total + 1e-6:
                assert not ran
            assert not ran or not same
            assert stopped <= same
            assert not ran or rules.max_steps is None or asked_now < rules.max_steps


def data_id(so_far: ReceivedAnswer, count: int) -> str | None:
    """Give each message an id of its own, though some look like others."""
    return None if so_far.message_id is None else f"m{count % 3}" if count % 2 else f"n{count}"


def fits(question: object, value: Any) -> bool:  # noqa: ANN401 - whatever is drawn
    """Whether the question takes the answer."""
    if not isinstance(question, HumanSelectRequired):
        return isinstance(value, str) and bool(value.strip())
    values = [option.value for option in question.options]
    if not question.multi:
        return value in values
    ways = [[], *([one] for one in values), *([one, other] for one in values for other in values if one != other)]
    return value in ways


TestLoop = LoopMachine.TestCase
