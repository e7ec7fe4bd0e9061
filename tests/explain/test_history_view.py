"""A session as it was at a position of the log: what a naive reading of the log up to there says."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.attachments import Base64Source, DocumentBlock, ImageBlock, TextSource
from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.domain.messages import OpaqueBlock, Said, TextBlock, ThinkingBlock, ToolUseBlock, instant
from reenact.domain.session.agent import MessageAccepted, ReceivedAnswer, TurnCompleted, TurnStarted
from reenact.domain.session.state import BranchPoint
from reenact.projections.explain.history import moment_of
from reenact.projections.explain.history_view import Shown, shown
from tests.domain.session.history import Fact, spent
from tests.examples import examples
from tests.projections import naive
from tests.projections.audited import AuditedList, events_of, played
from tests.projections.histories import RULES, START, Recorded, Step, World, lineage, steps

SEND = ToolUseBlock("mail", "send", {"to": "ann"})
SURE = ToolUseBlock("sure", "ask_user", {"prompt": "Which?", "options": ["a", "b"]})


def log_of(world: World) -> AuditedList:
    assert isinstance(world.log, AuditedList)
    return world.log


@given(steps, st.integers(0, 80))
@settings(max_examples=examples(60))
def test_a_session_is_shown_as_a_naive_reading_of_the_log_up_to_there_has_it(chosen: list[Step], back: int) -> None:
    log = log_of(played(chosen))
    at = max(2, log.head() - back)
    rows = log.rows[:at]
    own = lineage(rows, "a")

    seen = shown(log, "a", at=at)

    assert (seen.events, seen.last.position, seen.last.version) == (len(own), own[-1].position, own[-1].version)
    assert seen.created_at == instant(own[0].recorded_at)
    assert [Said(said.role, said.content, refused=said.stop_reason == "refusal") for said in seen.messages] == [
        said for said in moment_of(log, "a", at=at).session.conversation if said.content
    ]
    if naive.sessions(rows)[:1] and not seen.deleted:
        taken = {event.turn_id for _, event in naive.of(own, TurnStarted)}
        over = {event.turn_id for _, event in naive.of(own, TurnCompleted)}
        asked = [event for _, event in naive.of(own, MessageAccepted) if event.turn_id not in taken | over]
        waiting = [(event.message_id, event.turn_id, event.content, instant(event.at)) for event in asked]
        said = [one for one in naive.messages(rows, "a") if one.id not in {message_id for message_id, *_ in waiting}]
        assert list(seen.messages) == said
        assert list(map(attrgetter("id", "turn_id", "content", "accepted_at"), seen.queue)) == waiting
        assert list(seen.calls) == naive.calls(rows, "a")
        assert [(call.id, call.turn_id, call.kind) for call in seen.pending] == naive.pending(rows, "a")
        used = spent([Fact(event, RULES["x"]) for event in events_of(own)])
        assert Counter(f"model {name}" for name, one in seen.usage.models.items() for _ in range(one.calls)) + Counter(
            f"tool {name}" for name, one in seen.usage.tools.items() for _ in range(one.calls)
        ) == Counter(by for by, _, _ in used)
        assert seen.usage.cost == pytest.approx(sum(cost or 0.0 for _, _, cost in used))
        agents = [agent for agent in naive.agents(rows) if agent.session_id == "a"]
        live = [] if seen.agent is None else [seen.agent]
        assert [(one.id, one.started_at) for one in live] == [(one.id, one.started_at) for one in agents]
        turn_ids = [] if seen.turn is None else [seen.turn.id]
        assert turn_ids == [agent.turn_id for agent in agents if agent.turn_id is not None] or not agents
        if is_between_decisions(own, log.rows):
            assert [one.state for one in live] == [one.state for one in agents]


def is_between_decisions(own: list[Recorded], rows: list[Recorded]) -> bool:
    """Return whether the state of the agent is settled: a naive reading of half a decision knows none."""
    return own[-1] == [row for row in rows if row.stream == own[-1].stream][-1]


@given(steps)
@settings(max_examples=examples(20))
def test_any_moment_can_be_read_as_json_and_as_a_page(chosen: list[Step]) -> None:
    log = log_of(played(chosen))

    for at in range(2, log.head() + 1):
        seen = shown(log, "a", at=at)
        again = msgspec.json.decode(msgspec.json.encode(seen), type=Shown)
        assert again.text() == seen.text()


def test_a_page_says_who_and_what_and_what_is_under_way() -> None:
    world = played([])
    world.ask("a", SEND, SURE, ToolUseBlock("look", "search", {}), usage={"input_tokens": 1000})
    world.say("a", "And?")

    page = shown(log_of(world), "a").text().splitlines()

    assert page[0].split() == ["Session", "a"]
    assert any(line.startswith("Agent") and "agt_1, tool_executing" in line for line in page)
    assert any("send(to: " in line and "call mail" in line for line in page)
    under_way = page[page.index("Under way") :]
    facts = [line.strip().partition(" since ")[0] for line in under_way]
    assert "turn trn_4, step 1," in facts
    assert "call mail, approval," in facts
    assert "call sure, select," in facts
    assert "runs: search()  call look" in facts
    assert "waits for a person: Which?" in facts
    assert any("digest " in line for line in under_way)
    assert [line.strip() for line in under_way if line.strip().startswith("- ")] == ["- a", "- b"]
    assert any("waits for its turn: msg_" in line for line in under_way)
    assert [queued.text for queued in shown(log_of(world), "a").queue] == ["And?"]
    assert any("model small: 1 use, 1000 input_tokens, cost 0.003" in line for line in page)


def test_the_end_of_a_session_can_be_shown() -> None:
    world = played([])
    world.answer("a", ReceivedAnswer(message_id="hi", content=(TextBlock("Hi"),), stop_reason="end_turn"))
    world.delete("a")

    seen = shown(log_of(world), "a")

    assert seen.deleted
    assert [message.text for message in seen.messages] == ["Hello", "Hi"]
    assert "a (deleted)" in seen.text().splitlines()[0]


def test_a_branch_of_a_deleted_session_can_be_shown() -> None:
    world = played([])
    world.answer("a", ReceivedAnswer(message_id="hi", content=(TextBlock("Hi"),), stop_reason="end_turn"))
    world.delete("a")
    world.branch("a", "d")
    world.delete("d")
    world.branch("d", "e")

    for branch, deleted in (("d", True), ("e", False)):
        seen = shown(log_of(world), branch)
        assert seen.deleted is deleted
        assert seen.origin is not None
        assert [message.text for message in seen.messages] == ["Hello", "Hi"]


def test_a_session_in_which_nothing_was_said_says_so() -> None:
    page = shown(log_of(played([])), "b").text()

    assert "nothing has been said" in page
    assert "Under way" not in page
    assert "Used" not in page


def test_everything_that_a_message_can_hold_is_shown_and_nothing_of_it_is_obeyed() -> None:
    world = played([])
    blocks = (
        ThinkingBlock("Hm", "signed"),
        TextBlock("a\x1b[2J\u202eb\u2028\n" + "line\n" * 100),
        TextBlock("x" * 1_000_000),
        ImageBlock(Base64Source("image/png", "AAAA")),
        DocumentBlock(TextSource("the text")),
        OpaqueBlock({"type": "server_tool_use"}),
    )
    world.answer("a", ReceivedAnswer(message_id="hi", content=blocks, stop_reason="end_turn"))

    page = shown(log_of(world), "a").text()

    assert "(thinking) Hm" in page
    assert "a\\u001b[2J\\u202eb" in page
    assert "more characters; --output-format json has them all" in page
    assert '[image] {"type":"base64"' in page
    assert "the text" in page
    assert "server_tool_use" in page
    assert not set(page) & {"\x1b", "\u202e", "\u2028"}
    assert len(page) < 60_000


def test_what_was_answered_in_part_or_summarised_is_told_so() -> None:
    world = played([])
    world.interrupt("a", ReceivedAnswer(message_id="hi", content=(TextBlock("Hal"),), model="small"))
    world.say("a", "Go on")
    world.compress("a", {})

    page = shown(log_of(world), "a").text()

    assert "assistant (in part: interrupted)" in page
    assert "(The model is given this in place of everything above:)\n    in short" in page


def test_a_branch_is_shown_with_what_it_shares() -> None:
    world = played([])
    world.answer("a", ReceivedAnswer(message_id="hi", content=(TextBlock("Hi"),), stop_reason="end_turn"))
    log = log_of(world)
    last = shown(log, "a").last
    world.branch("a", "c")

    branch = shown(log, "c")

    assert branch.origin == BranchPoint(session_id="a", version=last.version, position=last.position)
    assert branch.messages == shown(log, "a").messages
    assert branch.created_at == instant(START + 1000 * (last.position + 1))
    assert f"a, behind its event {last.version}, position {last.position}" in branch.text()


def test_before_it_begins_a_branch_is_shown_as_its_origin_was() -> None:
    world = played([])
    world.ask("a", SEND)
    log = log_of(world)
    before = log.head()
    world.branch("a", "c")

    origin, branch = shown(log, "a", at=before), shown(log, "c", at=before)

    assert branch.messages == origin.messages
    assert [(call.id, call.session_id) for call in branch.calls] == [("mail", "c")]
    assert [(call.id, call.session_id) for call in branch.pending] == [("mail", "c")]
    assert msgspec.structs.replace(branch, session_id="a", calls=(), pending=(), usage=origin.usage) == (
        msgspec.structs.replace(origin, calls=(), pending=())
    )


def test_a_moment_that_never_was_is_refused() -> None:
    log = log_of(played([]))

    with pytest.raises(InvalidInputError, match="begins at position 2, behind 1"):
        shown(log, "a", at=1)
    with pytest.raises(InvalidInputError, match=f"the log ends at {log.head()}"):
        shown(log, "a", at=10**30)
    with pytest.raises(SessionNotFoundError):
        shown(log, "nobody")
    with pytest.raises(SessionNotFoundError):
        shown(log, "\ud800")
