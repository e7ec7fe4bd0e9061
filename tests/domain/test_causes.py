"""The commands that steps followed from, as the log stores them: each is what it was when it is read again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from reenact.domain.agent import Failure, SoFar
from reenact.domain.causes import AnyCommand, cause_of, read_cause
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.rules import Rules
from reenact.domain.session import Compress, Delete, Finish, Session, SessionCommand, evolve
from tests.domain.examples import HELLO
from tests.domain.loops import (
    ASK,
    AT,
    CAREFUL,
    FREE,
    LOOK,
    PAY,
    PRICED,
    USAGE,
    approve,
    asks,
    finish,
    interrupt,
    receive,
    reject,
    report,
    respond,
    resume,
    run,
    says,
    stop,
)
from tests.domain.policies import PAY_IS_DENIED
from tests.domain.retraced import STARTED, check_retraced, events_of, played, told
from tests.projections.histories import Step as Doing
from tests.projections.histories import steps as doings

SILENT = SoFar(message_id="m9", stop_reason="end_turn", usage=USAGE, model="m")
FAILS = SoFar(failure=Failure("api_error", "broken"), untold=True, usage=USAGE)
SPENT = Rules(cost_limit=CostLimit(0.5), prices=PRICED.prices, costs=PRICED.costs)
WARNED = Rules(cost_limit=CostLimit(0.5, "warn"), prices=PRICED.prices)
NO_HANDS = Rules(runs_tools=False)
AGAIN = Rules(idempotent=frozenset({"look"}))
PART = SoFar(message_id="m9", content=HELLO, usage=USAGE, model="m", responding=True)
DELETE = Delete(session_id="s", at=AT + 9, results_id="r8")
DENIED = Rules(policies=PAY_IS_DENIED)


def compress(turn_id: str) -> Compress:
    return Compress(turn_id=turn_id, summary="in short", kept=1, usage=USAGE, model="m", at=AT, rules=PRICED)


def early(command: Finish) -> Finish:
    """Have the clock go back."""
    return msgspec.structs.replace(command, at=AT - 9)


def stored_again(events: Sequence[Any]) -> list[Any]:
    """Return the events as they come back from a log."""
    return [msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=type(event)) for event in events]


def check_stored(command: AnyCommand, events: Sequence[Any]) -> None:
    """Hold what is read of a command to the command; rules are recorded by themselves."""
    rules: Rules = getattr(command, "rules", Rules())

    read = read_cause(cause_of(command, events))

    assert read.kind is type(command)
    assert read.command(stored_again(events), rules) == command


@settings(max_examples=150)
@given(doings)
def test_every_command_of_a_session_is_read_as_it_was_given(chosen: list[Doing]) -> None:
    world = played(chosen)

    for steps in world.steps.values():
        for step in steps:
            check_stored(step.command, step.events)


@pytest.mark.parametrize(
    "commands",
    [
        [receive("t1"), finish(says("Hi", usage=USAGE), PRICED), receive("t2")],
        [receive("t1", PRICED), receive("t2"), finish(SILENT, PRICED), finish(FAILS, turn_id="t2")],
        [receive("t1"), finish(says("Hi")), receive("t2"), compress("t2"), finish(FAILS, turn_id="t2")],
        [receive("t1"), finish(asks(LOOK, usage=USAGE)), report("a"), finish(FAILS)],
        [receive("t1"), finish(asks(LOOK), NO_HANDS)],
        [
            receive("t1"),
            finish(asks(LOOK, PAY), CAREFUL),
            report("a", rules=CAREFUL),
            approve("b"),
            report("b", turn_id="t7"),
        ],
        [receive("t1"), finish(asks(PAY), CAREFUL), approve("b", arguments={"amount": 2}), report("b", turn_id="t7")],
        [receive("t1"), finish(asks(PAY), CAREFUL), receive("t2"), reject("b")],
        [receive("t1"), finish(asks(PAY), CAREFUL), receive("t2"), reject("b", resume=False)],
        [receive("t1"), finish(asks(ASK)), respond("q", "that one")],
        [receive("t1"), finish(asks(LOOK)), resume()],
        [receive("t1"), finish(asks(LOOK), AGAIN), resume(AGAIN)],
        [receive("t1"), finish(asks(LOOK)), resume(CAREFUL)],
        [receive("t1"), finish(asks(LOOK)), finish(FAILS)],
        [receive("t1"), finish(asks(LOOK, usage=USAGE), SPENT), receive("t2", SPENT)],
        [receive("t1", WARNED), finish(asks(LOOK, usage=USAGE), WARNED), report("a", rules=WARNED)],
        [receive("t1"), receive("t2"), interrupt(PART, PRICED), finish(SILENT, turn_id="t2")],
        [receive("t1"), interrupt()],
        [receive("t1"), interrupt(asks(LOOK, text="Well"))],
        [receive("t1"), interrupt(says("Hi"))],
        [receive("t1"), finish(asks(LOOK)), interrupt()],
        [receive("t1"), finish(asks(PAY), CAREFUL), receive("t2"), interrupt(rules=CAREFUL)],
        [receive("t1"), stop(says("Hi"))],
        [receive("t1"), stop(FAILS)],
        [receive("t1"), finish(asks(LOOK, PAY), CAREFUL), stop(), run(FREE)],
        [receive("t1"), finish(asks(PAY), CAREFUL), stop(), run(DENIED)],
        [receive("t1"), receive("t2"), stop(PART), run(FREE)],
        [receive("t1"), receive("t2"), receive("t3"), DELETE],
        [receive("t1"), finish(asks(PAY), CAREFUL), DELETE],
        [stop(), DELETE],
        [receive("t1"), early(finish(SILENT)), receive("t2")],
        [receive("t1"), receive("t2"), early(finish(SoFar(stop_reason="end_turn")))],
    ],
)
def test_every_kind_of_command_is_read_and_decided_again(commands: list[SessionCommand]) -> None:
    steps = [step for step in told(*STARTED, *commands) if step.events]

    for step in steps:
        check_stored(step.command, step.events)
    check_retraced(steps, reduce(evolve, events_of(steps), Session()))
