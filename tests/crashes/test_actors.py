"""Actors of one's own under the same crashes: timers, snapshots, requests and effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from reenact import ActorSystem, KeyRing
from reenact.actors.journal.api import Recorded
from reenact.actors.journal.verify import verify
from reenact.domain.errors import RequestReusedError
from reenact.testing import Crash, CrashPoint, CrashReport, CrashTest, ManualClock, wait_until
from tests.crashes.post_office import (
    DAY,
    LETTERS,
    RING,
    NoteDelivery,
    Post,
    Posted,
    PostOffice,
    Reminded,
    delivered_in,
    go_on,
    opened,
    post,
    vanish,
)
from tests.crashes.test_matrix import AROUND_A_COMMIT
from tests.examples import some
from tests.logs import log_at, stands_in

CRASHES = (
    *(Crash(point, nth, of) for point in AROUND_A_COMMIT for of, nth in (("posted", 3), ("delivered", 2))),
    *(Crash(point, 1, "reminded") for point in AROUND_A_COMMIT[1:4]),
    *(Crash(point, nth) for point in (CrashPoint.BEFORE_EFFECT, CrashPoint.AFTER_EFFECT) for nth in (1, LETTERS)),
    Crash(CrashPoint.BEFORE_OUTCOME, 2, "delivered"),
    Crash(CrashPoint.AFTER_OUTCOME, 2, "delivered"),
    Crash(CrashPoint.AFTER_REPLY, 4),
)


@pytest.mark.parametrize("crash", CRASHES, ids=str)
def test_an_actor_of_ones_own_goes_on_where_its_process_was_killed(
    crash: Crash, crashes: CrashTest, tmp_path: Path
) -> None:
    log, arrivals = log_at(tmp_path / "office.db"), tmp_path / "arrivals"

    report = crashes.run_until_killed(post, log, arrivals, at=crash)

    examine(log, arrivals, [report])


@pytest.mark.parametrize("crash", some(CRASHES), ids=str)
def test_an_actor_whose_log_is_encrypted_goes_on_where_its_process_was_killed(
    crash: Crash, crashes: CrashTest, tmp_path: Path
) -> None:
    KeyRing.generate(tmp_path / RING)
    log, arrivals = log_at(tmp_path / "office.db"), tmp_path / "arrivals"

    report = crashes.run_until_killed(post, log, arrivals, at=crash)

    assert not stands_in(b"letter-", log)
    examine(log, arrivals, [report])
    assert not stands_in(b"letter-", log)


@pytest.mark.parametrize("crash", [Crash(point, 2) for point in AROUND_A_COMMIT], ids=str)
def test_an_actor_whose_process_is_killed_again_while_it_recovers_goes_on(
    crash: Crash, crashes: CrashTest, tmp_path: Path
) -> None:
    log, arrivals = log_at(tmp_path / "office.db"), tmp_path / "arrivals"
    first = crashes.run_until_killed(post, log, arrivals, at=Crash(CrashPoint.AFTER_EFFECT, 2))

    second = crashes.run(go_on, log, arrivals, at=Crash(crash.point))

    assert second.killed
    examine(log, arrivals, [first, second])


def test_what_a_killed_process_had_in_memory_alone_is_cleared_away_by_the_next_that_has_such(
    crashes: CrashTest,
) -> None:
    with ActorSystem.in_memory() as other:
        report = crashes.run_until_killed(vanish, until=bool)
        left = Path(report.said[0][0]).parent  # any process of this machine may have cleared it away by now

        with ActorSystem.in_memory():
            assert not left.exists()

        assert Path(str(getattr(other.journal, "path", ""))).exists()


def examine(log: str, arrivals: Path, reports: Sequence[CrashReport]) -> None:
    """Recover, and hold what there is against what was promised."""
    assert verify(log) == []
    taken = [number for report in reports for number, _ in report.told("taken")]
    clock = ManualClock()
    with opened(log, arrivals, clock) as system:
        office, stream = system.actor(PostOffice, "o"), PostOffice.stream("o")
        before = PostOffice.replay(system.journal.read(stream))
        assert len(before.taken) - len(taken) in {0, 1}
        assert before.taken == tuple(f"letter-{number}" for number in range(len(before.taken)))

        for number in range(LETTERS):
            again = Post(f"letter-{number}", f"r{number}")
            if number < len(before.taken):
                with pytest.raises(RequestReusedError):
                    office.ask(again)
            else:
                assert office.ask(again) == number + 1
        clock.advance(3 * DAY)
        wait_until(lambda: _is_done(system.journal.read(stream)), what="deliveries and reminders")

        history = system.journal.read(stream)
        events = [one.event for one in history]
        assert [event.letter for event in events if isinstance(event, Posted)] == sorted(set(delivered_in(arrivals)))
        reminded = [event.letter for event in events if isinstance(event, Reminded)]
        assert sorted(reminded) == sorted(set(reminded)) == sorted(set(delivered_in(arrivals)))
        arrived = Counter(delivered_in(arrivals))
        assert all(1 <= times <= 1 + len(reports) for times in arrived.values())
        assert sum(arrived.values()) <= LETTERS + len(reports)
        assert office.ask(NoteDelivery("none")) == LETTERS
        assert system.check_snapshots() == []
        assert system.journal.snapshot(stream) is not None
        assert system.journal.next_due(after=0) is None
    assert verify(log) == []


def _is_done(history: Sequence[Recorded]) -> bool:
    state = PostOffice.replay(history)
    return not state.here and not state.reminders
