from __future__ import annotations

from reenact.actors.kernel import Timer
from reenact.actors.session.timers import timers
from reenact.domain.session.agent import Scheduled
from reenact.domain.session.commands import FireSchedule
from reenact.domain.session.state import Session


def due(number: int, at: int) -> Scheduled:
    return Scheduled(str(number), (), due=at, every=None, until=None)


def test_the_timers_of_a_session_with_many_schedules_are_those_that_come_next() -> None:
    many = tuple(due(number, 1000 - number // 2) for number in range(1000))

    found = timers(Session(schedules=many))

    assert found[:2] == (
        Timer(501, FireSchedule(schedule_id="998", due=501)),
        Timer(501, FireSchedule(schedule_id="999", due=501)),
    )
    assert len(found) < 100
    assert [timer.at for timer in found] == sorted(one.due for one in many)[: len(found)]


def test_the_timers_of_schedules_are_made_once_not_in_each_step() -> None:
    schedules = tuple(due(number, 7) for number in range(1000))

    first, again = timers(Session(schedules=schedules)), timers(Session(schedules=schedules[1:]))

    assert all(one is other for one, other in zip(first[1:], again, strict=False))
