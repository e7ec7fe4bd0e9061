"""What tests see of a runtime: what is heard, what the log holds, and whether the two and the live state agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from threading import Condition
from typing import Any

import msgspec

from reenact import Runtime
from reenact.actors.journal.api import Append, Done, Outcome
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import verify
from reenact.actors.session.actor import SessionActor
from reenact.domain.session.state import Session, SessionBranched, SessionCreated, evolve
from reenact.events import Envelope
from reenact.projections.read_model.queries import ReadModel
from reenact.projections.verification.replay import retrace
from tests.domain.stream.grammar import Grammar, Heard
from tests.logs import log_of, read_log

PATIENCE = 60.0
"""Seconds after which what was waited for is not going to happen."""


class Ears:
    """Hears everything, in order, and wakes whoever waits for it."""

    def __init__(self, runtime: Runtime | None = None) -> None:
        self._heard: list[Envelope] = []
        self._changed = Condition()
        if runtime is not None:
            runtime.events.on_all(self)

    def __call__(self, event: Envelope) -> None:
        with self._changed:
            self._heard.append(event)
            self._changed.notify_all()

    @property
    def heard(self) -> tuple[Envelope, ...]:
        with self._changed:
            return tuple(self._heard)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.heard]

    def of(self, *types: str) -> list[Envelope]:
        return [event for event in self.heard if event.type in types]

    def wait(self, type_: str, *, count: int = 1, turn_id: str | None = None) -> list[Envelope]:
        """Return the events of the type, of the turn if one is named, once there are `count` of them."""

        def found() -> list[Envelope]:
            return [
                event
                for event in self._heard
                if event.type == type_ and (turn_id is None or event.context.turn_id == turn_id)
            ]

        with self._changed:
            came = self._changed.wait_for(lambda: len(found()) >= count, PATIENCE)
            assert came, f"waited for {count} of {type_} {turn_id}, heard {[event.type for event in self._heard]}"
            return found()

    def next(self, timeout: float) -> None:
        """Return when something more is heard, or after some seconds."""
        with self._changed:
            self._changed.wait(timeout)


def journal_of(runtime: Runtime) -> StoredJournal:
    """Return the log under the runtime."""
    journal = runtime._journal
    assert isinstance(journal, StoredJournal)
    return journal


def heard_of(journal: StoredJournal, session_id: str) -> list[Heard]:
    """Return the feed of the session as the log holds it."""
    heard: list[Heard] = []
    for row in journal.read_feed(f"session/{session_id}", limit=1_000_000):
        cursor = row.first_cursor
        for segment in row.segments:
            for entry in segment.entries:
                data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(entry.data))
                heard.append(Heard(cursor, entry.type, segment.context.get("turn_id"), data))
                cursor += 1
    return heard


def plain(event: Envelope) -> Heard:
    """Return the event as the log holds it."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event.data))
    assert event.cursor is not None
    return Heard(event.cursor, event.type, event.context.turn_id, data)


def unfinished(log: str) -> set[str]:
    """Return the turns that the log of a process that is no more has begun and not ended."""
    with read_log(log) as journal:
        turns = [state.turn for state in recorded_states(journal).values()]
    return {turn.id for turn in turns if turn is not None}


def recorded_states(journal: StoredJournal) -> dict[str, Session]:
    """Return the state of each session, folded from the log, deleted ones too."""
    ids = [
        recorded.event.session_id
        for recorded in journal.read_all(limit=1_000_000)
        if isinstance(recorded.event, SessionCreated | SessionBranched)
    ]
    return {id_: fold(journal, id_) for id_ in ids}


def fold(journal: StoredJournal, session_id: str, *, until: int | None = None) -> Session:
    """Return the session's state as its log alone tells it, up to a version."""
    own = journal.read(f"session/{session_id}")[:until]
    branched = own[0].event if own else None
    before = fold(journal, branched.origin, until=branched.version) if isinstance(branched, SessionBranched) else None
    return reduce(evolve, (recorded.event for recorded in own), before or Session())


def live_sessions(runtime: Runtime) -> dict[str, tuple[Session, int]]:
    """Return what the live session actors believe, and at which version."""
    found: dict[str, tuple[Session, int]] = {}
    for actor in runtime._system.pool.live():
        if isinstance(actor, SessionActor):
            version = -1
            state = actor.state
            while version != actor.version:
                version, state = actor.version, actor.state
            found[actor.context.id] = (state, version)
    return found


def check(runtime: Runtime, *, resumed: Iterable[str] = ()) -> dict[str, Grammar]:
    """Hold the live state, the log, its feeds and the rows of a quiet runtime against each other."""
    journal = journal_of(runtime)
    for session_id, (state, version) in live_sessions(runtime).items():
        assert state == fold(journal, session_id, until=version), session_id
    states = recorded_states(journal)
    resumed = tuple(resumed)
    read = {id_: Grammar(resumed=resumed).read(heard_of(journal, id_)) for id_ in states}
    for id_, grammar in read.items():
        state = states[id_]
        assert (grammar.current.id if grammar.current else None) == (state.turn.id if state.turn else None)
        assert grammar.waiting == [queued.turn_id for queued in state.queue]
    check_rows(runtime, states)
    check_decisions(journal)
    assert verify(log_of(journal)) == []
    return read


def check_decisions(journal: StoredJournal) -> None:
    """Have today's code decide all that the log holds once more."""
    assert [one for one in retrace(journal) if one.divergence is not None] == []


def check_rows(runtime: Runtime, states: dict[str, Session]) -> None:
    """Hold the rows that are kept against rows made anew from the log."""
    runtime.containers.list()  # returns when the rows have reached the log
    kept = runtime._do._model
    assert isinstance(kept, ReadModel)
    with ReadModel.of(journal_of(runtime)) as anew:
        assert kept.containers() == anew.containers()
        assert kept.images() == anew.images()
        assert kept.sessions() == anew.sessions()
        assert kept.agents() == anew.agents()
        assert kept.unfinished() == anew.unfinished()
        assert kept.pending() == anew.pending()
        for session_id in states:
            assert kept.messages(session_id) == anew.messages(session_id)
            assert kept.turns_of(session_id) == anew.turns_of(session_id)
            assert kept.tool_calls(session_id) == anew.tool_calls(session_id)
            assert kept.usage(session_id) == anew.usage(session_id)


def at_every_commit(runtime: Runtime, act: Callable[[int], None]) -> None:
    """Call `act` with a count after each commit, before anybody hears of it, on the thread that writes."""
    writer = journal_of(runtime).writer
    tell, publish = writer._listener, writer._publisher
    count = 0

    def listen(publications: Any) -> None:  # noqa: ANN401 - passed on as it is
        nonlocal count
        count += 1
        act(count)
        if tell is not None and publish is None:
            tell(publications)

    def publish_then(rows: range, publications: Any) -> None:  # noqa: ANN401 - likewise
        if publications:
            listen(publications)
        assert publish is not None
        publish(rows, publications)

    writer._listener = listen
    if publish is not None:  # a node of a log in PostgreSQL
        writer._publisher = publish_then


def before_it_is_told(runtime: Runtime, act: Callable[[], object]) -> None:
    """Call `act` whenever something is durable and nobody knows of it yet, on the thread that has written it."""
    journal = journal_of(runtime)

    def telling(append: Callable[[Append, Done], None]) -> Callable[[Append, Done], None]:
        def tell(step: Append, done: Done) -> None:
            def act_first(outcome: Outcome) -> None:
                act()
                done(outcome)

            append(step, act_first)

        return tell

    vars(journal).update(append=telling(journal.append))
    vars(runtime._system).update(append=telling(runtime._system.append))
