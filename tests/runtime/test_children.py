"""Child sessions: an agent calls another one, whatever becomes of either of them."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reenact import Image, ImageNotFoundError, Runtime, RuntimeClosedError, StorageError
from reenact.actors.environment.api import EnvironmentConfig
from reenact.actors.environment.model import ModelEnvironment
from reenact.actors.journal.api import Append, Done
from reenact.actors.session.actor import SessionActor
from reenact.audit import verify_log
from reenact.domain.children import MAX_CHILDREN, Budget, agent_tool
from reenact.domain.errors import CallNotPendingError, ConfigurationError
from reenact.domain.messages import instant
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.session.child_turns import WAKE
from reenact.domain.session.commands import BeginChild, SessionCommand
from reenact.domain.session.state import SessionInfo
from reenact.domain.session.told import Answer
from reenact.domain.stream.events import ChildEnded, ChildStarted
from reenact.testing import ManualClock, wait_until
from tests.examples import some
from tests.logs import copy_log, log_at, log_of
from tests.runtime.conftest import Open
from tests.runtime.families import FAILS, HELD, PRICES, Plan, come_to_rest, factory, furnish, send, settled
from tests.runtime.gated import GatedFactory, closed_while_starting
from tests.runtime.witness import Ears, at_every_commit, check, fold, journal_of

ASKS_ONE: Plan = [[("agent", ["42"])], "done"]
SENDS: Plan = [[("send", {"to": "ann"})], "sent"]


@pytest.fixture
def mock() -> GatedFactory:
    return factory()


@pytest.fixture
def runtime(opened: Open) -> Runtime:
    runtime = opened(prices=PRICES)
    furnish(runtime)
    return runtime


def ask(runtime: Runtime, plan: Plan, session: str = "root") -> Answer:
    return runtime.ask(json.dumps(plan), session=session, timeout=60)


def children(runtime: Runtime) -> list[SessionInfo]:
    """Return the child sessions, those first that began first."""
    return [session for session in reversed(runtime.sessions.list()) if session.parent is not None]


def results(runtime: Runtime, session_id: str = "root") -> list[tuple[str, object, bool]]:
    return [(call.stage, call.result, call.is_error) for call in runtime.sessions.tool_calls(session_id)]


def hold(ears: Ears, count: int = 1) -> None:
    """Return when so many models hold still."""
    while sum(event.data["text"] == "so far" for event in ears.of("text_delta")) < count:
        ears.wait("text_delta", count=len(ears.of("text_delta")) + 1)


def test_a_call_of_an_agent_is_answered_by_a_session_of_its_own(runtime: Runtime) -> None:
    ears = Ears(runtime)

    answer = ask(runtime, ASKS_ONE)

    assert answer.text == "done"
    assert results(runtime) == [("answered", "42", False)]
    (child,) = children(runtime)
    assert child.parent is not None
    assert (child.parent.session_id, child.parent.call_id, child.parent.root, child.parent.depth) == (
        "root", "c00", "root", 1,
    )  # fmt: skip
    start = journal_of(runtime).read("session/root")[child.parent.version - 1].event
    assert (type(start).__name__, getattr(start, "child_id", "")) == ("ChildStarted", child.id)
    (ended,) = ears.wait("child_ended")
    assert isinstance(ended.data, ChildEnded)
    assert (ended.data.child_id, ended.data.outcome, ended.data.steps, ended.data.cost) == (child.id, "completed", 1, 1)
    link = journal_of(runtime).link(f"session/{child.id}", ended.data.version)
    assert link is not None
    assert ended.data.digest == link.digest.hex()
    check(runtime)


def test_the_agent_of_a_child_stops_when_it_has_nothing_more_to_do_and_can_be_asked_again(runtime: Runtime) -> None:
    ask(runtime, ASKS_ONE)
    (child,) = children(runtime)

    assert [agent.session_id for agent in runtime.agents.list()] == ["root"]
    assert runtime.ask("why?", session=child.id, timeout=60).text == "heard: why?"
    assert [agent.session_id for agent in runtime.agents.list()] == ["root"]
    check(runtime)


def test_a_child_that_is_handed_over_does_its_part_first(runtime: Runtime, mock: GatedFactory) -> None:
    runtime.images.register(Image(id="other"))
    agent, ears = runtime.sessions.run("root"), Ears(runtime)
    turn = runtime.agents.receive(agent, json.dumps([[("agent", [HELD])], "done"]))
    hold(ears)
    (child,) = children(runtime)

    assert not runtime.sessions.switch(child.id, "other")
    mock.gate.open()

    assert runtime.turns.wait(turn, 60).text == "done"
    assert results(runtime) == [("answered", "so far, held", False)]
    assert [one.image_id for one in children(runtime)] == ["other"]
    assert runtime.ask("why?", session=child.id, timeout=60).text == "heard: why?"
    assert [event.data["image_id"] for event in ears.wait("image_changed")] == ["other"]
    check(runtime)


def test_what_a_child_has_used_counts_for_its_parent_and_stands_in_its_own_rows(runtime: Runtime) -> None:
    ask(runtime, [[("agent", [[("agent", ["deep"])], "middle"])], "top"])

    session = fold(journal_of(runtime), "root")
    assert (session.ledger.children.calls, session.ledger.cost) == (3, 5.0)
    assert [runtime.sessions.usage(one.id).cost for one in runtime.sessions.list()] == [1.0, 2.0, 2.0]
    check(runtime)


def test_calls_of_one_answer_run_side_by_side(runtime: Runtime, mock: GatedFactory) -> None:
    agent = runtime.sessions.run("root")
    ears = Ears(runtime)
    runtime.agents.receive(agent, json.dumps([[("agent", [HELD]), ("agent", ["two"])], "done"]))

    hold(ears)
    ears.wait("child_ended")
    assert [stage for stage, *_ in results(runtime)] == ["running", "answered"]
    mock.gate.open()
    ears.wait("child_ended", count=2)
    ears.wait("turn_completed", count=3)

    assert [result for _, result, _ in results(runtime)] == ["so far, held", "two"]


def test_a_child_that_fails_is_no_success(runtime: Runtime) -> None:
    answer = ask(runtime, [[("agent", [FAILS])], "done"])

    assert answer.text == "done"
    ((stage, result, is_error),) = results(runtime)
    assert (stage, is_error) == ("answered", True)
    assert "failed (error: The line broke) after 1 step;" in str(result)


def test_a_child_without_an_environment_fails(opened: Open, mock: GatedFactory) -> None:
    made = mock.create

    def create(config: EnvironmentConfig) -> ModelEnvironment:
        if config.session_id != "root":
            raise ConfigurationError("no model for children")
        return made(config)

    mock.create = create  # type: ignore[method-assign]
    runtime = opened()
    furnish(runtime)

    ask(runtime, ASKS_ONE)

    ((_, result, is_error),) = results(runtime)
    assert is_error
    assert "no model for children" in str(result)
    check(runtime)


@pytest.mark.parametrize("given", [{}, {"prompt": " "}, {"prompt": 7}])
def test_an_agent_is_not_called_without_a_prompt(runtime: Runtime, given: dict[str, Any]) -> None:
    ask(runtime, [[("agent", given)], "done"])

    ((_, result, is_error),) = results(runtime)
    assert is_error
    assert "needs a `prompt`" in str(result)
    assert children(runtime) == []


def test_agents_call_agents_two_deep(runtime: Runtime) -> None:
    ask(runtime, [[("agent", [[("agent", [[("agent", ["too deep"])], "bottom"])], "middle"])], "top"])

    first, second = children(runtime)
    ((_, result, is_error),) = results(runtime, second.id)
    assert is_error
    assert "2 deep at most" in str(result)
    assert [child.parent and child.parent.depth for child in (first, second)] == [1, 2]


def test_a_turn_starts_eight_children(runtime: Runtime) -> None:
    calls: Any = [("agent", ["x"])] * (MAX_CHILDREN - 1)
    ask(runtime, [calls, [("agent", ["x"]), ("agent", ["x"])], "done"])

    assert [is_error for *_, is_error in results(runtime)] == [False] * MAX_CHILDREN + [True]
    assert "8 agents at most" in str(results(runtime)[-1][1])
    ask(runtime, [], "root")
    assert len(children(runtime)) == MAX_CHILDREN


def test_an_image_calls_only_what_is_registered(runtime: Runtime) -> None:
    with pytest.raises(ImageNotFoundError):
        runtime.images.register(Image(id="x", tools=(agent_tool("nobody", description=""),)))


def test_the_model_is_told_of_agents_that_it_may_call(runtime: Runtime, mock: GatedFactory) -> None:
    told: list[tuple[str, list[str]]] = []
    made = mock.create

    def create(config: EnvironmentConfig) -> ModelEnvironment:
        assert config.tools is not None
        told.append((config.session_id, [spec.name for spec in config.tools.specs()]))
        return made(config)

    mock.create = create  # type: ignore[method-assign]
    ask(runtime, [[("agent", [[("agent", ["deep"])], "middle"])], "top"])

    assert [names for _, names in told] == [["send", "agent", "aside"], ["send", "agent", "aside"], ["send"]]


# Budgets.


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(steps=1), "limit (budget_exceeded) after 1 step"),
        (Budget(tokens=1000), "limit (budget_exceeded) after 1 step"),
        (Budget(cost=0.5), "limit (budget_exceeded) after 1 step"),
    ],
)
def test_a_child_whose_budget_is_used_up_ends(opened: Open, budget: Budget, why: str) -> None:
    runtime = opened(prices=PRICES)
    furnish(runtime, budget=budget)

    ask(runtime, [[("agent", [[("send", {"to": "ann"})], "sent"])], "done"])

    ((_, result, is_error),) = results(runtime)
    assert is_error
    assert why in str(result)


def test_a_child_whose_seconds_are_over_is_interrupted(opened: Open) -> None:
    runtime = opened()
    furnish(runtime, budget=Budget(seconds=0.05))

    ask(runtime, [[("agent", [HELD])], "done"])

    ((_, result, is_error),) = results(runtime)
    assert is_error
    assert "was ended by a limit (budget_exceeded)" in str(result)


def test_what_is_not_stated_is_an_equal_share_of_what_is_left(opened: Open) -> None:
    runtime = opened(prices=PRICES)
    furnish(runtime, cost_limit=9.0)
    ears = Ears(runtime)

    ask(runtime, [[("agent", ["one"]), ("agent", ["two"])], [("agent", ["three"])], "done"])

    starts = [event.data for event in ears.wait("child_started", count=3)]
    assert all(isinstance(start, ChildStarted) for start in starts)
    costs = [start.budget.cost for start in starts if isinstance(start, ChildStarted)]
    assert costs == [pytest.approx(8 / 3), pytest.approx(8 / 3), pytest.approx((9 - 4) / 2)]


# Detached children.


def test_a_detached_child_answers_with_a_message(runtime: Runtime, mock: GatedFactory) -> None:
    ears = Ears(runtime)
    answer = ask(runtime, [[("aside", [HELD])], "meanwhile"])

    assert answer.text == "meanwhile"
    hold(ears)
    (child,) = children(runtime)
    ((stage, result, is_error),) = results(runtime)
    assert (stage, is_error) == ("answered", False)
    assert child.id in str(result)
    mock.gate.open()
    ears.wait("turn_completed", count=3)
    message = runtime.sessions.messages("root")[-1]
    assert message.text.startswith(f"heard: Session {child.id}, which call c00 has started, has ended.")
    assert settled(runtime) == 1
    check(runtime)


def test_an_answer_goes_on_when_a_detached_child_ends_meanwhile(runtime: Runtime, mock: GatedFactory) -> None:
    _, ears = running(runtime, [[("aside", [HELD])], HELD], held=2)
    (detached,) = [agent.id for agent in runtime.agents.list() if agent.session_id != "root"]

    runtime.agents.interrupt(detached)
    ears.wait("child_ended")
    mock.gate.open()

    ears.wait("turn_completed", count=3)
    assert "so far, held" in [message.text for message in runtime.sessions.messages("root")]
    check(runtime)
    assert verify_log(log_of(journal_of(runtime))).findings == ()


# Interrupts.


def running(runtime: Runtime, plan: Plan, *, held: int = 1) -> tuple[str, Ears]:
    """Have the agent of the root follow the plan; return it when so many children hold still."""
    agent, ears = runtime.sessions.run("root"), Ears(runtime)
    runtime.agents.receive(agent, json.dumps(plan))
    hold(ears, held)
    return agent, ears


def test_an_interrupt_ends_the_children_first_the_deepest_before_the_others(runtime: Runtime) -> None:
    agent, ears = running(runtime, [[("agent", [[("agent", [HELD])], "middle"]), ("agent", [HELD])], "top"], held=2)

    runtime.agents.interrupt(agent)
    ears.wait("turn_completed", count=4)

    ends = [event.context.session_id for event in ears.of("turn_completed")]
    (deepest,) = [child for child in children(runtime) if child.parent is not None and child.parent.depth == 2]
    assert deepest.parent is not None
    assert ends[-1] == "root"
    assert ends.index(deepest.id) < ends.index(deepest.parent.session_id)
    assert {event.data["outcome"] for event in ears.of("turn_completed")} == {"interrupted"}
    for _, result, is_error in results(runtime):
        assert is_error
        assert "was interrupted" in str(result)
    assert "so far" in str(results(runtime)[1][1])
    assert settled(runtime) == 1 + 2
    check(runtime)


def test_a_detached_child_outlives_the_interrupt(runtime: Runtime, mock: GatedFactory) -> None:
    agent, ears = running(runtime, [[("aside", [HELD]), ("agent", [HELD])], "top"], held=2)

    runtime.agents.interrupt(agent)
    ears.wait("turn_completed", count=2)

    assert len(runtime.agents.list()) == 2
    mock.gate.open()
    ears.wait("turn_completed", count=4)
    assert "so far, held" in runtime.sessions.messages("root")[-2].text


@pytest.mark.parametrize("how", ["destroy", "delete"])
def test_children_end_with_the_agent_that_called_them(runtime: Runtime, how: str) -> None:
    agent, ears = running(runtime, [[("agent", [[("agent", [HELD])], "middle"])], "top"])

    if how == "destroy":
        runtime.agents.destroy(agent)
    else:
        runtime.sessions.delete("root")
    ears.wait("turn_completed", count=3)
    ears.wait("agent_stopped", count=3)

    assert runtime.agents.list() == []
    if how == "destroy":
        ears.wait("child_ended", count=2)
        check(runtime)


def test_a_silent_child_is_given_up(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.domain.session.child_turns.PATIENCE", 50_000)
    runtime = opened(prices=PRICES)
    furnish(runtime)
    agent, ears = running(runtime, [[("agent", [HELD])], "top"])
    ports = runtime._ports
    tell = ports.tell_kin
    lost: list[tuple[str, SessionCommand, str]] = []

    def lose(session_id: str, command: SessionCommand, back_to: str = "") -> None:
        lost.append((session_id, command, back_to))

    monkeypatch.setattr(ports, "tell_kin", lose)

    runtime.agents.interrupt(agent)
    (ended,) = ears.wait("child_ended")

    assert ended.data["outcome"] == "unknown"
    ears.wait("turn_completed")
    assert "has not said what became of it" in str(results(runtime)[0][1])
    monkeypatch.setattr(ports, "tell_kin", tell)
    for told in lost:
        tell(*told)
    ears.wait("child_ended", count=2)
    assert settled(runtime) == 1
    check(runtime)


# People.


def test_a_child_waits_for_a_person_and_its_parent_with_it(runtime: Runtime) -> None:
    ears = Ears(runtime)
    answer = ask(runtime, [[("agent", SENDS)], "done"])

    assert answer.outcome == "waiting"
    (child,) = children(runtime)
    (pending,) = runtime.agents.pending()
    assert pending.session_id == child.id
    assert [stage for stage, *_ in results(runtime)] == ["waiting"]
    runtime.agents.approve(pending.id)
    ears.wait("turn_completed", count=4)

    assert results(runtime) == [("answered", "sent", False)]
    assert runtime.sessions.messages("root")[-1].text == "done"
    assert [event.data["outcome"] for event in ears.of("child_ended")] == ["waiting", "completed"]
    check(runtime)


def test_a_call_that_is_answered_does_not_wait_because_its_detached_child_does(runtime: Runtime) -> None:
    ears = Ears(runtime)
    ask(runtime, [[("aside", SENDS), ("send", {"to": "bob"})], "done"])
    ears.wait("child_ended")

    assert [stage for stage, _, _ in results(runtime)] == ["answered", "waiting"]
    for call in runtime.agents.pending():
        runtime.agents.approve(call)
    wait_until(lambda: [turn.outcome for turn in runtime.sessions.turns("root")][1:] == ["completed", "completed"])

    assert [stage for stage, _, _ in results(runtime)] == ["answered", "answered"]
    assert runtime.sessions.list(waiting=True) == []
    check(runtime)


def test_a_call_of_a_session_is_decided_though_one_of_its_child_has_the_same_id(runtime: Runtime) -> None:
    ask(runtime, [[("send", {"to": "bob"}), ("agent", SENDS)], "done"])
    own, below = sorted(runtime.agents.pending(), key=lambda call: len(call.path))
    assert (own.id, own.session_id) == (below.id, "root")

    runtime.agents.reject(own, "no")
    assert runtime.agents.pending() == [below]
    with pytest.raises(CallNotPendingError):
        runtime.agents.reject(own, "no")
    runtime.agents.approve(below)

    wait_until(lambda: [turn.outcome for turn in runtime.sessions.turns("root")] == ["waiting", "completed"])
    assert [result for _, result, _ in results(runtime)] == ["send was not run: it was rejected: no", "sent"]
    check(runtime)


def test_families_do_not_wake_each_other_while_the_runtime_is_closed(
    runtime: Runtime, opened: Open, mock: GatedFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(runtime, [[("agent", SENDS)], "done"])
    (call,) = runtime.agents.pending()
    runtime.agents.destroy(call.agent_id or "")
    start, started = SessionActor.on_start, list[str]()

    def count_start(actor: SessionActor) -> None:
        started.append(actor.context.id)
        start(actor)

    monkeypatch.setattr(SessionActor, "on_start", count_start)
    with closed_while_starting(runtime, monkeypatch, call.session_id), suppress(RuntimeClosedError):
        runtime.agents.approve(call)

    assert len(started) < 10
    assert [one.id for one in opened(prices=PRICES).agents.pending()] == [call.id]


def test_a_child_in_a_child_waits_through_a_restart(opened: Open) -> None:
    first = opened(prices=PRICES)
    furnish(first)
    ask(first, [[("agent", [[("agent", SENDS)], "middle"])], "top"])
    first.close()

    again = opened(prices=PRICES)
    (pending,) = again.agents.pending()
    assert again.agents.list() == []
    ears = Ears(again)
    again.agents.reject(pending.id, "no")
    ears.wait("turn_completed", count=3)

    assert again.sessions.messages("root")[-1].text == "top"
    assert settled(again) == 4
    check(again)


def test_messages_come_to_a_child_at_their_times_and_its_parent_pays(opened: Open, mock: GatedFactory) -> None:
    clock = ManualClock()
    runtime = opened(prices=PRICES, clock=clock)
    furnish(runtime)
    agent, ears = runtime.sessions.run("root"), Ears(runtime)
    turn = runtime.agents.receive(agent, json.dumps([[("agent", [HELD])], "done"]))
    hold(ears)
    (child,) = children(runtime)
    busy, later = (
        runtime.agents.schedule(child.id, text, at=instant(clock()) + timedelta(seconds=seconds))
        for text, seconds in (("busy?", 1), ("more?", 60))
    )

    clock.advance(1)
    ears.wait("schedule_fired")
    mock.gate.open()
    assert runtime.turns.wait(turn, 60).text == "done"
    assert (results(runtime), runtime.sessions.turns(child.id)[-1].outcome) == (
        [("answered", "so far, held", False)],
        None,
    )
    assert [one.id for one in runtime.agents.schedules()] == [later.id]
    clock.advance(60)
    turns = [str(fired.data["turn_id"]) for fired in ears.wait("schedule_fired", count=2)]

    assert [runtime.turns.wait(turn, 60).text for turn in turns] == ["heard: busy?", "heard: more?"]
    wait_until(lambda: settled(runtime) == 3, what="the root has heard of it")
    assert [one.session_id for one in runtime.agents.list()] == ["root"]
    assert busy.session_id == later.session_id == child.id
    check(runtime)


def test_an_agent_that_starts_for_a_message_that_comes_asks_what_has_become_of_its_children(
    opened: Open, mock: GatedFactory
) -> None:
    made, clock, broken = mock.create, ManualClock(), [False]

    def create(config: EnvironmentConfig) -> ModelEnvironment:
        if broken[0] and config.session_id == "root":
            raise ConfigurationError("no model for the root")
        return made(config)

    mock.create = create  # type: ignore[method-assign]
    first = opened(prices=PRICES, clock=clock)
    furnish(first)
    ask(first, [[("agent", SENDS)], "done"])
    first.agents.schedule("root", "Well?", at=instant(clock()) + timedelta(seconds=60))
    first.close()
    again, broken[0] = opened(prices=PRICES, clock=clock), True
    ears = Ears(again)
    again.agents.reject(again.agents.pending()[0].id, "no")
    wait_until(lambda: again.agents.list() == [], what="the child has done its part")
    ears.wait("turn_completed")

    broken[0] = False
    clock.advance(60)

    (fired,) = ears.wait("schedule_fired")
    assert again.turns.wait(str(fired.data["turn_id"]), 60).text == "heard: Well?"
    assert [message.text for message in again.sessions.messages("root")][-3:] == ["done", "Well?", "heard: Well?"]
    check(again)


def test_an_interrupt_ends_what_waits_in_children(runtime: Runtime) -> None:
    ears = Ears(runtime)
    ask(runtime, [[("agent", SENDS)], "done"])
    (agent,) = [agent.id for agent in runtime.agents.list() if agent.session_id == "root"]

    runtime.agents.interrupt(agent)
    ears.wait("child_ended", count=2)

    assert runtime.agents.pending() == []
    ((stage, result, _),) = results(runtime)
    assert stage == "answered"
    assert "was interrupted" in str(result)
    check(runtime)


def test_a_policy_may_ask_a_person_before_an_agent_is_called(runtime: Runtime) -> None:
    careful = Image(
        id="careful",
        tools=(agent_tool("agent", description="Does it."),),
        policies=Policies(tools={"agent": Policy("required")}),
    )
    runtime.images.register(careful)
    runtime.sessions.create("c", "careful", session_id="mine")

    assert ask(runtime, ASKS_ONE, session="mine").outcome == "waiting"
    (pending,) = runtime.agents.pending()
    assert children(runtime) == []
    turn_id = runtime.agents.approve(pending, arguments={"prompt": '["43"]'})

    assert turn_id is not None
    assert runtime.turns.wait(turn_id, timeout=60).text == "done"
    assert results(runtime, "mine") == [("answered", "43", False)]


# Crashes.


def test_a_crash_at_any_commit_is_made_good(tmp_path: Path, opened: Open) -> None:
    """Copy the log at each commit; from each copy the family is there again, settled, and at rest."""
    log = log_at(tmp_path / "story.db")
    copies: list[str] = []
    runtime = opened(log, prices=PRICES)
    furnish(runtime)
    ears = Ears(runtime)
    at_every_commit(runtime, lambda count: copies.append(copy_log(log, str(count))))
    ask(runtime, [[("agent", [[("agent", ["deep"])], "middle"]), ("agent", SENDS)], "top"])
    runtime.agents.approve(runtime.agents.pending()[0].id)
    ears.wait("turn_completed", count=5)
    runtime.close()

    assert len(copies) > 10  # a commit may hold the steps of several sessions
    for recovery in ("close", "resume"):
        for copy in some(copies):
            again = opened(copy_log(copy, recovery), prices=PRICES, tools=[send], recovery=recovery)
            come_to_rest(again)
            again.close()


class FullForChildren:
    """Refuses what child sessions record, until there is space again."""

    def __init__(self, runtime: Runtime, error: StorageError | None = None) -> None:
        self.refused = 0
        self.is_full = True
        self._error = error or StorageError("no space")
        self._append = runtime._system.append
        vars(runtime._system).update(append=self._appending)

    def _appending(self, step: Append, done: Done) -> None:
        if self.is_full and step.stream.startswith("session/ses_"):
            self.refused += 1
            done(self._error)
        else:
            self._append(step, done)


@pytest.mark.parametrize("refused", [1, 3])
def test_children_whose_beginning_cannot_be_recorded_begin_when_it_can_be(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    monkeypatch.setattr("reenact.actors.runtime.SHORTEST", 0.01)
    disk, ears, count = FullForChildren(runtime), Ears(runtime), 3
    turn_id = runtime.agents.receive(
        runtime.sessions.run("root"), json.dumps([[("agent", ["42"]) for _ in range(count)], "done"])
    )
    wait_until(lambda: disk.refused >= refused * count, what="it is tried again")

    disk.is_full = False

    ears.wait("turn_completed", turn_id=turn_id)
    assert results(runtime) == [("answered", "42", False)] * count
    assert disk.refused < 2 ** (refused + 1) * count  # each is tried by itself
    check(runtime)


def test_a_child_whose_call_is_interrupted_before_it_could_begin_is_interrupted(runtime: Runtime) -> None:
    disk, ears, agent = FullForChildren(runtime), Ears(runtime), runtime.sessions.run("root")
    turn_id = runtime.agents.receive(agent, json.dumps([[("agent", [HELD])], "done"]))
    wait_until(lambda: disk.refused > 0, what="it could not begin")
    runtime.agents.interrupt(agent)

    disk.is_full = False

    (ended,) = ears.wait("child_ended")
    assert ended.data["outcome"] == "interrupted"
    (over,) = ears.wait("turn_completed", turn_id=turn_id)
    assert over.data["outcome"] == "interrupted"
    check(runtime)


def test_a_command_to_a_child_comes_at_most_five_seconds_after_there_is_space_again(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays, tell_kin = list[float](), runtime._ports.tell_kin

    async def soon(delay: float) -> None:
        await asyncio.sleep(delay / 100)

    def tell(session_id: str, command: SessionCommand, back_to: str = "", delay: float = 0.01) -> None:
        delays.append(delay)
        tell_kin(session_id, command, back_to, delay)

    agent, ears = running(runtime, [[("agent", [HELD])], "done"])
    disk = FullForChildren(runtime)
    monkeypatch.setattr(runtime._ports, "tell_kin", tell)
    monkeypatch.setattr("reenact.actors.runtime.asyncio", SimpleNamespace(sleep=soon))
    runtime.agents.interrupt(agent)
    wait_until(lambda: max(delays, default=0) >= 5.0 and delays.count(max(delays)) > 1, what="it is tried again")

    disk.is_full = False

    (ended,) = ears.wait("child_ended")
    assert ended.data["outcome"] == "failed"  # its answer could not be recorded
    assert max(delays) == 5.0


def test_a_report_that_another_process_could_not_deliver_comes_when_the_session_is_run(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ears, undelivered = Ears(runtime), list[str]()

    def fail_to_deliver(session_id: str, *_: object) -> None:
        undelivered.append(session_id)

    ask(runtime, [[("agent", SENDS)], "done"])
    with monkeypatch.context() as locked:
        locked.setattr(runtime._ports, "tell_kin", fail_to_deliver)
        turn_id = runtime.agents.approve("c00")
        ears.wait("turn_completed", turn_id=turn_id)
        wait_until(lambda: "root" in undelivered)

    runtime.sessions.run("root")

    assert ears.wait("child_ended", count=2)[1].data["outcome"] == "completed"
    wait_until(lambda: runtime.sessions.messages("root")[-1].text == "done", what="the answer")


def tells_again(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> list[SessionCommand]:
    """Have beginnings tried again soon; return the list of commands that are sent once more as they are."""
    told: list[SessionCommand] = []

    async def tell_again(_session_id: str, command: SessionCommand, *_: object) -> None:
        told.append(command)

    monkeypatch.setattr("reenact.actors.runtime.SHORTEST", 0.01)
    monkeypatch.setattr(runtime._ports, "_tell_again", tell_again)
    return told


def settle_beginnings(runtime: Runtime) -> None:
    """Return when no parent is to begin its children again."""
    wait_until(lambda: not runtime._ports._begins_again, what="the last try")


def test_a_child_whose_parent_is_deleted_before_it_could_begin_never_begins(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, ears, told_again = FullForChildren(runtime), Ears(runtime), tells_again(runtime, monkeypatch)
    runtime.agents.receive(runtime.sessions.run("root"), json.dumps([[("agent", [HELD])], "done"]))
    wait_until(lambda: disk.refused > 0, what="it could not begin")
    (started,) = ears.wait("child_started")
    runtime.sessions.delete("root")

    disk.is_full = False

    settle_beginnings(runtime)
    for session_id in ("root", str(started.data["child_id"])):  # each has handled what it was told before
        runtime._system.actor(SessionActor, session_id).ask(WAKE)
    assert [command for command in told_again if isinstance(command, BeginChild)] == []
    assert children(runtime) == []
    assert verify_log(log_of(journal_of(runtime))).findings == ()
