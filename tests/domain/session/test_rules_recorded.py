"""The rules that decisions were made by are recorded: when they change, and not before they matter."""

from __future__ import annotations

import msgspec
import pytest

from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.rules import DEFAULT_RULES, Rules, rules_from_stored
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.matchers import path
from reenact.domain.policy.rules import Entry, Policy
from reenact.domain.session.agent import RulesRecorded, ToolsRequested
from reenact.domain.session.commands import CreateSession, Delete, Interrupt, Receive, Run, SessionCommand, Stop
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionEvent
from tests.domain.session.announced import announced
from tests.domain.session.examples import CREATE, HELLO, IDLE, NEW
from tests.domain.session.loops import (
    ASKED,
    AT,
    CAREFUL,
    LOOK,
    PAY,
    after,
    approve,
    asks,
    finish,
    receive,
    report,
    resume,
    says,
)

HERE = Rules(cwd="/work", home="/home/ann")
ALL = Rules(
    policies=Policies(
        tools={"pay": Policy("required")}, allow=(Entry("read", {"path": path("src/**")}),), deny=("rm",)
    ),
    prices={"m": Price(3.0, 15.0, 4.0, 0.3)},
    costs={"pay": 0.5},
    idempotent=("list", "look", "read"),
    max_steps=7,
    max_repeats=None,
    cost_limit=CostLimit(2.5, "warn"),
    cwd="/work",
    home="/home/ann",
)


def recorded(session: Session, command: SessionCommand) -> list[RulesRecorded]:
    return [event for event in decide(session, command) if isinstance(event, RulesRecorded)]


def test_a_plain_conversation_records_none() -> None:
    run = Run(session_id="s", agent_id="a", at=AT, rules=HERE)
    session = after(NEW, CREATE, run, receive("t1", HERE), finish(says("Hi"), HERE), receive("t2", HERE))

    assert session.rules is None


@pytest.mark.parametrize("rules", [Rules(), Rules(compress_at=7), Rules(runs_tools=False)])
def test_rules_that_say_nothing_are_not_recorded(rules: Rules) -> None:
    assert recorded(IDLE, receive("t1", rules)) == []


@pytest.mark.parametrize(
    "rules",
    [
        Rules(policies=Policies(deny=())),
        Rules(prices={"m": Price(1.0, 2.0)}),
        Rules(costs={"look": 1.0}),
        Rules(idempotent=("look",)),
        Rules(max_steps=None),
        Rules(max_repeats=7),
        Rules(cost_limit=CostLimit(1.0)),
    ],
)
def test_rules_that_say_something_come_first_in_the_step_that_was_decided_by_them(rules: Rules) -> None:
    first, *others = decide(IDLE, receive("t1", rules))

    assert first == RulesRecorded(rules.stored)
    assert others == [*decide(IDLE, receive("t1"))]


def test_rules_that_are_as_recorded_are_not_recorded_again() -> None:
    session = after(IDLE, receive("t1", ALL))
    read_again = rules_from_stored(ALL.stored, cwd="/work", home="/home/ann")

    assert session.rules == RulesRecorded(ALL.stored, "/work", "/home/ann")
    assert recorded(session, finish(asks(LOOK), ALL)) == []
    assert recorded(session, finish(asks(LOOK), read_again)) == []


def test_rules_that_say_nothing_any_more_are_recorded_too() -> None:
    session = after(IDLE, receive("t1", ALL))

    assert recorded(session, finish(says("Hi"), Rules())) == [RulesRecorded()]


def test_where_paths_begin_is_recorded_when_a_call_is_judged() -> None:
    rules, *others = decide(ASKED, finish(asks(LOOK), HERE))
    waiting = after(ASKED, finish(asks(PAY), CAREFUL))
    moved = msgspec.structs.replace(CAREFUL, cwd="/elsewhere")

    assert rules == RulesRecorded(DEFAULT_RULES, "/work", "/home/ann")
    assert any(isinstance(event, ToolsRequested) for event in others)
    assert recorded(waiting, approve("b", moved)) == [RulesRecorded(CAREFUL.stored, "/elsewhere")]
    assert recorded(waiting, receive("t2", moved)) == []


def test_where_paths_begin_is_recorded_when_people_are_asked_anew_and_after_a_crash() -> None:
    waiting = after(ASKED, finish(asks(PAY), CAREFUL), Stop(agent_id="a", reason="crash", at=AT, rules=CAREFUL))
    same = msgspec.structs.replace(CAREFUL, cwd="/elsewhere")
    other = Rules(policies=Policies(tools={"pay": Policy("always")}), cwd="/elsewhere")
    running = after(ASKED, finish(asks(LOOK), CAREFUL))

    assert recorded(waiting, Run(session_id="s", agent_id="b", at=AT, rules=same)) == []
    assert recorded(waiting, Run(session_id="s", agent_id="b", at=AT, rules=other)) == [
        RulesRecorded(other.stored, "/elsewhere")
    ]
    assert recorded(running, resume(same)) == [RulesRecorded(CAREFUL.stored, "/elsewhere")]


@pytest.mark.parametrize(
    "command",
    [
        CreateSession(session_id="s", container_id="c", image_id="i", image_revision=1),
        Stop(agent_id="a", reason="destroyed", at=AT),
        Delete(session_id="s", at=AT),
        Interrupt(agent_id="a", reason="user", at=AT),
    ],
)
def test_what_needs_no_rules_records_none_although_others_held(command: SessionCommand) -> None:
    ruled = after(IDLE, receive("t1", ALL), finish(says("Hi"), ALL))
    session = NEW if isinstance(command, CreateSession) else ruled

    assert recorded(session, command) == []


def test_what_changes_nothing_records_nothing() -> None:
    assert decide(ASKED, report("a", rules=ALL)) == ()


def test_recorded_rules_are_the_same_after_a_way_through_the_log() -> None:
    event = RulesRecorded(ALL.stored, ALL.cwd, ALL.home)
    stored = msgspec.msgpack.encode(event)
    read = msgspec.msgpack.decode(stored, type=RulesRecorded)

    made = rules_from_stored(read.rules, cwd=read.cwd, home=read.home)

    assert read == event
    assert read.rules.idempotent == ("list", "look", "read")
    assert made == ALL
    assert made.policies.revision == ALL.policies.revision


def test_nobody_hears_of_rules() -> None:
    received = Receive(agent_id="a", turn_id="t1", message_id="m", content=HELLO, at=AT, rules=ALL)
    events: tuple[SessionEvent, ...] = decide(IDLE, received)

    assert isinstance(events[0], RulesRecorded)
    assert [*announced(IDLE, events)] == [*announced(IDLE, events[1:])]
