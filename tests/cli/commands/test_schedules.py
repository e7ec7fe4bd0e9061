"""`reenact schedules`: lists the messages that are to come, and cancels them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reenact import Runtime
from tests.cli.conftest import Json, Run
from tests.logs import log_at


@pytest.fixture
def scheduled(talk: Json, environ: dict[str, str]) -> str:
    """Return the id of a schedule of the session."""
    log = Path(environ["HOME"]) / ".local/share/reenact/reenact.db"
    with Runtime.open(log_at(log)) as runtime:
        at = datetime(2100, 1, 1, tzinfo=UTC)
        once = runtime.agents.schedule(talk["session_id"], "Later\nthen", at=at)
        runtime.agents.schedule(talk["session_id"], "Daily", at=at, every=86_400)
    return once.id


def test_they_are_listed(run: Run, talk: Json, scheduled: str) -> None:
    first, second = run("schedules").out.splitlines()

    assert first.startswith(scheduled)
    assert first.endswith(f"once  {talk['session_id']}  Later then")
    assert "every 86400 s" in second


def test_as_json_they_are_schedules(run: Run, talk: Json, scheduled: str) -> None:
    first, second = run("schedules", talk["session_id"], "--output-format", "json").objects

    assert (first["id"], first["session_id"], first["every"]) == (scheduled, talk["session_id"], None)
    assert (second["every"], second["at"]) == (86_400.0, "2100-01-01T00:00:00Z")


def test_one_is_cancelled(run: Run, scheduled: str) -> None:
    cancelled = run("schedules", "--cancel", scheduled)

    assert (cancelled.code, cancelled.out) == (0, f"{scheduled}\n")
    assert len(run("schedules").out.splitlines()) == 1
    again = run("schedules", "--cancel", scheduled)
    assert (again.code, again.out) == (2, "")
    assert f"no schedule {scheduled!r}" in again.err


def test_a_session_that_is_not_there_has_none(run: Run, talk: Json) -> None:
    assert run("schedules", "nobody").code == 2
    assert run("schedules", talk["session_id"]).out == ""


def test_where_there_is_no_log_there_are_none(run: Run) -> None:
    assert run("schedules").out == ""
