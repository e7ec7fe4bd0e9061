"""States of sessions at any of their events: folded from the log, with some states kept to fold further ones from."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from functools import partial, reduce

import msgspec

from reenact.domain.conversation import Conversation
from reenact.domain.growing_set import GrowingSet
from reenact.domain.messages import Said
from reenact.domain.session.state import Session
from reenact.inspector.windows import History
from reenact.projections.explain.history import believe

EVERY = 1000
"""The number of events that are read at once, and between two states that are kept on the way."""
KEPT = 500
"""The number of kept states, those that were used last."""
_RECENT = 2
_BEGINNING = Session()


class States:
    """States of the sessions of a log. Thread-safe.

    A kept state has the last messages of its conversation; the others are read on demand. It does not have the ids of
    all earlier calls, which that of `full_state` has.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Session] = OrderedDict()
        """The states of streams at versions."""

    def at(self, history: History, number: int) -> Session:
        """Return the session as it was after the event of that number.

        Raises:
            LogUnusableError: the log holds events that cannot have happened.
        """
        return self._folded(history, number, math.inf)[1]

    def advance(self, history: History, number: int, seconds: float) -> int:
        """Read on for at most `seconds` towards the state after that event; return the number of the last event read.

        Raises:
            LogUnusableError: as for `at`.
        """
        return self._folded(history, number, time.monotonic() + seconds)[0]

    def ahead(self, history: History, number: int) -> int:
        """Return how many events have to be read for the state after the event of that number."""
        return number - self._nearest(history, number)[0]

    def _folded(self, history: History, number: int, until: float) -> tuple[int, Session]:
        """Read on up to the event, or until the time; return the number of the last event read, and the state there."""
        begin, state = self._nearest(history, number)
        while begin < number:
            end = min(number, begin - begin % EVERY + EVERY)
            folded = reduce(believe, history.rows(begin + 1, end), _lightened(state, history, begin))
            state = _lightened(folded, history, end)
            self._keep(history, end, state)
            begin = end
            if time.monotonic() > until:
                break
        return begin, state

    def _nearest(self, history: History, number: int) -> tuple[int, Session]:
        """Return the number of the last kept state up to the event, and that state."""
        with self._lock:
            for part in reversed(history.parts):
                last = min(number - part.before, part.last)
                versions = [version for stream, version in self._kept if stream == part.stream and version <= last]
                if versions:
                    key = (part.stream, max(versions))
                    self._kept.move_to_end(key)
                    return part.before + key[1], self._kept[key]
        return 0, _BEGINNING

    def _keep(self, history: History, number: int, state: Session) -> None:
        part = next(part for part in reversed(history.parts) if part.before < number)
        key = (part.stream, number - part.before)
        with self._lock:
            self._kept[key] = state
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)


def full_state(history: History, number: int) -> Session:
    """Return the session as it was after the event of that number, with the whole conversation; it reads all events."""
    state = _BEGINNING
    for begin in range(0, number, EVERY):
        state = reduce(believe, history.rows(begin + 1, min(number, begin + EVERY)), state)
    return state


def _lightened(session: Session, history: History, number: int) -> Session:
    """Return the session with its last messages in a list of its own.

    Conversations share a list that grows: a kept state would hold the messages of all states that were folded from it.
    """
    recent = session.conversation[-_RECENT:]
    read = partial(_said, history, number)
    conversation = Conversation.unread(len(session.conversation) - len(recent), read)
    for said in recent:
        conversation = conversation.plus(said)
    return msgspec.structs.replace(session, conversation=conversation, known_calls=GrowingSet())


def _said(history: History, number: int) -> list[Said]:
    return list(full_state(history, number).conversation)
