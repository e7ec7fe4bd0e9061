"""Each planted bug is found by the kit and by the machine, and named; their healthy twins pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from reenact.actors.journal.api import Append, Committed, Done, Journal, Outcome, Snapshot, Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.opening import open_journal
from reenact.actors.kernel import EventSourcedActor
from reenact.actors.kernel.snapshots import SnapshotForm
from reenact.actors.kernel.step import Step
from reenact.domain.errors import StorageError
from reenact.testing import EventSourcedTestKit, FaultyJournal, ReplayError, ReplayMachine
from tests.testing import account, mutants
from tests.testing.account import Account, Audit, Balance, Deposit, Deposited, Withdraw, Withdrawn

AnyActor = EventSourcedActor[Any, Any, Any]
Kit = EventSourcedTestKit[Any, Any, Any]

COINS = (mutants.Open([3, 4]), mutants.Open([]), mutants.Open([5]))
DEPOSITS = (Deposit(3), Deposit(2))
coins = st.builds(mutants.Open, st.lists(st.integers(1, 9), max_size=3))
deposits = st.builds(Deposit, st.integers(1, 9))

SETTINGS = settings(
    max_examples=12,
    stateful_step_count=15,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate],
)


class Mutant(NamedTuple):
    """A class with a planted bug, what is said about it, and what it is asked."""

    actor: type[AnyActor]
    finding: str
    script: Sequence[object] = mutants.USE
    commands: st.SearchStrategy[Any] = account.commands


MUTANTS = (
    Mutant(mutants.ReadsTheTime, r"evolve does more than return.*\n  it reads the clock \(time.time\)"),
    Mutant(mutants.ReadsTheDate, r"evolve does more than return.*\n  it reads the clock \(datetime.now\)"),
    Mutant(mutants.LeavesToChance, r"evolve does more than return.*\n  it leaves something to chance \(random\)"),
    Mutant(mutants.ReadsTheActorsClock, r"decide does more than return.*\n  it reads the clock \(context.clock\)"),
    Mutant(mutants.Counts, r"decide returns something else when it is called again.*\n  it\[0\].note: 'number"),
    Mutant(mutants.Remembers, r"decide has an effect before anything is durable.*\n  self.asked: "),
    Mutant(mutants.RemembersInPlace, r"decide has an effect before anything is durable.*\n  self.asked: dict of 1 "),
    Mutant(mutants.RemembersForAll, r"decide has an effect before anything is durable.*\n  self.asked: list of "),
    Mutant(
        mutants.DecidesToRaiseDifferently, r"decide returns something else when it is called again.*\n(.*\n)*  it.free"
    ),
    Mutant(mutants.EvolveRaises, "evolve raised ZeroDivisionError.* for Withdrawn", (Deposit(4), Withdraw(4))),
    Mutant(mutants.DecideMutatesTheState, r"decide changes the state.*\n  state.coins: list of", COINS, coins),
    Mutant(mutants.DecideMutatesTheCommand, r"decide changes the command.*\n  command.coins: list of", COINS, coins),
    Mutant(mutants.EvolveMutatesInPlace, r"evolve changes the state.*\n  state.coins: list of", COINS, coins),
    Mutant(mutants.AppliesTwice, r"on_committed changes the state.*\n  state.amount: \d+ became"),
    Mutant(mutants.RecoversToMore, r"on_recovered changes the state.*\n  state.amount: \d+ became"),
    Mutant(mutants.ReplySpends, r"reply changes the state.*\n  state.amount: \d+ became 0"),
    Mutant(mutants.SendsWhenPreparing, r"prepare has an effect before anything is durable:\n  effects: list of"),
    Mutant(mutants.SendsWhenDeciding, r"decide has an effect before anything is durable.*\n  effects: list of"),
    Mutant(mutants.TellsWhenAnnouncing, r"announce has an effect before.*\n  it tells another actor something"),
    Mutant(mutants.SchedulesWhenDeciding, r"decide does more than return.*\n  it schedules a command"),
    Mutant(mutants.ForgetfulSnapshot, r"a snapshot of .* does not keep its state:\n  state.reserved: tuple of 1"),
    Mutant(
        mutants.SnapshotOfTheWrongKind, "a snapshot of .* does not keep its state:\\n  state: Premium became Balance"
    ),
    Mutant(mutants.UnreadableSnapshot, "the snapshot of .* cannot be read again"),
    Mutant(mutants.UnstorableSnapshot, "no snapshot can be taken of"),
    Mutant(mutants.EmitsTheUnnamed, r"cannot be stored:\n  Unnamed has no stored form"),
    Mutant(mutants.EmitsTheLoose, r"comes back from the log as.*\n  Loose.amounts: tuple of 1", DEPOSITS, deposits),
    Mutant(mutants.ImpatientTimers, r"timers does more than return.*\n  it reads the clock \(time.time_ns\)"),
    Mutant(mutants.CountingTimers, "timers returns something else when it is called again"),
)
HEALTHY = (
    Mutant(Account, ""),
    Mutant(mutants.PurseActor, "", COINS, coins),
)
each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.actor.__name__)
each_healthy_twin = pytest.mark.parametrize("twin", HEALTHY, ids=lambda twin: twin.actor.__name__)


@pytest.fixture(autouse=True)
def no_mails() -> Iterator[None]:
    mutants.MAILS.clear()
    mutants.PurseActor.initial.coins.clear()
    yield
    mutants.MAILS.clear()
    mutants.PurseActor.initial.coins.clear()


def use(kit: Kit, script: Sequence[object]) -> None:
    for command in script:
        kit.when(command)
    kit.advance(3600)
    kit.restart()


def run_machine(mutant: Mutant) -> None:
    class Machine(ReplayMachine):
        actor = mutant.actor
        commands = mutant.commands

        def effects(self) -> object:
            return mutants.MAILS

    Machine.TestCase.settings = SETTINGS
    Machine.TestCase().runTest()


@each_mutant
def test_the_kit_finds_a_planted_bug(mutant: Mutant) -> None:
    with (
        EventSourcedTestKit(mutant.actor, effects=lambda: mutants.MAILS) as kit,
        pytest.raises(ReplayError, match=mutant.finding),
    ):
        use(kit, mutant.script)


@pytest.mark.no_cover
@each_mutant
def test_the_machine_finds_a_planted_bug(mutant: Mutant) -> None:
    with pytest.raises(ReplayError, match=mutant.finding):
        run_machine(mutant)


@each_healthy_twin
def test_the_kit_finds_nothing_in_a_healthy_twin(twin: Mutant) -> None:
    with EventSourcedTestKit(twin.actor, effects=lambda: mutants.MAILS) as kit:
        use(kit, twin.script)


@pytest.mark.no_cover
@each_healthy_twin
def test_the_machine_finds_nothing_in_a_healthy_twin(twin: Mutant) -> None:
    run_machine(twin)


# What no single run shows, and what only the kit can be told.


def test_a_reply_from_what_is_not_durable_is_found_when_another_writer_was_faster() -> None:
    with EventSourcedTestKit(mutants.RepliesFromWhatIsNotDurable) as kit:
        kit.given(Deposited(10)).when(Audit()).then_replied(10)
        kit.journal.conflict_next(Withdrawn(5))
        kit.when(Withdraw(6)).then_refused(account.OverdrawnError)
        kit.when(Audit())

        with pytest.raises(ReplayError, match=r"answers Audit\(\) differently after a restart:\n  the reply: 4 before"):
            kit.restart()


REMEMBERS = (
    r"decide returns something else when the actor is made anew, in decide\(Withdraw.*\n  it\[0\].note: 'number \d"
)


def test_the_kit_finds_a_decision_by_what_is_not_in_the_state_when_the_actor_is_made_anew() -> None:
    with EventSourcedTestKit(mutants.DecidesByWhatItRemembers) as kit:
        kit.given(Deposited(9))
        kit.when(Withdraw(1))
        kit.when(Withdraw(1)).then(Withdrawn(1, "number 1"))
        kit.restart()
        with pytest.raises(ReplayError, match=REMEMBERS):
            kit.when(Audit())


@pytest.mark.no_cover
def test_the_machine_finds_a_decision_by_what_is_not_in_the_state() -> None:
    with pytest.raises(ReplayError, match=REMEMBERS):
        run_machine(Mutant(mutants.DecidesByWhatItRemembers, REMEMBERS))


def test_an_upcast_that_is_wrong_is_found_by_its_example() -> None:
    for actor, message in (
        (mutants.WrongUpcast, "'withdrawn' version 1 with .* cannot be read"),
        (mutants.ForgetfulUpcast, "event.amount: 3 expected, read is 0"),
    ):
        with EventSourcedTestKit(actor) as kit, pytest.raises(ReplayError, match=message):
            kit.upcasts("withdrawn", version=1, fields=[3], becomes=Withdrawn(3, ""))


def test_a_kernel_that_believes_what_was_refused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    settles = AnyActor._handle_append_outcome

    def believes_anything(self: AnyActor, step: Step[Any, Any, Any], outcome: Outcome) -> bool:
        if isinstance(outcome, StorageError):
            outcome = Committed(self.version + len(step.events), 0)
        return settles(self, step, outcome)

    monkeypatch.setattr(EventSourcedActor, "_handle_append_outcome", believes_anything)

    with pytest.raises(ReplayError, match="before they are durable"):
        run_machine(Mutant(Account, ""))


def test_a_kernel_that_forgets_the_last_event_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = AnyActor._recover

    def recover_less(self: AnyActor) -> None:
        recover(self)
        self.state = type(self).replay(self.context.journal.read(self.context.stream)[:-1])

    monkeypatch.setattr(EventSourcedActor, "_recover", recover_less)

    with pytest.raises(ReplayError, match=r"the live account/. is not what its log says"):
        run_machine(Mutant(Account, ""))


def test_a_kernel_that_takes_a_snapshot_of_another_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = SnapshotForm[Balance].taken_if_possible

    def taken_of_another_state(
        self: SnapshotForm[Balance], stream: str, version: int, state: Balance
    ) -> Snapshot | None:
        # The state itself passes, so that only what stands in the log is wrong.
        return taken(self, stream, version, state if version % 2 else msgspec.structs.replace(state, amount=0))

    monkeypatch.setattr(SnapshotForm, "taken_if_possible", taken_of_another_state)

    with pytest.raises(ReplayError, match=r"the snapshot of account/. at version . is not what the events say"):
        run_machine(Mutant(Account, ""))


class ForgetfulJournal(FaultyJournal):
    """Acknowledges each second step, and does not write it."""

    steps = 0

    def append(self, step: Append, done: Done) -> None:
        self.steps += 1
        if self.steps % 2 or step.after is None:
            super().append(step, done)
            return
        version = step.after + len(step.events)
        super().append(
            Append(step.stream, None, step.recorded_at),
            lambda outcome: done(Committed(version, outcome.position) if isinstance(outcome, Committed) else outcome),
        )


def test_a_journal_that_forgets_what_it_has_acknowledged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_forgetful(path: Path, codec: EventCodec, *, synchronous: Synchronous) -> Journal:
        return ForgetfulJournal(open_journal(path, codec, synchronous=synchronous))

    monkeypatch.setattr("reenact.testing.stage.open_journal", open_forgetful)

    with pytest.raises(ReplayError, match=r"before they are durable|does not hold what was written to it"):
        run_machine(Mutant(Account, ""))
