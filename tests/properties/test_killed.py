"""A process that is killed at any moment has lost nothing that it was promised."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from reenact import Runtime
from reenact.actors.session.ports import Recovery
from reenact.testing import CrashReport, CrashTest, MockEnvironmentFactory
from tests.domain.stream.grammar import Heard
from tests.examples import chance_of
from tests.logs import log_at
from tests.properties.child import talk
from tests.runtime.witness import Ears, check, heard_of, journal_of, unfinished

ROUNDS = 8
CHUNKS = "".join(f"chunk-{number} " for number in range(100))


class Promises:
    """What all the processes so far were promised, and what they heard."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        self.heard: dict[int, Heard] = {}

    def take(self, report: CrashReport) -> None:
        for turn_id, question in report.told("acknowledged"):
            self.acknowledged[turn_id] = question
        for (event,) in report.told("heard"):
            self.heard[event["cursor"]] = msgspec.convert(event, Heard)


def killed_when(chance: random.Random, most: int) -> Callable[[Sequence[object]], bool]:
    """Return what has a process killed when it has said so many things, or a moment later."""
    count, moment = chance.randint(1, most), chance.randint(0, 20_000)

    def is_time(said: Sequence[object]) -> bool:
        if len(said) < count:
            return False
        for _ in range(moment):
            pass
        return True

    return is_time


@pytest.mark.parametrize("recovery", ["close", "resume"])
def test_a_process_that_is_killed_has_lost_nothing(recovery: Recovery, tmp_path: Path, crashes: CrashTest) -> None:
    log, promises, chance = log_at(tmp_path / "agents.db"), Promises(), chance_of(recovery)
    resumed: set[str] = set()

    for _ in range(ROUNDS):
        number = len(promises.acknowledged)
        promises.take(crashes.run_until_killed(talk, log, recovery, number, until=killed_when(chance, 260)))
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
