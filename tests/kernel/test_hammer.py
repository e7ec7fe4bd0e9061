"""Many threads, many actors: nothing lost, nothing twice, nobody on two threads."""

from __future__ import annotations

import random
import threading
from collections import Counter

from reenact.actors.kernel import ActorContext, ActorSystem, PooledFuture
from reenact.domain.errors import StorageError
from tests.kernel.account import Account, Audit, Command, Deposit, Deposited, Event
from tests.kernel.memory import MemoryJournal
from tests.threads import at_once

THREADS, ACCOUNTS, EACH = 4, 20, 400


class GuardedAccount(Account):
    """An account that notices when two threads are inside it."""

    def __init__(self, context: ActorContext) -> None:
        super().__init__(context)
        self._inside = threading.Lock()

    def prepare(self, command: Command) -> Command:
        self._alone()
        return command

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        self._alone()

    def _alone(self) -> None:
        assert self._inside.acquire(blocking=False)
        sum(range(20))
        self._inside.release()


def test_every_deposit_of_many_threads_is_recorded_once(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as system:

        def deposit(seed: int) -> None:
            chance = random.Random(seed)
            for number in range(EACH):
                account = system.actor(GuardedAccount, str(chance.randrange(ACCOUNTS)))
                if number % 10:
                    account.tell(Deposit(1))
                else:
                    account.ask(Deposit(1))

        at_once(deposit, THREADS)

        balances = [system.actor(GuardedAccount, str(n)).ask(Audit()) for n in range(ACCOUNTS)]
        assert sum(balances) == THREADS * EACH


def test_nothing_is_lost_between_incarnations(journal: MemoryJournal) -> None:
    """Accounts stop all the time, by request and because the disk fails; what was acknowledged is what was recorded."""
    acknowledged: list[Counter[str]] = [Counter() for _ in range(THREADS)]
    with ActorSystem(journal) as system:

        def deposit(seed: int) -> None:
            chance = random.Random(seed)
            futures: list[tuple[str, PooledFuture[int]]] = []
            for number in range(EACH):
                name = str(chance.randrange(ACCOUNTS))
                account = system.actor(GuardedAccount, name)
                if number % 20 == 0:
                    account.stop()
                if number % 50 == 0:
                    journal.fail_next(StorageError("for once"))
                futures.append((name, account.ask_future(Deposit(1))))
            for name, future in futures:
                try:
                    future.get(timeout=60)
                except StorageError:
                    continue
                acknowledged[seed][name] += 1

        at_once(deposit, THREADS)

    recorded = Counter(entry.stream for entry in journal.read_all(limit=THREADS * EACH + 1))
    assert recorded == sum(acknowledged, Counter[str]())
    assert recorded.total() >= THREADS * EACH - THREADS * EACH // 50
    assert all(entry.event == Deposited(1) for entry in journal.read_all(limit=THREADS * EACH))


def test_the_messages_of_one_sender_stay_in_order_while_the_actor_stops_and_starts(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as system:

        def deposit(seed: int) -> None:
            for number in range(EACH):
                system.actor(Account, "a").tell(Deposit(seed * EACH + number))
                if number % 7 == 0:
                    system._ask_to_stop((Account, "a"))

        at_once(deposit, THREADS)

    amounts = [entry.event.amount for entry in journal.read_all(limit=THREADS * EACH + 1)]
    assert sorted(amounts) == list(range(THREADS * EACH))
    for seed in range(THREADS):
        of_one = [amount for amount in amounts if amount // EACH == seed]
        assert of_one == sorted(of_one)
