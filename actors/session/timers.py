"""The timers of a session."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter

from reenact.actors.kernel import Timer
from reenact.domain.session import child_turns as family
from reenact.domain.session.commands import FireSchedule, GiveUpChildren, SessionCommand
from reenact.domain.session.state import Session
from reenact.domain.session.turns import BUDGET

_REMEMBERED = 10_000
_NEXT = 20
"""How many scheduled messages are timers at a time: each step looks at all timers, and there may be thousands."""

_due = attrgetter("due")


def timers(session: Session) -> tuple[Timer[SessionCommand], ...]:
    """Return the timers of a session: the next scheduled messages, and those of `_of_family`."""
    waits = _of_family(session)
    if not session.schedules:
        return waits
    upcoming = sorted(session.schedules, key=_due)[:_NEXT]
    return (*waits, *(_of_schedule(one.id, one.due) for one in upcoming))


@lru_cache(_REMEMBERED)  # each step of a session asks for its timers
def _of_schedule(schedule_id: str, due: int) -> Timer[SessionCommand]:
    return Timer(due, FireSchedule(schedule_id=schedule_id, due=due))


def _of_family(session: Session) -> tuple[Timer[SessionCommand], ...]:
    """Return the timer for giving up interrupted children, or for the end of the budget's time."""
    if session.interrupted is not None:
        until = session.interrupted.at + family.patience(session)
        return (Timer(until, GiveUpChildren(at=until)),)
    deadline = None if session.budget is None else family.deadline(session)
    return () if deadline is None else (Timer(deadline, family.interrupting(BUDGET, deadline)),)
