"""Why something happened in a family of sessions: causes and effects go from a parent to its children and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from reenact import Audit, Runtime
from reenact.audit import Filter, import_log
from reenact.domain.children import Parent
from reenact.projections.explain.why import Link
from tests.runtime.families import Plan, factory, furnish

PLAN: Plan = [[("agent", [[("agent", ["deep"])], "middle"]), ("aside", ["later"])], "top"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a root, a child with a child of its own, and a detached child."""
    path = tmp_path_factory.mktemp("family") / "log.db"
    with Runtime.open(path, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        with runtime.events.stream("root") as events:
            runtime.ask(json.dumps(PLAN), session="root", timeout=60)
            for _ in range(2):
                while (one := events.next(60)) is not None and one.type != "turn_completed":
                    pass
    return path


def types(links: Sequence[Link], session_id: str) -> list[str]:
    return [link.type for link in links if link.session_id == session_id]


def test_what_a_grandchild_says_goes_back_to_the_message_to_the_root(log: Path) -> None:
    with Audit.open(log) as audit:
        begun = [one.data["parent"] for one in audit.entries(Filter(types=frozenset({"session-created"})))]
        parents = [msgspec.convert(parent, Parent) for parent in begun if parent is not None]
        child = next(parent.session_id for parent in parents if parent.depth == 2)
        of_grandchild = (one for one in audit.entries() if one.session_id not in {"root", child})
        told = next(one for one in of_grandchild if one.type == "answer-recorded" and "deep" in str(one.data))
        why = audit.why(told.position)

    assert "message-accepted" in types(why.causes, "root")
    assert types(why.causes, child)[0] == "session-created"
    assert {one.session_id for one in why.causes} == {"root", why.event.session_id, child}
    created = next(one for one in why.causes if one.type == "session-created" and one.session_id != "root")
    assert created.causes
    assert created.outside is None
    assert types(why.effects, "root")[0] == "child-ended"
    assert types(why.effects, "root")[-1] == "turn-completed"


def test_what_followed_from_the_first_message_is_in_all_sessions(log: Path) -> None:
    with Audit.open(log) as audit:
        entries = list(audit.entries())
        first = next(one for one in entries if one.type == "message-accepted")
        why = audit.why(first.position)

    sessions = {one.session_id for one in entries} - {None}
    assert {one.session_id for one in why.effects} == sessions
    told = [one for one in why.effects if one.type == "message-accepted" and one.session_id == "root"]
    assert len(told) == 1  # what the detached child has said
    assert [one.type for one in why.effects if one.position in told[0].causes] == ["child-ended"]


@pytest.mark.parametrize("of", ["parent", "child"])
def test_what_is_not_in_the_log_is_outside_of_it(log: Path, tmp_path: Path, of: str) -> None:
    with Audit.open(log) as audit:
        started = next(one for one in audit.entries() if one.type == "child-started")
        child = str(started.data["child_id"])
        audit.export(tmp_path / "one.jsonl", sessions=["root" if of == "child" else child])
    import_log(tmp_path / "one.jsonl", tmp_path / "one.db")

    with Audit.open(tmp_path / "one.db") as audit:
        kind = "child-ended" if of == "child" else "session-created"
        why = audit.why(next(one for one in audit.entries() if one.type == kind).position)

    assert why.event.outside is not None
    assert why.event.outside.kind == of
    assert ("and the child session ses_" if of == "child" else "from session root") in why.text()
