"""Several processes write one log at once, and are killed: each session goes on as if it had the log for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from reenact._runtime import SharedRuntime
from reenact.testing import CrashReport, CrashTest
from tests.crashes.sharing import share
from tests.crashes.world import World
from tests.domain.stream.grammar import Heard
from tests.examples import chance_of, takes_long
from tests.runtime.witness import check, heard_of, journal_of

PROCESSES = 4
KILLS = 3
TURNS = 12


@takes_long()
def test_several_processes_that_are_killed_share_a_log(home: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(PROCESSES) as pool:
        tests = [stack.enter_context(CrashTest()) for _ in range(PROCESSES)]
        lives = [report for each in pool.map(partial(_lives, home), range(PROCESSES), tests) for report in each]

    assert sum(report.killed for report in lives) == PROCESSES * KILLS
    with World(home, holds=False) as world, world.opened(kind=SharedRuntime) as runtime:
        assert runtime.agents.list() == []
        check(runtime)
        journal = journal_of(runtime)
        accepted = [tuple(words) for report in lives for words in report.told("accepted")]
        for session_id in {session_id for session_id, _ in accepted}:
            ends = Counter(each.turn_id for each in heard_of(journal, session_id) if each.type == "turn_completed")
            for _, turn_id in (each for each in accepted if each[0] == session_id):
                assert ends[turn_id] == 1, (session_id, turn_id)
        for session_id, heard in _heard(lives).items():
            kept = {event.cursor: event for event in heard_of(journal, session_id)}
            assert {cursor: kept.get(cursor) for cursor in heard} == heard


def _lives(home: Path, number: int, crashes: CrashTest) -> list[CrashReport]:
    """Have a process work and be killed in the middle of it, again and again; the last one ends by itself."""
    chance = chance_of(f"sharing {number}")

    def killed_after(words: int) -> CrashReport:
        def has_said_enough(said: Sequence[list[Any]]) -> bool:
            return len(said) >= words

        return crashes.run_until_killed(share, home, chance.getrandbits(32), 1000, until=has_said_enough)

    lives = [killed_after(chance.randint(10, 60)) for _ in range(KILLS)]
    return [*lives, crashes.run(share, home, chance.getrandbits(32), TURNS)]


def _heard(lives: Sequence[CrashReport]) -> dict[str, dict[int, Heard]]:
    """Return what was heard of each session under each cursor: the same, whoever has heard it."""
    found: dict[str, dict[int, Heard]] = {}
    for report in lives:
        for session_id, event in report.told("heard"):
            heard = msgspec.convert(event, Heard)
            assert found.setdefault(session_id, {}).setdefault(heard.cursor, heard) == heard
    return found
