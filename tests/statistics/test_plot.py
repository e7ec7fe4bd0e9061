"""Drawings say what the figures say, to everybody, whatever a name holds."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.projections.read_model.rows import DAY
from reenact.projections.statistics.counting import statistics_of
from reenact.projections.statistics.figures import By, Percentiles
from reenact.projections.statistics.plot import HEIGHT, WIDTH, Bar, bar_chart, drawing, plot, range_chart
from tests.statistics.counted import TimedLog, small_log, tables_of

SVG = "{http://www.w3.org/2000/svg}"
TIMES = Percentiles(count=3, p50=1.0, p90=2.0, p99=4.0)


def read(chart: str) -> ET.Element:
    return ET.fromstring(chart)  # noqa: S314 - what we have just written


def boxes(chart: str, kind: str) -> list[tuple[float, float, float, float]]:
    """Return where the boxes of a class stand: left, top, width, height."""
    return [
        (float(box.attrib["x"]), float(box.attrib["y"]), float(box.attrib["width"]), float(box.attrib["height"]))
        for group in read(chart).findall("g")
        for box in group.findall("rect")
        if box.attrib["class"] == kind
    ]


def titles(chart: str) -> list[str | None]:
    return [title.text for title in read(chart).iter("title")]


def test_bars_are_to_scale_and_stand_on_each_other() -> None:
    chart = bar_chart("Tokens", ("in", "out"), [Bar("mon", (60.0, 20.0)), Bar("tue", (30.0, 0.0))])

    (first, second), (above, none) = boxes(chart, "part-1"), boxes(chart, "part-2")
    assert first[3] == 2 * second[3] == pytest.approx(3 * above[3])
    assert above[1] + above[3] == pytest.approx(first[1])
    assert first[1] + first[3] == second[1] + second[3] == HEIGHT - 30
    assert none[3] == 0
    assert second[0] - first[0] == pytest.approx((WIDTH - 70) / 2)
    assert titles(chart) == ["Tokens", "mon: in 60, out 20", "tue: in 30, out 0"]


def test_a_range_goes_from_p50_to_p99_with_lines_for_p50_and_p90() -> None:
    chart = range_chart("Times", [("mon", TIMES), ("tue", Percentiles())])

    ((x, top, width, height),) = boxes(chart, "range")
    lines = {line.attrib["class"]: line.attrib for line in read(chart).iter("line") if "p" in line.attrib["class"]}
    assert float(lines["p50"]["y1"]) == float(lines["p50"]["y2"]) == pytest.approx(top + height)
    assert float(lines["p90"]["y1"]) == pytest.approx(top + 2 * height / 3, abs=0.1)
    assert float(lines["p50"]["x1"]) == x
    assert float(lines["p50"]["x2"]) == pytest.approx(x + width, abs=0.2)
    assert titles(chart) == ["Times", "mon: 1 s (p50), 2 s (p90), 4 s (p99)"]


def test_an_unknown_cost_is_marked() -> None:
    chart = bar_chart("Cost", ("cost",), [Bar("mon", (0.0,), "2 answers of unknown cost"), Bar("tue", (1.5,))])

    assert titles(chart)[1:] == ["mon: 0, 2 answers of unknown cost", "tue: 1.5"]
    assert [text.text for group in read(chart).findall("g") for text in group.findall("text")] == ["?"]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0.0, ["0", "1"]),
        (7.0, ["0", "2", "4", "6", "8"]),
        (0.03, ["0", "0.01", "0.02", "0.03"]),
        (3_200_000.0, ["0", "1M", "2M", "3M", "4M"]),
    ],
)
def test_an_axis_has_few_round_numbers(most: float, ticks: list[str]) -> None:
    chart = read(bar_chart("Cost", ("cost",), [Bar("", (most,))]))

    ends = [text.text for text in chart.findall("text") if text.attrib.get("text-anchor") == "end"]
    assert ends == ticks


def test_of_many_names_some_stand_below() -> None:
    chart = read(bar_chart("Cost", ("cost",), [Bar(f"a long name {number}", (1.0,)) for number in range(100)]))

    below = [text.text for text in chart.findall("text") if text.attrib.get("text-anchor") == "middle"]
    assert len(below) == 8
    assert below[0] == "a long name…"
    assert len(chart.findall("g")) == 100


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.floats(0, 1e300))
def test_whatever_there_is_to_draw_is_well_formed(name: str, value: float) -> None:
    times = Percentiles(count=1, p50=value, p90=value, p99=value)

    charts = [bar_chart(name, (name, name), [Bar(name, (value, 0.0), name)]), range_chart(name, [(name, times)])]

    for chart in charts:
        assert read(chart).attrib["role"] == "img"
        assert len(read(chart).findall("g")) == 1
    assert read(drawing(charts, title=name)).find(f"{SVG}title") is not None


def test_a_chart_has_classes_and_a_file_the_style_for_them() -> None:
    chart = range_chart("Times", [("mon", TIMES)])
    file = read(drawing([chart, chart], title="Statistics"))

    assert "style" not in chart
    style = file.find(f"{SVG}style")
    assert style is not None
    assert all(f".{kind} " in str(style.text) for kind in ("range", "p50", "p90", "grid", "axis", "part-1", "title"))
    assert file.attrib["height"] == str(2 * HEIGHT)


@pytest.mark.parametrize(("by", "bars"), [("day", 2), ("model", 4), ("image", 2), ("session", 3), ("tool", 4)])
def test_figures_are_drawn_by_whatever_they_are_told_apart(by: By, bars: int) -> None:
    with tables_of(small_log()) as tables:
        file = read(plot(statistics_of(tables, by)))

    charts = list(file.iter(f"{SVG}svg"))[1:]
    assert len(charts) == (3 if by == "tool" else 4)
    assert len(charts[0].findall(f"{SVG}g")) == bars
    assert [one.text for one in file.findall(f"{SVG}title")] == [f"Statistics by {by}"]


def test_days_on_which_nothing_was_have_their_place() -> None:
    log = small_log()
    for number, row in enumerate(log.rows):
        if row.stream == "session/two":
            log.rows[number] = msgspec.structs.replace(row, recorded_at=row.recorded_at + 4 * DAY)
    with tables_of(log) as tables:
        first = plot(statistics_of(tables, "day"))

    assert [title.text for title in read(first).iter(f"{SVG}title")][2:8] == [
        "2026-01-05: 0.875",
        "2026-01-06: 0.0625",
        "2026-01-07: 0",
        "2026-01-08: 0",
        "2026-01-09: 0",
        "2026-01-10: 0, 2 answers of unknown cost",
    ]


def test_where_there_is_nothing_it_is_said() -> None:
    with tables_of(TimedLog()) as tables:
        file = plot(statistics_of(tables, "day"))

    assert file.count("nothing to show") == 4
