"""What came of a step of a test, and the words that say what was expected of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from reenact.domain.errors import ReenactError
from reenact.testing.portrait import differences, portrait

if TYPE_CHECKING:
    from reenact.testing.kit import EventSourcedTestKit

State = TypeVar("State")
Command = TypeVar("Command")
Event = TypeVar("Event")

_NOTHING: Final = "nothing"


class Result(Generic[State, Command, Event]):
    """What came of a step, with words to say what was expected of it; each returns the result, to be gone on with."""

    def __init__(
        self,
        kit: EventSourcedTestKit[State, Command, Event],
        step: str,
        *,
        events: tuple[Event, ...],
        state: State,
        reply: Any = None,  # noqa: ANN401 - the actor's to say
        refusal: ReenactError | None = None,
    ) -> None:
        self.events = events
        self.reply = reply
        self.refusal = refusal
        self.state = state
        self._kit = kit
        self._step = step

    def then(self, *events: Event) -> Self:
        """Expect exactly these events, in this order.

        Raises:
            AssertionError: others came, or a refusal.
        """
        if self.refusal is not None:
            raise AssertionError(f"{self._step}: refused with {self.refusal!r}, not {_list(events)}") from self.refusal
        wrong = differences(portrait(events, "events"), portrait(self.events, "events"), verb="expected, there is")
        if wrong:
            raise AssertionError(f"{self._step}: {_list(self.events)}, not {_list(events)}" + _lines(wrong))
        return self

    def then_nothing(self) -> Self:
        """Expect no event, and no refusal."""
        return self.then()

    def then_refused(self, refusal: type[ReenactError], **values: object) -> Self:
        """Expect a refusal of this type, with these values as its attributes.

        Raises:
            AssertionError: it was not refused, or otherwise.
        """
        if not isinstance(self.refusal, refusal):
            came = f"refused with {self.refusal!r}" if self.refusal is not None else _list(self.events)
            message = f"{self._step}: {came}, not refused with {refusal.__name__}"
            raise AssertionError(message) from self.refusal  # noqa: TRY004 - what was expected has not happened
        found = {name: getattr(self.refusal, name, _NOTHING) for name in values}
        wrong = differences(portrait(values, "it"), portrait(found, "it"), verb="expected, there is")
        if wrong:
            raise AssertionError(f"{self._step}: refused with {self.refusal!r}" + _lines(wrong)) from self.refusal
        return self

    def then_replied(self, reply: object) -> Self:
        """Expect this reply.

        Raises:
            AssertionError: there was another one, or a refusal.
        """
        if self.refusal is not None:
            raise AssertionError(f"{self._step}: refused with {self.refusal!r}, not {reply!r}") from self.refusal
        if self.reply != reply:
            raise AssertionError(f"{self._step}: the reply is {self.reply!r}, not {reply!r}")
        return self

    def then_state(self, state: State) -> Self:
        """Expect this state.

        Raises:
            AssertionError: it is another one.
        """
        wrong = differences(portrait(state, "state"), portrait(self.state, "state"), verb="expected, there is")
        if wrong:
            raise AssertionError(f"{self._step}: the state is {self.state!r}, not {state!r}" + _lines(wrong))
        return self

    def when(self, command: Command) -> Result[State, Command, Event]:
        """Go on with the next command."""
        return self._kit.when(command)

    def advance(self, seconds: float) -> Result[State, Command, Event]:
        """Go on after some time."""
        return self._kit.advance(seconds)


def _list(events: Sequence[object]) -> str:
    return ", ".join(map(repr, events)) or "no events"


def _lines(details: Sequence[str]) -> str:
    return "".join(f"\n  {detail}" for detail in details)
