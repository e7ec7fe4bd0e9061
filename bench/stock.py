"""The plain `eventsourcing` library in a `pykka.ThreadingActor`: aggregates saved by its `Application`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pykka
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from bench.measure import must


class StockAccount(Aggregate):
    """A balance as an aggregate of the library."""

    def __init__(self) -> None:
        self.balance = 0

    @event("Deposited")
    def deposit(self, amount: int) -> None:
        """Deposit the amount."""
        self.balance += amount


class StockBank(pykka.ThreadingActor):
    """Keeps accounts in memory; each deposit is durable, in a transaction of its own, when it replies."""

    use_daemon_thread = True

    def __init__(self, application: Application[Any], accounts: int) -> None:
        super().__init__()
        self._application = application
        self._accounts = [StockAccount() for _ in range(accounts)]

    def on_receive(self, message: int) -> int:
        account = self._accounts[message]
        account.deposit(amount=1)
        self._application.save(account)
        return account.balance


def stock_deposits(directory: Path, accounts: int, each: int) -> float:
    """Make deposits into each account, on SQLite with the library's setting FULL; return the deposits per second."""
    application = Application[Any](
        {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(directory / "stock.db")}
    )
    bank = StockBank.start(application, accounts)
    try:
        begun = time.perf_counter()
        for number in range(each):
            waiting = [bank.ask(account, block=False) for account in range(accounts)]
            must({future.get() for future in waiting} == {number + 1}, "every account has had as many deposits")
        return accounts * each / (time.perf_counter() - begun)
    finally:
        bank.stop()
        application.close()
