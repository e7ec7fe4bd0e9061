"""The list of sessions says which are children of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reenact import Runtime
from tests.cli.conftest import Run
from tests.logs import log_at
from tests.runtime.families import Plan, factory, furnish

SENDS: Plan = [[("agent", [[("send", {"to": "ann"})], "sent"])], "done"]


@pytest.fixture
def child(tmp_path: Path, run: Run) -> str:
    """A session whose child waits for a person."""
    with Runtime.open(log_at(tmp_path / "here.db"), environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        runtime.ask(json.dumps(SENDS), session="root", timeout=60)
        (session,) = runtime.sessions.list(parent="root")
    return session.id


def test_a_child_is_listed_with_its_parent(run: Run, child: str) -> None:
    lines = run("sessions", "--db", "here.db").out.splitlines()
    told = [json.loads(line) for line in run("sessions", "--db", "here.db", "--output-format", "json").out.splitlines()]

    assert [line.split()[0] for line in lines] == [child, "root"]
    assert lines[0].endswith("  (child of root)  (waits for you)")
    assert lines[1].endswith("  (waits for you)")
    assert "child of" not in lines[1]
    assert [(one["id"], one["parent"], one["waiting"]) for one in told] == [(child, "root", 1), ("root", None, 1)]
