"""An export can take the family of a session: who has called it, and all child sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

import pytest

from reenact import Audit, Image, Runtime, agent_tool, handover_tool
from reenact.audit import Redaction, import_log
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.runtime.families import Plan, factory, furnish, send

PLAN: Plan = [[("agent", [[("agent", ["deep"])], "middle"]), ("agent", ["two"])], "top"]

BEGINNINGS = "session-created", "session-branched"


class Options(TypedDict, total=False):
    """What an export may be told besides."""

    feeds: bool
    redaction: Redaction


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a family of four sessions, and a session of none."""
    path = tmp_path_factory.mktemp("family") / "log.db"
    with Runtime.open(path, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        runtime.sessions.create("c", "agent", session_id="other")
        runtime.ask(json.dumps(PLAN), session="root", timeout=60)
    return path


def members(log: Path) -> list[str]:
    with Audit.open(log) as audit:
        return [entry.session_id or "" for entry in audit.entries() if entry.type in BEGINNINGS]


@pytest.mark.parametrize("named", [0, -1])
@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(feeds=False),
        Options(redaction=Redaction()),
        Options(redaction=Redaction(fields=("*.*",))),
        Options(redaction=Redaction(fields=("*.parent",))),
    ],
)
def test_the_family_of_any_of_its_sessions_is_whole(log: Path, tmp_path: Path, named: int, options: Options) -> None:
    family = [one for one in members(log) if one != "other"]
    with Audit.open(log) as audit:
        audit.export(tmp_path / "family.jsonl", sessions=[family[named]], family=True, **options)

    import_log(tmp_path / "family.jsonl", tmp_path / "family.db")

    assert sorted(members(tmp_path / "family.db")) == sorted(family)
    with Audit.open(tmp_path / "family.db") as audit:
        verdict = audit.verify()
    assert (verdict.findings, verdict.kin_missing) == ((), 0)


def test_a_session_leaves_alone_unless_its_family_is_asked_for(log: Path, tmp_path: Path) -> None:
    with Audit.open(log) as audit:
        audit.export(tmp_path / "root.jsonl", sessions=["root"])
    import_log(tmp_path / "root.jsonl", tmp_path / "root.db")

    with Audit.open(tmp_path / "root.db") as audit:
        audit.export(tmp_path / "again.jsonl", sessions=["root"], family=True)
        verdict = audit.verify()

    assert members(tmp_path / "root.db") == ["root"]
    assert verdict.is_whole
    assert verdict.kin_missing == 2


def test_a_child_session_goes_on_where_its_parent_is_not(
    log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    child = next(one for one in members(log) if one not in ("root", "other"))
    with Audit.open(log) as audit:
        audit.export(tmp_path / "child.jsonl", sessions=[child])
    import_log(tmp_path / "child.jsonl", tmp_path / "child.db")

    with Runtime.open(tmp_path / "child.db", environment=factory(), synchronous="OFF") as runtime:
        answer = runtime.ask(json.dumps(["more"]), session=child, timeout=60)

    assert answer.outcome == "completed"
    assert caplog.messages == []
    assert members(tmp_path / "child.db") == [child]


def test_a_session_takes_along_the_images_that_its_agent_may_call_and_hand_over_to(tmp_path: Path) -> None:
    with Runtime.open(tmp_path / "log.db", environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="billing"))
        runtime.images.register(Image(id="researcher", tools=(handover_tool("billing"),)))
        runtime.images.register(Image(id="editor", tools=(agent_tool("researcher", description="Finds out."),)))
        runtime.images.register(Image(id="other"))
        runtime.sessions.create("c", "editor", session_id="talk")
    with Audit.open(tmp_path / "log.db") as audit:
        audit.export(tmp_path / "talk.jsonl", sessions=["talk"])

    import_log(tmp_path / "talk.jsonl", tmp_path / "talk.db")

    with Runtime.open(tmp_path / "talk.db", environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        assert {image.id for image in runtime.images.list()} == {"editor", "researcher", "billing"}
        assert runtime.ask("Hello", session="talk", timeout=60).outcome == "completed"


@pytest.mark.parametrize("field", ["image-registered", "image-registered.definition"])
def test_agents_are_called_and_handed_over_to_where_their_definitions_were_redacted(tmp_path: Path, field: str) -> None:
    plan: Plan = [[("agent", ["deep"]), ("hand_over_to_other", {})], "top"]
    with Runtime.open(tmp_path / "log.db", environment=factory(), synchronous="OFF") as runtime:
        runtime.images.register(Image(id="other"))
        runtime.images.register(Image(id="agent"))
        agents = (agent_tool("agent", description="Does it."), agent_tool("more", "agent", description="Does it."))
        runtime.images.register(Image(id="root", tools=(*agents, handover_tool("other"))))
        runtime.sessions.create("default", "root", session_id="talk")
    with Audit.open(tmp_path / "log.db") as audit:
        audit.export(tmp_path / "talk.jsonl", redaction=Redaction(fields=(field,)))

    import_log(tmp_path / "talk.jsonl", tmp_path / "talk.db")

    with Runtime.open(tmp_path / "talk.db", environment=factory(), synchronous="OFF") as runtime:
        assert runtime.ask(json.dumps(plan), session="talk", timeout=60).text == "top"
        assert [message.text for message in runtime.sessions.messages(runtime.sessions.list()[0].id)][-1] == "deep"
        talk = runtime.sessions.get("talk")
    assert talk is not None
    assert talk.image_id == "other"


@pytest.mark.parametrize("named", ["root", "b"])
def test_the_family_of_a_branch_is_whole_and_goes_on_where_it_was_imported(tmp_path: Path, named: str) -> None:
    with Runtime.open(tmp_path / "log.db", environment=factory(), synchronous="OFF", tools=[send]) as runtime:
        furnish(runtime)
        plan: Plan = [[("agent", [[("send", {"to": "ann"})], "sent"])], "top"]
        runtime.ask(json.dumps(plan), session="root", timeout=60)
        runtime.sessions.branch("root", new_session_id="b")
        all_of = [session.id for session in runtime.sessions.list()]
    with Audit.open(tmp_path / "log.db") as audit:
        audit.export(tmp_path / "family.jsonl", sessions=[named], family=True)

    import_log(tmp_path / "family.jsonl", tmp_path / "family.db")

    expected = all_of if named == "b" else [one for one in all_of if one in {"root", all_of[-2]}]
    assert sorted(members(tmp_path / "family.db")) == sorted(expected)
    with Runtime.open(tmp_path / "family.db", environment=factory(), synchronous="OFF", tools=[send]) as runtime:
        runtime.agents.approve(runtime.agents.pending()[-1])
        wait_until(lambda: runtime.sessions.messages(named)[-1].text == "top", 60, "it goes on")
    with Audit.open(tmp_path / "family.db") as audit:
        verdict = audit.verify()
    assert (verdict.findings, verdict.kin_missing) == ((), 0)
