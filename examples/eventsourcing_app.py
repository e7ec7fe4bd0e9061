"""An `Application` of the `eventsourcing` library on a log of Reenact; given a number, it measures that many saves.

`python eventsourcing_app.py 1000` prints how many saves a second the log and the library's own SQLite recorder make.
It prints:

    ann has 300
    nothing is wrong: 4 events
    after somebody wrote into the file, at event 3: the row or the one before it was changed
"""

import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from reenact import Audit


class Account(Aggregate):
    def __init__(self, name: str) -> None:
        self.name = name
        self.balance = 0

    @event("Deposited")
    def deposit(self, amount: int) -> None:
        self.balance += amount


def on_our_log(path: Path) -> Application[Any]:
    settings = {"PERSISTENCE_MODULE": "reenact.actors.journal.recorder", "SQLITE_DBNAME": str(path)}
    return Application(settings)


def on_its_own(path: Path) -> Application[Any]:
    return Application({"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)})


def demonstrate(path: Path) -> None:
    application = on_our_log(path)
    ann = Account("ann")
    for _ in range(3):
        ann.deposit(100)
        application.save(ann)
    saved: Account = application.repository.get(ann.id)
    print(f"ann has {saved.balance}")
    application.close()
    with Audit.open(path) as audit:
        print(f"nothing is wrong: {audit.verify().events} events")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE steps SET events = replace(events, x'64', x'65') WHERE number = 2")
    with Audit.open(path) as audit:
        finding = audit.verify().findings[0]
        print(f"after somebody wrote into the file, at event {finding.position}: {finding.problem}")


def saves_per_second(application: Application[Any], saves: int) -> float:
    account = Account("ann")
    begun = time.perf_counter()
    for _ in range(saves):
        account.deposit(1)
        application.save(account)
    took = time.perf_counter() - begun
    application.close()
    return saves / took


def measure(directory: Path, saves: int) -> None:
    for kind, opened in (("our log", on_our_log), ("its own recorder", on_its_own)):
        print(f"{kind}: {saves_per_second(opened(directory / f'{kind}.db'), saves):,.0f} saves a second")


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        if sys.argv[1:]:
            measure(Path(directory), int(sys.argv[1]))
        else:
            demonstrate(Path(directory) / "accounts.db")
