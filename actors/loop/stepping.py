"""A step while it is made: what has happened in it so far, and the state that this leads to."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from reenact.domain.loop.adopting import adopted, stamped, with_final_state
from reenact.domain.loop.events import Done, LoopEvent, StepCompleted
from reenact.domain.loop.folding import after, recorded
from reenact.domain.loop.rounds import Stage, given_up
from reenact.domain.loop.state import AgentContext, AgentState, next_context
from reenact.domain.loop.values import FrozenList, frozen


@dataclass(frozen=True)
class StepResult:
    """What a step has come to: its events, the state after it, and what the next runner is told, if one is next.

    It can be awaited, and is then itself: what takes no time may be written like what does.
    """

    events: FrozenList[Any]
    new_state: AgentState
    next_context: AgentContext | None = None

    def __await__(self) -> Generator[None, None, StepResult]:
        yield from ()
        return self


class Step:
    """Takes what happens, in order. `state` is what it leads to, without the step in its history."""

    def __init__(self, before: AgentState, number: int, now: Callable[[], datetime]) -> None:
        self.before = before
        self.number = number
        self.now = now
        self.events: list[LoopEvent] = []
        self.state = before
        self._shown: AgentState | None = None

    def begin(self) -> None:
        """Let the state be that of a conversation in a new step, in which nothing has happened yet."""
        self.state = after(self.before, (self._stamp(StepCompleted()),))

    def shown(self) -> AgentState:
        """Return the state as an executor of somebody's own, or the runner, is given it: with the whole history."""
        self._shown = recorded(self.state, self.before, self.events)
        return self._shown

    def take(self, events: Iterable[LoopEvent]) -> None:
        """Let the events happen."""
        self._happen([self._stamp(event) for event in events])

    def adopt(self, returned: object) -> None:
        """Let happen what an executor of somebody's own has returned, or raise `InvalidOutcomeError`."""
        self._happen(adopted(self.state, returned, self.number, self.now(), shown=self._shown))

    def put_first(self, events: Sequence[LoopEvent]) -> None:
        """Let the events happen before all others of the step."""
        self._happen_anew([*(self._stamp(event) for event in events), *self.events])

    def uncount(self) -> None:
        """Let the step not count against `max_steps`."""
        last = self.events.pop() if self.events else self._stamp(StepCompleted())
        if isinstance(last, Done):
            last = msgspec.structs.replace(last, counted=False)
        else:
            free = self.before.free_steps + 1
            last = msgspec.structs.replace(last, changes=frozen({**(last.changes or {}), "free_steps": free}))
        self._happen_anew([*self.events, last])

    def result(self) -> StepResult:
        """Return what the step has come to. Calls that still wait when the conversation is done are answered so."""
        if self.state.status == "done" and self.state.pending_tool_calls:
            waiting: tuple[Stage, ...] = ("waiting",)
            self.take(given_up(self.state.round, "it was not run, for the conversation is done", stages=waiting))
        if not self.events:
            self.take([StepCompleted()])
        events = with_final_state(self.events, self.state)
        state = recorded(self.state, self.before, events)
        return StepResult(FrozenList(events), state, next_context(state))

    def _stamp(self, event: LoopEvent) -> LoopEvent:
        return stamped(event, self.number, self.now())

    def _happen_anew(self, events: list[LoopEvent]) -> None:
        self.events, self.state = [], self.before
        self._happen(events)

    def _happen(self, events: list[LoopEvent]) -> None:
        self.state = after(self.state, events)
        self.events += events
