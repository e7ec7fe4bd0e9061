"""Replay of decisions: makes the decisions of a recorded history again, and reports where today's code differs.

Each step is decided again from the state after the recorded events before it and from the recorded command; nothing
else is consulted, and nothing outside is called. The new decision must equal the recorded events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Final, TypeAlias

import msgspec

from reenact.domain.container import CreateContainer
from reenact.domain.errors import LogUnusableError, ReenactError
from reenact.domain.history.causes import AnyCommand, read_cause
from reenact.domain.history.stored import STORED
from reenact.domain.image import RegisterImage
from reenact.domain.loop.events import HumanResponded, ToolEdited, ToolRejected, ToolResult
from reenact.domain.loop.rules import Rules, rules_from_stored
from reenact.domain.marks import equal_except_marks, is_marked, parts_of
from reenact.domain.messages import ToolResultBlock, ToolUseBlock
from reenact.domain.session import decide as deciding
from reenact.domain.session import state as states
from reenact.domain.session.agent import AnswerRecorded, OutputAccepted, OutputRejected, RulesRecorded
from reenact.domain.session.commands import Approve, SessionCommand
from reenact.domain.session.state import Session, SessionEvent
from reenact.domain.session.turns import Decided
from reenact.domain.structs import FrozenByName

Decide: TypeAlias = Callable[[Session, SessionCommand], tuple[SessionEvent, ...]]
Evolve: TypeAlias = Callable[[Session, SessionEvent], Session]
_CALL_BLOCKS = (ToolUseBlock, ToolResultBlock)
_CHECKED = (OutputAccepted, OutputRejected)
_OUTCOMES = (ToolEdited, ToolRejected, HumanResponded, ToolResult, RulesRecorded)
"""The events that determine how a step continues; all other content is only passed on."""
_BEGINNING = Session()
_DEFAULT_RULES = RulesRecorded()
_NAMES: Final[dict[type, str]] = {kind: name for name, kind in STORED.items()}


class Divergence(FrozenByName):
    """Where today's code differs from a recorded step.

    `place` is the index of the recorded event in the step; `recorded` is None if the recorded step ends there,
    `decided` is None if today's decision ends there or fails. `field` is the first that differs between the two, if
    they are of one type. `problem` describes the difference in words.
    """

    place: int
    recorded: object
    decided: object
    field: str
    command: AnyCommand | None
    problem: str


class DecisionReplay:
    """Replays a session's history step by step, from its beginning or from a known state.

    `decide` and `evolve` are today's functions.
    """

    def __init__(
        self,
        session: Session = _BEGINNING,
        *,
        decide: Decide = deciding.decide,
        evolve: Evolve = states.evolve,
    ) -> None:
        self.session = session
        self.steps = 0
        self.undecided = 0
        """How many of the steps could not be decided again, since data that they depend on was redacted."""
        self._decide = decide
        self._evolve = evolve
        self._in_force = _DEFAULT_RULES, rules_from_stored(_DEFAULT_RULES.rules)

    def follow(self, cause: bytes | None, events: Sequence[SessionEvent]) -> Divergence | None:
        """Replay a step; return where today's code differs from it. After a divergence no step can be replayed."""
        session = _with_current_digests(self.session)
        divergence, after = self._compare(session, cause, events)
        if divergence is not None:
            if not _depends_on_redacted(session, events):
                return divergence
            self.undecided += 1
        try:
            self.session = reduce(self._evolve, events, self.session) if after is None else after
        except Exception as error:  # noqa: BLE001 - any error is a divergence
            return failed(events, None, error)
        self.steps += 1
        return None

    def _compare(
        self, session: Session, cause: bytes | None, events: Sequence[SessionEvent]
    ) -> tuple[Divergence | None, Session | None]:
        """Return the divergence from the step, if any; else the session after it, if `decide` has computed it."""
        command: AnyCommand | None = None
        try:
            command = command_of(cause, events, self._rules(session, events[0]))
            decided = self._decide(session, of_session(command))
        except Exception as error:  # noqa: BLE001 - any error is a divergence
            return failed(events, command, error), None
        if session is self.session and self._evolve is states.evolve and decided == tuple(events):
            return None, decided.after if isinstance(decided, Decided) else None
        return first_difference(events, command, decided), None

    def _rules(self, session: Session, first: SessionEvent) -> Rules:
        recorded = first if isinstance(first, RulesRecorded) else session.rules or _DEFAULT_RULES
        if recorded is not self._in_force[0]:
            self._in_force = recorded, rules_from_stored(recorded.rules, cwd=recorded.cwd, home=recorded.home)
        return self._in_force[1]


def command_of(cause: bytes | None, events: Sequence[object], rules: Rules) -> AnyCommand:
    """Return the command that led to the events of a step.

    Raises:
        LogUnusableError: no command was recorded with them, or it cannot be read.
    """
    if cause is None:
        raise LogUnusableError("no command was recorded with it")
    return read_cause(cause).command(events, rules)


def of_session(command: AnyCommand) -> SessionCommand:
    """Return the command as one of a session.

    Raises:
        LogUnusableError: the command is not one of a session.
    """
    match command:
        case CreateContainer() | RegisterImage():
            raise LogUnusableError(f"{type(command).__name__} is not a command of a session")
        case Approve() if is_marked(command.digest):  # a redacted digest must not count as a different one
            return msgspec.structs.replace(command, digest=None)
        case _:
            return command


def first_difference(events: Sequence[object], command: AnyCommand, decided: Sequence[object]) -> Divergence | None:
    """Return where the new decision on the command differs from the recorded events, None if it does not."""
    pairs = enumerate(zip_longest(events, decided))
    found = next(((at, *pair) for at, pair in pairs if None in pair or not equal_except_marks(*pair)), None)
    if found is None:
        return None
    place, recorded, today = found
    field = difference(recorded, today)
    if today is None:
        problem = f"{_name(recorded)} was recorded, and today's code decides nothing more"
    elif recorded is None:
        problem = f"today's code decides {_name(today)}, and nothing more was recorded with it"
    elif type(recorded) is type(today):
        problem = f"today's code decides another {field or 'value'} of {_name(recorded)} than was recorded"
    else:
        problem = f"today's code decides {_name(today)} where {_name(recorded)} was recorded"
    return Divergence(place=place, recorded=recorded, decided=today, field=field, command=command, problem=problem)


def failed(events: Sequence[object], command: AnyCommand | None, error: Exception) -> Divergence:
    """Return the divergence of a command that today's code cannot decide, or of events that it cannot apply."""
    told = f"{type(error).__name__}: {error}"
    if isinstance(error, LogUnusableError):
        problem = str(error)
    elif isinstance(error, ReenactError):
        problem = f"today's code refuses it: {told}"
    elif command is None:
        problem = f"today's code cannot take in what was recorded: {told}"
    else:
        problem = f"today's code cannot decide about {type(command).__name__}: {told}"
    return Divergence(place=0, recorded=events[0], decided=None, field="", command=command, problem=problem)


def difference(recorded: object, decided: object) -> str:
    """Return the path to the first field in which two values differ, "" if they are of different types."""
    one, other = parts_of(recorded), parts_of(decided)
    if one is None or other is None or type(recorded) is not type(decided):
        return ""
    differing = (name for name in (*one, *other) if name not in one or name not in other or one[name] != other[name])
    name = next(differing, None)
    if name is None:
        return ""
    rest = difference(one.get(name), other.get(name))
    return f"{name}.{rest}" if rest else str(name)


def _depends_on_redacted(session: Session, step: Sequence[SessionEvent]) -> bool:
    """Return whether data was redacted in the calls, results, rules or outputs that the step depends on."""
    said = [block for one in session.conversation[-2:] for block in one.content]
    said += [block for event in step if isinstance(event, AnswerRecorded) for block in event.content]
    is_checked = any(isinstance(event, _CHECKED) for event in step)
    calls = [block for block in said if is_checked or isinstance(block, _CALL_BLOCKS)]
    outcomes = [event for event in step if isinstance(event, _OUTCOMES)]
    wanted = None if session.turn is None else session.turn.output
    return any(map(is_marked, (session.round, session.rules, wanted, calls, outcomes)))


def _with_current_digests(session: Session) -> Session:
    """Return the session with the digests of its calls computed from their redacted content."""
    round_ = session.round
    if round_ is None or not any(is_marked(call.digest) for call in round_.calls):
        return session
    calls = [
        msgspec.structs.replace(call, digest=call.digest_under(round_.revision)) if is_marked(call.digest) else call
        for call in round_.calls
    ]
    return msgspec.structs.replace(session, round=msgspec.structs.replace(round_, calls=tuple(calls)))


def _name(event: object) -> str:
    return _NAMES.get(type(event), type(event).__name__)
