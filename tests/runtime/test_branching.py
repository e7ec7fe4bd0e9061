"""Branching through the facades: what may be asked for, what is refused, and what goes on how."""

from __future__ import annotations

from typing import Any

import pytest

from reenact import (
    AlreadyExistsError,
    BranchPoint,
    Image,
    ImageNotFoundError,
    InvalidInputError,
    InvalidMessageError,
    LogUnusableError,
    Runtime,
    SessionInfo,
    SessionNotFoundError,
    TextBlock,
    tool,
)
from reenact.domain.session.agent import TurnCompleted
from reenact.testing import wait_until
from tests.logs import execute
from tests.runtime.conftest import Open
from tests.runtime.deciding import RULES, Desk, begin, check, say
from tests.runtime.test_concurrency import at_once
from tests.runtime.witness import Ears, journal_of

SEND = ("e1", "send_email", {"to": "ann"})


@pytest.fixture
def desk() -> Desk:
    return Desk("One.", "Two.")


@pytest.fixture
def runtime(opened: Open, desk: Desk) -> Runtime:
    """A session `s` with two turns that are over."""
    runtime = opened(environment=desk, policies=RULES.policies)
    ears = begin(runtime)
    for text in ("First", "Second"):
        ears.wait("turn_completed", turn_id=say(runtime, text))
    return runtime


def said(runtime: Runtime, session_id: str) -> list[str]:
    return [message.text for message in runtime.sessions.messages(session_id)]


def ends(runtime: Runtime) -> list[BranchPoint]:
    """Return where the turns of `s` end."""
    return [
        BranchPoint(session_id="s", position=row.position, version=row.version)
        for row in journal_of(runtime).read("session/s")
        if isinstance(row.event, TurnCompleted)
    ]


def test_a_branch_is_a_session_like_any_other(runtime: Runtime) -> None:
    branch = runtime.sessions.branch("s", new_session_id="b")

    assert runtime.sessions.get("b") == branch
    assert runtime.sessions.list_by_container("c")[-1] == branch
    assert branch.origin == ends(runtime)[-1]
    assert said(runtime, "b") == said(runtime, "s")
    assert runtime.sessions.usage("b").usage == runtime.sessions.usage("s").usage
    check(runtime)


def test_before_a_branch_began_it_was_what_it_branches_off_from(runtime: Runtime) -> None:
    first, _ = ends(runtime)
    runtime.sessions.branch("s", new_session_id="b")

    branch = runtime.sessions.branch("b", at=first.position)

    assert branch.origin == first
    assert said(runtime, branch.id) == ["First", "One."]


def test_what_the_original_has_gone_on_with_is_not_shared_with_a_branch_of_a_branch(runtime: Runtime) -> None:
    first, second = ends(runtime)
    runtime.sessions.branch("s", at=first.position, new_session_id="b")

    branch = runtime.sessions.branch("b", at=second.position)

    assert branch.origin == first


def test_a_question_of_the_original_is_edited_through_any_number_of_branches(runtime: Runtime, desk: Desk) -> None:
    runtime.sessions.branch("s", new_session_id="b")
    runtime.sessions.branch("b", new_session_id="c1")

    branch = runtime.sessions.branch("c1", edit=[TextBlock("Instead")])
    runtime.sessions.run(branch.id)

    wait_until(lambda: said(runtime, branch.id) == ["First", "One.", "Instead", "Done."], 20, "it is answered")
    assert [one.text for one in desk.heard[-1]] == ["First", "One.", "Instead"]


def test_a_question_far_back_is_found(runtime: Runtime, desk: Desk) -> None:
    desk.ask(*[[(f"c{number}", "search", {"n": number})] for number in range(40)])
    ears = Ears(runtime)
    ears.wait("turn_completed", turn_id=say(runtime, "Search for long"))

    branch = runtime.sessions.branch("s", edit="Search not")

    assert said(runtime, branch.id) == ["First", "One.", "Second", "Two.", "Search not"]


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"session_id": "nobody"}, SessionNotFoundError, "nobody"),
        ({"session_id": "\ud800"}, SessionNotFoundError, "does not exist"),
        ({"at": 0}, InvalidInputError, "a position of the log"),
        ({"at": True}, InvalidInputError, "a position of the log"),
        ({"at": 10_000}, InvalidInputError, "there is no position 10000: the log ends at"),
        ({"at": 1}, InvalidInputError, "session 's' begins at position 3, behind 1"),
        ({"at": 3, "edit": "x"}, InvalidInputError, "there is no earlier message of a user"),
        ({"edit": " "}, InvalidMessageError, "blank|empty"),
        ({"model": ""}, InvalidInputError, "the model"),
        ({"image_id": "i", "model": "m"}, InvalidInputError, "give image_id, or model and system_prompt, not both"),
        ({"image_id": "none"}, ImageNotFoundError, "none"),
        ({"new_session_id": "s"}, AlreadyExistsError, "session 's' exists"),
        ({"new_session_id": ""}, InvalidInputError, "the session's id"),
    ],
)
def test_what_cannot_be_is_refused(runtime: Runtime, asked: dict[str, Any], error: type[Exception], words: str) -> None:
    before = journal_of(runtime).head()

    with pytest.raises(error, match=words):
        _branch(runtime, {"session_id": "s"} | asked)

    assert journal_of(runtime).head() == before
    assert len(runtime.sessions.list_by_container("c")) == 1


def test_a_session_that_was_deleted_is_branched_off_from(runtime: Runtime) -> None:
    runtime.sessions.delete("s")

    branch = runtime.sessions.branch("s")

    assert said(runtime, branch.id) == ["First", "One.", "Second", "Two."]
    assert runtime.sessions.get("s") is None
    with pytest.raises(AlreadyExistsError):
        runtime.sessions.branch(branch.id, new_session_id="s")


def test_a_branch_runs_on_another_image(runtime: Runtime) -> None:
    runtime.images.register(Image(id="j"))
    runtime.images.register(Image(id="j", model="newest"))

    branch = runtime.sessions.branch("s", image_id="j")

    assert (branch.image_id, branch.image_revision) == ("j", 2)


def test_branches_with_the_same_model_share_an_image(runtime: Runtime) -> None:
    first = runtime.sessions.branch("s", model="large", system_prompt="")
    second = runtime.sessions.branch("s", model="large", system_prompt="")
    third = runtime.sessions.branch(first.id, system_prompt="Be brief")

    assert first.image_id == second.image_id != third.image_id
    image = runtime.images.get(third.image_id)
    assert image is not None
    assert (image.model, image.system_prompt, image.revision) == ("large", "Be brief", 1)


def test_a_derived_image_has_the_functions_of_the_one_it_was_derived_from_also_after_a_restart(opened: Open) -> None:
    @tool
    def search() -> str:
        """Search."""
        return "found"

    image = Image(id="i", tools=(search,))
    runtime = opened()
    runtime.containers.create(container_id="c")
    runtime.images.register(image)
    runtime.sessions.create("c", "i", session_id="s")
    branch = runtime.sessions.branch("s", model="other")
    again = runtime.sessions.branch(branch.id, model="third")
    runtime.close()

    runtime = opened()
    runtime.images.register(image)

    for session in (branch, again):
        definition = runtime._do.definition(session.image_id, session.image_revision)
        assert runtime._do._registry.find(session.image_id, definition) == (search,)


def test_what_waits_for_a_person_is_decided_in_each_session(runtime: Runtime, desk: Desk) -> None:
    desk.ask([SEND])
    ears = Ears(runtime)
    ears.wait("turn_completed", turn_id=say(runtime, "Send it"))
    branch = runtime.sessions.branch("s")

    here, there = runtime.agents.pending()
    assert (here.session_id, there.session_id) == ("s", branch.id)
    with pytest.raises(InvalidInputError, match="waits in 2 sessions"):
        runtime.agents.approve("e1")
    runtime.agents.reject(here)
    runtime.agents.approve(there)

    wait_until(lambda: said(runtime, branch.id)[-1:] == ["Done."], 20, "the branch goes on")
    wait_until(lambda: said(runtime, "s")[-1:] == ["Done."], 20, "the original goes on")
    assert desk.ran == [("send_email", {"to": "ann"})]
    check(runtime)


def test_a_request_to_branch_is_carried_out_once_also_after_a_restart(opened: Open, runtime: Runtime) -> None:
    request = {"session_id": "s", "edit": "Instead", "model": "other", "request_id": "r1"}
    first = runtime.request("session_branch_request", request).data.result
    runtime.close()

    again = opened(environment=Desk()).request("session_branch_request", request).data.result

    assert again == first


def test_a_branch_off_a_turn_under_way_is_whole_after_a_crash(opened: Open, log: str, desk: Desk) -> None:
    desk.holding.add("search")
    desk.answers.clear()
    desk.ask([("c1", "search", {})])
    runtime = opened(environment=desk)
    ears = begin(runtime)
    say(runtime, "Search")
    ears.wait("tool_started")
    branch = runtime.sessions.branch("s")
    before = (said(runtime, branch.id), runtime.sessions.tool_calls(branch.id), runtime.sessions.turns(branch.id))
    runtime.close()

    runtime = opened(environment=Desk())

    assert before == (
        said(runtime, branch.id),
        runtime.sessions.tool_calls(branch.id),
        runtime.sessions.turns(branch.id),
    )
    (call,) = runtime.sessions.tool_calls(branch.id)
    assert (call.stage, call.is_error, call.ran) == ("answered", True, True)
    ears = Ears(runtime)
    turn_id = runtime.agents.receive(runtime.sessions.run(branch.id), "Go on")
    ears.wait("turn_completed", turn_id=turn_id)
    check(runtime)


def test_nobody_hears_of_the_end_of_a_turn_that_goes_on_elsewhere(runtime: Runtime, desk: Desk) -> None:
    desk.holding.add("search")
    desk.ask([("c1", "search", {})])
    ears = Ears(runtime)
    turn_id = say(runtime, "Search")
    ears.wait("tool_started")

    runtime.sessions.branch("s")
    wait_until(lambda: "c1" in desk.held)
    desk.held["c1"]()

    (completed,) = ears.wait("turn_completed", turn_id=turn_id)
    assert completed.context.session_id == "s"
    assert len([event for event in ears.of("turn_completed") if event.context.turn_id == turn_id]) == 1


def test_a_branch_whose_history_was_changed_does_not_run(opened: Open, runtime: Runtime, log: str) -> None:
    branch = runtime.sessions.branch("s")
    last = ends(runtime)[-1]
    runtime.close()
    execute(log, "UPDATE steps SET digest = ? WHERE ? BETWEEN position AND position + count - 1", b"\0", last.position)

    runtime = opened(environment=Desk())

    with pytest.raises(LogUnusableError, match="is not what it was when the branch began"):
        runtime.sessions.run(branch.id)


def test_branches_are_made_from_many_threads_at_once(runtime: Runtime) -> None:
    made = at_once([lambda: runtime.sessions.branch("s")] * 8)

    ids = {branch.id for branch in made if isinstance(branch, SessionInfo)}
    assert len(ids) == 8
    assert all(said(runtime, id_) == said(runtime, "s") for id_ in ids)


def _branch(runtime: Runtime, asked: dict[str, Any]) -> SessionInfo:
    return runtime.sessions.branch(**asked)
