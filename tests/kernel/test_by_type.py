"""One function for each type: the one that was given for it, or for the nearest base of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

import pytest

from reenact.actors.journal.codec import Event
from reenact.actors.kernel import ActorSystem, EventSourcedActor, UnhandledTypeError, by_type
from reenact.domain.errors import InvalidInputError, LogUnusableError, ReenactError


class Animal:
    pass


class Bird(Animal):
    pass


class Swimmer(Animal):
    pass


class Duck(Bird, Swimmer):
    pass


Say: TypeAlias = Callable[[object, object], str]


def say(word: str) -> Say:
    return lambda _state, _message: word


def add_up(state: int, message: int) -> int:
    return state + message


def join(state: int, message: str) -> str:
    return f"{state}{message}"


def test_the_function_gets_the_state_and_the_message() -> None:
    either = by_type({int: add_up, str: join})

    assert either(1, 2) == 3
    assert either(1, "2") == "12"


def test_a_type_of_its_own_comes_before_its_base() -> None:
    table = by_type({Animal: say("animal"), Bird: say("bird")})

    assert table(None, Bird()) == "bird"
    assert table(None, Animal()) == "animal"


@pytest.mark.parametrize(
    ("functions", "message", "said"),
    [
        ({object: say("anything"), Animal: say("animal")}, Duck(), "animal"),
        ({Bird: say("bird"), Animal: say("animal"), Swimmer: say("swimmer")}, Duck(), "bird"),
        ({object: say("anything")}, 5, "anything"),
    ],
)
def test_the_nearest_base_stands_in(functions: dict[type, Say], message: object, said: str) -> None:
    assert by_type(functions)(None, message) == said


@pytest.mark.parametrize("order", list(itertools.permutations([Animal, Bird, Swimmer, Duck])))
def test_which_base_is_nearest_does_not_depend_on_what_was_asked_before(order: tuple[type, ...]) -> None:
    table = by_type({Animal: say("animal"), Swimmer: say("swimmer")})

    answers = {kind: table(None, kind()) for kind in order}

    assert answers == {Animal: "animal", Bird: "animal", Swimmer: "swimmer", Duck: "swimmer"}


@pytest.mark.parametrize("times", [1, 2])
def test_a_type_that_no_function_is_registered_for_is_named_and_so_are_the_known_ones(times: int) -> None:
    table = by_type({int: say("int"), str: say("str")})

    errors: list[UnhandledTypeError] = []
    for _ in range(times):
        with pytest.raises(UnhandledTypeError, match="for Bird; there are functions for int, str") as raised:
            table(None, Bird())
        errors.append(raised.value)

    assert [error.code for error in errors] == ["unhandled_type"] * times
    assert issubclass(UnhandledTypeError, InvalidInputError)
    assert issubclass(UnhandledTypeError, TypeError)


def test_what_is_put_into_the_mapping_later_is_not_heard_of() -> None:
    functions: dict[type, Say] = {int: say("int")}
    table = by_type(functions)

    functions[str] = say("str")

    with pytest.raises(UnhandledTypeError):
        table(None, "text")


class Added(Event, frozen=True):
    amount: int


class Cleared(Event, frozen=True):
    pass


class Add(int):
    pass


class Clear:
    pass


Command: TypeAlias = Add | Clear


def add(total: int, command: Add) -> tuple[Added, ...]:
    return (Added(int(command)),)


def clear(total: int, command: Clear) -> tuple[Cleared, ...]:
    return (Cleared(),)


def added(total: int, event: Added) -> int:
    return total + event.amount


def cleared(total: int, event: Cleared) -> int:
    return 0


class Adder(EventSourcedActor[int, Command, Added | Cleared]):
    category = "adder"
    initial = 0
    events = {"added": Added, "cleared": Cleared}  # noqa: RUF012 - as a user
    decide = by_type({Add: add, Clear: clear})
    evolve = by_type({Added: added, Cleared: cleared})

    def reply(self, command: Command, events: tuple[Added | Cleared, ...]) -> int:
        return self.state


class ForgetfulAdder(Adder):
    evolve = by_type({Added: added})


def test_an_actor_may_be_made_of_such_functions() -> None:
    with ActorSystem.in_memory() as system:
        adder = system.actor(Adder, "a")

        assert [adder.ask(Add(2)), adder.ask(Add(3)), adder.ask(Clear()), adder.ask(Add(4))] == [2, 5, 0, 4]
        adder.stop()
        assert adder.ask(Add(0)) == 4


def test_a_command_that_no_function_is_registered_for_is_refused_and_the_actor_goes_on() -> None:
    letters: list[tuple[object, type[BaseException]]] = []
    with ActorSystem.in_memory() as system:
        system.on_dead_letter(lambda letter: letters.append((letter.message, type(letter.reason))))
        adder = system.actor(Adder, "a")
        adder.ask(Add(1))

        with pytest.raises(UnhandledTypeError, match="for str; there are functions for Add, Clear"):
            system.actor(Adder, "a").ask("add")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake
        adder.tell("add")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # likewise

        assert adder.ask(Add(1)) == 2
        assert system.live() == 1
        assert system.journal.head() == 2
    assert letters == [("add", UnhandledTypeError)]


def test_an_event_that_no_function_is_registered_for_is_not_recorded() -> None:
    with ActorSystem.in_memory() as system:
        adder = system.actor(ForgetfulAdder, "a")
        adder.ask(Add(1))

        with pytest.raises(ReenactError, match="no function is registered for Cleared"):
            adder.ask(Clear())

        assert adder.ask(Add(1)) == 2
        assert system.journal.head() == 2


def test_a_history_with_an_event_that_no_function_is_registered_for_cannot_be_replayed() -> None:
    with ActorSystem.in_memory() as system:
        system.actor(Adder, "a").ask(Clear())
        history = system.journal.read("adder/a")

    assert Adder.replay(history) == 0
    with pytest.raises(LogUnusableError, match=r"version 1 at position 1 .*no function is registered for Cleared"):
        ForgetfulAdder.replay(history)
