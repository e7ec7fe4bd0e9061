"""A branch of a session is a branch of the family below it: of the child sessions that its calls wait for."""

from __future__ import annotations

import json

import pytest

from reenact import Audit, Runtime
from reenact.actors.session.actor import SessionActor
from reenact.audit import verify_log
from reenact.domain.children import ChildStarted
from reenact.domain.errors import LogUnusableError
from reenact.domain.session.child_turns import WAKE
from reenact.domain.session.state import SessionInfo
from reenact.domain.stream.events import SessionCreated
from reenact.testing import wait_until
from tests.examples import some
from tests.logs import copy_log, log_of
from tests.runtime import deciding
from tests.runtime.conftest import Open
from tests.runtime.families import HELD, PRICES, Plan, factory, furnish, send
from tests.runtime.gated import GatedFactory
from tests.runtime.test_children import (
    SENDS,
    FullForChildren,
    ask,
    children,
    hold,
    results,
    running,
    settle_beginnings,
    tells_again,
)
from tests.runtime.witness import Ears, at_every_commit, fold, journal_of

ONE_SENDS: Plan = [[("agent", SENDS)], "done"]
DEEP_SENDS: Plan = [[("agent", [[("agent", SENDS)], "middle"])], "top"]


@pytest.fixture
def mock() -> GatedFactory:
    return factory()


@pytest.fixture
def runtime(opened: Open) -> Runtime:
    runtime = opened(prices=PRICES, tools=[send])
    furnish(runtime)
    return runtime


def check(runtime: Runtime) -> None:
    """Hold live states, log and rows against each other, and each session against those that it names."""
    deciding.check(runtime)
    verdict = verify_log(log_of(journal_of(runtime)))
    assert (verdict.findings, verdict.kin_missing) == ((), 0), verdict.text()


def branch(runtime: Runtime, session_id: str = "root", id_: str = "b", at: int | None = None) -> list[SessionInfo]:
    """Branch off from the session, and return the children that the branch has then."""
    runtime.sessions.branch(session_id, at=at, new_session_id=id_)
    return runtime.sessions.list(parent=id_)


def decided(runtime: Runtime, *, approve: str, reject: str) -> None:
    """Decide the call that waits in both sessions, in each otherwise."""
    runtime.agents.approve("c00", session_id=approve)
    runtime.agents.reject("c00", "no", session_id=reject)


def ended(runtime: Runtime, session_id: str, text: str) -> None:
    """Return when the session has said this last, and nothing is under way in it."""

    def is_over() -> bool:
        last = runtime.sessions.turns(session_id)[-1].outcome
        return last == "completed" and runtime.sessions.messages(session_id)[-1].text == text

    wait_until(is_over, 60, f"{session_id} has said {text}")


def starts(runtime: Runtime, session_id: str) -> list[ChildStarted]:
    rows = journal_of(runtime).read(f"session/{session_id}")
    return [row.event for row in rows if isinstance(row.event, ChildStarted)]


def position_of(runtime: Runtime, session_id: str, kind: type, nth: int = 0) -> int:
    """Return the position of the session's event of this type."""
    rows = journal_of(runtime).read(f"session/{session_id}")
    return [row.position for row in rows if isinstance(row.event, kind)][nth]


def test_a_child_that_waits_for_a_person_waits_in_the_branch_too_and_is_decided_there(runtime: Runtime) -> None:
    ask(runtime, ONE_SENDS)
    (child,) = children(runtime)

    (own,) = branch(runtime)

    assert own.origin is not None
    assert own.origin.session_id == child.id
    assert own.parent is not None
    assert (own.parent.session_id, own.parent.call_id, own.parent.root, own.parent.depth) == ("b", "c00", "b", 1)
    assert [(call.session_id, [one.session_id for one in call.path]) for call in runtime.agents.pending()] == [
        (child.id, ["root"]),
        (own.id, ["b"]),
    ]
    assert [stage for stage, *_ in results(runtime, "b")] == ["waiting"]
    assert [child.outcome for child in fold(journal_of(runtime), "b").children] == ["waiting"]
    assert runtime.sessions.messages(own.id) == runtime.sessions.messages(child.id)
    decided(runtime, approve=own.id, reject=child.id)
    ended(runtime, "b", "done")
    ended(runtime, "root", "done")
    assert results(runtime, own.id) == [("answered", "sent to ann", False)]
    ((_, _, is_error),) = results(runtime, child.id)
    assert is_error
    assert results(runtime, "b") == results(runtime) == [("answered", "sent", False)]
    check(runtime)


def test_what_a_child_has_used_before_the_branch_is_settled_once(runtime: Runtime) -> None:
    ask(runtime, ONE_SENDS)
    (own,) = branch(runtime)

    runtime.agents.approve("c00", session_id=own.id)
    ended(runtime, "b", "done")

    ledger = fold(journal_of(runtime), "b").ledger
    assert (ledger.children.calls, ledger.cost) == (2, 4.0)
    (child,) = fold(journal_of(runtime), "b").past_children
    assert (child.steps, child.usage, child.cost) == (2, {"input_tokens": 2000}, 2.0)
    check(runtime)


def test_a_child_at_work_is_interrupted_in_its_branch_and_its_call_is_given_up(
    runtime: Runtime, mock: GatedFactory
) -> None:
    _, ears = running(runtime, [[("agent", [HELD])], "done"])
    (child,) = children(runtime)

    (own,) = branch(runtime)

    ((stage, result, is_error),) = results(runtime, "b")
    assert (stage, is_error) == ("answered", True)
    assert "interrupted (branched)" in str(result)
    assert [turn.outcome for turn in runtime.sessions.turns(own.id)] == ["interrupted"]
    assert [turn.outcome for turn in runtime.sessions.turns(child.id)] == [None]
    assert {agent.session_id for agent in runtime.agents.list()} == {child.id, "root"}
    (end,) = ears.wait("child_ended")
    assert (end.context.session_id, end.data["child_id"], end.data["outcome"]) == ("b", own.id, "interrupted")
    mock.gate.open()
    ended(runtime, "root", "done")
    assert runtime.ask("And now?", session="b", timeout=60).text == "done"
    check(runtime)


def test_a_call_whose_child_was_decided_meanwhile_does_not_wait_in_the_branch(
    runtime: Runtime, mock: GatedFactory
) -> None:
    ears = Ears(runtime)
    ask(runtime, [[("agent", [[("send", {"to": "ann"})], HELD])], "done"])
    (child,) = children(runtime)
    runtime.agents.approve("c00", session_id=child.id)
    hold(ears)

    (own,) = branch(runtime)

    assert runtime.agents.pending() == []
    ((stage, _, is_error),) = results(runtime, "b")
    assert (stage, is_error) == ("answered", True)
    assert results(runtime, own.id) == results(runtime, child.id) == [("answered", "sent to ann", False)]
    assert runtime.sessions.turns(own.id)[-1].outcome == "interrupted"
    mock.gate.open()
    ended(runtime, "root", "done")
    assert [agent.session_id for agent in runtime.agents.list()] == ["root"]
    check(runtime)


def test_a_child_of_a_child_is_branched_by_the_same_rule(runtime: Runtime) -> None:
    ask(runtime, DEEP_SENDS)
    first, second = children(runtime)

    (own,) = branch(runtime)

    (below,) = runtime.sessions.list(parent=own.id)
    assert own.origin is not None
    assert below.origin is not None
    assert (own.origin.session_id, below.origin.session_id) == (first.id, second.id)
    assert below.parent is not None
    assert (below.parent.root, below.parent.depth) == ("b", 2)
    assert [call.session_id for call in runtime.agents.pending()] == [second.id, below.id]
    decided(runtime, approve=below.id, reject=second.id)
    ended(runtime, "b", "top")
    ended(runtime, "root", "top")
    check(runtime)


def test_a_child_whose_own_child_was_decided_meanwhile_does_not_wait_in_the_branch(
    runtime: Runtime, mock: GatedFactory
) -> None:
    ears = Ears(runtime)
    ask(runtime, [[("agent", [[("agent", [[("send", {"to": "ann"})], HELD])], "middle"])], "top"])
    _, second = children(runtime)
    runtime.agents.approve("c00", session_id=second.id)
    hold(ears)

    (own,) = branch(runtime)

    assert runtime.agents.pending() == []
    assert [stage for stage, *_ in (*results(runtime, "b"), *results(runtime, own.id))] == ["answered", "answered"]
    wait_until(lambda: not fold(journal_of(runtime), "b").children, 60, "it has ended")
    assert fold(journal_of(runtime), "b").agent is None
    mock.gate.open()
    ended(runtime, "root", "top")
    check(runtime)


def test_only_children_that_wait_are_waited_for(runtime: Runtime, mock: GatedFactory) -> None:
    ears = Ears(runtime)
    agent = runtime.sessions.run("root")
    plan: Plan = [[("agent", SENDS), ("agent", [HELD]), ("agent", ["over"]), ("aside", [HELD])], "done"]
    runtime.agents.receive(agent, json.dumps(plan))
    hold(ears, 2)
    ears.wait("child_ended", count=2)

    own = branch(runtime)

    assert len(own) == 2
    assert [stage for stage, *_ in results(runtime, "b")] == ["waiting", "answered", "answered", "answered"]
    assert [result for _, result, is_error in results(runtime, "b") if not is_error][1] == "over"
    (waiting,) = [call.session_id for call in runtime.agents.pending() if call.session_id in {one.id for one in own}]
    runtime.agents.approve("c00", session_id=waiting)
    ended(runtime, "b", "done")
    runtime.agents.approve(runtime.agents.pending()[0])
    mock.gate.open()

    def is_over() -> bool:  # with the answer to what the detached child has said
        return [turn.outcome for turn in runtime.sessions.turns("root")].count("completed") == 2

    wait_until(is_over, what="both answers of the root")
    check(runtime)


def test_before_a_child_has_begun_there_is_nothing_to_branch(runtime: Runtime) -> None:
    ask(runtime, ONE_SENDS)

    own = branch(runtime, at=position_of(runtime, "root", ChildStarted))

    assert own == []
    ((stage, result, is_error),) = results(runtime, "b")
    assert (stage, is_error) == ("answered", True)
    assert "interrupted (branched)" in str(result)
    check(runtime)


def test_a_child_is_branched_as_it_was_then(runtime: Runtime) -> None:
    ears = Ears(runtime)
    ask(runtime, ONE_SENDS)
    (waited,) = ears.wait("child_ended")
    at = journal_of(runtime).head()
    runtime.agents.approve("c00")
    ended(runtime, "root", "done")

    (own,) = branch(runtime, at=at)

    assert waited.data["outcome"] == "waiting"
    assert [call.session_id for call in runtime.agents.pending()] == [own.id]
    runtime.agents.approve("c00", session_id=own.id)
    ended(runtime, "b", "done")
    check(runtime)


def test_a_branch_of_a_branch_branches_the_children_of_that(runtime: Runtime) -> None:
    ask(runtime, ONE_SENDS)
    (own,) = branch(runtime)

    (again,) = branch(runtime, "b", "b2")

    assert again.origin is not None
    assert again.origin.session_id == own.id
    for session_id in (own.id, again.id):
        runtime.agents.approve("c00", session_id=session_id)
    ended(runtime, "b", "done")
    ended(runtime, "b2", "done")
    assert fold(journal_of(runtime), "b2").ledger.children.calls == 2
    check(runtime)


def test_a_branch_of_a_child_is_no_child_but_branches_its_children(runtime: Runtime) -> None:
    ask(runtime, DEEP_SENDS)
    first, second = children(runtime)

    (own,) = branch(runtime, first.id)

    session = runtime.sessions.get("b")
    assert session is not None
    assert session.parent is None
    assert own.parent is not None
    assert (own.parent.root, own.parent.depth) == ("b", 1)
    runtime.agents.approve("c00", session_id=own.id)
    ended(runtime, "b", "middle")
    assert [call.session_id for call in runtime.agents.pending()] == [second.id]
    check(runtime)


def test_an_edited_message_waits_behind_the_child(runtime: Runtime) -> None:
    ask(runtime, ONE_SENDS)
    runtime.agents.receive(runtime.sessions.run("root"), "And then?")

    runtime.sessions.branch("root", edit="And instead?", new_session_id="b", model="other")

    (own,) = runtime.sessions.list(parent="b")
    runtime.agents.approve("c00", session_id=own.id)
    ended(runtime, "b", "heard: And instead?")
    assert [message.text for message in runtime.sessions.messages("b")][-3:] == [
        "done",
        "And instead?",
        "heard: And instead?",
    ]
    check(runtime)


def test_an_interrupt_of_the_branch_ends_its_own_children(runtime: Runtime) -> None:
    ears = Ears(runtime)
    ask(runtime, ONE_SENDS)
    (child,) = children(runtime)
    branch(runtime)

    runtime.agents.interrupt(runtime.sessions.run("b"))
    ears.wait("child_ended", count=3)

    assert [call.session_id for call in runtime.agents.pending()] == [child.id]
    ((stage, result, _),) = results(runtime, "b")
    assert stage == "answered"
    assert "was interrupted" in str(result)
    check(runtime)


def test_a_request_to_branch_is_carried_out_once_for_the_whole_family(opened: Open, runtime: Runtime) -> None:
    ask(runtime, DEEP_SENDS)
    request = {"session_id": "root", "request_id": "r1"}
    first = runtime.request("session_branch_request", request).data.result
    runtime.close()

    runtime = opened(prices=PRICES, tools=[send])
    again = runtime.request("session_branch_request", request).data.result

    assert again == first
    assert len(runtime.sessions.list()) == 6
    assert len(runtime.agents.pending()) == 2
    check(runtime)


def test_a_branched_family_goes_on_after_a_restart(opened: Open, runtime: Runtime) -> None:
    ask(runtime, DEEP_SENDS)
    branch(runtime)
    runtime.close()

    again = opened(prices=PRICES, tools=[send])
    assert again.agents.list() == []
    for call in again.agents.pending():
        again.agents.approve(call)

    ended(again, "b", "top")
    ended(again, "root", "top")
    check(again)


def test_the_children_of_a_branch_are_followed_with_it(runtime: Runtime) -> None:
    ask(runtime, ONE_SENDS)
    (own,) = branch(runtime)
    runtime.agents.approve("c00", session_id=own.id)
    ended(runtime, "b", "done")

    events = runtime.events.stream("b", children=True).take()

    created = [event.data for event in events if isinstance(event.data, SessionCreated)]
    assert [(data.session_id, data.origin and data.origin.session_id) for data in created] == [
        ("b", "root"),
        (own.id, starts(runtime, "root")[0].child_id),
    ]
    assert created[1].parent == own.parent
    assert [event.type for event in events if event.context.session_id == own.id][-1] == "agent_stopped"


def test_why_crosses_from_the_branch_to_the_branch_of_its_child_and_back(runtime: Runtime, log: str) -> None:
    ask(runtime, ONE_SENDS)
    (own,) = branch(runtime)
    runtime.agents.approve("c00", session_id=own.id)
    ended(runtime, "b", "done")
    runtime.close()

    with Audit.open(log) as audit:
        entries = [(one.stream.removeprefix("session/"), one.type, one.position) for one in audit.entries()]
        begun, approved, answered = (
            next(position for *event, position in entries if event == [session_id, type_])
            for session_id, type_ in (
                (own.id, "session-branched"),
                (own.id, "tool-approved"),
                ("b", "turn-completed"),
            )
        )
        begins, decides = audit.why(begun), audit.why(approved)

    assert begins.event.outside is None
    assert ("session/b", "child-started") in {(link.stream, link.type) for link in begins.causes}
    assert ("session/b", "child-ended") in {(link.stream, link.type) for link in begins.effects}
    assert answered in {link.position for link in decides.effects}


# Crashes.


def test_a_branch_of_a_child_that_finds_no_space_begins_when_there_is_some(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.actors.runtime.SHORTEST", 0.01)
    ask(runtime, ONE_SENDS)
    disk = FullForChildren(runtime)
    assert branch(runtime) == []
    wait_until(lambda: disk.refused >= 3, what="it is tried again")

    disk.is_full = False

    wait_until(lambda: len(runtime.sessions.list(parent="b")) == 1, what="the branch of the child")
    (child,) = runtime.sessions.list(parent="b")
    wait_until(lambda: len(runtime.agents.pending(session_id="b")) == 1, what="its report")
    runtime.agents.approve("c00", session_id=child.id)
    ended(runtime, "b", "done")
    check(runtime)


def test_a_branch_of_a_child_whose_history_is_damaged_never_begins_and_its_call_ends_with_the_error(
    runtime: Runtime,
) -> None:
    ask(runtime, ONE_SENDS)
    FullForChildren(runtime, LogUnusableError("a row is damaged"))

    assert branch(runtime) == []

    ended(runtime, "b", "done")
    ((_, result, is_error),) = results(runtime, "b")
    assert is_error
    assert "LogUnusableError: a row is damaged" in str(result)


def test_a_branch_of_a_child_never_begins_if_that_of_its_parent_is_deleted_before(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(runtime, ONE_SENDS)
    disk, told_again = FullForChildren(runtime), tells_again(runtime, monkeypatch)
    assert branch(runtime) == []
    wait_until(lambda: disk.refused >= 3, what="it is tried again")
    runtime.sessions.delete("b")

    disk.is_full = False

    settle_beginnings(runtime)
    (started,) = starts(runtime, "b")
    for session_id in ("b", started.child_id):  # each has handled what it was told before
        runtime._system.actor(SessionActor, session_id).ask(WAKE)
    assert told_again == []
    assert runtime.sessions.get(started.child_id) is None


def test_a_crash_at_any_commit_of_a_branch_is_made_good(opened: Open, runtime: Runtime, log: str) -> None:
    """Copy the log at each commit; from each copy the branch has its children once, and all go on."""
    copies: list[str] = []
    ask(runtime, DEEP_SENDS)
    at_every_commit(runtime, lambda count: copies.append(copy_log(log, str(count))))
    branch(runtime)
    runtime.close()

    assert len(copies) >= 4  # the branch, that of its child and of its child's child, and what they say of each other
    for recovery in ("close", "resume"):
        for copy in some(copies):
            again = opened(copy_log(copy, recovery), prices=PRICES, tools=[send], recovery=recovery)
            if again.sessions.get("b") is None:
                branch(again)
            wait_until(lambda: len(again.agents.pending()) == 2, 60, "both wait")  # noqa: B023 - used at once
            for call in again.agents.pending():
                again.agents.approve(call)
            ended(again, "b", "top")
            ended(again, "root", "top")
            assert len(again.sessions.list()) == 6
            check(again)
            again.close()
