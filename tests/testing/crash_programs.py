"""Programs for the tests of the kit that kills."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue

from reenact import Image, Runtime, tool
from reenact.actors.journal.api import Append, Outcome, Publication
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.testing import MockEnvironmentFactory, MockEvent, MockScenario, Reporter, effect
from tests.journal.support import CODEC, Added, Cleared, said

COUNT = 4


def note(file: Path, what: str) -> None:
    """Write down what no crash of the process takes back."""
    with file.open("a", encoding="utf-8") as notes:
        notes.write(f"{what}\n")


def noted(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def append(reporter: Reporter, directory: Path) -> None:
    """Append some events, one after the other; note who hears of each, and who is told."""

    def listen(publications: Iterable[Publication]) -> None:
        for publication in publications:
            note(directory / "heard", str(publication.first_cursor))

    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    with SqliteJournal.open(directory / "log.db", CODEC, listener=listen, synchronous="OFF") as journal:
        for number in range(COUNT):
            event = Cleared() if number == COUNT - 1 else Added(number)
            journal.append(Append("s", number, number, (event,), (said(str(number)),)), outcomes.put)
            outcomes.get()
            note(directory / "told", str(number + 1))
            reporter.say(number + 1)


def act(reporter: Reporter, directory: Path) -> None:
    """Do some things to the world."""

    @effect
    def knock(times: int) -> int:
        note(directory / "done", "knock")
        return times

    @effect
    async def ring(times: int) -> int:
        note(directory / "done", "ring")
        return times

    reporter.say(knock(1), asyncio.run(ring(2)))


@tool
def dig(depth: int) -> str:
    """Dig a hole."""
    return f"{depth} deep"


def converse(reporter: Reporter, log: Path) -> None:
    """Have an agent run a tool."""
    call = MockEvent("tool_call", data={"id": "c1", "name": "dig", "input": {"depth": 3}})
    asks = MockScenario("asks", (call, MockEvent("message_stop", data={"stop_reason": "tool_use"})))
    mock = MockEnvironmentFactory("asks", {"asks": asks}, delays=False)
    with Runtime.open(log, environment=mock, tools=(dig,), synchronous="OFF") as runtime:
        runtime.images.register(Image(id="i", tools=(dig,)))
        over = threading.Event()
        runtime.events.on("tool_result", lambda _: mock.set_scenario("default"))
        runtime.events.on("turn_completed", lambda _: over.set())
        runtime.request("message_send_request", {"image_id": "i", "content": "Dig"})
        over.wait()
        reporter.say("over")


def count_late(reporter: Reporter, directory: Path) -> None:
    """Say when points are to be counted."""
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    with SqliteJournal.open(directory / "log.db", CODEC, synchronous="OFF") as journal:
        for number in range(COUNT):
            if number == 2:
                reporter.arm()
            journal.append(Append("s", number, number, (Added(number),)), outcomes.put)
            outcomes.get()


def talk(reporter: Reporter, word: str) -> None:
    """Say something for as long as it lives."""
    while True:
        reporter.say(word, os.getpid())


def wait(reporter: Reporter) -> None:
    """Do nothing for as long as it lives."""
    reporter.say(os.getpid())
    threading.Event().wait()


def fail(reporter: Reporter, why: str = "no such luck") -> None:
    """Raise."""
    reporter.say("before")
    raise OSError(why)


def end(reporter: Reporter, code: int) -> None:
    """End the process."""
    os._exit(code)


def nothing(reporter: Reporter) -> None:
    """Return at once."""
