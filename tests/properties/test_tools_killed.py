"""A process is killed around a tool's run: what ran, ran once, or once more with the same key; nobody is lied to."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from reenact import Runtime, ToolResultBlock, ToolUseBlock
from reenact.actors.session import Recovery
from reenact.domain.loop.events import ToolStarted
from tests.properties.tool_child import POINTS, Tools, effects_in, factory
from tests.runtime.witness import Ears, check, journal_of, unfinished

CHILD = "tests.properties.tool_child"
ROUNDS = 3
UNKNOWN = "it is not known whether it took effect"
RECOVERIES: tuple[Recovery, ...] = ("close", "resume")


def _start(log: Path, effects: Path, recovery: Recovery, point: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", CHILD, str(log), str(effects), recovery, point]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def _said(lines: list[str]) -> list[str]:
    return [json.loads(line)[1] for line in lines if line.endswith("\n")]


def _reopened(log: Path, recovery: Recovery, tools: Tools) -> Runtime:
    return Runtime.open(log, environment=factory(), recovery=recovery, synchronous="OFF", tools=tools.all())


def _results(runtime: Runtime) -> dict[str, ToolResultBlock]:
    """Return what each call was answered, once."""
    blocks = [block for one in runtime.sessions.messages("s") for block in one.content]
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    assert len({block.tool_use_id for block in results}) == len(results)
    return {block.tool_use_id: block for block in results}


def _calls_of(runtime: Runtime, turn_id: str) -> dict[str, str]:
    """Return the ids of the calls that the turn has asked for, by tool."""
    said = [one for one in runtime.sessions.messages("s") if one.turn_id == turn_id]
    return {block.name: block.id for one in said for block in one.content if isinstance(block, ToolUseBlock)}


def _outcome(runtime: Runtime, turn_id: str) -> str | None:
    return check(runtime, resumed=[turn_id])["s"].turns[turn_id].outcome


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("point", [point for point in POINTS if point != "while waiting"])
def test_a_process_that_is_killed_around_a_call_ran_it_once_or_says_that_it_does_not_know(
    point: str, recovery: Recovery, tmp_path: Path
) -> None:
    log, effects = tmp_path / "agents.db", tmp_path / "effects"
    with _start(log, effects, recovery, point) as child:
        assert child.stdout is not None
        lines = list(child.stdout)
    assert child.returncode == -9
    (turn_id,) = unfinished(log)
    assert _said(lines) in ([], [turn_id])
    before = Counter(name for name, _, _ in effects_in(effects))

    tools = Tools(effects)
    with _reopened(log, recovery, tools) as runtime:
        ears = Ears(runtime)
        agent_id = runtime.sessions.run("s")
        last = runtime.agents.receive(agent_id, "And now?")
        ears.wait("turn_completed", turn_id=last)
        outcome, results = _outcome(runtime, turn_id), _results(runtime)
        calls = _calls_of(runtime, turn_id)
        starts = [event for event in _events(runtime) if isinstance(event, ToolStarted)]
    tools.close()

    assert outcome == ("completed" if recovery == "resume" else "interrupted")
    ran = effects_in(effects)
    runs = Counter(call_id for _, call_id, _ in ran)
    assert runs.keys() <= {start.id for start in starts}
    assert all(runs[call_id] <= sum(start.id == call_id for start in starts) for call_id in runs)
    if not calls:  # what the model asked for was not durable either
        assert (point, recovery) == ("before the intent", "close")
        return
    pay, look = calls["pay"], calls["look"]
    assert runs[pay] <= 1
    assert len({key for _, call_id, key in ran if call_id == look}) <= 1
    if point in {"after the intent", "before the effect", "after the effect"}:
        assert UNKNOWN in str(results[pay].content)
        assert results[pay].is_error
        assert runs[pay] == before["pay"]
        assert runs[look] == before["look"] + (recovery == "resume")
        assert results[look].is_error == (recovery == "close")
    elif point == "after the outcome":
        assert not (results[pay].is_error and results[look].is_error)
    elif point == "in the next answer" or recovery == "resume":
        assert (runs[pay], runs[look]) == (1, 1)
        assert not results[pay].is_error
        assert not results[look].is_error
    else:
        assert not runs[pay]
        assert not runs[look]
        assert "was not run" in str(results[pay].content)


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_call_that_waits_for_a_person_outlives_the_process_and_runs_once_when_it_is_approved(
    recovery: Recovery, tmp_path: Path
) -> None:
    log, effects = tmp_path / "agents.db", tmp_path / "effects"
    with _start(log, effects, recovery, "while waiting") as child:
        child.communicate()
    assert child.returncode == -9
    assert effects_in(effects) == []

    tools = Tools(effects)
    with _reopened(log, recovery, tools) as runtime:
        ears = Ears(runtime)
        (call,) = runtime.agents.pending()
        turn_id = runtime.agents.approve(call)
        ears.wait("turn_completed", turn_id=turn_id)
        outcome, results = _outcome(runtime, turn_id or ""), _results(runtime)
    tools.close()

    assert outcome == "completed"
    assert [call_id for _, call_id, _ in effects_in(effects)] == [call.id]
    assert results[call.id].content == "send 1"


def _events(runtime: Runtime) -> list[object]:
    return [one.event for one in journal_of(runtime).read("session/s")]


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_process_that_is_killed_at_any_moment_has_run_nothing_twice_that_may_not_be(
    recovery: Recovery, tmp_path: Path
) -> None:
    log, effects, chance = tmp_path / "agents.db", tmp_path / "effects", random.Random(recovery)
    resumed: set[str] = set()
    said: list[str] = []

    for _ in range(ROUNDS):
        with _start(log, effects, recovery, "") as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(chance.randint(1, 25))]
            for _ in range(chance.randint(0, 20_000)):
                pass
            child.kill()
            said += _said([*lines, *child.stdout])
        assert child.returncode == -9
        resumed |= unfinished(log) if recovery == "resume" else set()
        tools = Tools(effects)
        with _reopened(log, recovery, tools) as runtime:
            _check(runtime, effects_in(effects), said, recovery, resumed)
        tools.close()


def _check(
    runtime: Runtime, before: list[tuple[str, str, str]], said: list[str], recovery: Recovery, resumed: set[str]
) -> None:
    ears = Ears(runtime)
    last = runtime.agents.receive(runtime.sessions.run("s"), "And now?")
    ears.wait("turn_completed", turn_id=last)

    grammar = check(runtime, resumed=resumed)["s"]
    outcomes = {turn.id: turn.outcome for turn in grammar.turns.values()}
    assert {*said, last} <= outcomes.keys()
    assert None not in outcomes.values()
    assert recovery == "close" or set(outcomes.values()) == {"completed"}
    starts = Counter(event.id for event in _events(runtime) if isinstance(event, ToolStarted))
    results = _results(runtime)
    assert starts.keys() <= results.keys()
    runs = Counter(call_id for _, call_id, _ in before)
    keys = {(call_id, key) for _, call_id, key in before}
    assert len(keys) == len(runs)
    assert runs.keys() <= starts.keys()
    for call_id, times in runs.items():
        assert times <= starts[call_id]
        assert times == 1 or call_id.startswith("look")
