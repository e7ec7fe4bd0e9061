"""Watches actors at work: checks each call that the kernel makes of their functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, ParamSpec, TypeVar

from reenact.actors.journal.api import Journal
from reenact.actors.journal.codec import EventCodec
from reenact.actors.kernel.persistent import AnyActor
from reenact.testing.examiner import NOT_YET, Examiner
from reenact.testing.portrait import Portrait, differences, finding, portrait
from reenact.testing.witness import SENDS, witness

P = ParamSpec("P")
R = TypeVar("R")

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
        self._replied: dict[str, tuple[int, int]] = {}
        self._acknowledged: list[tuple[str, int, object]] = []

    def attach(self, actor: AnyActor, journal: Journal) -> AnyActor:
        """Watch the actor from now on, and return it."""
        with self._lock:
            self._live[actor.context.stream] = actor
        watched = _Watched(self, actor, journal)
        # The kernel calls these on the instance, and so finds ours first.
        vars(actor).update(
            decide=watched.examiner.decide,
            evolve=watched.examiner.evolve,
            on_recovered=watched.hook(actor.on_recovered, watched.state_stays),
            prepare=watched.hook(actor.prepare, watched.nothing_happens),
            announce=watched.hook(actor.announce, watched.nothing_happens),
            remember=watched.hook(actor.remember, watched.nothing_happens),
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

    def acknowledged(self) -> list[tuple[str, int, object]]:
        """Return what actors have acted on: stream, version and event."""
        with self._lock:
            return list(self._acknowledged)

    def replied(self, stream: str) -> tuple[int, int]:
        """Return behind which version the events of the last command stand that was replied to, and up to which."""
        with self._lock:
            return self._replied.pop(stream, (0, 0))

    def replies(self, stream: str, after: int, until: int) -> None:
        """Take note of the events that a reply is about."""
        with self._lock:
            self._replied[stream] = after, until

    def acts(self, stream: str, version: int, events: Sequence[object]) -> None:
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
        self._on_committed = actor.on_committed
        self._reply = actor.reply
        self.examiner = Examiner(
            decide=actor.decide,
            evolve=actor.evolve,
            codec=EventCodec(actor.context.profile.forms),
            world=self._world,
            note=watch.note,
        )

    def hook(self, call: Callable[P, R], watching: Callable[[str], AbstractContextManager[None]]) -> Callable[P, R]:
        """Return the hook of the actor, watched while it runs."""

        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with watching(call.__name__):
                return call(*args, **kwargs)

        return run

    def on_committed(self, command: object, events: tuple[object, ...]) -> None:
        stream, version = self._actor.context.stream, self._actor.version
        recorded = self._journal.read(stream, after=version - len(events))
        durable = [type(entry.event).__name__ for entry in recorded[: len(events)]]
        if durable != [type(event).__name__ for event in events]:
            details = [f"the log holds {durable} behind version {version - len(events)}"]
            self._watch.note(finding(f"{stream} acts on {events!r} before they are durable", details))
        self._watch.acts(stream, version, events)
        with self.state_stays("on_committed"):
            self._on_committed(command, events)

    def reply(self, command: object, events: tuple[object, ...]) -> object:
        version = self._actor.version
        self._watch.replies(self._actor.context.stream, version - len(events), version)
        with self.state_stays("reply"):
            return self._reply(command, events)

    def _world(self) -> Portrait:
        """Return what decide and evolve must leave alone: effects, and what the actor remembers besides its state."""
        own = {f"self.{name}": f"<{id(value):x}>" for name, value in vars(self._actor).items()}
        return {**self._watch.effects(), **own}

    @contextmanager
    def nothing_happens(self, hook: str) -> Generator[None]:
        """Note what the hook does before anything is durable."""
        before = self._watch.effects()
        acts: list[str] = []
        with self.state_stays(hook), witness(acts):
            yield
        happened = [f"it {act}" for act in acts if act in SENDS]
        happened += differences(before, self._watch.effects())
        if happened:
            self._watch.note(finding(f"{hook} has an effect before anything is durable", happened, NOT_YET))

    @contextmanager
    def state_stays(self, hook: str) -> Generator[None]:
        """Note it if the hook changes the state."""
        before = portrait(self._actor.state, "state")
        yield
        changed = differences(before, portrait(self._actor.state, "state"))
        if changed:
            self._watch.note(finding(f"{hook} changes the state of the actor", changed, _ONLY_EVOLVE))
