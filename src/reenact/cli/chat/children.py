"""What a person sees of child sessions, below the calls that started them: their tool calls and their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reenact.domain.legible import display_safe
from reenact.domain.loop.ledger import sum_of
from reenact.domain.plain import Json
from reenact.domain.stream.events import ChildEnded, ChildStarted, Envelope, EventData, ToolStarted

CallLine = Callable[[str, Json], str]
"""Formats a call on one line."""


class _Child(NamedTuple):
    """A child session: the session's own call that started it, its depth below that call, and what it has used."""

    call_id: str
    depth: int
    steps: int = 0
    tokens: int = 0


class ChildLine(NamedTuple):
    """A line to show below a call, indented by its depth."""

    call_id: str
    depth: int
    text: str


class Children:
    """The child sessions that have started while an answer was shown."""

    def __init__(self) -> None:
        self._known: dict[str, _Child] = {}
        self._ends: dict[str, str] = {}

    def on_event(self, event: Envelope, call_line: CallLine) -> ChildLine | None:
        """Process an event of a descendant session; return the line that shows it, if there is one."""
        child = self._known.get(event.context.session_id or "")
        if child is None:
            return None
        match event.data:
            case ChildStarted(child_id=child_id):
                self._known[child_id] = _Child(child.call_id, child.depth + 1)
            case ToolStarted(name=name, input=arguments):
                return ChildLine(child.call_id, child.depth, call_line(name, arguments))
            case _:
                pass
        return None

    def on_own_event(self, event: EventData) -> ChildLine | None:
        """Process an event of the session itself; return the line that shows it, if there is one."""
        match event:
            case ChildStarted(call_id=call_id, child_id=child_id, detached=False):
                self._known[child_id] = _Child(call_id, 0)
                return ChildLine(call_id, 0, f"session {display_safe(child_id)}")
            case ChildEnded(call_id=call_id, child_id=child_id) if child_id in self._known:
                known = self._known[child_id]
                steps, tokens = known.steps + event.steps, known.tokens + sum(sum_of(event.usage, {}).values())
                self._known[child_id] = known._replace(steps=steps, tokens=tokens)
                counted = f"{steps} step{'' if steps == 1 else 's'}, {tokens:,} token{'' if tokens == 1 else 's'}"
                self._ends[call_id] = f"{event.outcome}, {counted}"
            case _:
                pass
        return None

    def end_of(self, call_id: str | None) -> str | None:
        """Return how the child session ended that this call started; None if the call started none."""
        return self._ends.get(call_id or "")
