"""Figures read as a table, and as CSV."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis.strategies import text

from reenact.domain.legible import display_safe
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import AgentStarted, AnswerRecorded, MessageAccepted, TurnCompleted, TurnStarted
from reenact.domain.session.state import SessionCreated
from reenact.projections.statistics.counting import statistics_of
from reenact.projections.statistics.figures import By, Figures, Statistics
from reenact.projections.statistics.report import csv_of, text_of
from tests.statistics.counted import MONDAY, TimedLog, small_log, tables_of

TOTAL = """\
turns       5, 2 completed, 1 failed, 2 waiting, took 2.00 s (p50), 6.00 s (p90), 6.00 s (p99)
errors      1 overloaded_error
answers     5, first delta after 0.50 s (p50), 0.75 s (p90), 0.75 s (p99)
tokens      1,170 in, 50 of them cached
            129 out
cost        0.9375, answers without a price: 2
calls       3, 1 failed, 1 denied, took 2.00 s (p50), 4.00 s (p90), 4.00 s (p99)
approvals   2, 1 approved, 1 rejected, waited 30.00 s (p50), 90.00 s (p90), 90.00 s (p99), 1 still waiting"""


def counted(by: By | None = None, log: TimedLog | None = None) -> Statistics:
    with tables_of(log or small_log()) as tables:
        return statistics_of(tables, by)


def table(by: By) -> list[str]:
    total, _, groups = text_of(counted(by)).partition("\n\n")
    assert total == TOTAL
    return groups.split("\n")


def test_all_is_told_in_lines() -> None:
    assert text_of(counted()) == TOTAL


def test_models_have_a_line_each_and_an_unknown_cost_is_no_zero() -> None:
    head, nobody, haiku, llama, opus = table("model")

    assert head.split()[:7] == ["model", "turns", "failed", "tokens", "in", "out", "cost"]
    assert nobody.split()[:6] == ["(none)", "1", "1", "0", "0", "0"]
    assert haiku.split()[:7] == ["haiku", "0", "0", "1,000", "100", "0.0625", "0"]
    assert llama.split()[:7] == ["llama", "2", "0", "10", "4", "unknown", "2"]
    assert opus.split()[5] == "0.875"
    assert len({len(line) for line in (head, nobody, haiku, llama, opus)}) == 1


def test_tools_have_columns_of_their_own() -> None:
    head, drop, pay, search, _send = table("tool")

    assert head.split()[:6] == ["tool", "calls", "failed", "denied", "cost", "call"]
    assert head.split()[-3:] == ["p90", "p99", "waiting"]
    assert drop.split() == ["drop", "1", "0", "1", "unknown", "-", "-", "-", "0", "0", "-", "-", "-", "0"]
    assert pay.split() == ["pay", "1", "1", "0", "unknown", *["4.00"] * 3, "1", "0", *["90.00"] * 3, "1"]
    assert search.split()[4] == "0.125"


def test_csv_has_all_there_is_and_nothing_where_nothing_is_known() -> None:
    rows = list(csv.DictReader(csv_of(counted("model")).splitlines()))
    (everything,) = csv.DictReader(csv_of(counted()).splitlines())

    assert [row["model"] for row in rows] == ["", "haiku", "llama", "opus"]
    assert [row["cost"] for row in rows] == ["0.0", "0.0625", "", "0.875"]
    assert [row["failed_turns"] for row in rows] == ["1", "0", "0", "0"]
    assert (everything["waited_p99"], everything["rejected"], everything["tokens_cached"]) == ("90.0", "1", "50")
    tools = list(csv.DictReader(csv_of(counted("tool")).splitlines()))
    assert {row["turns"] for row in tools} == {""}


def test_what_a_name_holds_changes_neither_lines_nor_a_terminal() -> None:
    log = TimedLog()
    usage = {"output_tokens": 1}
    log.tell("s", MONDAY, SessionCreated("s", "c", "i", 1), AgentStarted("a"))
    log.tell("s", MONDAY, MessageAccepted("t", "q", (TextBlock("?"),), 0), TurnStarted("t", 0))
    said = AnswerRecorded("t", "m", (TextBlock("!"),), "end_turn", False, usage, "evil\x1b[2J\n\u4e09" * 9, 0)  # noqa: FBT003
    log.tell("s", MONDAY, said, TurnCompleted("t", "completed", "end_turn", usage, 1.0, "responding"))

    found = counted("model", log)

    assert "\x1b" not in text_of(found) + csv_of(found)
    assert len(text_of(found).split("\n")) == 10
    assert len(csv_of(found).splitlines()) == 2


def named(model: str) -> Statistics:
    """Return the figures of a model with this name."""
    figures = Figures(key=model)
    return Statistics(position=1, by="model", since=None, until=None, total=figures, groups=(figures,))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "  =1", "\t=1", "\uff1d1", '=HYPERLINK("x";"y")'])
def test_no_name_is_a_formula_to_a_spreadsheet(name: str) -> None:
    _, row = csv_of(named(name)).splitlines()

    (cells,) = csv.reader([row])
    assert cells[0].startswith("'")
    assert cells[0].endswith(name.strip())


@given(text(min_size=1))
def test_whatever_a_name_holds_it_is_one_cell_on_one_line_in_both_kinds_of_csv(name: str) -> None:
    head, row = csv_of(named(name)).split("\n")[:2]

    (cells,) = csv.reader([row])
    assert len(cells) == len(head.split(","))
    (taken_apart_elsewhere,) = csv.reader([row], delimiter=";")
    assert len(taken_apart_elsewhere) == 1
    assert not cells[0].lstrip().startswith(("=", "+", "-", "@"))
    assert "".join(map(display_safe, cells[0])) == cells[0]


def test_an_empty_log_has_figures_too() -> None:
    found = text_of(counted(log=TimedLog()))

    assert found.split("\n") == [
        "turns       0",
        "answers     0",
        "tokens      0 in, 0 of them cached",
        "            0 out",
        "cost        0",
        "calls       0, 0 failed, 0 denied",
        "approvals   0",
    ]
