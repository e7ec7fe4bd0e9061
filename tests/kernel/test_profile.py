"""What a class of actors declares: told at once if it cannot work, or if two classes do not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reenact.actors.journal.codec import Event
from reenact.actors.kernel import ActorSystem, EventSourcedActor, Stored
from reenact.domain.errors import LogTooNewError


class Noted(Event, frozen=True):
    text: str


class Struck(Event, frozen=True):
    pass


class NotedLong(Event, frozen=True):
    text: str
    author: str


def note(_: int, command: str) -> tuple[Noted, ...]:
    return (Noted(command),)


def note_long(_: int, command: str) -> tuple[NotedLong, ...]:
    return (NotedLong(command, "me"),)


def count(before: int, _: object) -> int:
    return before + 1


def add_author(fields: list[Any]) -> list[Any]:
    return [*fields, "nobody"]


class Notes(EventSourcedActor[int, str, Noted]):
    category = "notes"
    initial = 0
    events: ClassVar[Mapping[str, Any]] = {"noted": Noted}
    decide = staticmethod(note)
    evolve = staticmethod(count)

    def reply(self, command: str, events: tuple[Noted, ...]) -> int:
        return self.state


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem.in_memory() as system:
        yield system


def notes(**declared: object) -> type[Notes]:
    """Return a class that declares something else than `Notes`."""
    return type("Other", (Notes,), declared)


def stored(**changed: Any) -> Stored:  # noqa: ANN401 - among them are mistakes
    """Return how an event is stored, as somebody may get it wrong."""
    return Stored(Noted, **changed)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"category": "a/b"}, "the category 'a/b' of Other must not contain a slash"),
        ({"events": [Noted]}, "Other.events must map the names of events in the log to their types"),
        ({"events": {"noted": "Noted"}}, "Other.events must map texts to types or Stored, not 'noted' to 'Noted'"),
        ({"events": {"noted": Noted("")}}, "Other.events must map texts to types or Stored"),
        ({"events": {"noted": Stored(Noted("x"))}}, "Other.events must map texts to types or Stored"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake
        ({"events": {1: Noted}}, "Other.events must map texts to types or Stored, not 1 to"),
        ({"events": {}}, "Other.events names no events"),
        ({"category": 5}, "Other.category must be a text, not 5"),
        (
            {"events": {"noted": stored(version=0)}},
            "Other.events['noted']: the version must be an int above zero",
        ),
        ({"events": {"noted": stored(version="2")}}, "the version must be an int above zero, not '2'"),
        ({"events": {"noted": stored(version=2, upcast={1: 5})}}, "the upcast of version 1 must be a function, not 5"),
        ({"events": {"noted": stored(version=2, upcast=[list])}}, "upcast must map versions to functions, not be ["),
        ({"snapshot_every": 0}, "Other.snapshot_every must be an int above zero, not 0"),
        ({"snapshot_every": -1}, "Other.snapshot_every must be an int above zero, not -1"),
        ({"snapshot_every": "1"}, "Other.snapshot_every must be an int above zero, not '1'"),
        ({"snapshot_every": 1.5}, "Other.snapshot_every must be an int above zero, not 1.5"),
        ({"snapshot_every": True}, "Other.snapshot_every must be an int above zero, not True"),
        ({"mailbox_limit": 0}, "Other.mailbox_limit must be an int above zero, not 0"),
        ({"mailbox_limit": "x"}, "Other.mailbox_limit must be an int above zero, not 'x'"),
        ({"snapshot_every": 1, "snapshot_type": str}, "snapshot 'notes:1' and read again as <class 'str'>"),
        ({"snapshot_every": 1, "initial": object()}, "cannot be stored in a snapshot 'notes:1'"),
    ],
)
def test_a_class_that_cannot_work_is_refused(declared: dict[str, object], message: str, system: ActorSystem) -> None:
    other = notes(**declared)

    with pytest.raises(TypeError) as raised:
        system.register(other)
    assert message in str(raised.value)
    with pytest.raises(TypeError) as raised:
        system.actor(other, "a")
    assert message in str(raised.value)

    system.register(Notes)  # nothing of the other is left


def test_two_classes_must_not_share_a_category(system: ActorSystem) -> None:
    system.register(Notes)

    with pytest.raises(
        ValueError, match=r"Other and Notes both have the category 'notes'; the streams .* must not mix"
    ):
        system.actor(notes(events={"struck": Struck}), "a")


def test_two_classes_must_not_share_a_stored_name_for_different_events(system: ActorSystem) -> None:
    system.register(Notes)

    with pytest.raises(ValueError, match="'noted' is that of Noted; Struck needs another"):
        system.register(notes(category="other", events={"noted": Struck}))
    with pytest.raises(ValueError, match="Noted is stored already, as 'noted:1'"):
        system.register(notes(category="other", events={"renamed": Noted}))


def test_two_classes_may_share_an_event(system: ActorSystem) -> None:
    other = notes(category="other", events={"noted": Noted, "struck": Struck})

    assert system.actor(Notes, "a").ask("x") == 1
    assert system.actor(other, "a").ask("x") == 1
    assert [entry.stream for entry in system.journal.read_all()] == ["notes/a", "other/a"]


def test_a_class_is_made_known_as_often_as_one_likes(system: ActorSystem) -> None:
    system.register(Notes)
    system.register(Notes, Notes)
    system.actor(Notes, "a")
    system.register(Notes)

    assert system.actor(Notes, "a").ask("x") == 1


def test_without_a_category_the_streams_bear_the_name_of_the_class(system: ActorSystem) -> None:
    unnamed = notes(category="")

    system.actor(unnamed, "a").ask("x")

    assert unnamed.stream("a") == "Other/a"
    assert [entry.stream for entry in system.journal.read_all()] == ["Other/a"]


def test_what_was_stored_in_an_earlier_version_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    newer = notes(events={"noted": Stored(NotedLong, 2, {1: add_author})}, decide=staticmethod(note_long))
    with ActorSystem.open(path) as system:
        system.actor(Notes, "a").ask("x")

    with ActorSystem.open(path) as system:
        assert system.actor(newer, "a").ask("y") == 2
        events = [entry.event for entry in system.journal.read("notes/a")]
    assert events == [NotedLong("x", "nobody"), NotedLong("y", "me")]

    with ActorSystem.open(path) as system, pytest.raises(LogTooNewError):
        system.actor(Notes, "a").ask("z")
