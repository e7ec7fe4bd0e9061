"""Child sessions: what images may call, what budgets may say, and how a session knows its children and its parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import pytest

from reenact.domain.children import (
    AgentTool,
    Budget,
    ChildEnded,
    ChildOutcome,
    ChildrenInterrupted,
    ChildStarted,
    Parent,
    agent_tool,
    child_id,
)
from reenact.domain.errors import CallNotPendingError, ConfigurationError
from reenact.domain.image import Image, define
from reenact.domain.loop import rounds
from reenact.domain.loop.events import ToolStarted
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import ToolUseBlock
from reenact.domain.operations.images import image_of, requested, travelling
from reenact.domain.session.agent import AgentStarted, AnswerRecorded, ToolsRequested, TurnCompleted, TurnStarted
from reenact.domain.session.state import LIMITS, SessionBranched, SessionCreated, SessionEvent, outcome_of
from reenact.domain.session.turns import COST_LIMIT, MAX_STEPS, REPEATED
from reenact.domain.shards import shard_of
from reenact.domain.stream import events as heard
from tests.domain.session.announced import announced
from tests.domain.session.examples import CREATED, IDLE_SESSION, accepted, session
from tests.jsons import array_at

CALL: Final = ToolUseBlock("c1", "researcher", {"prompt": "Why?"})
ASKS: Final = AnswerRecorded("t1", "m-1", (CALL,), "tool_use", partial=False, usage={}, model="m", at=2)
STARTED: Final = ChildStarted("c1", "ses_c1", "researcher", 3, 1, Budget(steps=5), detached=False, at=2)
CALLING: Final[tuple[SessionEvent, ...]] = (
    *(CREATED, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1), ASKS, ToolsRequested("t1", "thinking")),
    *(ToolStarted(id="c1", name="researcher"), STARTED),
)
PARENT: Final = Parent(session_id="p", version=7, call_id="c1", root="p", depth=1)
BORN: Final = SessionCreated("s", "c", "i", 1, PARENT, Budget(seconds=60))


def ended(outcome: ChildOutcome = "completed", *, steps: int = 1, cost: float | None = None) -> ChildEnded:
    return ChildEnded("c1", "ses_c1", outcome, "end_turn", steps, {"input_tokens": 10}, cost, 9, 12, "ab", 3)


def test_an_image_lists_other_images_as_tools() -> None:
    tool = agent_tool("researcher", description="Finds out.", budget=Budget(cost=0.5))

    definition = define(Image(tools=(tool,)), "i")

    assert definition.agents == (tool,)
    assert (tool.image_id, definition.tools) == ("researcher", ())


def test_the_model_is_told_of_an_ordinary_tool_with_a_prompt() -> None:
    told = agent_tool("ask", "researcher", description="Finds out.").spec_for_model()

    assert (told.name, told.description, told.input_schema["required"]) == ("ask", "Finds out.", ["prompt"])


def test_a_tool_that_is_an_image_travels() -> None:
    tool = agent_tool("ask", "researcher", description="Finds out.", detached=True, budget=Budget(steps=2))

    sent = msgspec.json.decode(msgspec.json.encode(travelling(requested(Image(tools=(tool,))))))

    tools = array_at(sent, "tools")
    assert tools == [
        {
            "name": "ask",
            "image_id": "researcher",
            "description": "Finds out.",
            "detached": True,
            "budget": {"steps": 2},
        }
    ]
    content = requested(Image(tools=tuple(tools)))
    assert define(image_of(content), "i").agents == (tool,)


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ((agent_tool("a", description="x"), agent_tool("a", "b", description="y")), "more than one tool named 'a'"),
        (({"name": "a b", "image_id": "b", "description": ""},), "a name has 1 to 64 letters"),
        (({"name": "a", "image_id": " ", "description": ""},), "names no image"),
        (({"name": "a", "image_id": "b", "description": "", "detached": 7},), "Expected `bool`"),
    ],
)
def test_a_tool_that_could_not_be_called_is_refused(tools: tuple[object, ...], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        define(Image(tools=tools), "i")


def test_a_budget_is_a_budget() -> None:
    wrong = AgentTool(name="a", image_id="b", description="", budget=msgspec.UNSET)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    with pytest.raises(ConfigurationError, match="its budget must be a Budget"):
        define(Image(tools=(wrong,)), "i")


@pytest.mark.parametrize(
    "given", [{"steps": 0}, {"steps": True}, {"tokens": 1.5}, {"cost": -1}, {"cost": float("nan")}, {"seconds": 0}]
)
def test_a_budget_says_amounts(given: Mapping[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(given))} of a budget"):
        Budget(**given)


def test_a_child_has_the_same_id_whenever_it_is_started_and_is_in_the_shard_of_its_root() -> None:
    ids = [
        child_id("ses_1", "c1", 1, root="ses_1"),
        child_id("ses_1", "c2", 1, root="ses_1"),
        child_id("ses_1", "c1", 2, root="ses_1"),
        child_id("ses_11", "c", 1, root="ses_1"),
    ]

    assert child_id("ses_1", "c1", 1, root="ses_1") == ids[0]
    assert len(set(ids)) == 4
    for count in (256, 7):
        assert {shard_of(f"session/{id_}", count=count) for id_ in ids} == {shard_of("session/ses_1", count=count)}


def test_a_call_that_is_a_child_runs_until_the_child_has_ended() -> None:
    state = session(*CALLING)

    (child,) = state.children
    assert (child.id, child.prompt, child.is_open) == ("ses_c1", "Why?", True)
    assert state.round is not None
    assert (state.round.calls[0].kind, state.round.calls[0].stage) == ("child", "running")
    assert state.turn is not None
    assert state.turn.children == 1


def test_a_call_waits_while_its_child_waits_and_nobody_can_decide_about_it_there() -> None:
    state = session(*CALLING, ended("waiting"))

    assert state.round is not None
    assert state.round.calls[0].stage == "waiting"
    assert state.children[0].is_open
    with pytest.raises(CallNotPendingError, match="its child session waits"):
        rounds.rejected(state.round, "c1", "no")


def test_what_a_child_has_used_is_settled_once_each_time_it_ends() -> None:
    state = session(*CALLING, ended("waiting", cost=0.5), ended(steps=2, cost=0.25))

    assert state.ledger.children == Spent(3, {"input_tokens": 20}, 0.75)
    assert state.ledger.cost == 0.75
    assert state.children == ()
    (child,) = state.past_children
    assert (child.outcome, child.prompt, child.steps, child.usage, child.cost) == (
        "completed", "", 3, {"input_tokens": 20}, 0.75,
    )  # fmt: skip
    unpriced = session(*CALLING, ended())
    assert unpriced.ledger.children.unpriced == 1
    assert session(*CALLING, ended("unknown"), ended("failed")).past_children[0].outcome == "failed"
    assert session(*CALLING, ended("failed"), ended("completed")).past_children[0].outcome == "failed"


def test_children_that_are_interrupted_are_until_the_turn_ends() -> None:
    interrupted = ChildrenInterrupted("user", 5)
    state = session(*CALLING, interrupted)

    assert state.interrupted == interrupted
    over = session(*CALLING, interrupted, TurnCompleted("t1", "interrupted", "interrupted", {}, 0.0, "tool_executing"))
    assert over.interrupted is None


def test_a_child_knows_its_parent_its_budget_and_how_it_has_done_its_part() -> None:
    begun = (BORN, AgentStarted("a"), accepted("t1"), TurnStarted("t1", 1))
    state = session(*begun, TurnCompleted("t1", "completed", "max_tokens", {}, 1.5, "thinking"))

    assert (state.parent, state.budget) == (PARENT, Budget(seconds=60))
    assert state.seconds == 1.5
    assert state.ended is not None
    assert state.ended.outcome == "limit"
    later = (accepted("t2"), TurnStarted("t2", 1), TurnCompleted("t2", "failed", "error", {}, 0.0, "thinking"))
    assert session(*begun, TurnCompleted("t1", "completed", "end_turn", {}, 0.0, "idle"), *later).ended == (
        msgspec.structs.replace(state.ended, outcome="completed", stop_reason="end_turn")
    )


def test_what_was_cut_short_is_never_completed() -> None:
    assert {MAX_STEPS, COST_LIMIT, REPEATED} < LIMITS
    assert outcome_of("interrupted", COST_LIMIT) == "limit"
    assert outcome_of("completed", "refusal") == "failed"
    assert outcome_of("completed", "end_turn") == "completed"


def test_a_branch_has_none_of_the_children() -> None:
    state = session(*CALLING, ended(cost=1.0), SessionBranched("b", "c", "i", 1, "s", 9, ""))

    assert (state.children, state.parent, state.ledger.cost) == ((), None, 1.0)


def test_subscribers_hear_of_children() -> None:
    (_, started), (context, over) = announced(session(*CALLING[:-1]), (STARTED, ended(cost=0.5)))

    assert started == heard.ChildStarted(
        call_id="c1", child_id="ses_c1", image_id="researcher", image_revision=3, depth=1, budget=Budget(steps=5),
        detached=False,
    )  # fmt: skip
    assert over == heard.ChildEnded(
        call_id="c1", child_id="ses_c1", outcome="completed", stop_reason="end_turn", steps=1,
        usage={"input_tokens": 10}, cost=0.5, version=9, cursor=12, digest="ab",
    )  # fmt: skip
    assert context.turn_id == "t1"
    assert announced(session(*CALLING), (ChildrenInterrupted("user", 1),)) == []


def test_subscribers_hear_whose_child_a_session_is() -> None:
    ((_, data),) = announced(session(), (BORN,))

    assert data == heard.SessionCreated(session_id="s", container_id="c", image_id="i", parent=PARENT)
    assert announced(session(), (CREATED,))[0][1] == heard.SessionCreated(
        session_id="s", container_id="c", image_id="i"
    )
    assert IDLE_SESSION.parent is None
