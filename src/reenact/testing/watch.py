"""Stands between the kernel and its actors, looks at each call of their functions, and notes what should not be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from reenact.actors.journal.api import Journal, Remembered
from reenact.actors.journal.codec import EventCodec
from reenact.actors.kernel.declared import Announcement
from reenact.actors.kernel.persistent import EventSourcedActor
from reenact.testing.examiner import NOT_YET, Examiner
from reenact.testing.findings import finding
from reenact.testing.portrait import Portrait, differences, portrait
from reenact.testing.witness import SENDS, witness

AnyActor: TypeAlias = EventSourcedActor[Any, Any, Any]

_ONLY_EVOLVE: Final = "only evolve makes states, so that the log can make them again"


class Watch:
    """Watches every incarnation that is handed to `attach`.

    `effects` returns what effects are told by, such as the list of what was sent.
    """

    def __init__(self, effects: Callable[[], object] | None = None) -> None:
        self._effects = effects
        self._lock = threading.Lock()
        self._findings: list[str] = []
        self._live: dict[str, AnyActor] = {}
        self._acted: dict[str, int] = {}
        self._replied: dict[str, tuple[Any, ...]] = {}
        self._acknowledged: list[tuple[str, int, Any]] = []

    def attach(self, actor: AnyActor, journal: Journal) -> AnyActor:
        """Watch the actor from now on, and return it."""
        with self._lock:
            self._live[actor.context.stream] = actor
        watched = _Watched(self, actor, journal)
        # The kernel calls these on the instance, and so finds ours first.
        vars(actor).update(
            decide=watched.examiner.decide,
            evolve=watched.examiner.evolve,
            on_recovered=watched.on_recovered,
            prepare=watched.prepare,
            announce=watched.announce,
            remember=watched.remember,
            on_committed=watched.on_committed,
            reply=watched.reply,
        )
        return actor

    def live(self) -> list[AnyActor]:
        """Return the incarnations that have not ended."""
        with self._lock:
            return [actor for actor in self._live.values() if not actor.actor_stopped.is_set()]

    def note(self, text: str) -> None:
        """Note what should not be."""
        with self._lock:
            self._findings.append(text)

    def findings(self) -> list[str]:
        """Return what was noted, and forget it."""
        with self._lock:
            found, self._findings = self._findings, []
            return found

    def effects(self) -> Portrait:
        """Return what the effects so far look like."""
        return {} if self._effects is None else portrait(self._effects(), "effects")

    def acknowledged(self) -> list[tuple[str, int, Any]]:
        """Return what actors have acted on: stream, version and event."""
        with self._lock:
            return list(self._acknowledged)

    def replied(self, stream: str) -> tuple[Any, ...]:
        """Return the events of the last command of the stream that was replied to, and forget them."""
        with self._lock:
            return self._replied.pop(stream, ())

    def replies(self, stream: str, events: tuple[Any, ...]) -> None:
        """Take note of the events that a reply is about."""
        with self._lock:
            self._replied[stream] = events

    def acts(self, stream: str, version: int, events: Sequence[Any]) -> None:
        """Take note that an actor acts on events that have taken its stream to this version."""
        first = version - len(events) + 1
        with self._lock:
            before, self._acted[stream] = self._acted.get(stream, 0), version
            self._acknowledged += [(stream, first + offset, event) for offset, event in enumerate(events)]
        if first <= before:
            self.note(finding(f"{stream} acts on version {first} again, which it has acted on before"))


class _Watched:
    """The functions and hooks of one incarnation, as it is called by the kernel."""

    def __init__(self, watch: Watch, actor: AnyActor, journal: Journal) -> None:
        self._watch = watch
        self._actor = actor
        self._journal = journal
        self._on_recovered = actor.on_recovered
        self._prepare = actor.prepare
        self._announce = actor.announce
        self._remember = actor.remember
        self._on_committed = actor.on_committed
        self._reply = actor.reply
        self.examiner = Examiner(
            decide=actor.decide,
            evolve=actor.evolve,
            codec=EventCodec(actor.context.profile.forms),
            world=self._world,
            note=watch.note,
        )

    def on_recovered(self) -> Sequence[Any]:
        with self._state_stays("on_recovered"):
            return self._on_recovered()

    def prepare(self, command: Any) -> Any:  # noqa: ANN401 - the actor's own types
        with self._nothing_happens("prepare"):
            return self._prepare(command)

    def announce(
        self,
        command: Any,  # noqa: ANN401 - likewise
        before: Any,  # noqa: ANN401 - likewise
        events: tuple[Any, ...],
        after: Any,  # noqa: ANN401 - likewise
        recorded_at: int,
    ) -> Announcement:
        with self._nothing_happens("announce"):
            return self._announce(command, before, events, after, recorded_at)

    def remember(
        self,
        command: Any,  # noqa: ANN401 - likewise
        events: tuple[Any, ...],
        after: Any,  # noqa: ANN401 - likewise
        recorded_at: int,
    ) -> Remembered | None:
        with self._nothing_happens("remember"):
            return self._remember(command, events, after, recorded_at)

    def on_committed(self, command: Any, events: tuple[Any, ...]) -> None:  # noqa: ANN401 - likewise
        stream, version = self._actor.context.stream, self._actor.version
        recorded = self._journal.read(stream, after=version - len(events))
        durable = [type(entry.event).__name__ for entry in recorded[: len(events)]]
        if durable != [type(event).__name__ for event in events]:
            details = [f"the log holds {durable} behind version {version - len(events)}"]
            self._watch.note(finding(f"{stream} acts on {events!r} before they are durable", details))
        self._watch.acts(stream, version, events)
        with self._state_stays("on_committed"):
            self._on_committed(command, events)

    def reply(self, command: Any, events: tuple[Any, ...]) -> Any:  # noqa: ANN401 - likewise
        self._watch.replies(self._actor.context.stream, events)
        with self._state_stays("reply"):
            return self._reply(command, events)

    def _world(self) -> Portrait:
        """Return what decide and evolve must leave alone: effects, and what the actor remembers besides its state."""
        own = {f"self.{name}": f"<{id(value):x}>" for name, value in vars(self._actor).items()}
        return {**self._watch.effects(), **own}

    @contextmanager
    def _nothing_happens(self, hook: str) -> Generator[None]:
        before = self._watch.effects()
        acts: list[str] = []
        with self._state_stays(hook), witness(acts):
            yield
        happened = [f"it {act}" for act in acts if act in SENDS]
        happened += differences(before, self._watch.effects())
        if happened:
            self._watch.note(finding(f"{hook} has an effect before anything is durable", happened, NOT_YET))

    @contextmanager
    def _state_stays(self, hook: str) -> Generator[None]:
        before = portrait(self._actor.state, "state")
        yield
        changed = differences(before, portrait(self._actor.state, "state"))
        if changed:
            self._watch.note(finding(f"{hook} changes the state of the actor", changed, _ONLY_EVOLVE))
