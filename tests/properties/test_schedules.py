"""Schedules, time, crashes and restarts in any order: no message is lost, none comes twice, what was missed comes late.

A plain reading of the times says what must have come.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reenact import Image, Runtime
from reenact.domain.messages import instant, text_of
from reenact.domain.session.agent import MessageAccepted, ScheduleFired
from reenact.testing import ManualClock, MockEnvironmentFactory, wait_until
from tests.examples import examples
from tests.logs import copy_log, log_at

SECOND: Final = 1_000_000
SESSIONS: Final = ("a", "b")
seconds = st.sampled_from([0.0, 0.5, 1.0, 7.0, 30.0, 65.0])
sessions = st.sampled_from(SESSIONS)
E = TypeVar("E")


class Planned:
    """A schedule, read naively: when its next message comes."""

    def __init__(self, session_id: str, due: int, every: int | None, until: int | None) -> None:
        self.session_id = session_id
        self.due: int | None = due
        self.every = every
        self.until = until

    def come(self, now: int) -> tuple[int, bool] | None:
        """Return the time that has come by now, and whether it was missed; go on to the first that is to come."""
        came = self.due
        if came is None or came > now:
            return None
        if self.every is None:
            self.due = None
            return came, now - came > SECOND
        then = came
        while then <= now:
            then += self.every
        self.due = then if self.until is None or then <= self.until else None
        return came, now - came > SECOND


class ScheduleMachine(RuleBasedStateMachine):
    """Plan, wait, crash; what has come is in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock()
        self.log = log_at(self.folder / "agents.db")
        self.crashes = 0
        self.plans: dict[str, Planned] = {}
        self.came: list[tuple[str, int, bool]] = []
        self.open()
        self.runtime.containers.create(container_id="c")
        self.runtime.images.register(Image(id="i"))
        for session_id in SESSIONS:
            self.runtime.sessions.create("c", "i", session_id=session_id)

    def open(self) -> None:
        mock = MockEnvironmentFactory(delays=False)
        self.runtime = Runtime.open(self.log, environment=mock, synchronous="OFF", clock=self.clock)
        self.time_has_come()

    def time_has_come(self) -> None:
        now = self.clock()
        for schedule_id, plan in self.plans.items():
            while (came := plan.come(now)) is not None:
                self.came.append((schedule_id, *came))

    def teardown(self) -> None:
        self.runtime.close()
        shutil.rmtree(self.folder)

    @rule(session_id=sessions, first=st.sampled_from([-5, 0, 1, 8, 40]), until=st.sampled_from([None, None, 50]))
    def schedule(self, session_id: str, first: int, until: int | None) -> None:
        self.plan(session_id, first, None if until is None else 10, until)

    @rule(session_id=sessions, every=st.sampled_from([1, 10, 60]))
    def schedule_again_and_again(self, session_id: str, every: int) -> None:
        self.plan(session_id, None, every, None)

    def plan(self, session_id: str, first: int | None, every: int | None, until: int | None) -> None:
        now = self.clock()
        made = self.runtime.agents.schedule(
            session_id,
            f"{len(self.plans)}",
            at=None if first is None else instant(now) + timedelta(seconds=first),
            every=every,
            until=None if until is None else instant(now) + timedelta(seconds=until),
        )
        begins = first if first is not None else every or 0
        between, end = (None if number is None else number * SECOND for number in (every, until))
        self.plans[made.id] = Planned(session_id, now + begins * SECOND, between, None if end is None else now + end)
        self.time_has_come()

    @rule(pick=st.integers(0, 5))
    def cancel(self, pick: int) -> None:
        for schedule_id, plan in list(self.plans.items())[pick : pick + 1]:
            assert self.runtime.agents.cancel_schedule(schedule_id) == (plan.due is not None)
            plan.due = None

    @rule(seconds=seconds)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.time_has_come()

    @rule(seconds=seconds)
    def crash(self, seconds: float) -> None:
        self.crashes += 1
        ruins = copy_log(self.log, f"ruins-{self.crashes}")
        self.runtime.close()
        self.log = ruins
        self.clock.advance(seconds)
        self.open()

    @rule(seconds=seconds)
    def restart(self, seconds: float) -> None:
        self.runtime.close()
        self.clock.advance(seconds)
        self.open()

    @rule()
    def destroy_the_agents(self) -> None:
        for agent in self.runtime.agents.list():
            self.runtime.agents.destroy(agent.id)

    @invariant()
    def every_message_has_come_once(self) -> None:
        wait_until(lambda: len(self.fired()) >= len(self.came), 30, "all has come that is due")
        assert Counter((event.schedule_id, event.due, event.late) for event in self.fired()) == Counter(self.came)
        for session_id in SESSIONS:
            accepted = {event.turn_id: text_of(event.content) for event in self.events(session_id, MessageAccepted)}
            fired = self.events(session_id, ScheduleFired)
            names = {name: str(number) for number, name in enumerate(self.plans)}
            assert accepted == {event.turn_id: names[event.schedule_id] for event in fired}
            assert all(self.plans[event.schedule_id].session_id == session_id for event in fired)

    @invariant()
    def what_is_to_come_is_listed(self) -> None:
        listed = {one.id: one.at for one in self.runtime.agents.schedules()}
        assert listed == {name: instant(plan.due) for name, plan in self.plans.items() if plan.due is not None}

    def fired(self) -> list[ScheduleFired]:
        return [event for session_id in SESSIONS for event in self.events(session_id, ScheduleFired)]

    def events(self, session_id: str, kind: type[E]) -> list[E]:
        rows = self.runtime._journal.read(f"session/{session_id}")
        return [row.event for row in rows if isinstance(row.event, kind)]


TestSchedules = ScheduleMachine.TestCase
TestSchedules.settings = settings(max_examples=examples(15), stateful_step_count=12)
