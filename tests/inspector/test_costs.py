"""What was used and what it cost, as the page of costs has it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup

from reenact import Runtime
from reenact.inspector import Source
from reenact.inspector.pages.costs import _cost_chart, _csv, _slots
from reenact.projections.read_model.rows import DAY
from reenact.projections.statistics.figures import Spending
from reenact.projections.statistics.spending import HOUR
from tests.inspector.browsing import Browser, browsing, words


def rows(page: BeautifulSoup, heading: str) -> list[list[str]]:
    """Return the cells of the table under the heading."""
    section = next(one for one in page.select("section") if words(one.select_one("h2")) == heading)
    return [[words(cell) for cell in row.select("td")] for row in section.select("tbody tr")]


def test_what_models_were_used_for_is_added_up(night: Browser) -> None:
    page = night.page("/costs")

    tiles = {words(one.select_one("dt")): words(one.select_one("dd")) for one in page.select(".tiles > div")}
    assert tiles["Cost"].startswith("0.1130 ")
    assert tiles["Tokens in"] == "47 448 6 100 of them cached"
    assert tiles["Tokens out"] == "1 637 19 answers"
    assert tiles["Waited for people"].startswith("3 h 19 min in 5 calls")
    assert rows(page, "By model") == [
        ["claude-sonnet-4-5", "8", "31.1 k", "6 100", "1 172", "0.0943"],
        ["claude-haiku-4-5", "11", "16.4 k", "0", "465", "0.0187"],
    ]


def test_the_tables_of_time_and_sessions_add_up_to_the_same(night: Browser) -> None:
    page = night.page("/costs")

    for heading in ("By hour", "By session"):
        assert sum(float(row[-1]) for row in rows(page, heading)) == pytest.approx(0.1130, abs=0.0004)
    assert sum(int(row[1]) for row in rows(page, "By hour")) == 19


def test_each_bar_stands_for_a_row_of_the_table(night: Browser) -> None:
    page = night.page("/costs")

    charts = page.select("figure.chart")
    table = rows(page, "By hour")
    assert len(charts) == 2
    for chart in charts:
        assert [title.get_text().partition(": ")[0] for title in chart.select("g > title")] == [
            row[0] for row in reversed(table)
        ]
    assert [float(title.get_text().rpartition(": ")[2]) for title in charts[0].select("g > title")] == [
        pytest.approx(float(row[-1]), abs=0.0001) for row in reversed(table)
    ]


def test_tools_say_how_often_they_failed(night: Browser) -> None:
    (track,) = (row for row in rows(night.page("/costs"), "By tool") if row[0] == "track")

    assert track[1:4] == ["1", "1", "0"]


def test_one_image_alone_can_be_asked_for(night: Browser) -> None:
    page = night.page("/costs?image=poet")

    assert {row[0] for row in rows(page, "By model")} == {"claude-haiku-4-5"}
    assert len(rows(page, "By session")) == 3
    night.page("/costs?period=1y", 400)
    night.page("/costs?image=nobody", 404)


def test_the_figures_can_be_saved(night: Browser) -> None:
    response = night.client.get("/costs?csv=1")

    found = list(csv.DictReader(io.StringIO(response.text)))
    assert "costs.csv" in response.headers["content-disposition"]
    assert sum(int(row["answers"]) for row in found) == 19
    assert sum(float(row["cost"]) for row in found) == pytest.approx(0.1130, abs=0.0001)


@pytest.mark.parametrize("model", ["=1+1", "  =1", "\uff1d1", "@SUM(A1)", "\n=1+1", '"\r\n=1,=2'])
def test_no_name_of_a_model_is_a_formula_to_a_spreadsheet_or_begins_a_row(model: str) -> None:
    _, row = _csv({(0, model): Spending(count=1)}, HOUR).splitlines()

    (cells,) = csv.reader([row])
    assert not cells[1].lstrip().startswith(("=", "+", "-", "@", "\uff1d"))
    assert cells[2:] == ["1", "0", "0", "0", "0.0", "0"]


@pytest.fixture
def recent(runtime: Runtime, log: str) -> Iterator[Browser]:
    runtime.ask("Hello", session=runtime.sessions.create(runtime.containers.create().id, "chat").id)
    runtime.sessions.list()  # so the tables have all of it
    with Source.open(log) as source, browsing(source) as browser:
        yield browser


def test_what_has_no_price_is_unknown_and_not_free(recent: Browser) -> None:
    for query in ("", "?period=7d"):
        page = recent.page(f"/costs{query}")

        assert words(page.select_one(".tiles dd")).startswith("unknown 1 answer without a price")
        assert rows(page, "By session")[0][-1] == "unknown"


def test_many_days_are_drawn_as_few_bars() -> None:
    used = {(day, "m"): Spending(count=1, cost=1.0) for day in range(20_000, 20_400)}

    slots = _slots(used, DAY)

    assert len(slots) == 58
    assert sum(slot.total.count for slot in slots) == 400
    assert slots[0].title == "4 October 2024 to 10 October"
    assert (
        BeautifulSoup(_cost_chart(slots), "html.parser").select("g > title")[0].get_text()
        == "4 October 2024 to 10 October: 7"
    )
