"""What an event-sourced actor does when something goes wrong in it, below it or beside it."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pykka
import pytest

from reenact.actors.kernel import ActorSystem, PooledFuture, RestartLimitError, Supervision, Timer
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError, StorageFullError
from reenact.testing.clock import wait_until
from tests.kernel.nursery import (
    RESTART,
    STOP,
    Add,
    Added,
    Command,
    Do,
    Event,
    Look,
    Nursery,
    Person,
    Stumbled,
    Trip,
    Tripped,
)

BEFORE_THE_APPEND = ["prepare", "decide", "announce", "evolve"]
"""The hooks in which nothing is recorded yet."""


# A hook raises.


@pytest.mark.parametrize("hook", BEFORE_THE_APPEND)
@pytest.mark.parametrize("supervision", [None, RESTART])
def test_what_raises_before_the_append_is_the_askers_and_the_actor_lives_on(
    home: Nursery, hook: str, supervision: Supervision | None
) -> None:
    person = home.person(supervision=supervision)
    person.ask(Add(1))

    with pytest.raises(Stumbled):
        person.ask(Trip(hook))

    assert person.ask(Look()) == 1
    assert home.recorded("person/a") == [Added(1)]
    assert len(home.diary.told("made")) == 1
    assert home.letters == []


@pytest.mark.parametrize("hook", BEFORE_THE_APPEND)
def test_what_was_told_and_raises_is_logged_and_a_dead_letter_and_the_actor_lives_on(
    home: Nursery, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    person = home.person()

    person.tell(Trip(hook))

    assert person.ask(Look()) == 0
    assert home.reasons() == [("person/a", Trip(hook), "Stumbled")]
    assert [record.levelname for record in caplog.records if record.name == "reenact.kernel"] == ["ERROR"]
    assert len(home.diary.told("made")) == 1


@pytest.mark.parametrize("hook", BEFORE_THE_APPEND)
def test_supervised_it_is_a_failure_and_the_actor_starts_again_from_its_log(home: Nursery, hook: str) -> None:
    person = home.person(supervision=RESTART)
    person.ask(Add(5))

    person.tell(Trip(hook))
    waiting = person.ask_future(Look())
    home.pass_backoff()

    assert waiting.get(timeout=60) == 5
    assert home.reasons() == [("person/a", Trip(hook), "Stumbled")]
    assert [entry[0] for entry in home.diary] == [
        *("made", "started", "recovered"),
        "failed",
        *("made", "started", "recovered"),
    ]
    assert home.diary.told("recovered")[-1] == ("recovered", "a", 5, 1)


def test_supervised_an_effect_that_raises_is_a_failure_after_the_reply(home: Nursery) -> None:
    person = home.person(supervision=RESTART)

    assert person.ask(Trip("on_committed")) == 1
    home.wait_for("failed")
    home.pass_backoff()

    assert person.ask(Look()) == 1
    assert home.diary.told("recovered") == [("recovered", "a", 0, 0), ("recovered", "a", 1, 1)]


@pytest.mark.parametrize("supervision", [None, RESTART])
def test_a_reply_that_raises_is_the_askers_and_what_is_recorded_stands(
    home: Nursery, supervision: Supervision | None
) -> None:
    person = home.person(supervision=supervision)

    with pytest.raises(Stumbled):
        person.ask(Trip("reply"))

    assert person.ask(Look()) == 1
    assert home.recorded("person/a") == [Tripped("reply")]
    assert len(home.diary.told("made")) == 1


@pytest.mark.parametrize("hook", ["__init__", "on_start", "on_recovered"])
def test_who_cannot_start_fails_those_who_wait_and_the_next_message_tries_again(home: Nursery, hook: str) -> None:
    kind = home.person_class()
    kind.trips[hook] = Stumbled
    person = home.system.actor(kind, "a")
    person.tell(Add(1))

    with pytest.raises(Stumbled, match=hook):
        person.ask(Look())
    kind.trips.clear()

    assert person.ask(Look()) == 0
    assert home.reasons() == [("person/a", Add(1), "Stumbled")]


@pytest.mark.parametrize("hook", ["__init__", "on_start", "on_recovered"])
def test_supervised_who_cannot_start_is_started_again_and_what_waits_is_kept(home: Nursery, hook: str) -> None:
    kind = home.person_class(supervision=RESTART)
    kind.trips[hook] = Stumbled
    person = home.system.actor(kind, "a")
    person.tell(Add(1))
    waiting = person.ask_future(Look())
    home.pass_backoff()
    home.wait_for_backoff()

    kind.trips.clear()
    home.pass_backoff()

    assert waiting.get(timeout=60) == 1
    assert home.letters == []


@pytest.mark.parametrize("hook", ["__init__", "on_start", "on_recovered"])
def test_supervised_who_can_never_start_gives_up_at_the_limit(home: Nursery, hook: str) -> None:
    kind = home.person_class(supervision=RESTART)
    kind.trips[hook] = Stumbled
    waiting = home.system.actor(kind, "a").ask_future(Look())

    for _ in range(RESTART.max_restarts):
        home.pass_backoff()

    with pytest.raises(RestartLimitError, match=hook):
        waiting.get(timeout=60)


def test_a_command_of_its_own_that_raises_is_a_failure_too(home: Nursery) -> None:
    class Starter(Person):
        def on_recovered(self) -> list[Command]:
            return [Trip("decide"), Add(1)] if len(self.diary.told("failed")) < 2 else [Add(10)]

    person = home.person(supervision=RESTART, base=Starter)
    waiting = person.ask_future(Look())
    home.pass_backoff()
    home.pass_backoff()

    assert waiting.get(timeout=60) == 10
    assert home.recorded("person/a") == [Added(10)]


@pytest.mark.parametrize("hook", ["on_child_failed", "can_passivate"])
@pytest.mark.parametrize(("error", "ends"), [(Stumbled, "failed"), (SystemExit, "stopped")])
def test_a_hook_that_the_kernel_calls_does_not_leave_the_actor_stuck_whatever_it_raises(
    home: Nursery, hook: str, error: type[BaseException], ends: str
) -> None:
    kind = home.person_class(trips={hook: error})
    child_class = home.person_class("child", STOP)
    parent = home.system.actor(kind, "a")
    parent.ask(Do(lambda actor: actor.context.child(child_class, "c").ask(Look())))

    if hook == "on_child_failed":
        home.system.actor(child_class, "a/c").tell(Trip("decide"))
    else:
        home.system.actor(child_class, "a/c").stop()
        parent.ask(Do(lambda actor: actor.ask_to_leave()))
    wait_until(lambda: any(entry[:2] == (ends, "a") for entry in home.diary))

    assert parent.ask(Add(1), timeout=60) == 1
    assert len(home.diary.told("made")) == 3


@pytest.mark.parametrize("hook", ["on_dead_letter", "on_lost", "on_failure", "on_stop"])
@pytest.mark.parametrize("error", [Stumbled, SystemExit])
@pytest.mark.parametrize("supervision", [None, RESTART])
def test_hooks_that_only_hear_harm_nobody_whatever_they_raise(
    home: Nursery, hook: str, error: type[BaseException], supervision: Supervision | None
) -> None:
    kind = home.person_class(supervision=supervision)
    kind.trips[hook] = error
    person = home.system.actor(kind, "a")
    person.ask(Add(1))

    match hook:
        case "on_dead_letter":
            person.tell(Add(-1))
        case "on_lost":
            home.journal.fail_next(StorageFullError("no space"))
            with pytest.raises(StorageFullError):
                person.ask(Add(1))
        case "on_failure":
            person.tell(Trip("decide"))
        case _:
            person.stop(timeout=60)
    later = person.ask_future(Add(1))
    if supervision is not None and hook in {"on_lost", "on_failure"}:
        home.pass_backoff()

    assert later.get(timeout=60) == 2


# A hook quits: what is not an Exception ends this incarnation, and no worker.


@pytest.mark.parametrize("hook", ["prepare", "decide", "announce"])
@pytest.mark.parametrize("supervision", [None, RESTART])
def test_who_quits_before_the_append_leaves_the_asker_an_error_and_comes_back(
    home: Nursery, hook: str, supervision: Supervision | None
) -> None:
    person = home.person(supervision=supervision)
    person.ask(Add(1))

    with pytest.raises(pykka.ActorDeadError, match="SystemExit"):
        person.ask(Trip(hook, SystemExit), timeout=60)

    assert person.ask(Look(), timeout=60) == 1
    assert len(home.diary.told("stopped")) == 1
    assert not home.is_backing_off()


def test_who_quits_in_effects_has_recorded_what_it_did_and_the_asker_has_the_reply(home: Nursery) -> None:
    person = home.person()

    assert person.ask(Trip("on_committed", SystemExit), timeout=60) == 1

    assert person.ask(Look(), timeout=60) == 1
    assert len(home.diary.told("made")) == 2


def test_who_quits_over_the_reply_has_recorded_what_it_did(home: Nursery) -> None:
    person = home.person()

    with pytest.raises(pykka.ActorDeadError, match="SystemExit"):
        person.ask(Trip("reply", SystemExit), timeout=60)

    assert person.ask(Look(), timeout=60) == 1
    assert len(home.diary.told("stopped")) == 1


@pytest.mark.parametrize("hook", ["__init__", "on_start", "on_recovered"])
@pytest.mark.parametrize("supervision", [None, RESTART])
def test_who_quits_at_every_start_is_not_started_for_ever(
    home: Nursery, hook: str, supervision: Supervision | None
) -> None:
    kind = home.person_class(supervision=supervision)
    kind.trips[hook] = SystemExit
    person = home.system.actor(kind, "a")
    waiting = person.ask_future(Look())
    if supervision is not None and hook == "__init__":  # nobody is there who could quit: it cannot be made
        for _ in range(RESTART.max_restarts):
            home.pass_backoff()

    with pytest.raises((pykka.ActorDeadError, RestartLimitError), match="stops before"):
        waiting.get(timeout=60)
    kind.trips.clear()

    assert person.ask(Add(1), timeout=60) == 1


def test_who_quits_over_its_own_first_command_is_not_started_for_ever(home: Nursery) -> None:
    class Quitter(Person):
        def on_recovered(self) -> list[Command]:
            return [Trip("decide", SystemExit)]

    with pytest.raises(pykka.ActorDeadError, match="stops before"):
        home.person(base=Quitter).ask(Look(), timeout=60)


def test_a_callback_that_raises_does_not_harm_the_actor_that_replies(home: Nursery) -> None:
    def fall_over(_: object) -> None:
        raise Stumbled("callback")

    held = threading.Event()
    person = home.person()
    person.tell(Do(lambda _: held.wait(60)))
    for command in (Add(1), Look(), Add(-1)):
        person.ask_future(command).add_done_callback(fall_over)
    held.set()

    assert person.ask(Add(1), timeout=60) == 2
    assert len(home.diary.told("made")) == 1


# A poisonous event: `evolve` raises at what the log holds.


POISONED = r"stream 'person/a' .* version 2 at position 2 \(Added\)"


def poison(home: Nursery) -> None:
    home.memory.write("person/a", Added(1), Added(13), Added(100))


def test_a_poisonous_event_is_named_to_everybody_who_sends_something(home: Nursery) -> None:
    poison(home)
    person = home.person(poison={13}, evolve=staticmethod(cannot_bear_13))
    person.tell(Add(1))

    for _ in range(3):
        with pytest.raises(LogUnusableError, match=POISONED):
            person.ask(Look())

    assert home.person("other").ask(Add(1)) == 1
    assert home.reasons() == [("person/a", Add(1), "LogUnusableError")]
    assert len(home.recorded("person/a")) == 3


def test_supervised_a_poisonous_event_leads_to_the_limit_and_then_each_message_tries_once(home: Nursery) -> None:
    poison(home)
    kind = home.person_class(supervision=RESTART, evolve=staticmethod(cannot_bear_13))
    person = home.system.actor(kind, "a")
    waiting = [person.ask_future(Look()) for _ in range(3)]
    other = home.system.actor(kind, "b")
    other.ask(Add(1))

    for _ in range(RESTART.max_restarts):
        home.pass_backoff()

    for future in waiting:
        with pytest.raises(RestartLimitError, match=POISONED) as caught:
            future.get(timeout=60)
        assert isinstance(caught.value.cause, LogUnusableError)
    for _ in range(3):
        made = len(home.diary.told("made"))
        with pytest.raises(RestartLimitError, match=POISONED):
            person.ask(Look(), timeout=60)
        assert len(home.diary.told("made")) == made + 1
    assert other.ask(Look(), timeout=60) == 1


def test_after_evolve_is_mended_the_actor_lives_again(home: Nursery) -> None:
    poison(home)
    broken = ["evolve"]

    def evolve(state: int, event: Event) -> int:
        return cannot_bear_13(state, event) if broken else Person.evolve(state, event)

    person = home.person(supervision=RESTART, evolve=staticmethod(evolve))
    waiting = person.ask_future(Look())
    for _ in range(RESTART.max_restarts):
        home.pass_backoff()
    with pytest.raises(RestartLimitError):
        waiting.get(timeout=60)

    broken.clear()

    assert person.ask(Look(), timeout=60) == 114


def cannot_bear_13(state: int, event: Event) -> int:
    if event == Added(13):
        raise Stumbled("13")
    return Person.evolve(state, event)


# The journal is full, or gone, and comes back.


def test_while_the_journal_is_full_each_asker_hears_it_and_afterwards_all_is_well(home: Nursery) -> None:
    person = home.person()
    person.ask(Add(1))
    home.journal.disk_full()

    for _ in range(3):
        with pytest.raises(StorageFullError):
            person.ask(Add(10))
        assert person.ask(Look()) == 1
    home.journal.space_again()

    assert person.ask(Add(100)) == 101
    assert home.recorded("person/a") == [Added(1), Added(100)]
    assert len(home.diary.told("lost")) == 3


def test_supervised_what_waits_while_the_journal_is_full_is_recorded_when_it_is_not(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.ask(Add(1))
    home.journal.disk_full()
    lost = person.ask_future(Add(10))
    with pytest.raises(StorageFullError):
        lost.get(timeout=60)
    waiting = [person.ask_future(Add(100)), person.ask_future(Add(1000))]
    person.tell(Add(10_000))
    home.wait_for_backoff()
    assert not any(future.done() for future in waiting)

    home.journal.space_again()
    home.pass_backoff()

    assert [future.get(timeout=60) for future in waiting] == [101, 1101]
    assert person.ask(Look(), timeout=60) == 11_101
    assert home.letters == []


def test_a_supervised_actor_comes_back_by_itself_without_a_message(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    home.journal.fail_next(StorageError("for once"))
    person.tell(Add(1))

    home.pass_backoff()

    assert home.wait_for("recovered", 2)[-1] == ("recovered", "a", 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost_and_nothing_else_is_believed_whenever_the_journal_fails(
    home: Nursery, seed: int
) -> None:
    """Each step adds a number of its own, so that the state says which of them are believed."""
    often = Supervision(max_restarts=40, within=1000.0, min_backoff=1.0, max_backoff=8.0)
    person = home.person(supervision=often)
    futures: list[PooledFuture[int]] = []
    for number in range(40):
        if (number + seed) % 7 == 3:
            home.journal.fail_next(StorageError("for once"))
        futures.append(person.ask_future(Add(2**number)))
        if number % 10 == 9:
            home.clock.advance(1)
    audit = person.ask_future(Look())

    while not audit.done():
        home.clock.advance(400)  # so that nobody waits to begin again
        threading.Event().wait(0.001)

    acknowledged = sum(2**number for number, future in enumerate(futures) if not future.failed())
    assert audit.get() == acknowledged
    assert sum(event.amount for event in home.recorded("person/a") if isinstance(event, Added)) == acknowledged
    assert 5 <= sum(future.failed() for future in futures) <= 6


# The clock, and other writers.


def test_a_clock_that_goes_backwards_moves_only_the_times_that_are_written_down(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    home.clock.set(2_000_000)
    person.ask(Add(1))
    home.clock.set(1_000_000)
    person.ask(Add(2))
    person.tell(Trip("decide"))
    home.wait_for_backoff()

    home.clock.set(5)
    waiting = person.ask_future(Add(3))
    home.pass_backoff()

    assert waiting.get(timeout=60) == 6
    recorded = home.memory.read("person/a")
    assert [(entry.version, entry.position) for entry in recorded] == [(1, 1), (2, 2), (3, 3)]
    assert [entry.recorded_at // 1_000_000 for entry in recorded] == [2, 1, 10]


def test_after_three_conflicts_a_command_is_given_up_and_the_actor_goes_on(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    for _ in range(4):
        home.journal.conflict_next(Added(10))

    with pytest.raises(ConflictError):
        person.ask(Add(1))

    assert person.ask(Look()) == 40
    assert len(home.diary.told("made")) == 1


def test_three_conflicts_are_survived(home: Nursery) -> None:
    person = home.person()
    for _ in range(3):
        home.journal.conflict_next(Added(10))

    assert person.ask(Add(1)) == 31


def test_a_told_command_that_is_given_up_is_a_dead_letter(home: Nursery) -> None:
    person = home.person()
    for _ in range(4):
        home.journal.conflict_next(Added(10))

    person.tell(Add(1))

    assert person.ask(Look()) == 40
    assert home.reasons() == [("person/a", Add(1), "ConflictError")]


def test_who_cannot_record_its_own_first_command_for_conflicts_has_not_started(home: Nursery) -> None:
    class Starter(Person):
        def on_recovered(self) -> list[Command]:
            return [Add(1)] if self.state < 41 else []

    person = home.person(base=Starter)
    for _ in range(4):
        home.journal.conflict_next(Added(10))

    with pytest.raises(ConflictError):
        person.ask(Look())

    assert person.ask(Look()) == 41


# The process is killed between the commit and what is heard of it.


KILLED = """
import os, sys
from reenact import ActorSystem, Event, EventSourcedActor
from reenact.actors.journal.api import Entry, Segment

class Rang(Event, frozen=True):
    bell: str

class Bell(EventSourcedActor[tuple[str, ...], str, Rang]):
    category = "bell"
    events = {"rang": Rang}
    initial = ()
    decide = staticmethod(lambda state, command: (Rang(command),))
    evolve = staticmethod(lambda state, event: (*state, event.bell))

    def announce(self, command, before, events, after, recorded_at):
        return (Segment({}, tuple(Entry("rang", recorded_at, {"bell": event.bell}) for event in events)),), ()

    def on_committed(self, command, events):
        print("acted on", command, flush=True)

    def on_recovered(self):
        for bell in self.state if "again" in sys.argv else ():
            print("acted again on", bell, flush=True)
        return ()

def hear(publications):
    for publication in publications:
        for entry in publication.segment.entries:
            if entry.data["bell"] == "last":
                os._exit(9)  # it is durable, and nobody has heard of it
            print("heard", entry.data["bell"], flush=True)

with ActorSystem.open(sys.argv[1], listener=hear) as system:
    bell = system.actor(Bell, "b")
    for name in sys.argv[2].split(","):
        print("said", [event.bell for event in bell.ask(name)], flush=True)
    print("state", bell.ask("end"), flush=True)
"""


def ring(log: Path, bells: str, *arguments: str) -> tuple[int, list[str]]:
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(log), bells, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.stderr == ""
    return process.returncode, process.stdout.splitlines()


def test_what_was_committed_when_the_process_was_killed_is_there_once_and_is_heard_from_the_feed(
    tmp_path: Path,
) -> None:
    log = tmp_path / "bell.db"

    status, lines = ring(log, "first,last,never")

    assert status == 9
    assert lines == ["heard first", "acted on first", "said ['first']"]
    with ActorSystem.open(log) as system:
        journal = system.journal
        rows = journal.read_feed("bell/b")
        assert [(row.first_cursor, entry.data) for row in rows for s in row.segments for entry in s.entries] == [
            (1, {"bell": "first"}),
            (2, {"bell": "last"}),
        ]
    with closing(sqlite3.connect(log)) as connection, connection:
        positions = connection.execute("SELECT version FROM steps WHERE count > 0 ORDER BY 1").fetchall()
    connection.close()
    assert positions == [(1,), (2,)]


def test_effects_are_not_repeated_by_themselves_after_a_kill_and_on_recovered_may_repeat_them(tmp_path: Path) -> None:
    log = tmp_path / "bell.db"
    ring(log, "first,last,never")

    _, by_itself = ring(log, "second")
    _, again = ring(log, "third", "again")

    assert not any(re.search("last", line) for line in by_itself)
    assert again[:4] == [f"acted again on {bell}" for bell in ("first", "last", "second", "end")]


def test_a_timer_function_that_raises_fails_the_start_and_leaves_nobody_waiting(home: Nursery) -> None:
    def timers(state: int) -> list[Timer[Command]]:
        raise Stumbled("timers")

    person = home.person(timers=staticmethod(timers))

    with pytest.raises(Stumbled, match="timers"):
        person.ask(Look(), timeout=60)
