"""Today's decisions over a recorded history: where they part.

Each step is decided anew from the state that the recorded events led to and from the command that they tell of; nothing
else is asked, least of all the world. What is decided must be what was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

import msgspec

from reenact.domain import session as sessions
from reenact.domain.agent import AgentStarted, AnswerRecorded, ContextCompressed, MessageAccepted, RulesRecorded
from reenact.domain.errors import ReenactError
from reenact.domain.inferring import commands_before
from reenact.domain.loop.digests import call_digest
from reenact.domain.loop.events import HumanResponded, ToolApproved, ToolEdited, ToolRejected, ToolResult
from reenact.domain.loop.rules import Rules, rules_held
from reenact.domain.marks import alike, is_marked
from reenact.domain.messages import ToolResultBlock, ToolUseBlock
from reenact.domain.session_commands import SessionCommand
from reenact.domain.session_state import Session, SessionBranched, SessionCreated, SessionEvent
from reenact.domain.stored import STORED

Decide: TypeAlias = Callable[[Session, SessionCommand], tuple[SessionEvent, ...]]
Evolve: TypeAlias = Callable[[Session, SessionEvent], Session]
_FIRST: Final = frozenset[type](
    {
        SessionCreated,
        SessionBranched,
        AgentStarted,
        MessageAccepted,
        ContextCompressed,
        RulesRecorded,
        ToolEdited,
        ToolApproved,
        ToolRejected,
        HumanResponded,
    }
)
"""With these a step begins; but an approval may come behind the edit of the call, and messages in a new branch."""
_OF_CALLS: Final = (ToolUseBlock, ToolResultBlock)
_OUTCOMES: Final = (ToolEdited, ToolRejected, HumanResponded, ToolResult, RulesRecorded)
"""Of what a step follows from, what decides how it goes on; all else is only passed on."""
_NOWHERE: Final = (-1, False, False, False)
_BEGINNING: Final = Session()
_BY_DEFAULT: Final = RulesRecorded()
_NAMES: Final[dict[type, str]] = {kind: name for name, kind in STORED.items()}


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where today's code parts from the history.

    `place` is that of the recorded event among those that were followed; `recorded` is None if the history ends
    there, `decided` if today's code ends the step there, or decides nothing. `field` is the first that differs between
    the two, if they are of one type. `problem` says it in words.
    """

    place: int
    recorded: object
    decided: object
    field: str
    command: SessionCommand | None
    problem: str
    is_fault: bool = False
    """Whether today's code has failed, rather than decided or refused."""


class _Stop(NamedTuple):
    """A place on the way that the history may have gone: the state there, and the places where a step may end."""

    place: int
    session: Session
    ends: list[int]
    is_decided: bool
    """Whether the step that begins here was decided anew; of one that is redacted only its end is guessed."""


class Retracing:
    """A session's history, followed event by event from its beginning, or from a state that is known.

    `rules` are those of events from when rules were not recorded. `decide` and `evolve` are today's.
    """

    def __init__(
        self,
        session: Session = _BEGINNING,
        *,
        rules: Rules | None = None,
        decide: Decide = sessions.decide,
        evolve: Evolve = sessions.evolve,
    ) -> None:
        self.session = session
        self.steps = 0
        self.undecided = 0
        """How many of the steps could not be decided anew, since what they follow from was redacted."""
        told = _BY_DEFAULT if rules is None else recorded_of(rules)
        self._unrecorded = (_BY_DEFAULT,) if told == _BY_DEFAULT else (_BY_DEFAULT, told)
        self._decide = decide
        self._evolve = evolve
        self._in_force: tuple[RulesRecorded, tuple[Rules, ...]] = (_BY_DEFAULT, _made(_BY_DEFAULT))
        self._divergence: Divergence | None = None
        self._reached = _NOWHERE

    def follow(self, events: Sequence[SessionEvent]) -> Divergence | None:
        """Take in events that were recorded together, in whole steps; return where today's code parts from them.

        Where the events alone do not tell which of several ways they went, a way that leads on is found. Behind a
        divergence nothing can be followed.
        """
        self._divergence, self._reached = None, _NOWHERE
        dead: set[int] = set()
        way = [self._at(events, 0, self.session)]
        while way and way[-1].place < len(events):
            stop = way[-1]
            if not stop.ends:
                dead.add(way.pop().place)
                continue
            end = stop.ends.pop()  # the farthest: what was recorded together was decided together
            if end in dead:
                continue
            try:
                session = reduce(self._evolve, events[stop.place : end], stop.session)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what has been looked for
                self._note([_failed(events, stop.place, None, error)])
                continue
            way.append(self._at(events, end, session))
        if not way:
            return self._divergence
        self.session, self.steps = way[-1].session, self.steps + len(way) - 1
        self.undecided += sum(not stop.is_decided for stop in way[:-1])
        return None

    def _at(self, events: Sequence[SessionEvent], place: int, session: Session) -> _Stop:
        if place == len(events):
            return _Stop(place, session, [], is_decided=True)
        reach = _reach(events, place + isinstance(events[place], RulesRecorded))
        ends, parted = self._ends(events, place, reach, session)
        if not ends and _rests_on_marks(session, events[place:reach]):
            return _Stop(place, session, list(range(place + 1, reach + 1)), is_decided=False)
        self._note(parted)
        return _Stop(place, session, ends, is_decided=True)

    def _ends(
        self, events: Sequence[SessionEvent], place: int, reach: int, session: Session
    ) -> tuple[list[int], list[Divergence]]:
        """Return where the step that begins at the place may end, the nearest first; and what parts from it."""
        first = events[place]
        ends: set[int] = set()
        found: list[Divergence] = []
        asked = False
        for state, command in self._asked(first, events[place + isinstance(first, RulesRecorded) : reach], session):
            asked = True
            try:
                decided = self._decide(state, command)
            except Exception as error:  # noqa: BLE001 - likewise
                found.append(_failed(events, place, command, error))
                continue
            recorded = events[place : place + len(decided)]
            parted = next(
                (at for at, (one, other) in enumerate(zip(recorded, decided, strict=False)) if not alike(one, other)),
                None,
            )
            if parted is None and decided and len(recorded) == len(decided):
                ends.add(place + len(decided))
                if reach in ends:
                    break
            else:
                at = len(recorded) if parted is None else parted
                found.append(_parted(events, place + at, command, decided[at] if at < len(decided) else None))
        if not asked:
            found.append(_unexplained(events, place))
        return sorted(ends), found

    def _asked(
        self, first: SessionEvent, step: Sequence[SessionEvent], session: Session
    ) -> Iterator[tuple[Session, SessionCommand]]:
        """Yield the commands that the step may have followed from, each with the state that it is decided on."""
        if not step:
            return
        session = _as_it_stands(session)
        states = [session]
        in_force = first if isinstance(first, RulesRecorded) else session.rules
        if in_force is None:
            states = [msgspec.structs.replace(session, rules=rules) for rules in self._unrecorded]
        for state in states:
            for rules in self._rules(in_force or state.rules or _BY_DEFAULT):
                for command in commands_before(state, step, rules):
                    yield state, command

    def _rules(self, recorded: RulesRecorded) -> tuple[Rules, ...]:
        known, made = self._in_force
        if known is not recorded:
            made = _made(recorded)
            self._in_force = recorded, made
        return made

    def _note(self, found: Sequence[Divergence]) -> None:
        """Keep the divergence that is farthest on; of several there, one about an event of the recorded type.

        Where today's code has failed at a step, that is what is told of it: what else comes into question there only
        looks as if it led farther.
        """
        farthest = max((one.place for one in found), default=0)
        for divergence in found:
            place = farthest if divergence.is_fault else divergence.place
            is_near = divergence.decided is not None and type(divergence.decided) is type(divergence.recorded)
            reached = (place, divergence.is_fault, is_near, divergence.command is not None)
            if reached > self._reached:
                self._divergence, self._reached = divergence, reached


def recorded_of(rules: Rules) -> RulesRecorded:
    """Return what a log says when these rules come to hold."""
    return RulesRecorded(rules.held, rules.cwd, rules.home)


def difference(recorded: object, decided: object) -> str:
    """Return the path to the first field in which two values differ, "" if they are wholly different things."""
    one, other = _parts(recorded), _parts(decided)
    if one is None or other is None or type(recorded) is not type(decided):
        return ""
    differing = (name for name in (*one, *other) if name not in one or name not in other or one[name] != other[name])
    name = next(differing, None)
    if name is None:
        return ""
    rest = difference(one.get(name), other.get(name))
    return f"{name}.{rest}" if rest else str(name)


def _parts(value: object) -> Mapping[object, object] | None:
    """Return what a value consists of, by names or numbers; None if it is one thing."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if _is_mapping(value):
        return value
    return dict(enumerate(value)) if _is_list(value) else None


def _made(recorded: RulesRecorded) -> tuple[Rules, ...]:
    """Return the rules in an environment that runs tools, and in one that does not: only what follows tells which."""
    return tuple(
        rules_held(recorded.rules, cwd=recorded.cwd, home=recorded.home, runs_tools=runs) for runs in (True, False)
    )


def _reach(events: Sequence[SessionEvent], place: int) -> int:
    """Return the place behind the farthest event that can be of one step with the one at the place."""
    answers, branched = 0, isinstance(events[place], SessionBranched) if place < len(events) else False
    for number in range(place, len(events)):
        event = events[number]
        answers += isinstance(event, AnswerRecorded)
        goes_on = (isinstance(event, ToolApproved) and isinstance(events[number - 1], ToolEdited)) or (
            branched and isinstance(event, MessageAccepted)
        )
        if number > place and (answers > 1 or (type(event) in _FIRST and not goes_on)):
            return number
    return len(events)


def _unexplained(events: Sequence[SessionEvent], place: int) -> Divergence:
    problem = f"nothing that can be asked of the session begins with {_name(events[place])}"
    return Divergence(place=place, recorded=events[place], decided=None, field="", command=None, problem=problem)


def _parted(
    events: Sequence[SessionEvent], place: int, command: SessionCommand, decided: SessionEvent | None
) -> Divergence:
    recorded = events[place] if place < len(events) else None
    field = difference(recorded, decided)
    if decided is None:
        problem = f"{_name(recorded)} was recorded, and today's code decides nothing more"
    elif recorded is None:
        problem = f"today's code decides {_name(decided)}, and nothing more was recorded with it"
    elif type(recorded) is type(decided):
        problem = f"today's code decides another {field or 'value'} of {_name(recorded)} than was recorded"
    else:
        problem = f"today's code decides {_name(decided)} where {_name(recorded)} was recorded"
    return Divergence(place=place, recorded=recorded, decided=decided, field=field, command=command, problem=problem)


def _failed(events: Sequence[SessionEvent], place: int, command: SessionCommand | None, error: Exception) -> Divergence:
    told = f"{type(error).__name__}: {error}"
    asked = "take in what was recorded" if command is None else f"decide about {type(command).__name__}"
    problem = (
        f"today's code refuses it: {told}"
        if isinstance(error, ReenactError)
        else f"today's code cannot {asked}: {told}"
    )
    return Divergence(
        place=place,
        recorded=events[place],
        decided=None,
        field="",
        command=command,
        problem=problem,
        is_fault=command is not None and not isinstance(error, ReenactError),
    )


def _rests_on_marks(session: Session, step: Sequence[SessionEvent]) -> bool:
    """Return whether something was taken out of the calls, the results or the rules that the step follows from."""
    said = [block for one in session.conversation[-2:] for block in one.content]
    said += [block for event in step if isinstance(event, AnswerRecorded) for block in event.content]
    calls = [block for block in said if isinstance(block, _OF_CALLS)]
    outcomes = [event for event in step if isinstance(event, _OUTCOMES)]
    return any(map(is_marked, (session.round, session.rules, calls, outcomes)))


def _as_it_stands(session: Session) -> Session:
    """Return the session as if people had been asked about the calls without what was taken out of them."""
    round_ = session.round
    if round_ is None or not any(is_marked(call.digest) for call in round_.calls):
        return session
    calls = [
        msgspec.structs.replace(call, digest=call_digest(call.name, call.arguments, round_.revision))
        if is_marked(call.digest)
        else call
        for call in round_.calls
    ]
    return msgspec.structs.replace(session, round=msgspec.structs.replace(round_, calls=tuple(calls)))


def _name(event: object) -> str:
    return _NAMES.get(type(event), type(event).__name__)


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
