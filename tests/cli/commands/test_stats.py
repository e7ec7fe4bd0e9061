"""`reenact stats`: what the log comes to, as text, JSON, CSV and a drawing."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Json, Run


def test_what_was_said_is_counted(run: Run, talk: Json) -> None:
    outcome = run("stats")

    assert outcome.code == 0
    assert outcome.out.splitlines()[0].startswith("turns       1, 1 completed, took ")
    assert "\n\n" not in outcome.out


def test_programs_read_json_and_csv(run: Run, talk: Json) -> None:
    found = run("stats", "--by", "session", "--output-format", "json").result
    (row,) = csv.DictReader(run("stats", "--by", "session", "--output-format", "csv").out.splitlines())

    (group,) = found["groups"]
    assert group["key"] == row["session"] == talk["session_id"]
    assert group["turns"]["outcomes"] == found["total"]["turns"]["outcomes"] == {"completed": 1}
    assert row["completed_turns"] == "1"
    assert (found["by"], found["since"]) == ("session", None)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--since", "1h"], 1),
        (["--until", "1h"], 0),
    ],
)
def test_parts_can_be_counted(run: Run, talk: Json, words: list[str], count: int) -> None:
    assert run("stats", *words, "--output-format", "json").result["total"]["turns"]["count"] == count


@pytest.mark.parametrize("kind", ["session", "image", "container"])
def test_an_id_that_the_log_does_not_have_is_refused(run: Run, talk: Json, kind: str) -> None:
    outcome = run("stats", f"--{kind}", "nobody")

    assert (outcome.code, outcome.out) == (2, "")
    assert f"{kind} 'nobody' does not exist" in outcome.err


def test_a_drawing_is_by_day_and_beside_the_text(run: Run, talk: Json, tmp_path: Path) -> None:
    today = {(datetime.now(UTC) - timedelta(days=days)).date().isoformat() for days in (0, 1)}

    outcome = run("stats", "--plot", "costs.svg")

    assert outcome.out.splitlines()[-1].split()[0] in today
    drawn = ET.parse(tmp_path / "costs.svg").getroot()  # noqa: S314 - ours
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"


def test_without_a_log_there_is_nothing_to_count(run: Run) -> None:
    assert run("stats").code in (0, 2)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--since", "yesterday"], "is not a time"),
        (["--by", "colour"], "colour"),
        (["--output-format", "xml"], "xml"),
        (["--plot", "nowhere/costs.svg"], "name another file"),
        (["--plot", "costs.png"], "name a file that ends with .svg"),
    ],
)
def test_what_cannot_be_is_refused(run: Run, talk: Json, words: list[str], why: str) -> None:
    outcome = run("stats", *words)

    assert outcome.code == 2
    assert why in outcome.err
    assert outcome.out == ""


@pytest.mark.sqlite_only("a log in a file")
def test_no_drawing_takes_the_place_of_the_log(run: Run, talk: Json, environ: dict[str, str]) -> None:
    (log,) = Path(environ["HOME"]).rglob("reenact.db")
    before = log.read_bytes()

    outcome = run("stats", "--plot", str(log))

    assert (outcome.code, log.read_bytes()) == (2, before)
    assert "name another for the drawing" in outcome.err
