"""Whatever is sent, stopped, refused or lost, and in which order: a naive reading of the log agrees with each reply."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Iterable
from typing import Literal

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reenact.actors.kernel import ActorSystem, PooledFuture
from reenact.actors.kernel.step import RETRIES
from reenact.domain.errors import ConflictError, ShardMovedError, StorageError
from reenact.testing.clock import wait_until
from tests.kernel.account import (
    Account,
    Audit,
    Command,
    Deposit,
    Deposited,
    Event,
    OverdrawnError,
    Withdraw,
    Withdrawn,
)
from tests.kernel.memory import MemoryJournal

IDS = ("a", "b", "c")
PATIENCE = 60.0
"""Seconds after which what should have happened has not."""


class Settled(Account):
    """An account that leaves for another node with an even balance only."""

    def can_leave(self) -> bool:
        return self.state % 2 == 0


@dataclasses.dataclass
class Sent:
    """A command, or what the kernel says, whose reply the model does not know yet."""

    command: Command | Literal["stop", "hand off", "drop"]
    future: PooledFuture[int] | PooledFuture[None] | None
    retries: int = RETRIES


@dataclasses.dataclass
class Model:
    """What one account should be: its log, what it knows of it, and what waits."""

    log: list[Event] = dataclasses.field(default_factory=list[Event])
    known: int | None = None
    waiting: deque[Sent] = dataclasses.field(default_factory=deque[Sent])
    in_flight: Sent | None = None
    is_here: bool = True
    is_dropped: bool = False
    leaving: list[Sent] = dataclasses.field(default_factory=list[Sent])

    def balance(self) -> int:
        return sum(e.amount if isinstance(e, Deposited) else -e.amount for e in self.log[: self.known])


class AccountMachine(RuleBasedStateMachine):
    """Moves the journal by hand, and after each rule waits until the model's predictions have come true."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = MemoryJournal(stepwise=True)
        self.models = {name: Model() for name in IDS}
        self.system = self._opened()
        self.under_way: deque[str] = deque()
        self.failures = 0
        self.expected: list[tuple[PooledFuture[int] | PooledFuture[None], int | type[Exception] | None]] = []
        self.alarms = _Alarms()
        logging.getLogger("reenact.kernel").addHandler(self.alarms)

    def teardown(self) -> None:
        while self.under_way:
            self.commit()
        self.system.close()
        self.journal.close()
        logging.getLogger("reenact.kernel").removeHandler(self.alarms)
        self.recorded_events_are_the_models()
        assert self.alarms.heard == []
        assert all(not model.waiting and model.in_flight is None for model in self.models.values())

    @rule(
        name=st.sampled_from(IDS),
        command=st.builds(Deposit, st.integers(1, 5)) | st.builds(Withdraw, st.integers(1, 9)),
    )
    def ask(self, name: str, command: Command) -> None:
        self._ask(name, command)

    @rule(name=st.sampled_from(IDS))
    def audit(self, name: str) -> None:
        self._ask(name, Audit())

    @rule(
        name=st.sampled_from(IDS),
        command=st.builds(Deposit, st.integers(1, 5)) | st.builds(Withdraw, st.integers(1, 9)),
    )
    def tell(self, name: str, command: Command) -> None:
        model = self.models[name]
        if model.leaving and model.in_flight is None:
            self._ask(name, command)  # whether it has left before the second message comes, nobody can say
            return
        model.waiting.append(Sent(command, None))
        self.system.actor(Settled, name).tell(command)
        self._ask(name, Audit())

    @rule(name=st.sampled_from(IDS))
    def stop(self, name: str) -> None:
        future = self.system._ask_to_stop((Settled, name))
        self.models[name].waiting.append(Sent("stop", future))
        self._settle(name)

    @precondition(lambda self: self.under_way)
    @rule()
    def commit(self) -> None:
        name = self.under_way.popleft()
        model = self.models[name]
        sent, model.in_flight = model.in_flight, None
        assert sent is not None
        assert model.known is not None
        if self.failures:
            self.failures -= 1
            self._ends(model)
            self._expect(sent, StorageError)
        elif model.known != len(model.log):
            model.known = len(model.log)
            if model.is_dropped:
                self._expect(sent, ShardMovedError)
            elif sent.retries:
                model.waiting.appendleft(dataclasses.replace(sent, retries=sent.retries - 1))
            else:
                self._expect(sent, ConflictError)
        else:
            model.log.append(_event(sent.command))
            model.known = len(model.log)
            self._expect(sent, model.balance())
        if model.is_dropped:
            self._drops(model)
        self._leaves(model)

        assert self.journal.commit()
        self._settle(name)

    @rule(name=st.sampled_from(IDS), amount=st.integers(1, 5))
    def another_owner_deposits(self, name: str, amount: int) -> None:
        self.models[name].log.append(Deposited(amount))
        self.journal.write(name, Deposited(amount))

    @rule()
    def the_disk_will_fail(self) -> None:
        self.failures += 1
        self.journal.fail_next(StorageError("no space"))

    @precondition(lambda self: not self.under_way)
    @rule()
    def reopen(self) -> None:
        self.system.close()
        self.system = self._opened()
        for model in self.models.values():
            self._ends(model)
        self._check_replies()

    @rule(name=st.sampled_from(IDS))
    def another_node_takes_the_shard(self, name: str) -> None:
        model = self.models[name]
        model.is_here = False
        model.is_dropped = model.known is not None
        model.waiting.append(Sent("drop", None))
        self.system.drop(name.__eq__)
        self._settle(name)

    @rule(name=st.sampled_from(IDS))
    def the_shard_is_left(self, name: str) -> None:
        model = self.models[name]
        model.is_here = False
        gone: PooledFuture[None] = PooledFuture()
        model.waiting.append(Sent("hand off", gone))
        self.system.hand_off(name.__eq__, [True], lambda _: gone.set(None))
        self._settle(name)

    @rule(name=st.sampled_from(IDS))
    def the_shard_is_claimed(self, name: str) -> None:
        self.models[name].is_here = True
        self.system.take_up()

    @invariant()
    def recorded_events_are_the_models(self) -> None:
        for name, model in self.models.items():
            recorded = self.journal.read(name)
            assert [entry.event for entry in recorded] == model.log
            assert [entry.version for entry in recorded] == list(range(1, len(model.log) + 1))

    @invariant()
    def who_is_live_is_known(self) -> None:
        assert self.system.live() == self._live()

    def _ask(self, name: str, command: Command) -> None:
        future = self.system.actor(Settled, name).ask_future(command)
        self.models[name].waiting.append(Sent(command, future))
        self._settle(name)

    def _settle(self, name: str) -> None:
        """Predict what the account does until it is idle or waits for the journal, and wait until it has done so."""
        model = self.models[name]
        while model.waiting and model.in_flight is None:
            sent = model.waiting.popleft()
            if sent.command == "hand off" and model.known is not None:
                model.leaving.append(sent)
            elif isinstance(sent.command, str):
                if sent.command != "hand off":
                    self._ends(model)
                self._expect(sent, None)
                continue
            elif model.known is None and not model.is_here:
                self._expect(sent, ShardMovedError)
                continue
            elif model.known is None:
                model.known = len(model.log)
            if isinstance(sent.command, str):
                pass
            elif isinstance(sent.command, Audit):
                self._expect(sent, model.balance())
            elif isinstance(sent.command, Withdraw) and sent.command.amount > model.balance():
                self._expect(sent, OverdrawnError)
            else:
                model.in_flight = sent
                self.under_way.append(name)
            self._leaves(model)
        self.journal.wait_for_appends(len(self.under_way))
        self._check_replies()
        assert self.journal.under_way() == len(self.under_way)
        wait_until(lambda: self.system.live() == self._live())  # nobody is told that a drop is done

    def _leaves(self, model: Model) -> None:
        """Predict that the account goes if it is to leave, has nothing to do, and may."""
        is_idle = model.known is not None and model.in_flight is None and not model.waiting
        if model.leaving and is_idle and model.balance() % 2 == 0:
            self._ends(model)

    def _drops(self, model: Model) -> None:
        """Predict that the account ends, and what waited when it was dropped with it."""
        self._ends(model)
        while (sent := model.waiting.popleft()).command != "drop":
            self._expect(sent, None if isinstance(sent.command, str) else ShardMovedError)

    def _ends(self, model: Model) -> None:
        model.known = None
        model.is_dropped = False
        for sent in model.leaving:
            self._expect(sent, None)
        model.leaving = []

    def _live(self) -> int:
        return sum(model.known is not None for model in self.models.values())

    def _opened(self) -> ActorSystem:
        return ActorSystem(self.journal, may_start=lambda stream: self.models[stream].is_here)

    def _check_replies(self) -> None:
        for future, reply in self.expected:
            if isinstance(reply, type):
                with pytest.raises(reply):
                    future.get(timeout=PATIENCE)
            else:
                assert future.get(timeout=PATIENCE) == reply
        self.expected.clear()
        assert not any(sent.future.done() for sent in self._unanswered() if sent.future is not None)

    def _unanswered(self) -> Iterable[Sent]:
        for model in self.models.values():
            yield from model.waiting
            if model.in_flight is not None:
                yield model.in_flight

    def _expect(self, sent: Sent, reply: int | type[Exception] | None) -> None:
        if sent.future is not None:
            self.expected.append((sent.future, reply))


def _event(command: Command | str) -> Event:
    assert isinstance(command, Deposit | Withdraw)
    return Deposited(command.amount) if isinstance(command, Deposit) else Withdrawn(command.amount)


class _Alarms(logging.Handler):
    """Hears when the kernel itself breaks, for instance because a command is answered twice."""

    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


TestAccounts = AccountMachine.TestCase
