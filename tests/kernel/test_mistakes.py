"""Mistakes in a class of actors are told with the name of the class and what to write instead; nothing is recorded."""

from __future__ import annotations

import copy
import dataclasses
import gc
import logging
import os
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact import (
    ActorContext,
    ActorSystem,
    AsyncActorSystem,
    DeadLetter,
    DeadlockError,
    Event,
    EventSourcedActor,
    LogUnusableError,
    PooledActor,
    Reference,
    RuntimeClosedError,
    Supervision,
    Timer,
    UnstorableError,
)
from reenact.testing import wait_until


class Added(Event, frozen=True):
    amount: int


class Forgotten(Event, frozen=True):
    """An event that nobody has given a name."""


def as_told(_: object, command: Any) -> Any:  # noqa: ANN401 - what it returns is the mistake
    return command


def add(state: int, event: Added) -> int:
    return state + event.amount


def count(state: int, event: Added) -> int:
    return state + 1


def forget(state: int, event: Added) -> Any:  # noqa: ANN401 - likewise
    return None if event.amount == 3 else state + event.amount


def latest(_: object, event: Added) -> Added | None:
    return event if event.amount else None


def nothing(_: object, __: object) -> tuple[Added, ...]:
    return ()


def no_timers(_: object) -> tuple[Timer[object], ...]:
    return ()


class Held(Event, frozen=True):
    amount: int
    lock: threading.Lock


class Sum(EventSourcedActor[int, Any, Added]):
    category = "sum"
    events = {"added": Added}  # noqa: RUF012 - as users write it
    initial = 0
    decide = staticmethod(as_told)
    evolve = staticmethod(add)

    def reply(self, command: object, events: tuple[Added, ...]) -> int:
        return self.state


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem.in_memory() as system:
        yield system


@pytest.mark.parametrize(("kind", "opened"), [(ActorSystem, "ActorSystem"), (AsyncActorSystem, "AsyncActorSystem")])
@pytest.mark.parametrize("given", [(), ("a.db",)])
def test_a_system_that_is_called_without_what_it_stands_on_says_how_it_is_opened(
    kind: Any,  # noqa: ANN401 - what no type checker takes
    opened: str,
    given: tuple[str, ...],
) -> None:
    with pytest.raises(TypeError, match=rf"use {opened}\.open\(path\)"):
        kind(*given)


@pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="since 3.13 threading.Lock is a class, and msgspec refuses none"
)
def test_a_field_that_no_log_can_hold_is_named_with_its_class(system: ActorSystem) -> None:
    class Holding(Sum):
        category = "holding"
        events = {"held": Held}  # noqa: RUF012 - as users write it

    for _ in range(2):
        with pytest.raises(TypeError, match=r"Held\.lock cannot be stored \(.*allocate_lock.*; events hold plain data"):
            system.actor(Holding, "a")


def test_a_value_that_no_log_can_hold_is_named_with_its_field(system: ActorSystem) -> None:
    class Counting(Sum):
        category = "counting"
        evolve = staticmethod(count)

    sum_ = system.actor(Counting, "a")
    amount: Any = threading.Lock()

    with pytest.raises(UnstorableError, match=r"Added\.amount cannot be stored \(.*lock.*; events hold plain data"):
        sum_.ask([Added(amount)])

    assert sum_.ask([Added(2)]) == 1


def test_of_many_errors_that_were_handled_only_the_last_may_be_left(
    system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(Sum):
        category = "counting"
        evolve = staticmethod(count)

    monkeypatch.setattr(logging.getLogger("reenact.journal"), "disabled", True)  # pytest keeps what is logged
    amount: Any = threading.Lock()
    errors: list[weakref.ref[UnstorableError]] = []
    for _ in range(5):
        try:
            system.actor(Counting, "a").ask([Added(amount)])
        except UnstorableError as error:
            errors.append(weakref.ref(error))

    gc.collect()

    assert sum(error() is not None for error in errors) <= 1


@pytest.mark.parametrize("no_class", ["box", 5, Sum.decide, None])
def test_what_is_not_a_class_is_not_taken_for_one(system: ActorSystem, no_class: Any) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(TypeError, match=r"is not an EventSourcedActor; give the class"):
        system.actor(no_class, "a")
    with pytest.raises(TypeError, match=r"is not an EventSourcedActor; give the class"):
        system.register(no_class)


@pytest.mark.parametrize("decided", [None, "events", 5, Added(1)])
def test_what_is_no_sequence_of_events_is_not_taken_for_one(system: ActorSystem, decided: object) -> None:
    sum_ = system.actor(Sum, "a")

    with pytest.raises(TypeError, match=r"Sum\.decide returned .* a sequence of events"):
        sum_.ask(decided)

    assert sum_.ask((Added(2),)) == 2
    assert [recorded.event for recorded in system.journal.read("sum/a")] == [Added(2)]


SEGMENTS = "it returns the kept segments and the passing ones"


@pytest.mark.parametrize(
    ("hook", "returned", "told"),
    [
        ("announce", None, f"Hooked.announce returned None for list; {SEGMENTS}"),
        ("announce", ((5,), ()), f"Hooked.announce returned .* for list; {SEGMENTS}"),
        ("announce", ((), (5,)), f"Hooked.announce returned .* for list; {SEGMENTS}"),
        ("announce", (5, ()), f"Hooked.announce returned .* for list; {SEGMENTS}"),
        ("announce", (None, None), f"Hooked.announce returned .* for list; {SEGMENTS}"),
        ("announce", ("ab", ""), f"Hooked.announce returned .* for list; {SEGMENTS}"),
        ("prepare", None, "Hooked.prepare returned None for list; it returns the command"),
        ("announce", ((), (), ()), r"Hooked.announce returned \(\(\), \(\), \(\)\) for list"),
        ("remember", "r", "Hooked.remember returned 'r' for list; it returns a Remembered, or None"),
        ("cause", "text", "Hooked.cause returned 'text' for list; it returns bytes, or None"),
        ("on_recovered", None, r"Hooked.on_recovered returned None; it returns a sequence of commands, \(\) for none"),
        ("on_recovered", "text", "Hooked.on_recovered returned 'text'"),
    ],
)
def test_a_hook_that_forgot_what_it_returns_is_named_and_nothing_is_recorded(
    system: ActorSystem, hook: str, returned: object, told: str
) -> None:
    def returns(*_: object) -> object:
        return returned

    hooked: type[Sum] = type("Hooked", (Sum,), {"category": "hooked", hook: returns})

    with pytest.raises(TypeError, match=told):
        system.actor(hooked, "a").ask([Added(1)])

    assert system.journal.read_all() == []


@pytest.mark.parametrize("waits", [None, 5, Timer(1, "late"), [5], "text", [Timer(1, "late"), 5]], ids=repr)
@pytest.mark.parametrize("at_first", [True, False])
def test_timers_that_are_none_are_told_with_the_name_of_the_class(
    system: ActorSystem,
    waits: Any,  # noqa: ANN401 - the mistake
    *,
    at_first: bool,
) -> None:
    def timers(state: int) -> Any:  # noqa: ANN401 - likewise
        return waits if at_first or state else ()

    waiting: type[Sum] = type("Waiting", (Sum,), {"category": "waiting", "timers": staticmethod(timers)})

    with pytest.raises(TypeError, match=r"Waiting\.timers returned .*; it returns a sequence of Timers, \(\) for none"):
        system.actor(waiting, "a").ask([Added(1)])

    assert system.journal.read_all() == []


def test_what_timers_themselves_raise_is_told_as_it_is(system: ActorSystem) -> None:
    def timers(state: int) -> Iterator[Timer[object]]:
        if state:
            raise TypeError("of my own")
        yield Timer(1, "late")

    def decide(_: int, command: Any) -> Any:  # noqa: ANN401 - the events to be
        return () if command == "late" else command

    own = {"timers": staticmethod(timers), "decide": staticmethod(decide)}
    waiting: type[Sum] = type("Waiting", (Sum,), {"category": "waiting", **own})

    with pytest.raises(TypeError, match=r"^of my own$"):
        system.actor(waiting, "a").ask([Added(1)])


def test_an_event_without_a_name_is_named_and_the_actor_lives(system: ActorSystem) -> None:
    sum_ = system.actor(Sum, "a")

    with pytest.raises(TypeError, match=r"Sum\.events has no name for Forgotten"):
        sum_.ask([Added(1), Forgotten()])

    assert sum_.ask([Added(2)]) == 2


def test_a_state_of_none_is_an_evolve_that_forgot_to_return(system: ActorSystem) -> None:
    class Forgetful(Sum):
        category = "forgetful"
        evolve = staticmethod(forget)

    with ActorSystem.in_memory() as other:
        forgetful = other.actor(Forgetful, "a")
        with pytest.raises(TypeError, match=r"Forgetful\.evolve returned None for Added\(amount=3\)"):
            forgetful.ask([Added(3)])

        assert forgetful.ask([Added(1)]) == 1


def test_a_recorded_history_without_a_state_is_an_evolve_that_forgot_to_return(tmp_path: Path) -> None:
    with ActorSystem.open(tmp_path / "log.db") as system:
        system.actor(Sum, "a").ask([Added(1), Added(3)])

    class Forgetful(Sum):
        evolve = staticmethod(forget)

    with ActorSystem.open(tmp_path / "log.db") as system:
        for _ in range(2):
            with pytest.raises(LogUnusableError, match=r"Forgetful has no state at version 2; evolve and on_restored"):
                system.actor(Forgetful, "a").ask([])


def test_a_state_that_may_be_none_is_none(system: ActorSystem) -> None:
    class Latest(EventSourcedActor[Added | None, Any, Added]):
        category = "latest"
        events = {"added": Added}  # noqa: RUF012 - as users write it
        initial = Added(0)
        decide = staticmethod(as_told)
        evolve = staticmethod(latest)

        def reply(self, command: object, events: tuple[Added, ...]) -> object:
            return self.state

    assert system.actor(Latest, "a").ask([Added(0)]) is None


@pytest.mark.parametrize("name", ["initial", "decide", "evolve"])
def test_a_class_that_lacks_something_is_refused_at_once(system: ActorSystem, name: str) -> None:
    given: dict[str, object] = {"initial": 0, "decide": staticmethod(nothing), "evolve": staticmethod(add)}
    lacking: type[EventSourcedActor[Any, Any, Any]] = type(
        "Lacking", (EventSourcedActor,), {"events": {"added": Added}, **given}
    )
    delattr(lacking, name)

    with pytest.raises(TypeError, match=f"Lacking has no {name}"):
        system.register(lacking)


@pytest.mark.parametrize(
    ("name", "function"),
    [("decide", nothing), ("evolve", add), ("timers", no_timers)],
)
def test_a_function_that_is_taken_for_a_method_is_refused_at_once(
    system: ActorSystem, name: str, function: Callable[..., object]
) -> None:
    bare: type[Sum] = type("Bare", (Sum,), {"category": "bare", name: function})

    with pytest.raises(TypeError, match=f"{name} = staticmethod"):
        system.register(bare)


def test_a_constructor_that_does_not_call_the_base_is_named_and_nobody_waits_for_ever(system: ActorSystem) -> None:
    class Careless(Sum):
        category = "careless"

        def __init__(self, context: ActorContext) -> None:
            pass

    with ActorSystem.in_memory() as other, pytest.raises(TypeError, match=r"Careless .* super\(\).__init__\(context\)"):
        other.actor(Careless, "a").ask([], timeout=60)


@pytest.mark.parametrize("made", [None, PooledActor], ids=["None", "a class"])
def test_a_factory_that_does_not_return_the_actor_is_named(system: ActorSystem, made: Any) -> None:  # noqa: ANN401 - the mistake
    system.register(Sum, lambda _: made)

    with pytest.raises(TypeError, match=r"the factory of Sum returned .*; it returns the actor"):
        system.actor(Sum, "a").ask([], timeout=60)


def test_an_event_sourced_class_is_not_started_like_others(system: ActorSystem) -> None:
    start: Any = system.start

    with pytest.raises(TypeError, match=r"Sum is event-sourced: ActorSystem\.actor\(Sum, id\) returns"):
        start(Sum)


def test_a_class_that_is_defined_anew_is_told_what_to_do(system: ActorSystem) -> None:
    earlier, later = (type("Cell", (Sum,), {"category": "cell"}) for _ in range(2))
    system.register(earlier)

    with pytest.raises(ValueError, match=r"Cell has been defined anew, .* open a new system, or .* another category"):
        system.actor(later, "a")


def test_what_is_not_open_yet_says_that_it_is_awaited() -> None:
    opening: Any = AsyncActorSystem.in_memory()

    with pytest.raises(AttributeError, match=r"there is no 'actor' yet: await .* `async with`"):
        opening.actor(Sum, "a")


def test_who_asks_an_actor_that_cannot_start_is_told_and_the_log_has_one_line(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object) -> None:
        raise ValueError("not today")

    lame: type[Sum] = type("Lame", (Sum,), {"category": "lame", "on_start": fail})

    with pytest.raises(ValueError, match="not today"):
        system.actor(lame, "a").ask([], timeout=60)

    (record,) = [record for record in caplog.records if record.name == "reenact.kernel"]
    assert record.getMessage() == "lame/a cannot start: ValueError('not today')"
    assert record.exc_info is None


def test_who_asks_an_actor_that_cannot_be_made_is_told_and_the_log_has_one_line(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> Sum:
        raise ValueError("not today")

    system.register(Sum, fail)

    with pytest.raises(ValueError, match="not today"):
        system.actor(Sum, "a").ask([], timeout=60)

    (record,) = [record for record in caplog.records if record.name == "reenact.kernel"]
    assert record.getMessage() == "sum/a cannot be made: ValueError('not today')"
    assert record.exc_info is None


def test_the_log_names_the_stream_of_an_actor_that_fails_to_act_on_its_events(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object, *_: object) -> None:
        raise ValueError("not today")

    clumsy: type[Sum] = type("Clumsy", (Sum,), {"category": "clumsy", "on_committed": fail})

    system.actor(clumsy, "a").ask([Added(1)], timeout=60)

    (record,) = [record for record in caplog.records if record.name == "reenact.kernel"]
    assert record.getMessage() == "clumsy/a recorded Added and failed to act on it"


def test_where_nobody_is_told_the_log_has_the_traceback(caplog: pytest.LogCaptureFixture) -> None:
    failures = [ValueError("not today")]

    def fail(self: object) -> None:
        if failures:
            raise failures.pop()

    care = Supervision(min_backoff=0.0)
    cared: type[Sum] = type("Cared", (Sum,), {"category": "cared", "on_start": fail, "supervision": care})

    with ActorSystem.in_memory() as other:
        assert other.actor(cared, "a").ask([], timeout=60) == 0

    (record,) = [record for record in caplog.records if record.name == "reenact.kernel"]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "not today"


def test_an_actor_that_asks_itself_is_told_instead_of_waiting_for_ever(system: ActorSystem) -> None:
    class Narcissus(Sum):
        category = "narcissus"

        def reply(self, command: object, events: tuple[Added, ...]) -> int:
            answer = self.context.me.ask([])
            return int(bool(answer))

    class Echo(Sum):
        category = "echo"

        def reply(self, command: object, events: tuple[Added, ...]) -> int:
            answer = self.context.me.ask_future([]).get()
            return int(bool(answer))

    with pytest.raises(DeadlockError):
        system.actor(Narcissus, "a").ask([], timeout=60)
    with pytest.raises(DeadlockError):
        system.actor(Echo, "a").ask([], timeout=60)


def test_an_actor_may_pass_the_future_of_its_own_reply_on(system: ActorSystem) -> None:
    class Curious(Sum):
        category = "curious"

        def reply(self, command: object, events: tuple[Added, ...]) -> Any:  # noqa: ANN401 - a future, once
            return self.context.me.ask_future("again") if events else self.state

        @staticmethod
        def decide(_: object, command: Any) -> Any:  # noqa: ANN401 - what it is asked
            return [] if command == "again" else command

    future = system.actor(Curious, "a").ask([Added(1)], timeout=60)

    assert future.get(timeout=60) == 1
    assert future.get() == 1


@pytest.mark.parametrize(
    ("argument", "value"), [("workers", "2"), ("workers", 2.5), ("workers", None), ("clock", 5), ("listener", 5)]
)
def test_an_argument_of_another_type_is_named(argument: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"{argument}={value!r} must be"):
        ActorSystem.in_memory(**{argument: value})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the mistake


def test_an_event_sourced_class_that_is_spawned_is_told_where_it_belongs(system: ActorSystem) -> None:
    class Parent(Sum):
        category = "parent"

        def reply(self, command: object, events: tuple[Added, ...]) -> int:
            spawn: Any = self.context.spawn
            spawn(Sum, "b")
            return 0

    with pytest.raises(TypeError, match=r"Sum is event-sourced: self\.context\.child\(Sum, name\)"):
        system.actor(Parent, "a").ask([], timeout=60)


def test_an_event_that_is_made_by_defstruct_is_told_how_events_are_written() -> None:
    with pytest.raises(TypeError, match=r"Paid is an event; write it as a class, without __slots__, not by msgspec"):
        msgspec.defstruct("Paid", [("amount", int)], bases=(Event,), frozen=True)


class Quitter(Sum):
    category = "quitter"

    def on_committed(self, command: object, events: tuple[Added, ...]) -> None:
        if events == (Added(1),):
            self.stop()

    def reply(self, command: object, events: tuple[Added, ...]) -> int:
        if events == (Added(2),):
            self.context.me.stop()
        return self.state


def test_an_actor_that_waits_for_its_own_end_is_told_instead_of_waiting_for_ever(system: ActorSystem) -> None:
    quitter = system.actor(Quitter, "a")

    with pytest.raises(DeadlockError, match=r"waits for its own end .* let it call self\.stop\(\)"):
        quitter.ask([Added(2)], timeout=60)
    assert quitter.ask([Added(1)]) == 3  # and does as it is told

    quitter.stop()
    assert quitter.ask([]) == 3


def test_an_actor_without_a_log_that_waits_for_its_own_end_is_told(system: ActorSystem) -> None:
    class Stopper(PooledActor):
        def on_receive(self, message: Any) -> object:  # noqa: ANN401 - pykka's own signature
            if message == "later":
                return self.actor_ref.stop(block=False) is not None
            return self.actor_ref.stop()

    stopper = system.start(Stopper)

    with pytest.raises(DeadlockError, match="waits for its own end"):
        stopper.ask("now", timeout=60)
    assert stopper.ask("later", timeout=60) is True


def test_an_actor_that_another_one_stops_need_not_have_ended_itself(system: ActorSystem) -> None:
    class Stopping(Sum):
        category = "stopping"

        def reply(self, command: object, events: tuple[Added, ...]) -> int:
            self.context.system.actor(Sum, "a").stop()
            return self.state

    sum_ = system.actor(Sum, "a")
    assert sum_.ask([Added(1)]) == 1

    assert system.actor(Stopping, "a").ask([Added(2)], timeout=60) == 2

    assert sum_.ask([]) == 1


@dataclasses.dataclass(frozen=True)
class Forward:
    to: Reference[object, object]


def test_a_reference_is_copied_as_itself(system: ActorSystem) -> None:
    sum_ = system.actor(Sum, "a")

    assert copy.copy(sum_) is sum_
    assert copy.deepcopy([sum_])[0] is sum_
    assert dataclasses.asdict(Forward(sum_)) == {"to": sum_}


def test_a_reference_that_is_pickled_says_to_send_its_id(system: ActorSystem) -> None:
    with pytest.raises(TypeError, match=r"<Sum 'a'> belongs to its system .* send its id, which is 'a'"):
        pickle.dumps(system.actor(Sum, "a"))


def test_actors_that_ask_in_a_circle_are_told(system: ActorSystem) -> None:
    class Asker(PooledActor):
        def on_receive(self, message: Any) -> object:  # noqa: ANN401 - pykka's own signature
            return message.ask(self.actor_ref)

    one, other = system.start(Asker), system.start(Asker)

    with pytest.raises(DeadlockError):
        one.ask(other, timeout=60)


def test_an_event_that_could_not_be_read_again_is_refused_and_nothing_else_suffers(system: ActorSystem) -> None:
    sum_ = system.actor(Sum, "a")
    assert sum_.ask([Added(1)]) == 1

    with pytest.raises(UnstorableError, match="Added could not be read again"):
        sum_.ask([Added(2.0)])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake

    assert sum_.ask([Added(3)]) == 4
    assert [recorded.event for recorded in system.journal.read_all()] == [Added(1), Added(3)]


def test_a_clock_that_tells_no_microseconds_is_named() -> None:
    def seconds() -> Any:  # noqa: ANN401 - as `time.time`, which is not meant
        return 1.5

    with ActorSystem.in_memory(clock=seconds) as other:
        with pytest.raises(TypeError, match=r"the clock returned 1\.5"):
            other.actor(Sum, "a").ask([Added(1)])

        assert other.journal.read_all() == []


@pytest.mark.parametrize("hook", ["on_committed", "reply", "decide", "remember"])
def test_an_async_function_is_refused_at_once(system: ActorSystem, hook: str) -> None:
    async def never_awaited(*_: object) -> None:
        """Nobody would await it."""

    async_ = type("Async", (Sum,), {"category": "async", hook: staticmethod(never_awaited)})

    with pytest.raises(TypeError, match=f"{hook} must not be async"):
        system.register(async_)


def test_a_supervision_that_is_none_is_refused_at_once(system: ActorSystem) -> None:
    careless: type[Sum] = type("Careless", (Sum,), {"category": "careless", "supervision": "restart"})

    with pytest.raises(TypeError, match="must be a Supervision, not 'restart'"):
        system.register(careless)


class Explosive:
    """A command that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("which elements are meant?")

    def __hash__(self) -> int:
        return 0


class Shapeless:
    """A command that is equal to itself only."""


def of_timer(command: type[Any]) -> type[Sum]:
    def timers(state: int) -> list[Timer[object]]:
        return [Timer(1, command())] if state else []

    def decide(_: int, command: Any) -> Any:  # noqa: ANN401 - the events to be
        return () if isinstance(command, (Explosive, Shapeless)) else command

    return type("Timed", (Sum,), {"category": "timed", "timers": staticmethod(timers), "decide": staticmethod(decide)})


def test_timers_that_cannot_be_compared_keep_nothing_from_ending() -> None:
    letters: list[DeadLetter] = []
    with ActorSystem.in_memory() as other:
        other.on_dead_letter(letters.append)
        timed = other.actor(of_timer(Explosive), "a")
        timed.tell([Added(1)])
        wait_until(lambda: letters != [])

        with suppress(RuntimeError):
            timed.ask([Added(1)], timeout=60)

    assert "which elements are meant" in str(letters[0].reason)


def test_a_timer_whose_command_is_equal_to_nothing_is_a_dead_letter() -> None:
    letters: list[DeadLetter] = []
    with ActorSystem.in_memory() as other:
        other.on_dead_letter(letters.append)
        other.actor(of_timer(Shapeless), "a").ask([Added(1)])

        wait_until(lambda: letters != [])

    assert "Shapeless has no __eq__" in str(letters[0].reason)


def test_a_forked_child_is_told_that_the_system_is_its_parents(tmp_path: Path) -> None:
    with ActorSystem.open(tmp_path / "sum.db") as other:
        sum_ = other.actor(Sum, "a")
        assert sum_.ask([Added(1)]) == 1

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that threads are lost, is what this is about
            child = os.fork()
        if child == 0:
            code = 1
            try:
                sum_.ask([Added(2)])
            except RuntimeClosedError:
                other.close()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert sum_.ask([Added(4)]) == 5


def test_an_actor_without_a_log_has_no_identity(system: ActorSystem) -> None:
    with pytest.raises(TypeError, match=r"PooledActor is not an EventSourcedActor; ActorSystem\.start\(\) starts"):
        system.actor(PooledActor, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
