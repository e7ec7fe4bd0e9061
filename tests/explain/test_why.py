"""Why an event happened, back to what came from outside, and what followed from it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError
from reenact.domain.history.explanation import Outside, causes_of
from reenact.domain.legible import columns
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import ReceivedAnswer
from reenact.projections.explain.why import Link, Why, why
from tests.examples import examples
from tests.projections.audited import AuditedList, decided, played
from tests.projections.histories import Step, World, lineage, steps

HI = ReceivedAnswer(message_id="hi", content=(TextBlock("Hi"),), stop_reason="end_turn", model="small")


def log_of(world: World) -> AuditedList:
    assert isinstance(world.log, AuditedList)
    return world.log


def position(world: World, name: str) -> int:
    """Return where the last event of that class is."""
    return [row.position for row in world.log.rows if type(row.event).__name__ == name][-1]


def positions(links: Sequence[Link]) -> list[int]:
    return [link.position for link in links]


@given(steps, st.integers(0, 80))
@settings(max_examples=examples(40))
def test_causes_and_effects_are_all_that_can_be_reached_in_every_history_that_has_the_event(
    chosen: list[Step], back: int
) -> None:
    log = log_of(played(chosen))
    row = log.rows[max(1, log.head() - back) - 1]

    told = why(log, row.position)

    direct: set[tuple[int, int]] = set()  # an earlier event and one that follows from it, in some history of its
    for session_id in "abcdefgh":
        history = lineage(log.rows, session_id)
        if row in history:
            causes = causes_of(decided(history))
            pairs = {(history[at].position, history[n].position) for n, one in enumerate(causes) for at in one.places}
            direct |= pairs
    assert positions(told.causes) == reached(row.position, {(after, before) for before, after in direct})
    assert positions(told.effects) == reached(row.position, direct)
    for link in (told.event, *told.causes, *told.effects):
        assert link.says.endswith(".")
        assert set(link.causes) == {before for before, after in direct if after == link.position}
        assert link.causes or link.outside
    assert msgspec.json.decode(msgspec.json.encode(told), type=Why) == told
    assert max(map(columns, told.text().splitlines())) <= 80


def reached(start: int, steps: set[tuple[int, int]]) -> list[int]:
    found: set[int] = set()
    ahead = [start]
    while ahead:
        here = ahead.pop()
        more = {after for before, after in steps if before == here} - found
        found |= more
        ahead.extend(more)
    return sorted(found)


def test_an_answer_goes_back_to_the_message_that_came_from_outside() -> None:
    world = played([])
    world.answer("a", HI)

    told = why(log_of(world), position(world, "AnswerRecorded"))

    assert [link.type for link in told.causes] == ["message-accepted", "turn-started"]
    assert told.causes[0].outside == Outside("message")
    assert [link.type for link in told.effects] == ["turn-completed"]


def test_it_is_told_in_lines_that_name_what_each_event_follows_from() -> None:
    world = played([])
    world.answer("a", HI)
    answer = position(world, "AnswerRecorded")

    lines = why(log_of(world), answer).text().splitlines()

    assert lines[0].endswith("  session/a  answer-recorded")
    assert lines[1:] == [
        f'{answer:>6}  The model answered: "Hi".',
        f"        from {answer - 1} and the model small",
        "",
        "Because:",
        f'{answer - 2:>6}  A message came in: "Hello".',
        "        from outside",
        f"{answer - 1:>6}  Turn trn_4 began: the model is asked.",
        f"        from {answer - 2}",
        "",
        "Therefore:",
        f"{answer + 1:>6}  Turn trn_4 ended: completed (end_turn).",
        f"        from {answer}",
    ]


def test_what_follows_in_a_branch_follows_from_what_it_shares() -> None:
    world = played([])
    world.ask("a", ToolUseBlock("look", "search", {}))
    message = position(world, "MessageAccepted")
    world.branch("a", "c")
    world.branch("c", "d")

    told = why(log_of(world), message)

    assert {link.session_id for link in told.effects} == {"a", "c", "d"}
    begun = position(world, "SessionBranched")
    back = why(log_of(world), begun)
    assert back.event.causes == (begun - 1,)
    assert message in positions(back.causes)


def test_containers_and_images_come_from_outside() -> None:
    told = why(log_of(played([])), 1)

    assert (told.event.type, told.event.outside, told.causes, told.effects) == (
        "container-created",
        Outside("caller"),
        (),
        (),
    )
    assert "nothing in the log" in told.text()


def test_events_of_others_are_told_by_the_name_of_their_class() -> None:
    log = AuditedList()
    log.append("counter", 7)

    assert why(log, 1).event.says == "Something happened: int."


def test_of_very_many_events_the_nearest_are_told() -> None:
    world = played([])
    for number in range(30):
        world.ask("a", ToolUseBlock(f"call{number}", "fetch", {"n": number}))
        world.rules = msgspec.structs.replace(world.rules, max_steps=None)
        world.report("a", result=number)

    lines = why(log_of(world), position(world, "MessageAccepted")).text().splitlines()

    assert any("more, farther away; --output-format json has them all" in line for line in lines)
    assert len(lines) < 120


def test_where_there_is_no_event_nothing_is_told() -> None:
    with pytest.raises(InvalidInputError, match="no event at position 999"):
        why(log_of(played([])), 999)
