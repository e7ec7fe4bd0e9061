"""A process is killed while its tools run: what ran, ran once, or once more with the same key; nobody is lied to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from reenact import Runtime, ToolResultBlock
from reenact.actors.session.ports import Recovery
from reenact.domain.loop.events import ToolStarted
from reenact.testing import CrashTest
from tests.examples import chance_of
from tests.logs import log_at
from tests.properties.test_killed import killed_when
from tests.properties.tool_child import Tools, effects_in, factory, pay_on
from tests.runtime.witness import Ears, check, journal_of, unfinished

ROUNDS = 4
RECOVERIES: tuple[Recovery, ...] = ("close", "resume")


def _reopened(log: str, recovery: Recovery, tools: Tools) -> Runtime:
    return Runtime.open(log, environment=factory(), recovery=recovery, synchronous="OFF", tools=tools.all())


def _results(runtime: Runtime) -> dict[str, ToolResultBlock]:
    """Return what each call was answered, once."""
    blocks = [block for one in runtime.sessions.messages("s") for block in one.content]
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    assert len({block.tool_use_id for block in results}) == len(results)
    return {block.tool_use_id: block for block in results}


def _events(runtime: Runtime) -> list[object]:
    return [one.event for one in journal_of(runtime).read("session/s")]


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_process_that_is_killed_at_any_moment_has_run_nothing_twice_that_may_not_be(
    recovery: Recovery, tmp_path: Path, crashes: CrashTest
) -> None:
    log, effects, chance = log_at(tmp_path / "agents.db"), tmp_path / "effects", chance_of(recovery)
    resumed: set[str] = set()
    said: list[str] = []

    for _ in range(ROUNDS):
        report = crashes.run_until_killed(pay_on, log, effects, recovery, until=killed_when(chance, 25))
        said += [turn_id for (turn_id,) in report.told("said")]
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
