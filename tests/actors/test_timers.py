from __future__ import annotations

from reenact.actors.kernel import Timer
from reenact.actors.session.timers import timers
from reenact.domain.session.agent import Scheduled
from reenact.domain.session.commands import FireSchedule
from reenact.domain.session.state import Session


def test_the_timers_of_a_session_with_many_schedules_are_made_once_not_in_each_step() -> None:
    schedules = tuple(Scheduled(str(number), (), due=7, every=None, until=None) for number in range(1000))

    first, again = timers(Session(schedules=schedules)), timers(Session(schedules=schedules[1:]))

    assert first[0] == Timer(7, FireSchedule(schedule_id="0", due=7))
    assert all(one is other for one, other in zip(first[1:], again, strict=True))
