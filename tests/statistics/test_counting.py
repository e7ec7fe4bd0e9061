"""Figures are those that somebody finds who counts the events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError
from reenact.domain.messages import EPOCH, instant
from reenact.projections.statistics.counting import statistics_of
from reenact.projections.statistics.figures import (
    ApprovalFigures,
    By,
    CallFigures,
    Figures,
    Percentiles,
    Spending,
    Statistics,
    TurnFigures,
    percentiles,
)
from reenact.projections.statistics.selection import ALL, Selection
from tests.projections import naive
from tests.projections.histories import Recorded, Step, play, steps
from tests.projections.naive import Fact
from tests.statistics.counted import MONDAY, SECOND, TUESDAY, at_utc, small_log, tables_of

NEVER = Percentiles()


def counted(by: By | None = None, selection: Selection = ALL) -> Statistics:
    with tables_of(small_log()) as tables:
        return statistics_of(tables, by, selection)


def once(*seconds: float) -> Percentiles:
    return percentiles(seconds)


TOTAL = Figures(
    key=None,
    turns=TurnFigures(
        count=5,
        outcomes={"completed": 2, "failed": 1, "waiting": 2},
        errors={"overloaded_error": 1},
        duration=Percentiles(count=5, p50=2.0, p90=6.0, p99=6.0),
    ),
    answers=Spending(count=5, tokens_in=1170, tokens_out=129, tokens_cached=50, cost=0.8125, unpriced=2),
    first_delta=Percentiles(count=3, p50=0.5, p90=0.75, p99=0.75),
    calls=CallFigures(
        count=3, failed=1, denied=1, cost=0.125, duration=Percentiles(count=2, p50=2.0, p90=4.0, p99=4.0)
    ),
    approvals=ApprovalFigures(
        count=2,
        decisions={"approved": 1, "rejected": 1},
        waited=Percentiles(count=2, p50=30.0, p90=90.0, p99=90.0),
        waiting=1,
    ),
)


def test_all_is_counted_once_also_what_a_branch_goes_on_with_and_what_was_deleted() -> None:
    log = small_log()

    found = counted()

    assert found == Statistics(position=log.head(), by=None, since=None, until=None, total=TOTAL, groups=())
    assert found.total.cost == 0.9375


def test_days_are_told_apart() -> None:
    monday, tuesday = (found := counted("day")).groups

    assert found.total == TOTAL
    assert (monday.key, tuesday.key) == ("2026-01-05", "2026-01-06")
    assert monday.turns == TurnFigures(
        count=2, outcomes={"completed": 1, "waiting": 1}, errors={}, duration=once(3.0, 6.0)
    )
    assert monday.answers == Spending(count=2, tokens_in=160, tokens_out=25, tokens_cached=50, cost=0.75)
    assert monday.calls == CallFigures(count=2, failed=1, denied=0, cost=0.125, duration=once(2.0, 4.0))
    assert monday.approvals == ApprovalFigures(count=1, decisions={"approved": 1}, waited=once(90.0), waiting=1)
    assert tuesday.turns is not None
    assert tuesday.turns.errors == {"overloaded_error": 1}
    assert tuesday.answers == Spending(count=3, tokens_in=1010, tokens_out=104, cost=0.0625, unpriced=2)
    assert tuesday.calls == CallFigures(count=1, failed=0, denied=1, duration=NEVER)


def test_what_a_model_asked_for_is_its_own() -> None:
    nobody, haiku, llama, opus = counted("model").groups

    assert [one.key for one in (nobody, haiku, llama, opus)] == ["", "haiku", "llama", "opus"]
    assert nobody.turns is not None
    assert nobody.turns.outcomes == {"failed": 1}
    assert haiku.answers == Spending(count=1, tokens_in=1000, tokens_out=100, cost=0.0625)
    assert llama.answers == Spending(count=2, tokens_in=10, tokens_out=4, unpriced=2)
    assert llama.first_delta == once(0.5)
    assert (llama.calls.denied, llama.approvals.decisions) == (1, {"rejected": 1})
    assert (opus.calls.count, opus.calls.failed, opus.approvals.waiting) == (2, 1, 1)


def test_tools_have_calls_and_approvals_alone() -> None:
    drop, pay, search, send = counted("tool").groups

    assert [one.key for one in (drop, pay, search, send)] == ["drop", "pay", "search", "send"]
    assert {(one.turns, one.answers, one.first_delta) for one in (drop, pay, search, send)} == {(None, None, None)}
    assert drop.calls == CallFigures(count=1, failed=0, denied=1, duration=NEVER)
    assert pay.calls == CallFigures(count=1, failed=1, denied=0, duration=once(4.0))
    assert pay.approvals == ApprovalFigures(count=1, decisions={"approved": 1}, waited=once(90.0), waiting=1)
    assert (search.calls.cost, search.cost) == (0.125, 0.125)
    assert send.calls.count == 0
    assert send.approvals.decisions == {"rejected": 1}


@pytest.mark.parametrize(
    ("by", "keys", "waiting"), [("image", ["clerk", "scout"], [0, 1]), ("session", ["one", "three", "two"], [0, 1, 0])]
)
def test_images_and_sessions_are_told_apart(by: By, keys: list[str], waiting: list[int]) -> None:
    groups = counted(by).groups

    assert [one.key for one in groups] == keys
    assert [one.approvals.waiting for one in groups] == waiting
    assert sum(one.turns.count for one in groups if one.turns is not None) == 5


@pytest.mark.parametrize(
    ("selection", "turns", "answers", "waiting"),
    [
        (Selection(session_id="two"), 2, 2, 0),
        (Selection(image_id="clerk"), 3, 3, 0),
        (Selection(container_id="lab"), 2, 2, 1),
        (Selection(since=at_utc(TUESDAY)), 3, 3, 0),
        (Selection(until=at_utc(TUESDAY)), 2, 2, 1),
        (Selection(since=at_utc(MONDAY + 2 * SECOND), until=at_utc(TUESDAY + 1), session_id="one"), 3, 2, 0),
        (Selection(session_id="no such"), 0, 0, 0),
    ],
)
@pytest.mark.parametrize("by", [None, "day", "model"])
def test_parts_of_a_log_can_be_counted(
    by: By | None, selection: Selection, turns: int, answers: int, waiting: int
) -> None:
    total = counted(by, selection).total

    assert total.turns is not None
    assert total.answers is not None
    assert (total.turns.count, total.answers.count, total.approvals.waiting) == (turns, answers, waiting)


def test_what_figures_cannot_be_told_apart_by_is_refused() -> None:
    by: Any = "week"

    with pytest.raises(InvalidInputError, match="`by` must be day, model, tool, image or session, not 'week'"):
        counted(by)


@given(st.lists(st.floats(0, 1e6), max_size=250))
def test_a_percentile_is_the_least_time_in_which_so_many_were_done(seconds: list[float]) -> None:
    found = percentiles(seconds)

    assert found.count == len(seconds)
    for percent, value in ((50, found.p50), (90, found.p90), (99, found.p99)):
        if value is None:
            assert not seconds
            continue
        assert value in seconds
        assert sum(one <= value for one in seconds) * 100 >= percent * len(seconds)
        assert sum(one < value for one in seconds) * 100 < percent * len(seconds)


AT, DAY, MODEL = 2, 3, 4
"""Where these stand in the naive rows."""


@given(steps, st.sampled_from([None, "day", "model", "tool", "image", "session"]), st.integers(0, 200))
def test_figures_are_sums_over_the_events(chosen: list[Step], by: By | None, begin: int) -> None:
    log = play(chosen).log
    rows = log.rows
    since = instant(rows[begin % len(rows)].recorded_at) if rows else EPOCH

    with tables_of(log) as tables:
        found = statistics_of(tables, by, Selection(since=since))

    key = keys_of(rows, by)
    begun = (since - EPOCH) // timedelta(microseconds=1)
    answers, turns, calls, decisions = (
        [one for one in facts if number(one[AT]) >= begun]
        for facts in (naive.answers(rows), naive.turn_ends(rows), naive.call_ends(rows), naive.decisions(rows))
    )
    told = {one.key: one for one in found.groups}
    for name, figures in [(None, found.total), *told.items()]:

        def of(facts: Iterable[Fact], kind: str, name: str | None = name) -> list[Fact]:
            return [one for one in facts if name is None or key(kind, one) == name]

        if figures.answers is not None and figures.turns is not None and figures.first_delta is not None:
            mine = of(answers, "answer")
            assert figures.answers.count == len(mine)
            assert figures.answers.tokens_in == sum(number(one[5]) for one in mine)
            assert figures.answers.tokens_out == sum(number(one[6]) for one in mine)
            assert figures.answers.tokens_cached == sum(number(one[7]) for one in mine)
            assert figures.answers.cost == pytest.approx(sum(one[8] for one in mine if isinstance(one[8], float)))
            assert figures.answers.unpriced == sum(one[8] is None for one in mine)
            assert figures.first_delta == percentiles([one[9] for one in mine if isinstance(one[9], float)])
            ended = of(turns, "turn")
            assert figures.turns.outcomes == Counter(one[5] for one in ended)
            assert figures.turns.errors == Counter(one[6] for one in ended if one[6] is not None)
            assert figures.turns.duration == percentiles([one[7] for one in ended if isinstance(one[7], float)])
        results, decided = of(calls, "call"), of(decisions, "decision")
        assert figures.calls.count == len(results)
        assert figures.calls.failed == sum(number(one[6]) for one in results)
        assert figures.calls.denied == sum(number(one[7]) for one in results)
        assert figures.calls.duration == percentiles([one[8] for one in results if isinstance(one[8], float)])
        assert figures.approvals.decisions == Counter(one[6] for one in decided)
        assert figures.approvals.waited == percentiles([one[7] for one in decided if isinstance(one[7], float)])
    everything = [("answer", answers), ("turn", turns), ("call", calls), ("decision", decisions)]
    if by is not None:
        names = {key(kind, one) for kind, facts in everything for one in facts} - {None}
        assert names <= told.keys()
        assert all(told[name].approvals.waiting for name in told.keys() - names)


def keys_of(rows: Sequence[Recorded], by: By | None) -> Callable[[str, Fact], str | None]:
    """Return what tells by which key a fact of some kind is counted; None if by none."""
    begun = {row.position: event for row, event in naive._begun(rows)}
    models = {one[0]: one[MODEL] for one in naive.answers(rows)}

    def key(kind: str, fact: Fact) -> str | None:
        session = begun[number(fact[1])]
        is_of_call = kind in ("call", "decision")
        match by:
            case "day":
                return (EPOCH + timedelta(days=number(fact[DAY]))).date().isoformat()
            case "model":
                return str(models[fact[4]] if is_of_call else fact[MODEL])
            case "tool":
                return str(fact[5]) if is_of_call else None
            case "image":
                return session.image_id
            case _:
                return session.session_id

    return key


def number(cell: object) -> int:
    assert isinstance(cell, int)
    return cell
