"""What the commands of a chat work on: the session, who shows the results, and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reenact.cli.chat.current import Current
from reenact.cli.chat.decisions import Decision
from reenact.cli.extensions.base import Extending
from reenact.domain.errors import ReenactError
from reenact.domain.people import PendingCall


class Talking(Protocol):
    """What commands need of whoever asks the agent and shows what comes of it."""

    def ask(self, question: str) -> object:
        """Ask what was typed; what calls a command of an extension is that."""
        ...

    def ask_as_it_is(self, text: str) -> object:
        """Ask what was typed, also if it looks like a command."""
        ...

    def take_up(self, turn_ids: Sequence[str]) -> object:
        """Hear out turns that were waiting."""
        ...

    def see_to(self, pending: Sequence[PendingCall]) -> object:
        """Ask the person about these calls, or tell of them where there is none."""
        ...

    def carry_out(self, decision: Decision) -> object:
        """Tell the agent of a decision, and hear what follows."""
        ...

    def fail(self, error: ReenactError) -> object:
        """Tell why a command did not do what it is for."""
        ...


@dataclass(frozen=True, kw_only=True)
class Context:
    """What commands work on; `width` is that of the terminal, and `run` runs a command of its shell.

    Both are None where no person is at one.
    """

    current: Current
    talking: Talking
    extending: Extending
    say: Callable[[str], None]
    width: Callable[[], int] | None = None
    run: Callable[[str], object] | None = None
    listed: list[str] = field(default_factory=list[str])
    """The sessions that were listed last, in the order in which they were numbered."""

    @property
    def has_person(self) -> bool:
        """Whether a person at a terminal types the lines."""
        return self.width is not None


def settle(context: Context) -> None:
    """See to what waits in the session: calls for the person, and then messages for the agent."""
    current = context.current
    waiting, current.waiting = current.waiting, []
    if pending := current.conversation.pending():
        context.talking.see_to(pending)
    if waiting and not current.conversation.pending():
        context.talking.take_up(waiting)
