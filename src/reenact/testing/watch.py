"""Watches actors: checks each call that the kernel makes of their functions, and that these are pure."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import ParamSpec, TypeGuard, TypeVar

from reenact.actors.journal.api import Journal
from reenact.actors.journal.codec import EventCodec
from reenact.actors.kernel.persistent import AnyActor, EventSourcedActor
from reenact.domain.plain import is_mapping, is_sequence
from reenact.testing.portrait import Portrait, differences, finding, is_cache, portrait
from reenact.testing.witness import SENDS, witness

P = ParamSpec("P")
R = TypeVar("R")

PURE = "it must depend on nothing but its arguments: time, chance and ids come in with the command"
IN_PLACE = "return a new value instead: dataclasses.replace, msgspec.structs.replace, a new tuple or dict"
FROM_THE_STATE = "what decides belongs in the state: all else that an actor knows is gone when it leaves memory"
NOT_YET = "act in on_committed: what is decided may still fail to become durable"

Note = Callable[[str], object]
World = Callable[[], Portrait]


class Examiner:
    """Calls and checks the functions of one class of actors, or of one actor.

    `world` returns what must stay the same while they run: the effects so far, and the actor's own attributes.
    """

    def __init__(
        self,
        *,
        decide: Callable[[object, object], object],
        evolve: Callable[[object, object], object],
        codec: EventCodec,
        world: World,
        note: Note,
    ) -> None:
        self._decide = decide
        self._evolve = evolve
        self._codec = codec
        self._examined = partial(examined, note=note, world=world)
        self._note = note

    def decide(self, state: object, command: object) -> tuple[object, ...]:
        """Call `decide` twice, check that it is pure, and return its result, or raise its exception."""
        given = {"the state": state, "the command": command}
        outcome = self._examined(
            "decide", lambda: _events(self._decide(state, command)), given, f"in decide({command!r})"
        )
        if isinstance(outcome, Exception):
            raise outcome
        for event in outcome:
            self.survives(event)
        return outcome

    def evolve(self, state: object, event: object) -> object:
        """Call `evolve` twice, check that it is pure, and return its result, or raise its exception."""
        given = {"the state": state, "the event": event}
        outcome = self._examined("evolve", lambda: (self._evolve(state, event),), given, f"in evolve({event!r})")
        if isinstance(outcome, Exception):
            self._note(
                finding(
                    f"evolve raised {outcome!r} for {event!r}",
                    [f"{where}: {what}" for where, what in portrait(state, "state").items()],
                    "the past cannot be refused: what must not happen is for decide to refuse, and not to emit",
                )
            )
            raise outcome
        return outcome[0]

    def survives(self, event: object) -> None:
        """Note a finding if the event comes back from the log changed."""
        name = type(event).__name__
        try:
            again = self._codec.decode(*self._codec.encode(event, 0))[1]
        except Exception as error:  # noqa: BLE001 - whatever it is, the event cannot be stored
            advice = "give its type a name in the `events` of the actor, and its fields types that msgspec stores"
            self._note(finding(f"{event!r} cannot be stored", [str(error)], advice))
            return
        lost = differences(portrait(event, name), portrait(again, name))
        if lost:
            advice = "a field comes back as what its annotation says: annotate it with the type that it has"
            self._note(finding(f"{event!r} comes back from the log as {again!r}", lost, advice))


def _events(decided: object) -> tuple[object, ...]:
    """Return the events, or raise as the kernel does; a generator would be empty at the second look."""
    if not is_sequence(decided):
        raise TypeError(f"decide returned {type(decided).__name__}; it returns a sequence of events, () for none")
    return tuple(decided)


def examined(
    name: str,
    call: Callable[[], tuple[object, ...]],
    given: dict[str, object],
    shown: str,
    *,
    note: Note,
    world: World = dict,
) -> tuple[object, ...] | Exception:
    """Return the call's result or exception; note every sign that it is not pure."""

    def looks() -> dict[str, Portrait]:
        return {what: portrait(value, what.removeprefix("the ")) for what, value in given.items()}

    found: list[str] = []
    before, untouched = looks(), world()
    acts: list[str] = []
    with witness(acts):
        first = _outcome(call)
    for what, is_now in looks().items():
        if changed := differences(before[what], is_now):
            found.append(finding(f"{name} changes {what} that it is given, {shown}", changed, IN_PLACE))
    if moved := differences(untouched, world()):
        found.append(finding(f"{name} has an effect before anything is durable, {shown}", moved, NOT_YET))
    if acts:
        found.append(finding(f"{name} does more than return, {shown}", [f"it {act}" for act in acts], PURE))
    if not found:
        looks_first = portrait(first, "it")
        if other := differences(looks_first, portrait(_outcome(call), "it"), verb="is now"):
            found.append(finding(f"{name} returns something else when it is called again, {shown}", other, PURE))
    for one in found:
        note(one)
    return first


def _outcome(call: Callable[[], tuple[object, ...]]) -> tuple[object, ...] | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - raised again for the kernel to handle, or compared
        return error


def _identity(value: object) -> str:
    """Return a text that differs for different objects, and for a collection when its members change."""
    if not _is_collection(value):
        return f"<{id(value):x}>"
    members = [*value, *(value.values() if is_mapping(value) else ())]
    return f"{type(value).__name__} of {len(value)} <{hash((id(value), *map(id, members))):x}>"


def _is_collection(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, (dict, list, set, deque))


_DECISIONS = 6
"""How many recent decisions are repeated with the next incarnation."""

_ONLY_EVOLVE = "only evolve makes states, so that the log can make them again"


class Watch:
    """Watches every actor that is passed to `attach`.

    `effects` returns a value that shows the effects so far, such as the list of what was sent.
    """

    def __init__(self, effects: Callable[[], object] | None = None) -> None:
        self._effects = effects
        self._lock = threading.Lock()
        self._findings: list[str] = []
        self._live: dict[str, AnyActor] = {}
        self._acted: dict[str, int] = {}
        self._replied: dict[str, tuple[int, int]] = {}
        self._decided: dict[str, deque[tuple[object, object, Portrait]]] = {}
        self._acknowledged: list[tuple[str, int, object]] = []

    def attach(self, actor: AnyActor, journal: Journal) -> AnyActor:
        """Watch the actor from now on, and return it."""
        with self._lock:
            self._live[actor.context.stream] = actor
        watched = _Watched(self, actor, journal)
        # The kernel calls these on the instance, so it finds the watched versions first.
        vars(actor).update(
            decide=watched.decide,
            evolve=watched.examiner.evolve,
            on_recovered=watched.on_recovered,
            prepare=watched.hook(actor.prepare, watched.nothing_happens),
            announce=watched.hook(actor.announce, watched.nothing_happens),
            remember=watched.hook(actor.remember, watched.nothing_happens),
            on_committed=watched.on_committed,
            reply=watched.reply,
        )
        return actor

    def live(self) -> list[AnyActor]:
        """Return the actors that have not ended."""
        with self._lock:
            return [actor for actor in self._live.values() if not actor.actor_stopped.is_set()]

    def note(self, text: str) -> None:
        """Note a finding."""
        with self._lock:
            self._findings.append(text)

    def findings(self) -> list[str]:
        """Return the noted findings, and forget them."""
        with self._lock:
            found, self._findings = self._findings, []
            return found

    def effects(self) -> Portrait:
        """Return a portrait of the effects so far."""
        return {} if self._effects is None else portrait(self._effects(), "effects")

    def acknowledged(self) -> list[tuple[str, int, object]]:
        """Return the events that actors have acted on: stream, version and event."""
        with self._lock:
            return list(self._acknowledged)

    def replied(self, stream: str) -> tuple[int, int]:
        """Return the version before the events of the last command that got a reply, and the version after them."""
        with self._lock:
            return self._replied.pop(stream, (0, 0))

    def replies(self, stream: str, after: int, until: int) -> None:
        """Note the versions before and after the events that a reply is about."""
        with self._lock:
            self._replied[stream] = after, until

    def decided(self, stream: str) -> deque[tuple[object, object, Portrait]]:
        """Return the recent decisions of the stream: state, command and outcome; callers append to it."""
        with self._lock:
            return self._decided.setdefault(stream, deque(maxlen=_DECISIONS))

    def acts(self, stream: str, version: int, events: Sequence[object]) -> None:
        """Note that an actor acts on events that have brought its stream to this version."""
        first = version - len(events) + 1
        with self._lock:
            before, self._acted[stream] = self._acted.get(stream, 0), version
            self._acknowledged += [(stream, first + offset, event) for offset, event in enumerate(events)]
        if first <= before:
            self.note(finding(f"{stream} acts on version {first} again, which it has acted on before"))


class _Watched:
    """The functions and hooks of one actor, as the kernel calls them."""

    def __init__(self, watch: Watch, actor: AnyActor, journal: Journal) -> None:
        self._watch = watch
        self._actor = actor
        self._journal = journal
        self._decide = actor.decide
        self._decided = watch.decided(actor.context.stream)
        self._on_recovered = self.hook(actor.on_recovered, self.state_stays)
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
        """Return the actor's hook, watched while it runs."""

        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with watching(call.__name__):
                return call(*args, **kwargs)

        return run

    def decide(self, state: object, command: object) -> tuple[object, ...]:
        outcome = _outcome(lambda: self.examiner.decide(state, command))
        self._decided.append((state, command, portrait(outcome, "it")))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def on_recovered(self) -> object:
        """Recover, and check that this incarnation repeats the recent decisions of the previous one."""
        recovered = self._on_recovered()
        for state, command, looks in self._decided:
            again = portrait(_outcome(partial(self._decided_by, state, command)), "it")
            if other := differences(looks, again, verb="is now"):
                what = f"decide returns something else when the actor is made anew, in decide({command!r})"
                self._watch.note(finding(what, other, FROM_THE_STATE))
        self._decided.clear()
        return recovered

    def _decided_by(self, state: object, command: object) -> tuple[object, ...]:
        return _events(self._decide(state, command))

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
        """Return what decide and evolve must not change: the effects, and the actor's attributes besides its state."""
        actor = self._actor
        kinds = [kind for kind in reversed(type(actor).__mro__) if kind not in EventSourcedActor.__mro__]
        known = {name: value for kind in kinds for name, value in vars(kind).items()} | vars(actor)
        own = {f"self.{name}": _identity(value) for name, value in known.items() if not is_cache(actor, name)}
        return {**self._watch.effects(), **own}

    @contextmanager
    def nothing_happens(self, hook: str) -> Generator[None]:
        """Note a finding if the hook has an effect before anything is durable."""
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
        """Note a finding if the hook changes the state."""
        before = portrait(self._actor.state, "state")
        yield
        changed = differences(before, portrait(self._actor.state, "state"))
        if changed:
            self._watch.note(finding(f"{hook} changes the state of the actor", changed, _ONLY_EVOLVE))
