"""What changed in a session between two positions, or is different in two sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import ReceivedAnswer
from reenact.domain.tools import is_array
from reenact.projections.explain.difference import Change, changes_of, difference, document_of
from reenact.projections.explain.history_view import shown
from tests.examples import examples
from tests.projections.audited import AuditedList, played
from tests.projections.histories import Step, World, lineage, steps

HI = ReceivedAnswer(message_id="hi", content=(TextBlock("Hi"),), stop_reason="end_turn", model="gpt.4 x")
_STEP = re.compile(r'\.?([A-Za-z0-9_-]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


def log_of(world: World) -> AuditedList:
    assert isinstance(world.log, AuditedList)
    return world.log


def applied(document: Any, changes: Sequence[Change]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the document after the changes, one after the other."""
    document = msgspec.json.decode(msgspec.json.encode(document))
    for change in changes:
        *way, last = (
            name or (int(number) if number else msgspec.json.decode(key))
            for name, number, key in _STEP.findall(change.path)
        )
        target = document
        for one in way:
            target = target[one]
        if change.kind == "removed":
            assert target[last] == change.before
            del target[last]
        elif change.kind == "added" and is_array(target):
            target.insert(last, change.after)
        else:
            assert change.kind == "added" or target[last] == change.before
            target[last] = change.after
    return document


def mirrored(change: Change) -> tuple[str, str, str, object, object]:
    kinds = {"added": "removed", "removed": "added", "changed": "changed"}
    return kinds[change.kind], change.was or change.path, change.path, change.after, change.before


def as_it_is(change: Change) -> tuple[str, str, str, object, object]:
    return change.kind, change.path, change.was or change.path, change.before, change.after


@given(steps, st.integers(0, 60), st.integers(0, 60), st.sampled_from("aabd"), st.sampled_from("aade"))
@settings(max_examples=examples(60))
def test_the_changes_make_the_right_of_the_left_and_the_other_way_round_they_are_mirrored(
    chosen: list[Step], back: int, forth: int, left: str, right: str
) -> None:
    log = log_of(played(chosen))
    sides: list[tuple[str, int]] = []
    for session_id, less in ((left, back), (right, forth)):
        rows = lineage(log.rows, session_id) or lineage(log.rows, "a")
        sides.append((session_id if lineage(log.rows, session_id) else "a", max(rows[0].position, log.head() - less)))
    (one, at_one), (other, at_other) = sides

    there = difference(log, one, at_one, other, at_other)
    back_again = difference(log, other, at_other, one, at_one)

    before, after = document_of(shown(log, one, at=at_one)), document_of(shown(log, other, at=at_other))
    assert applied(before, there.changes) == after
    assert applied(after, back_again.changes) == before
    assert sorted(map(repr, map(mirrored, there.changes))) == sorted(map(repr, map(as_it_is, back_again.changes)))
    assert bool(there.changes) == (before != after)
    assert len({change.path for change in there.changes if change.kind != "removed"}) == sum(
        change.kind != "removed" for change in there.changes
    )
    assert msgspec.json.decode(msgspec.json.encode(there), type=type(there)) == there
    assert len(there.text().splitlines()) >= 3


def test_nothing_is_different_in_the_same() -> None:
    log = log_of(played([]))

    same = difference(log, "a")

    assert same.changes == ()
    assert same.text().splitlines()[-2:] == [f"    the same up to position {log.head()}", "    no difference"]


def test_what_happens_elsewhere_is_no_difference() -> None:
    world = played([])
    end = world.log.head()
    world.run("b")

    assert difference(log_of(world), "a", end, "a", world.log.head()).changes == ()


def test_what_was_said_and_used_between_two_positions_is_told_by_field() -> None:
    world = played([])
    before = world.log.head()
    world.answer("a", HI)

    found = difference(log_of(world), "a", before)

    assert [(change.path, change.kind) for change in found.changes] == [
        ("agent.state", "changed"),
        ("turn", "changed"),
        ("messages[1]", "added"),
        ('usage.models["gpt.4 x"]', "added"),
        ("usage.unpriced", "changed"),
    ]
    lines = found.text().splitlines()
    assert lines[2] == f"    the same up to position {before}"
    assert lines[lines.index("@@ messages[1] added") + 1 :][:2] == ["+ assistant hi", "+ Hi"]
    assert lines[lines.index("@@ agent.state changed") + 1 :][:2] == ['- "thinking"', '+ "idle"']


def test_a_branch_and_its_origin_are_the_same_up_to_where_it_branches_off() -> None:
    world = played([])
    world.answer("a", HI)
    end = world.log.head()
    world.branch("a", "c")
    world.say("a", "And?")

    found = difference(log_of(world), "c", right="a")

    assert found.common is not None
    assert found.common.position == end
    assert (found.left.session_id, found.right.session_id) == ("c", "a")
    assert [change.path for change in found.changes if change.path.startswith("messages")] == ["messages[2]"]


def test_sessions_that_have_nothing_in_common_say_so() -> None:
    found = difference(log_of(played([])), "a", right="b")

    assert found.common is None
    assert "with no history in common" in found.text()


def test_calls_and_values_are_told_on_lines_that_end_where_they_should() -> None:
    world = played([])
    before = world.log.head()
    text = TextBlock("a\x1b[2J\u202e\n" + "long\n" * 100)
    world.answer(
        "a",
        ReceivedAnswer(
            message_id="asks", content=(text, ToolUseBlock("look", "search", {"q": "x" * 500})), stop_reason="tool_use"
        ),
    )
    world.report("a", result="found\u2028it")

    told = difference(log_of(world), "a", before).text()

    assert not set(told) & {"\x1b", "\u202e", "\u2028"}
    assert max(map(len, told.splitlines())) <= 210
    assert "+ <- call look: found" in told
    assert "more lines; --output-format json has them all" in told


def test_one_is_neither_true_nor_a_fraction() -> None:
    base = document_of(shown(log_of(played([])), "a"))
    left, right = {**base, "rules": {"a": 1, "b": 1}}, {**base, "rules": {"a": True, "b": 1.0}}

    assert [change.path for change in changes_of(left, right)] == ["rules.a", "rules.b"]


def test_moments_that_never_were_are_refused() -> None:
    log = log_of(played([]))

    with pytest.raises(InvalidInputError, match="begins at position 2"):
        difference(log, "a", 1)
    with pytest.raises(SessionNotFoundError):
        difference(log, "a", None, "nobody")
