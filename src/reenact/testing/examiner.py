"""Calls `decide` and `evolve` as the kernel does, and reports whatever shows that they are not pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from reenact.actors.journal.codec import EventCodec
from reenact.testing.portrait import Portrait, differences, finding, portrait
from reenact.testing.witness import witness

PURE: Final = "it must depend on nothing but its arguments: time, chance and ids come in with the command"
IN_PLACE: Final = "return a new value instead: dataclasses.replace, msgspec.structs.replace, a new tuple or dict"
NOT_YET: Final = "act in on_committed: what is decided may still fail to become durable"

Note = Callable[[str], object]
World = Callable[[], Portrait]


class Examiner:
    """Knows the functions of one class of actors, or of one actor.

    `world` returns what must stay the same while they run: the effects so far, and what the actor remembers.
    """

    def __init__(
        self,
        *,
        decide: Callable[[object, object], Iterable[object]],
        evolve: Callable[[object, object], object],
        codec: EventCodec,
        world: World,
        note: Note,
    ) -> None:
        self._decide = decide
        self._evolve = evolve
        self._codec = codec
        self._world = world
        self._note = note

    def decide(self, state: object, command: object) -> tuple[object, ...]:
        """Return what `decide` returns, or raise what it raises, having looked at it twice."""
        given = {"the state": state, "the command": command}
        outcome = self._twice("decide", lambda: tuple(self._decide(state, command)), given, f"decide({command!r})")
        if isinstance(outcome, Exception):
            raise outcome
        for event in outcome:
            self.survives(event)
        return outcome

    def evolve(self, state: object, event: object) -> object:
        """Return what `evolve` returns, or raise what it raises, having looked at it twice."""
        given = {"the state": state, "the event": event}
        outcome = self._twice("evolve", lambda: (self._evolve(state, event),), given, f"evolve({event!r})")
        if isinstance(outcome, Exception):
            self._note(
                finding(
                    f"evolve raised {outcome!r} for {event!r}",
                    portrait_lines(portrait(state, "state")),
                    "the past cannot be refused: what must not happen is for decide to refuse, and not to emit",
                )
            )
            raise outcome
        return outcome[0]

    def survives(self, event: object) -> None:
        """Note it if the event is not the same when it comes back from the log."""
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

    def _twice(
        self, name: str, call: Callable[[], tuple[object, ...]], given: dict[str, object], shown: str
    ) -> tuple[object, ...] | Exception:
        before = {what: portrait(value, what.removeprefix("the ")) for what, value in given.items()}
        world = self._world()
        acts: list[str] = []
        with witness(acts):
            first = _outcome(call)
        pure = True
        for what, value in given.items():
            changed = differences(before[what], portrait(value, what.removeprefix("the ")))
            if changed:
                pure = False
                self._note(finding(f"{name} changes {what} that it is given, in {shown}", changed, IN_PLACE))
        moved = differences(world, self._world())
        if moved:
            pure = False
            self._note(finding(f"{name} has an effect before anything is durable, in {shown}", moved, NOT_YET))
        if acts:
            pure = False
            self._note(finding(f"{name} does more than return, in {shown}", [f"it {act}" for act in acts], PURE))
        if pure:
            shown_first = portrait(first, "it")
            other = differences(shown_first, portrait(_outcome(call), "it"), verb="is now")
            if other:
                self._note(finding(f"{name} returns something else when it is called again, {shown}", other, PURE))
        return first


def portrait_lines(parts: Portrait) -> list[str]:
    """Return the parts as lines."""
    return [f"{where}: {what}" for where, what in parts.items()]


def _outcome(call: Callable[[], tuple[object, ...]]) -> tuple[object, ...] | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - raised again for the kernel to judge, or compared
        return error
