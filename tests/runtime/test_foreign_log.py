"""The log of other actors is refused as it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import ActorSystem, Event, EventSourcedActor, Image, LogUnusableError, Runtime
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at


class Counted(Event, frozen=True):
    by: int


class Counter(EventSourcedActor[int, int, Counted]):
    category = "counter"
    initial = 0
    events = {"counted": Counted}  # noqa: RUF012 - as users write it

    @staticmethod
    def decide(state: int, by: int) -> list[Counted]:
        return [Counted(by)]

    @staticmethod
    def evolve(state: int, event: Counted) -> int:
        return state + event.by


def content_of(directory: Path) -> dict[str, str]:
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in directory.iterdir()}


def count(log: str, by: int) -> tuple[Counted, ...]:
    with ActorSystem.open(log) as system:
        return tuple(system.actor(Counter, "visits").ask(by))


def test_the_log_of_other_actors_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    log = log_at(tmp_path / "counters.db")
    count(log, 4)
    before = content_of(tmp_path)

    with pytest.raises(LogUnusableError, match=r"is the log of other actors.*'counted:1'"):
        Runtime.open(log)

    assert content_of(tmp_path) == before
    assert count(log, 1) == (Counted(1),)


def with_a_container(runtime: Runtime) -> None:
    runtime.containers.create(container_id="home")


def with_an_image(runtime: Runtime) -> None:
    runtime.images.register(Image(id="chat"))


def with_a_talk(runtime: Runtime) -> None:
    runtime.ask("Hello")


@pytest.mark.parametrize("begin", [with_a_container, with_an_image, with_a_talk])
def test_other_actors_are_not_started_in_the_log_of_a_runtime(
    tmp_path: Path, begin: Callable[[Runtime], object]
) -> None:
    log = log_at(tmp_path / "agents.db")
    with Runtime.open(log, environment=MockEnvironmentFactory()) as runtime:
        begin(runtime)

    with pytest.raises(LogUnusableError, match="is the log of other actors"):
        count(log, 4)

    with Runtime.open(log, environment=MockEnvironmentFactory()) as runtime:
        assert runtime.ask("Hello").text == "Hello from mock!"
