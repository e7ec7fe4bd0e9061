"""Messages come at their times: once each, in a turn of their own, and what was missed comes once, late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from reenact.domain.errors import InvalidInputError, InvalidMessageError, SessionNotFoundError
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock
from reenact.domain.operations.checks import checked
from reenact.domain.operations.table import AgentScheduleRequest
from reenact.domain.plain import made
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    MessageAccepted,
    MessageScheduled,
    ScheduleCancelled,
    Scheduled,
    ScheduleFired,
    TurnStarted,
)
from reenact.domain.session.commands import CancelSchedule, Delete, FireSchedule, ScheduleMessage
from reenact.domain.session.schedules import LATE, SECOND, times_of
from reenact.domain.session.state import Session, SessionBranched, evolve
from tests.domain.session.examples import DELETED, IDLE, IDLE_SESSION, NEW
from tests.domain.session.loops import ASKED, CAREFUL, PAY, after, asks, decide, finish
from tests.domain.session.policies import PAY_IS_DENIED

REPORT = (TextBlock("Report"),)
DUE = 100 * SECOND
EVERY = 60 * SECOND


def scheduled(session: Session, every: int | None = None, until: int | None = None) -> Session:
    command = ScheduleMessage(session_id="s", schedule_id="q", content=REPORT, due=DUE, every=every, until=until)
    return after(session, command)


def fire(at: int = DUE, *, due: int = DUE, agent_id: str | None = None, rules: Rules | None = None) -> FireSchedule:
    return FireSchedule(
        schedule_id="q",
        due=due,
        at=at,
        agent_id=agent_id,
        turn_id="t8",
        message_turn_id="t9",
        message_id="m9",
        results_id="r9",
        rules=rules or Rules(),
    )


def fired(session: Session, at: int) -> ScheduleFired:
    (event,) = [event for event in decide(session, fire(at)) if isinstance(event, ScheduleFired)]
    return event


def test_a_message_is_to_come() -> None:
    command = ScheduleMessage(session_id="s", schedule_id="q", content=REPORT, due=DUE, every=EVERY, until=2 * DUE)

    assert decide(IDLE_SESSION, command) == (MessageScheduled("q", REPORT, DUE, EVERY, 2 * DUE),)
    assert after(IDLE_SESSION, command).schedules == (Scheduled("q", REPORT, DUE, EVERY, 2 * DUE),)


@pytest.mark.parametrize("session", [NEW, DELETED])
def test_none_comes_to_what_is_not_there(session: Session) -> None:
    with pytest.raises(SessionNotFoundError):
        decide(session, ScheduleMessage(session_id="s", schedule_id="q", content=REPORT, due=DUE))


def test_the_live_agent_takes_it_up() -> None:
    assert decide(scheduled(IDLE), fire()) == (
        ScheduleFired("q", "t9", DUE, late=False, then=None),
        MessageAccepted("t9", "m9", REPORT, DUE),
        TurnStarted("t9", DUE),
    )
    assert after(scheduled(IDLE), fire()).schedules == ()


def test_a_busy_agent_takes_it_up_later() -> None:
    waits = after(scheduled(ASKED), fire())

    assert [queued.turn_id for queued in waits.queue] == ["t9"]
    assert waits.turn == ASKED.turn


def test_an_agent_is_started_if_none_is_live() -> None:
    events = decide(scheduled(IDLE_SESSION), fire(agent_id="b"))

    kinds = [type(event) for event in events]
    assert kinds == [ScheduleFired, AgentStarted, MessageAccepted, TurnStarted]


def test_without_an_agent_it_waits_for_one() -> None:
    waits = after(scheduled(IDLE_SESSION), fire())

    assert (waits.agent, [queued.turn_id for queued in waits.queue]) == (None, ["t9"])


def test_an_agent_that_is_started_goes_on_with_calls_that_the_policies_forbid_by_now() -> None:
    waiting = after(scheduled(ASKED), finish(asks(PAY), CAREFUL))
    gone = evolve(waiting, AgentStopped("a", "shutdown"))
    command = fire(agent_id="c", rules=Rules(policies=PAY_IS_DENIED))

    names = [type(event).__name__ for event in decide(gone, command)]

    assert names[:3] == ["ScheduleFired", "AgentStarted", "ToolResult"]
    assert "TurnContinued" in names
    assert names[-1] == "MessageAccepted"
    goes_on = after(gone, command)
    assert goes_on.turn is not None
    assert (goes_on.turn.id, [queued.turn_id for queued in goes_on.queue]) == ("t8", ["t9"])


@pytest.mark.parametrize(
    ("at", "late", "then"),
    [
        (DUE, False, DUE + EVERY),
        (DUE + LATE, False, DUE + EVERY),
        (DUE + LATE + 1, True, DUE + EVERY),
        (DUE + EVERY, True, DUE + 2 * EVERY),
        (DUE + EVERY - 1, True, DUE + EVERY),
        (DUE + 10 * EVERY + 5, True, DUE + 11 * EVERY),
        (DUE - 5, False, DUE + EVERY),
    ],
)
def test_what_was_missed_comes_once_and_late(at: int, late: bool, then: int) -> None:  # noqa: FBT001 - the table's
    event = fired(scheduled(IDLE, EVERY), at)

    assert (event.due, event.late, event.then) == (DUE, late, then)
    assert [one.due for one in after(scheduled(IDLE, EVERY), fire(at)).schedules] == [then]


def test_the_last_one_comes_not_after_the_end() -> None:
    assert fired(scheduled(IDLE, EVERY, DUE + EVERY), DUE).then == DUE + EVERY
    assert fired(scheduled(IDLE, EVERY, DUE + EVERY - 1), DUE).then is None


def test_a_time_comes_once() -> None:
    over = after(scheduled(IDLE, EVERY), fire())

    assert decide(over, fire()) == ()
    assert decide(IDLE, fire()) == ()
    assert len(decide(over, fire(due=DUE + EVERY))) == 2


def test_a_schedule_is_cancelled_once() -> None:
    cancel = CancelSchedule(schedule_id="q")
    session = scheduled(scheduled(IDLE), EVERY)

    assert decide(session, cancel) == (ScheduleCancelled("q"),)
    assert after(session, cancel).schedules == ()
    assert decide(IDLE, cancel) == ()


def test_other_schedules_stay() -> None:
    both = after(scheduled(IDLE), ScheduleMessage(session_id="s", schedule_id="p", content=REPORT, due=DUE))

    assert [one.id for one in after(both, fire()).schedules] == ["p"]


def test_what_is_to_come_is_not_that_of_branches_nor_of_deleted_sessions() -> None:
    session = scheduled(IDLE)

    assert evolve(session, SessionBranched("b", "c", "i", 1, "s", 3, "")).schedules == ()
    assert after(session, Delete(session_id="s", at=1)).schedules == ()


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
AT_NOON = 1_893_499_200 * SECOND
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("at", "every", "until", "expected"),
    [
        (NOON, None, None, (AT_NOON, None, None)),
        (NOON.astimezone(), 60, NOON, (AT_NOON, EVERY, AT_NOON)),
        (None, 1.5, None, (AT_NOON - 3600 * SECOND + 1_500_000, 1_500_000, None)),
        (NOON - 2 * HOUR, None, None, (AT_NOON - 7200 * SECOND, None, None)),
    ],
)
def test_times_are_those_that_are_meant(
    at: datetime | None, every: float | None, until: datetime | None, expected: tuple[int, int | None, int | None]
) -> None:
    assert times_of(AT_NOON - 3600 * SECOND, at, every, until) == expected


def test_an_end_before_the_beginning_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="before the first"):
        times_of(AT_NOON, None, 60, NOON)


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({}, "say when"),
        ({"at": 5}, "`at` must be a datetime"),
        ({"at": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001 - that is the point
        ({"every": 0}, "from 1 to"),
        ({"every": True}, "from 1 to"),
        ({"every": float("nan")}, "from 1 to"),
        ({"every": 1e10}, "from 1 to"),
        ({"every": "1"}, "from 1 to"),
        ({"every": 60, "until": 5}, "`until` must be a datetime"),
        ({"at": NOON, "until": NOON}, "goes with `every`"),
        ({"at": datetime(9999, 12, 31, 23, tzinfo=timezone(-HOUR))}, "of the years 2 to 9998"),
        ({"at": datetime(1, 1, 1, tzinfo=timezone(HOUR))}, "of the years 2 to 9998"),
        ({"every": 60, "until": datetime.max.replace(tzinfo=UTC)}, "`until` must be a time of the years 2 to 9998"),
    ],
)
def test_times_that_cannot_be_meant_are_refused(times: dict[str, object], problem: str) -> None:
    request = made(AgentScheduleRequest, session_id="s", content="Hello", **times)

    with pytest.raises(InvalidInputError, match=problem):
        checked(request)


def test_a_message_that_cannot_be_accepted_is_refused_at_once() -> None:
    with pytest.raises(InvalidMessageError):
        checked(AgentScheduleRequest(session_id="s", content=" ", every=60))
