"""Sessions in the middle of a loop, made by the commands that lead there."""

from __future__ import annotations

from typing import Any

from reenact.domain.loop.ledger import Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, TextBlock, ToolUseBlock, Usage
from reenact.domain.session.agent import ReceivedAnswer, RulesRecorded
from reenact.domain.session.commands import (
    Approve,
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
from reenact.domain.session.decide import decide as decide_by_rules
from reenact.domain.session.state import Session, SessionEvent, evolve
from tests.domain.session.examples import HELLO, IDLE
from tests.domain.session.policies import ALL_IS_ASKED, PAY_IS_ASKED

AT = 5_000_000
FREE = Rules()
CAREFUL = Rules(policies=PAY_IS_ASKED)
VERY_CAREFUL = Rules(policies=ALL_IS_ASKED)
PRICED = Rules(prices={"m": Price(1_000_000.0, 0.0)}, costs={"look": 0.5})
USAGE: Usage = {"input_tokens": 2}
"""What an answer costs under `PRICED`: 2."""

LOOK = ToolUseBlock("a", "look", {})
PAY = ToolUseBlock("b", "pay", {"amount": 1})
ASK = ToolUseBlock("q", "ask_user", {"prompt": "Which?"})


def asks(*calls: Block, text: str = "", message_id: str = "m1", usage: Usage | None = None) -> ReceivedAnswer:
    """Return an answer that asks for these calls."""
    said = (TextBlock(text),) if text else ()
    return ReceivedAnswer(
        message_id=message_id,
        content=(*said, *calls),
        stop_reason="tool_use",
        usage=usage or {},
        model="m",
        responding=bool(text),
    )


def says(text: str, *, message_id: str = "m9", usage: Usage | None = None) -> ReceivedAnswer:
    """Return an answer that ends the turn."""
    content = (TextBlock(text),) if text else ()
    return ReceivedAnswer(
        message_id=message_id,
        content=content,
        stop_reason="end_turn",
        usage=usage or {},
        model="m",
        responding=bool(text),
    )


def after(session: Session, *commands: SessionCommand) -> Session:
    """Return the session after the commands."""
    for command in commands:
        session = believe(session, decide_by_rules(session, command))
    return session


def decide(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
    """Return what is decided, without the rules that it was decided by: what is recorded of them has its own tests."""
    return tuple(event for event in decide_by_rules(session, command) if not isinstance(event, RulesRecorded))


def believe(session: Session, events: tuple[SessionEvent, ...]) -> Session:
    for event in events:
        session = evolve(session, event)
    return session


def receive(turn_id: str, rules: Rules = FREE) -> Receive:
    return Receive(agent_id="a", turn_id=turn_id, message_id=f"m-{turn_id}", content=HELLO, at=AT, rules=rules)


def finish(so_far: ReceivedAnswer, rules: Rules = FREE, *, turn_id: str = "t1", results_id: str = "r1") -> Finish:
    return Finish(turn_id=turn_id, so_far=so_far, at=AT, rules=rules, results_id=results_id)


def report(call_id: str, result: Any = "sunny", rules: Rules = FREE, *, turn_id: str = "t1", at: int = AT) -> Report:  # noqa: ANN401 - any JSON value
    return Report(
        turn_id=turn_id, call_id=call_id, result=result, is_error=False, at=at, rules=rules, results_id=f"r-{call_id}"
    )


def approve(call_id: str, rules: Rules = CAREFUL, *, arguments: dict[str, Any] | None = None) -> Approve:
    return Approve(call_id=call_id, turn_id="t7", at=AT, arguments=arguments, rules=rules, results_id="r7")


def reject(call_id: str, rules: Rules = CAREFUL, *, resume: bool = True) -> Reject:
    return Reject(call_id=call_id, turn_id="t7", at=AT, reason="no", resume=resume, rules=rules, results_id="r7")


def respond(call_id: str, value: Any, rules: Rules = FREE) -> Respond:  # noqa: ANN401 - any JSON value
    return Respond(call_id=call_id, turn_id="t7", at=AT, value=value, rules=rules, results_id="r7")


def interrupt(so_far: ReceivedAnswer | None = None, rules: Rules = FREE) -> Interrupt:
    return Interrupt(
        agent_id="a", reason="user", at=AT, so_far=so_far or ReceivedAnswer(), rules=rules, results_id="r8"
    )


def stop(so_far: ReceivedAnswer | None = None, rules: Rules = FREE) -> Stop:
    return Stop(
        agent_id="a", reason="destroyed", at=AT, so_far=so_far or ReceivedAnswer(), rules=rules, results_id="r8"
    )


def run(rules: Rules) -> Run:
    return Run(session_id="s", agent_id="b", at=AT, turn_id="t8", rules=rules, results_id="r8")


def resume(rules: Rules = FREE) -> Resume:
    return Resume(turn_id="t1", at=AT, rules=rules, results_id="r8")


ASKED = after(IDLE, receive("t1"))
"""The model is asked."""
RUNNING = after(ASKED, finish(asks(LOOK)))
"""One call runs."""
BOTH_RUN = after(ASKED, finish(asks(LOOK, PAY)))
"""Two calls run."""
WAITING = after(ASKED, finish(asks(PAY), CAREFUL))
"""One call waits for approval."""
HALF_WAITING = after(ASKED, finish(asks(LOOK, PAY), CAREFUL))
"""One call runs while another waits for approval."""
TWO_WAIT = after(ASKED, finish(asks(LOOK, PAY), VERY_CAREFUL))
"""Two calls wait for approval."""
QUESTION = after(ASKED, finish(asks(ASK)))
"""One call waits for an answer."""
