"""The machine as a user points it at an actor: what it asks, what it tells, and what it finds again."""

from __future__ import annotations

import threading
from collections import Counter
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from reenact.actors.kernel import ActorContext, EventSourcedActor, PooledActor, Supervision, Timer
from reenact.actors.kernel.persistent import AnyActor
from reenact.testing import ReplayError, ReplayMachine
from reenact.testing.portrait import finding
from tests.testing.account import Account, Audit, Command, Deposit, Deposited, Withdraw, Withdrawn, amounts, commands

SETTINGS = settings(
    max_examples=10,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate],
)


class AccountMachine(ReplayMachine):
    """Judges replies by sums over the log."""

    actor = Account
    commands = commands

    def __init__(self) -> None:
        self.mails: list[str] = []
        super().__init__()

    def make(self, context: ActorContext) -> AnyActor:
        return Account(context, self.mails)

    def effects(self) -> object:
        return self.mails

    def answered(self, id: str, command: Command, reply: int) -> None:  # noqa: A002 - the machine's own word
        assert reply >= 0


TestAccount = AccountMachine.TestCase
TestAccount.settings = SETTINGS


class Cared(Account):
    """An account that is started again when it has failed, and never has more than two messages waiting."""

    category = "cared"
    supervision = Supervision(max_restarts=3)
    mailbox_limit = 2


class CaredMachine(ReplayMachine):
    actor = Cared
    commands = commands


TestCared = CaredMachine.TestCase
TestCared.settings = settings(SETTINGS, max_examples=4)


class Teller(EventSourcedActor[int, Deposit | Withdraw, Deposited | Withdrawn]):
    """Takes from one account and gives to a child of its own, after the commit; wakes itself up every minute."""

    category = "teller"
    events = MappingProxyType({"given": Deposited, "taken": Withdrawn})
    initial = 0

    @staticmethod
    def decide(state: int, command: Deposit | Withdraw) -> list[Deposited | Withdrawn]:
        return [Deposited(command.amount) if isinstance(command, Deposit) else Withdrawn(command.amount)]

    @staticmethod
    def evolve(state: int, event: Deposited | Withdrawn) -> int:
        return state + 1

    @staticmethod
    def timers(state: int) -> list[Timer[Deposit | Withdraw]]:
        return [Timer(1893456000000000 + 60_000_000 * state, Withdraw(1))] if state < 9 else []

    def on_committed(self, command: Deposit | Withdraw, events: tuple[Deposited | Withdrawn, ...]) -> None:
        self.context.child(Account, "till").tell(Deposit(command.amount))
        self.context.child(Account, "till").ask(Audit())


class TellerMachine(ReplayMachine):
    actor = Teller
    commands = st.builds(Deposit, amounts)
    ids = ("only",)
    pauses = st.sampled_from((59.0, 60.0))


TestTeller = TellerMachine.TestCase
TestTeller.settings = settings(SETTINGS, max_examples=4)


class CountingMachine(ReplayMachine):
    """Counts what was done, to be compared with another run."""

    actor = Account
    commands = commands
    replies: ClassVar[Counter[str]] = Counter()

    def answered(self, id: str, command: Command, reply: int) -> None:  # noqa: A002 - the machine's own word
        type(self).replies[f"{id} {command} {reply}"] += 1


def test_what_a_machine_does_it_does_again() -> None:
    CountingMachine.TestCase.settings = settings(SETTINGS, max_examples=6)
    runs: list[Counter[str]] = []
    for _ in range(2):
        CountingMachine.replies = Counter()
        CountingMachine.TestCase().runTest()
        runs.append(CountingMachine.replies)

    assert runs[0] == runs[1]
    assert runs[0].total() > 5


@pytest.mark.parametrize("initial", [set[int](), list[int](), dict[int, int]()], ids=repr)
def test_an_initial_state_that_evolve_changes_is_the_finding_and_each_example_begins_with_a_copy(
    initial: set[int] | list[int] | dict[int, int],
) -> None:
    def change(state: Any, event: Deposited) -> Any:  # noqa: ANN401 - whatever `initial` is
        if type(initial) is set:
            state.add(event.amount)
        elif type(initial) is dict:
            state[event.amount] = event.amount
        else:
            state.append(event.amount)
        return state

    def deposit(_state: object, command: Deposit) -> list[Deposited]:
        return [Deposited(command.amount)]

    class Shared(EventSourcedActor[Any, Deposit, Deposited]):
        events: ClassVar = {"deposited": Deposited}
        decide = staticmethod(deposit)
        evolve = staticmethod(change)

    kind: type[AnyActor] = Shared
    kind.initial = initial

    class Wrong(ReplayMachine):
        actor = kind
        commands = st.builds(Deposit, st.integers(1, 3))

    Wrong.TestCase.settings = settings(SETTINGS, phases=[Phase.generate, Phase.shrink], max_examples=5)

    with pytest.raises(ReplayError, match=r"^evolve changes the state that it is given"):
        Wrong.TestCase().runTest()


@pytest.mark.parametrize("held", [MappingProxyType[str, int]({}), threading.Lock()], ids=["mapping", "lock"])
def test_an_initial_state_that_cannot_be_copied_is_taken_as_it_is(held: object) -> None:
    def deposit(_state: object, command: Deposit) -> list[Deposited]:
        return [Deposited(command.amount)]

    def add(state: tuple[object, int], event: Deposited) -> tuple[object, int]:
        return state[0], state[1] + event.amount

    class Holder(EventSourcedActor[tuple[object, int], Deposit, Deposited]):
        events: ClassVar = {"deposited": Deposited}
        initial = (held, 0)
        decide = staticmethod(deposit)
        evolve = staticmethod(add)

        def reply(self, command: Deposit, events: tuple[Deposited, ...]) -> int:
            return self.state[1]

    class HolderMachine(ReplayMachine):
        actor = Holder
        commands = st.builds(Deposit, st.integers(1, 3))

    HolderMachine.TestCase.settings = settings(SETTINGS, max_examples=2)
    HolderMachine.TestCase().runTest()


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"commands": commands}, "Wrong.actor must be a subclass of EventSourcedActor, not None"),
        (
            {"actor": PooledActor, "commands": commands},
            "Wrong.actor must be a subclass of EventSourcedActor, not .*Poo",
        ),
        ({"actor": Account}, "Wrong.commands must be a strategy of Hypothesis, .* not None"),
        ({"actor": Account, "commands": [Audit()]}, "Wrong.commands must be a strategy of Hypothesis, .* not .*Audit"),
    ],
)
def test_a_machine_that_lacks_something_says_what_to_give(declared: dict[str, object], told: str) -> None:
    wrong: type[ReplayMachine] = type("Wrong", (ReplayMachine,), declared)

    with pytest.raises(TypeError, match=told):
        wrong()


def test_what_is_broken_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ReplayMachine):
        actor = Account
        commands = commands

        def make(self, context: ActorContext) -> AnyActor:
            return Account(context, [])

    Broken.TestCase.settings = settings(SETTINGS, max_examples=5)
    Broken.TestCase().runTest()

    assert [record.message for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


def test_a_finding_ends_the_run_with_the_steps_that_led_to_it() -> None:
    class Wrong(ReplayMachine):
        actor = Account
        commands = commands

        def answered(self, id: str, command: Command, reply: int) -> None:  # noqa: A002 - as above
            assert reply < 12, f"{reply} is too much for {id}"

    Wrong.TestCase.settings = settings(SETTINGS, max_examples=40)

    with pytest.raises(AssertionError, match=r"is too much for a") as caught:
        Wrong.TestCase().runTest()

    assert "Deposit(" in "".join(getattr(caught.value, "__notes__", []))


def test_findings_are_told_once_with_what_to_do() -> None:
    text = finding("it is wrong", ["here", "there"], "make it right")

    error = ReplayError([text, text, finding("it is bad")])

    assert str(error) == "it is wrong:\n  here\n  there\n  (make it right)\n\nit is bad."
    assert error.findings == (text, "it is bad.")
