"""A session goes over to another image when nothing of a turn is left, and its agent is given what was said or not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from reenact.domain.children import Budget, Parent
from reenact.domain.conversation import summary_message
from reenact.domain.errors import ConfigurationError, ImageNotFoundError, InvalidInputError, SessionNotFoundError
from reenact.domain.image import Image, define, rules_of
from reenact.domain.loop.events import ToolResult
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Said, TextBlock
from reenact.domain.operations.checks import checked
from reenact.domain.operations.table import SessionSwitchRequest
from reenact.domain.session.agent import AgentStopped, ContextCompressed, HandoverRequested, ImageChanged, TurnStarted
from reenact.domain.session.commands import BeginChild, Compress, CreateSession, Receive, Stop, Switch
from reenact.domain.session.state import Session, SessionDeleted, evolve, for_model
from reenact.domain.tools import Handover, History, ToolSpec, handover_tool
from tests.domain.session.examples import CREATED, DELETE, DELETED, HELLO, IDLE, IDLE_SESSION, NEW, STOP
from tests.domain.session.loops import (
    ASKED,
    AT,
    CAREFUL,
    PAY,
    PRICED,
    RUNNING,
    USAGE,
    after,
    approve,
    asks,
    believe,
    decide,
    finish,
    interrupt,
    receive,
    report,
    says,
)

BORN = BeginChild(
    session_id="s",
    container_id="c",
    image_id="i",
    image_revision=1,
    parent=Parent(session_id="p", version=7, call_id="c1", root="p", depth=1),
    budget=Budget(),
    agent_id="a",
    turn_id="t1",
    message_id="m-t1",
    content=HELLO,
    at=AT,
)
TO_J = Switch(session_id="s", image_id="j", image_revision=3, history="all")
CHANGED = ImageChanged("j", 3, "all")
WAITING = after(ASKED, finish(asks(PAY), CAREFUL))
REQUESTED = HandoverRequested("j", 3, "all")


def to(image_id: str, history: History = "all") -> Switch:
    return Switch(session_id="s", image_id=image_id, image_revision=1, history=history)


def talked(*texts: str, session: Session = IDLE) -> Session:
    """Return the session after these questions, each of which was answered."""
    for text in texts:
        turn_id = f"t{len(session.conversation)}"
        asked = Receive(agent_id="a", turn_id=turn_id, message_id=f"m{turn_id}", content=(TextBlock(text),), at=1)
        session = after(session, asked, finish(says("Well", message_id=f"a{turn_id}"), turn_id=turn_id))
    return session


def compress(turn_id: str, kept: int) -> Compress:
    return Compress(turn_id=turn_id, summary="so far", kept=kept, usage=USAGE, model="m", at=AT, rules=PRICED)


def given(session: Session) -> list[str]:
    return [said.text for said in for_model(session)]


@pytest.mark.parametrize("session", [IDLE, IDLE_SESSION, talked("Hello")])
def test_where_nothing_is_under_way_it_goes_over_at_once(session: Session) -> None:
    assert decide(session, TO_J) == (CHANGED,)

    there = after(session, TO_J)

    assert (there.image_id, there.image_revision) == ("j", 3)
    assert (there.agent, there.queue) == (session.agent, session.queue)
    assert decide(there, TO_J) == ()


@pytest.mark.parametrize("session", [NEW, DELETED])
def test_what_is_not_there_goes_nowhere(session: Session) -> None:
    with pytest.raises(SessionNotFoundError):
        decide(session, TO_J)


@pytest.mark.parametrize("session", [ASKED, RUNNING, WAITING])
def test_it_waits_for_the_end_of_the_turn_and_of_its_calls(session: Session) -> None:
    assert decide(session, TO_J) == (REQUESTED,)

    waits = after(session, TO_J)

    assert (waits.image_id, waits.image_revision) == ("i", 1)
    assert decide(waits, TO_J) == ()
    assert decide(waits, to("k")) == (HandoverRequested("k", 1, "all"),)


def test_at_the_end_of_the_turn_the_next_one_begins_on_the_other_image() -> None:
    waits = after(ASKED, receive("t2"), TO_J)

    events = decide(waits, finish(says("Hi")))

    assert events[-2:] == (CHANGED, TurnStarted("t2", AT))
    assert believe(waits, events).handover is None


def test_the_limits_of_the_former_image_do_not_hold_for_the_next_turn() -> None:
    spent = Rules(cost_limit=CostLimit(0.0))
    costly = msgspec.structs.replace(
        after(ASKED, receive("t2"), TO_J), ledger=ASKED.ledger.with_model("m", {"input_tokens": 1}, 1.0)
    )

    events = decide(costly, finish(says("Hi"), spent))

    assert events[-2:] == (CHANGED, TurnStarted("t2", AT))


def test_calls_that_wait_for_a_person_are_those_of_the_agent_that_asked() -> None:
    ended = after(ASKED, finish(asks(PAY), CAREFUL), TO_J)
    assert (ended.turn, ended.image_id) == (None, "i")

    goes_on = after(ended, approve("b"), report("b", turn_id="t7", rules=CAREFUL))
    assert goes_on.image_id == "i"

    assert after(goes_on, finish(says("Paid", message_id="m2"), CAREFUL, turn_id="t7")).image_id == "j"


def test_an_agent_that_is_stopped_leaves_the_session_to_the_other_image() -> None:
    waits = after(ASKED, TO_J)

    events = decide(waits, STOP)

    assert [type(event) for event in events[-2:]] == [AgentStopped, ImageChanged]
    assert after(waits, STOP).agent is None


def test_a_child_that_has_done_its_part_goes_over_when_its_agent_has_stopped() -> None:
    child = after(NEW, BORN, receive("t2"), TO_J)

    events = decide(child, finish(says("Hi")))

    assert [type(event) for event in events[-2:]] == [AgentStopped, ImageChanged]
    assert [queued.turn_id for queued in believe(child, events).queue] == ["t2"]


def test_calls_that_are_given_up_without_an_agent_keep_it_no_longer() -> None:
    waits = after(ASKED, finish(asks(PAY), CAREFUL), TO_J, Stop(agent_id=None, reason="crash", at=AT))

    assert decide(waits, msgspec.structs.replace(interrupt(), agent_id=None))[-1] == CHANGED


def test_a_session_that_is_deleted_goes_nowhere() -> None:
    assert isinstance(decide(after(ASKED, TO_J), DELETE)[-1], SessionDeleted)


def test_a_call_that_waits_goes_on_waiting_when_the_agent_is_stopped() -> None:
    waits = after(ASKED, finish(asks(PAY), CAREFUL), TO_J)

    assert after(waits, Stop(agent_id=None, reason="crash", at=AT)).image_id == "i"


def test_a_call_asks_for_it_together_with_its_answer() -> None:
    asked = HandoverRequested("j", 3, "none", "a")

    events = decide(RUNNING, msgspec.structs.replace(report("a"), handover=asked))

    assert events[0] == asked
    assert isinstance(events[1], ToolResult)
    ended = after(believe(RUNNING, events), finish(says("Bye", message_id="m2")))
    assert (ended.image_id, given(ended)) == ("j", [])


def test_a_call_that_nobody_waits_for_any_more_asks_for_nothing() -> None:
    told = msgspec.structs.replace(report("a"), handover=HandoverRequested("j", 3, "none", "a"))

    assert decide(after(RUNNING, STOP), told) == ()


def test_the_agent_is_given_all() -> None:
    there = after(talked("Hello", "How?"), to("j"))

    assert for_model(there) is there.conversation


def test_the_agent_is_given_nothing_until_one_is_given_all_again() -> None:
    there = talked("My bill", session=after(talked("Hello"), to("j", "none")))

    assert given(there) == ["My bill", "Well"]
    assert given(after(there, to("i"))) == ["Hello", "Well", "My bill", "Well"]


def test_nothing_of_before_may_be_given_to_the_same_agent() -> None:
    again = after(talked("Hello"), to("i", "none"))

    assert given(again) == []
    assert given(after(again, to("i"))) == ["Hello", "Well"]
    assert decide(after(again, to("i")), to("i")) == ()


def test_a_summary_is_wanted_until_there_is_one() -> None:
    there = after(talked("Hello"), to("j", "summary"))
    assert there.summarise

    asked = after(there, receive("t9"))
    told = after(asked, compress("t9", kept=1))

    assert not told.summarise
    assert for_model(told) == (summary_message("so far"), Said("user", (TextBlock("Hello"),)))
    assert not after(there, to("k")).summarise


def test_a_summary_of_what_one_agent_was_given_leaves_what_was_said_before_to_others() -> None:
    cut = talked("My bill", "And?", session=after(talked("Hello"), to("j", "none")))

    short = evolve(cut, ContextCompressed("t9", "a bill", 4, {}, None, None, 1))

    assert given(short)[0].endswith("a bill")
    assert given(short)[1:] == ["And?", "Well"]
    back = given(after(short, to("i")))
    assert back[:2] == ["Hello", "Well"]
    assert back[2].endswith("a bill")
    assert back[3:] == ["And?", "Well"]


def test_summaries_of_what_several_agents_were_given_stand_one_behind_the_other() -> None:
    first = evolve(talked("Hello", "How?"), ContextCompressed("t9", "one", 2, {}, None, None, 1))
    second = evolve(
        talked("My bill", "And?", session=after(first, to("j", "none"))),
        ContextCompressed("t9", "two", 6, {}, None, None, 1),
    )
    third = evolve(
        talked("Thanks", "Bye", session=after(second, to("k", "none"))),
        ContextCompressed("t9", "three", 10, {}, None, None, 1),
    )
    last = evolve(third, ContextCompressed("t9", "four", 12, {}, None, None, 1))

    before = [summary_message("one").text, "How?", "Well", summary_message("two").text, "And?", "Well"]
    assert given(after(third, to("i"))) == [*before, summary_message("three").text, "Bye", "Well"]
    assert given(after(last, to("i"))) == [*before, summary_message("four").text]
    assert given(last) == [summary_message("four").text]


def test_what_was_not_given_is_in_no_summary() -> None:
    cut = after(talked("Hello"), to("j", "none"), receive("t9"))

    assert decide(cut, compress("t9", kept=2)) == ()
    assert decide(cut, compress("t9", kept=1)) == ()


def test_a_tool_hands_over_by_its_name() -> None:
    spec = handover_tool("billing", history="none")

    assert (spec.name, spec.handover) == ("hand_over_to_billing", Handover(image="billing", history="none"))
    rules = rules_of(define(Image(tools=(spec, handover_tool("a b", name="go"))), "i"), {}, 100)
    assert rules.handovers == {"hand_over_to_billing": spec.handover, "go": Handover(image="a b")}
    assert rules.idempotent == ("go", "hand_over_to_billing")


def test_a_tool_that_hands_over_may_be_given_as_a_mapping() -> None:
    plain = msgspec.to_builtins(handover_tool("billing"))

    assert define(Image(tools=(plain,)), "i").tools == (handover_tool("billing"),)


@pytest.mark.parametrize(
    "make", [lambda: handover_tool(""), lambda: handover_tool("b", name="no blanks"), lambda: handover_tool("\ud800")]
)
def test_a_tool_that_cannot_hand_over_is_refused(make: Callable[[], ToolSpec]) -> None:
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize(
    ("image", "history", "error"),
    [("", "all", ImageNotFoundError), ("j", "some", InvalidInputError), (7, "all", ImageNotFoundError)],
)
def test_a_request_that_names_nothing_is_refused(image: str, history: History, error: type[Exception]) -> None:
    with pytest.raises(error):
        checked(SessionSwitchRequest(session_id="s", image=image, history=history))


def test_a_session_is_created_on_an_image_of_its_own() -> None:
    create = CreateSession(session_id="s", container_id="c", image_id="i", image_revision=1)

    assert decide(NEW, create) == (CREATED,)
