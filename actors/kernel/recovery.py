"""Recovers an actor's state from its snapshot, if that is valid, and from the events after it."""

from __future__ import annotations

import logging

from reenact.actors.kernel.declared import Declared
from reenact.actors.kernel.lineage import Command, Event, State, fold
from reenact.domain.errors import LogUnusableError

_log = logging.getLogger("reenact.kernel")


def recover(actor: Declared[State, Command, Event]) -> tuple[State, int, int]:
    """Return the recovered state, its version, and the version of the snapshot used, or 0 if none was used.

    Raises:
        LogUnusableError: the stream has holes or cannot be replayed.
        StorageError: the log cannot be read.
    """
    context = actor.context
    journal, stream, profile = context.journal, context.stream, context.profile
    state: State = profile.folding.initial
    before, known = 0, None
    snapshot = None if profile.snapshots is None else journal.snapshot(stream)
    if snapshot is not None and profile.snapshots is not None:
        before, known = snapshot.version, profile.snapshots.restored(snapshot)
    # The event at which the snapshot was taken is read again: it must exist.
    recorded = journal.recover(stream, after=-1 if known is None else before - 1)
    if known is not None:
        if recorded and recorded[0].version == before:
            state = actor.on_restored(known[0])
            del recorded[0]
        else:
            _log.error("the snapshot of %s is at version %d, which is not in the log", stream, before)
            recorded, known = journal.recover(stream), None
    if known is None:
        # A stream that another library has written may start at 0, and one whose history was forgotten at its last
        # event.
        before = 0
        if recorded:
            before = recorded[0].version - 1 if recorded[0].is_behind_forgotten else min(recorded[0].version, 1) - 1
    last = recorded[-1].version if recorded else before
    if last - before != len(recorded):
        raise LogUnusableError(f"stream {stream!r} has holes below version {last}; verify the log")
    if known is None and recorded and profile.folding.origin is not None:
        state = profile.folding.state_before(journal, stream, recorded[0].event, recorded[0].position)
    state = fold(actor.evolve, state, recorded)
    if state is None and not profile.may_be_none:
        raise LogUnusableError(
            f"stream {stream!r} cannot be replayed: {profile.name} has no state at version {last}; "
            "evolve and on_restored return the state"
        )
    return state, last, 0 if known is None else before
