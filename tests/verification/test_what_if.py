"""What would be otherwise in a log under other policies, limits and prices, which stand in the place of its images'."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from reenact import ConfigurationError, CostLimit, Image, Policies, Price, SessionNotFoundError
from reenact.audit import Audit, Otherwise
from reenact.domain.history.what_if import RuleOverrides
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import AgentStarted, ReceivedAnswer, TurnStarted
from reenact.projections.log import Progress
from reenact.projections.verification.what_if import Supposed, what_if
from tests.examples import examples
from tests.projections.audited import AuditedList
from tests.projections.histories import RULES, Step, World, play
from tests.projections.histories import steps as doings
from tests.verification.sample import add, pay
from tests.verification.test_replay import CREATE, CREATED, Foreign, Kept, stored, written

DECIDED = tuple[str | None, str, str, str]


def brief(found: Sequence[Otherwise]) -> list[DECIDED]:
    return [
        (one.turn_id and one.tool, one.recorded.decision, one.decided.decision, one.decided.limit or "")
        for one in found
    ]


def supposing(log: Path, session_id: str | None = None, **given: Any) -> dict[str, list[DECIDED]]:  # noqa: ANN401
    """Return what would be otherwise in each session of the log."""
    with Audit.open(log) as audit:
        found = list(audit.replay(session_id, **given))
    assert [one.divergence for one in found] == [None] * len(found)
    assert all(one.session_id for one in found)
    return {one.session_id or "": brief(one.otherwise) for one in found}


def test_what_is_shared_with_a_branch_counts_once(log: Path) -> None:
    found = supposing(log, policies={"add": "always"})

    assert found == {"a": [("add", "run", "ask", "")], "b": [], "z": []}


def test_policies_that_tools_have_of_their_own_hold_where_none_is_named(log: Path) -> None:
    assert supposing(log, "b", policies={}) == {"b": []}
    assert supposing(log, "b", policies={"pay": "never"}) == {"b": [("pay", "ask", "run", "")]}
    assert supposing(log, "b", policies=Policies(deny=("pay",))) == {"b": [("pay", "ask", "deny", "")]}


def test_policies_may_be_those_of_one_image(log: Path) -> None:
    other = {"images": {"another": {"add": "always"}}}
    this = {"images": {"i": {"add": "always"}}, "policies": {"pay": "never"}}

    assert not any(supposing(log, policies=other).values())
    assert supposing(log, policies=this) == {"a": [("add", "run", "ask", "")], "b": [], "z": []}
    assert supposing(log, "b", policies={**other, "policies": {"pay": "never"}}) == {"b": [("pay", "ask", "run", "")]}


def test_an_image_may_be_another_one(log: Path) -> None:
    def plain(amount: int) -> str:
        """Pay."""
        return str(amount)

    plain.__name__ = "pay"
    free = Image(id="i", tools=(add, plain), max_steps=1)

    found = supposing(log, images=[free])

    assert found["a"] == [(None, "go_on", "stop", "max_steps_exceeded")]
    assert found["b"] == [(None, "go_on", "stop", "max_steps_exceeded"), ("pay", "ask", "run", "")]
    assert supposing(log, "b", images=[Image(id="i", tools=(add, pay))], policies={"pay": "never"}) == {
        "b": [("pay", "ask", "run", "")]
    }
    own = Image(id="i", tools=(add, pay), policies={"pay": "always"})
    assert supposing(log, "b", images=[own], policies={"pay": "never"}) == {"b": []}


def test_a_limit_is_that_of_every_image(log: Path) -> None:
    found = supposing(log, max_steps=1)

    assert found["a"] == [(None, "go_on", "stop", "max_steps_exceeded")]
    assert supposing(log, max_steps=None, max_repeats=7, cost_limit=1) == {"a": [], "b": [], "z": []}


def test_what_a_branch_shares_has_its_price_too() -> None:
    world = World(AuditedList())
    world.create("a")
    world.run("a")
    world.say("a")
    said = ReceivedAnswer(
        message_id="m", content=(TextBlock("Hi"),), stop_reason="end_turn", usage={"output_tokens": 10}, model="large"
    )
    world.answer("a", said)
    world.branch("a", "b")
    world.run("b")
    world.say("b")
    instead = RuleOverrides(prices={"large": Price(0.0, 100_000.0)}, cost_limit=CostLimit(0.5))

    found = {one.session_id: brief(one.otherwise) for one in what_if(world_log(world), Supposed(instead=instead))}

    assert found == {"a": [], "b": [(None, "go_on", "stop", "cost_limit_exceeded")]}


def world_log(world: World) -> AuditedList:
    assert isinstance(world.log, AuditedList)
    return world.log


@settings(max_examples=examples(15))
@given(doings)
def test_random_histories_would_be_as_they_are_under_the_rules_that_were_recorded(chosen: list[Step]) -> None:
    log, rules = AuditedList(), RULES["x"]
    world = World(log)
    world.create("a", "x")
    world.create("b", "y")
    play([step for step in chosen if step[0] != "rules"], world)
    instead = RuleOverrides(
        policies=rules.policies, max_steps=rules.max_steps, cost_limit=rules.cost_limit, prices=rules.prices
    )

    found = list(what_if(log, Supposed(instead=instead)))

    assert {one.stream for one in found} == {row.stream for row in log.rows if row.stream.startswith("session/")}
    assert [one for one in found if one.otherwise or one.divergence or one.undecided] == []
    assert sum(one.events for one in found) == sum(row.stream.startswith("session/") for row in log.rows)


def test_each_decision_has_its_position_and_what_was_asked_for(log: Path) -> None:
    with Audit.open(log) as audit:
        (found,) = audit.replay("a", policies={"add": "always"})
        (one,) = found.otherwise
        (entry,) = [entry for entry in audit.entries() if entry.position == one.position]

    assert (entry.type, entry.session_id, entry.data["id"]) == ("tool-started", "a", one.call_id)
    assert one.arguments == {"left": 1, "right": 2}
    assert found.decisions == 1


def test_a_session_that_is_not_there_is_an_error(log: Path) -> None:
    with Audit.open(log) as audit, pytest.raises(SessionNotFoundError):
        list(audit.replay("nobody", max_steps=1))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"max_steps": 0}, "max_steps must be a number from 1"),
        ({"max_repeats": True}, "max_repeats must be a number"),
        ({"cost_limit": -1.0}, "max_total of a cost limit"),
        ({"images": [Image()]}, "needs its id"),
        ({"images": [Image(id="i", max_steps=0)]}, "max_steps of image 'i' must be"),
        ({"images": [Image(id="i", policies={"add": "always"})]}, "add"),
        ({"images": [Image(id="i", tools=("add",))]}, "there is no tool 'add'"),
        ({"policies": {"add": "sometimes"}}, "policies.add.mode must be one of"),
    ],
)
def test_what_cannot_be_supposed_is_said_at_once(log: Path, given: dict[str, Any], problem: str) -> None:
    with Audit.open(log) as audit, pytest.raises(ConfigurationError, match=problem):
        audit.replay(**given)


def test_what_cannot_be_taken_in_ends_a_history(tmp_path: Path) -> None:
    begun = Kept("session/s", [CREATED], stored(CREATE, CREATED))
    log = written(
        tmp_path / "log.db",
        [
            begun,
            Kept("session/s", [TurnStarted("t", 1)], b"x"),
            Kept("session/t", [AgentStarted("a")]),
            Kept("session/u", [msgspec.structs.replace(CREATED, session_id="u")]),
            Kept("session/u", [Foreign(1)]),
        ],
    )

    with Audit.open(log) as audit:
        found = {one.stream: one for one in audit.replay(max_steps=1)}

    problems = {stream: one.divergence.problem if one.divergence else "" for stream, one in found.items()}
    assert "the step of 'session/s' that begins with event 2 cannot be read" in problems["session/s"]
    assert problems["session/t"] == "the history of a session does not begin with it; verify the log"
    assert "unknown type" in problems["session/u"]
    assert [found["session/s"].steps, found["session/s"].events] == [1, 1]


def test_progress_is_told() -> None:
    log, told = AuditedList(), list[Progress]()
    world = World(log)
    world.create("a")
    world.run("a")
    world.say("a")
    world.ask("a", ToolUseBlock("t1", "send", {}))

    list(what_if(log, Supposed(instead=RuleOverrides(max_steps=1)), progress=told.append))

    assert [(one.phase, one.done, one.total) for one in told] == [("replay", log.head(), log.head())]
