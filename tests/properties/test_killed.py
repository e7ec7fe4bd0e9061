"""A process that is killed at any moment has lost nothing that it was promised."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from reenact import Runtime
from reenact.actors.session import Recovery
from reenact.testing import MockEnvironmentFactory
from tests.domain.grammar import Heard
from tests.runtime.witness import Ears, check, heard_of, journal_of, unfinished

CHILD = Path(__file__).with_name("child.py")
ROUNDS = 8
CHUNKS = "".join(f"chunk-{number} " for number in range(100))


class Promises:
    """What all the processes so far were promised, and what they heard."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        self.heard: dict[int, Heard] = {}

    def take(self, line: str) -> None:
        kind, *words = json.loads(line)
        if kind == "acknowledged":
            turn_id, question = words
            self.acknowledged[turn_id] = question
        else:
            cursor, type_, turn_id, data = words[1]
            self.heard[cursor] = Heard(cursor, type_, turn_id, data)


def _live_and_die(log: Path, recovery: Recovery, promises: Promises, chance: random.Random) -> None:
    """Let a process talk until it has said so many lines, and kill it a moment later."""
    command = [sys.executable, str(CHILD), str(log), recovery, str(len(promises.acknowledged))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as child:
        assert child.stdout is not None
        for _ in range(chance.randint(1, 260)):
            line = child.stdout.readline()
            assert line.endswith("\n"), "the process ended by itself"
            promises.take(line)
        for _ in range(chance.randint(0, 20_000)):
            pass
        child.kill()
        for line in child.stdout:
            if line.endswith("\n"):
                promises.take(line)
    assert child.returncode == -9


@pytest.mark.parametrize("recovery", ["close", "resume"])
def test_a_process_that_is_killed_has_lost_nothing(recovery: Recovery, tmp_path: Path) -> None:
    log, promises, chance = tmp_path / "agents.db", Promises(), random.Random(recovery)
    resumed: set[str] = set()

    for _ in range(ROUNDS):
        _live_and_die(log, recovery, promises, chance)
        if recovery == "resume":
            resumed |= unfinished(log)
        mock = MockEnvironmentFactory("long-stream", delays=False)
        with Runtime.open(log, environment=mock, recovery=recovery, synchronous="OFF") as runtime:
            if runtime.sessions.get("s") is not None:
                _check(runtime, promises, recovery, resumed)


def _check(runtime: Runtime, promises: Promises, recovery: Recovery, resumed: set[str]) -> None:
    ears = Ears(runtime)
    agent_id = runtime.sessions.run("s")
    last = runtime.agents.receive(agent_id, "and now?")
    ears.wait("turn_completed", turn_id=last)
    promises.acknowledged[last] = "and now?"

    kept = {event.cursor: event for event in heard_of(journal_of(runtime), "s")}
    assert {cursor: kept.get(cursor) for cursor in promises.heard} == promises.heard

    messages = runtime.sessions.messages("s")
    asked = {message.turn_id or "": message.text for message in messages if message.role == "user"}
    assert promises.acknowledged.items() <= asked.items()
    promises.acknowledged.update(asked)  # also what was recorded and not acknowledged in time

    grammar = check(runtime, resumed=resumed)["s"]
    assert set(grammar.completed) == set(asked)
    outcomes = {turn.id: turn.outcome for turn in grammar.turns.values()}
    assert outcomes[last] == "completed"
    for message in messages:
        if message.role == "assistant":
            assert message.partial == (outcomes[message.turn_id or ""] == "interrupted")
            assert message.text == CHUNKS if not message.partial else CHUNKS.startswith(message.text)
    if recovery == "resume":
        assert set(outcomes.values()) == {"completed"}
