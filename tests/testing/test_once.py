"""Actors that carry requests out once, under the kit and the machine: crashed, overtaken, asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from reenact.actors.journal.api import Remembered
from reenact.actors.journal.codec import Event as BaseEvent
from reenact.actors.kernel import EventSourcedActor
from reenact.domain.errors import RequestReusedError
from reenact.testing import EventSourcedTestKit, ReplayError, ReplayMachine

MAILS: list[str] = []
IDS = ("a", "b")
REQUESTS = ("r1", "r2", "r3")


class Pay(msgspec.Struct, frozen=True):
    """Pay in; nothing has no events. `request` is what asks for it."""

    amount: int
    request: str | None = None


class Paid(BaseEvent, frozen=True):
    amount: int
    request: str | None


Command: TypeAlias = Pay
Event: TypeAlias = Paid


class Till(EventSourcedActor[int, Pay, Paid]):
    """Carries out once what bears a request; replies with the sum."""

    category = "till"
    initial = 0
    events = MappingProxyType({"paid": Paid})
    snapshot_every = 3

    @staticmethod
    def decide(state: int, command: Pay) -> Sequence[Paid]:
        return [Paid(command.amount, command.request)] if command.amount else []

    @staticmethod
    def evolve(state: int, event: Paid) -> int:
        return state + event.amount

    def remember(self, command: Pay, events: tuple[Paid, ...], after: int, recorded_at: int) -> Remembered | None:
        if command.request is None:
            return None
        note = f"{self.context.id} {after}"
        return Remembered(command.request, str(command.amount).encode(), note.encode(), recorded_at)

    def reply(self, command: Pay, events: tuple[Paid, ...]) -> int:
        return self.state


class Chatty(Till):
    """Sends a mail before anything is durable."""

    def remember(self, command: Pay, events: tuple[Paid, ...], after: int, recorded_at: int) -> Remembered | None:
        MAILS.append("paid")
        return super().remember(command, events, after, recorded_at)


def test_the_kit_tells_of_a_request_that_is_sent_again_as_of_a_refusal() -> None:
    with EventSourcedTestKit(Till) as kit:
        kit.when(Pay(5, "r")).then(Paid(5, "r")).then_replied(5)
        kit.when(Pay(5, "r")).then_refused(RequestReusedError, request_id="r").then_state(5)
        kit.when(Pay(0, "s")).then_nothing().then_replied(5)
        kit.when(Pay(0, "s")).then_refused(RequestReusedError, request_id="s")

        kit.restart()

        kit.when(Pay(0, "s")).then_refused(RequestReusedError, request_id="s")
        kit.when(Pay(0)).then_nothing().then_replied(5)
        kit.check()


def test_the_kit_does_not_ask_a_request_again_by_itself() -> None:
    with EventSourcedTestKit(Till) as kit:
        kit.when(Pay(0)).then_replied(0)
        kit.when(Pay(0, "s")).then_replied(0)

        kit.restart().check()

        remembered = kit.journal.remembered("s")
        assert remembered is not None
        assert remembered.note == b"test 0"


def test_an_effect_while_a_request_is_remembered_is_found() -> None:
    MAILS.clear()
    with (
        EventSourcedTestKit(Chatty, effects=lambda: MAILS) as kit,
        pytest.raises(ReplayError, match=r"remember has an effect before anything is durable:\n  effects: list of"),
    ):
        kit.when(Pay(5, "r"))


commands = st.builds(Pay, st.integers(0, 3), st.sampled_from([None, *REQUESTS]))


class TillMachine(ReplayMachine):
    """A request has at most one effect, wherever it was sent; whoever was answered was the only one."""

    actor = Till
    commands = commands
    ids = IDS

    def __init__(self) -> None:
        self.served: Counter[str] = Counter()
        super().__init__()

    def answered(self, id: str, command: Pay, reply: int) -> None:  # noqa: A002 - the machine's own word
        if command.request is not None:
            self.served[command.request] += 1
            remembered = self.stage.journal.remembered(command.request)
            assert remembered is not None
            assert remembered.note.startswith(f"{id} ".encode())

    @rule(id=st.sampled_from(IDS), other=commands, command=commands)
    def ask_when_overtaken(self, id: str, other: Pay, command: Pay) -> None:  # noqa: A002 - likewise
        """Let another writer record what bears no request: it knows nothing of `remember`."""
        super().ask_when_overtaken(id, Pay(other.amount), command)

    @invariant()
    def no_request_is_carried_out_twice(self) -> None:
        recorded: list[Any] = [entry.event for entry in self.stage.journal.read_all(limit=1_000_000)]
        effects = Counter(event.request for event in recorded if event.request is not None)
        assert max([*effects.values(), *self.served.values()], default=0) <= 1
        for request in {*effects, *self.served}:
            remembered = self.stage.journal.remembered(request)
            assert remembered is not None
            assert (remembered.digest == b"0") == (request not in effects)


TestTill = TillMachine.TestCase
TestTill.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
