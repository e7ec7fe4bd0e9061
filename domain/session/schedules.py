"""Scheduled messages, once or repeated; those missed while nothing runs are sent once, late."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, datetime, timedelta

from reenact.domain.errors import InvalidInputError, shown
from reenact.domain.messages import EPOCH, Block
from reenact.domain.session import turns
from reenact.domain.session.agent import (
    MessageAccepted,
    MessageScheduled,
    ScheduleCancelled,
    Scheduled,
    ScheduleFired,
)
from reenact.domain.session.commands import CancelSchedule, FireSchedule, ScheduleMessage
from reenact.domain.session.turns import DecisionDraft
from reenact.domain.structs import FrozenByName
from reenact.domain.tools import is_amount

SECOND = 1_000_000
"""In microseconds."""
LATE = SECOND
"""A message that is sent more microseconds after its time than this counts as late."""
_LONGEST = 1e9
"""The longest interval between two messages, in seconds: 31 years."""
_MICROSECOND = timedelta(microseconds=1)


class Schedule(FrozenByName):
    """A scheduled message as callers see it: `at` is the time of the next one, `every` the interval in seconds."""

    id: str
    session_id: str
    content: tuple[Block, ...]
    at: datetime
    every: float | None
    until: datetime | None
    created_at: datetime


def check_times(at: object, every: object, until: object) -> None:
    """Raise `InvalidInputError` unless these values describe a schedule."""
    for name, time in (("at", at), ("until", until)):
        if time is not None and not (isinstance(time, datetime) and time.tzinfo is not None):
            raise InvalidInputError(f"`{name}` must be a datetime with a time zone, not {shown(time):.100}")
        if time is not None and not MINYEAR < time.year < MAXYEAR:  # so that it exists in every time zone
            years = f"{MINYEAR + 1} to {MAXYEAR - 1}"
            raise InvalidInputError(f"`{name}` must be a time of the years {years}, not of {time.year}")
    if every is not None and not (is_amount(every, _LONGEST) and every >= 1):
        raise InvalidInputError(f"`every` must be a number of seconds from 1 to {_LONGEST:g}, not {shown(every):.100}")
    if at is None and every is None:
        raise InvalidInputError("say when the message is to come: `at` a time, or `every` so many seconds")
    if until is not None and every is None:
        raise InvalidInputError("`until` goes with `every`: a message that comes once has no end")


def times_of(
    now: int, at: datetime | None, every: float | None, until: datetime | None
) -> tuple[int, int | None, int | None]:
    """Return the time of the first message, the interval and the end, in the log's microseconds.

    Raises:
        InvalidInputError: the end is before the first message.
    """
    between = None if every is None else round(every * SECOND)
    first = now + (between or 0) if at is None else _microseconds(at)
    end = None if until is None else _microseconds(until)
    if end is not None and end < first:
        raise InvalidInputError("`until` is before the first message is to come; make it later, or leave it out")
    return first, between, end


def schedule(draft: DecisionDraft, command: ScheduleMessage) -> None:
    """Record the schedule."""
    draft.add(MessageScheduled(command.schedule_id, command.content, command.due, command.every, command.until))


def cancel(draft: DecisionDraft, command: CancelSchedule) -> None:
    """Cancel the schedule, if it exists."""
    if any(one.id == command.schedule_id for one in draft.session.schedules):
        draft.add(ScheduleCancelled(command.schedule_id))


def fire(draft: DecisionDraft, command: FireSchedule) -> None:
    """Accept the message that is due; its turn begins, or it is queued behind others or until there is an agent."""
    one = next((one for one in draft.session.schedules if one.id == command.schedule_id), None)
    if one is None or one.due != command.due:
        return
    is_late = command.at - one.due > LATE
    draft.add(ScheduleFired(one.id, command.message_turn_id, one.due, is_late, _next_due(one, command.at)))
    if draft.session.agent is None and command.agent_id is not None:
        turns.start_agent(draft, command.agent_id, command)
    draft.add(MessageAccepted(command.message_turn_id, command.message_id, one.content, command.at))
    if draft.session.agent is not None:
        turns.take_up_next(draft, command)


def _next_due(fired: Scheduled, at: int) -> int | None:
    """Return when the next message is due; messages missed in between are dropped."""
    if fired.every is None:
        return None
    missed = max(0, at - fired.due) // fired.every
    then = fired.due + (missed + 1) * fired.every
    return None if fired.until is not None and then > fired.until else then


def _microseconds(time: datetime) -> int:
    return (time - EPOCH) // _MICROSECOND
