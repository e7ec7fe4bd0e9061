"""What the commands of a chat work on: the session, who shows the results, and the terminal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reenact.cli.chat.conversation import Attending
from reenact.cli.chat.current import Current
from reenact.cli.chat.extending import Extending
from reenact.cli.decisions import Decision
from reenact.cli.output.answers import Answer
from reenact.domain.errors import ReenactError
from reenact.domain.people import PendingCall


class Talking(ABC):
    """Asks the agent, and shows what comes of it."""

    @abstractmethod
    def ask(self, text: str, *, as_it_is: bool = False) -> None:
        """Ask what was typed; what calls a command of an extension is that, unless it is meant `as_it_is`."""

    @abstractmethod
    def show(self, act: Callable[[Attending], Answer]) -> None:
        """Show what is answered."""

    @abstractmethod
    def see_to(self, pending: Sequence[PendingCall]) -> None:
        """Ask the person about these calls, or tell of them where there is none."""

    @abstractmethod
    def fail(self, error: ReenactError) -> None:
        """Tell why a command did not do what it is for."""

    def take_up(self, turn_ids: Sequence[str]) -> None:
        """Show how turns are answered that were waiting."""
        self.show(lambda attending: attending.take_up(turn_ids))

    def carry_out(self, decisions: Sequence[Decision]) -> None:
        """Tell the agent of decisions, and show what follows."""
        self.show(lambda attending: attending.carry_out(decisions))


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
