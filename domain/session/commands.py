"""The commands of a session."""

from __future__ import annotations

from typing import TypeAlias

from reenact.domain.children import Budget, ChildOutcome, Parent
from reenact.domain.guards import GuardChecked
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, Usage
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Json, JsonObject
from reenact.domain.session.agent import HandoverRequested, SoFar, StopReason
from reenact.domain.structs import FrozenByName
from reenact.domain.tools import History

BY_DEFAULT = Rules()


class _Ruled(FrozenByName, kw_only=True):
    """A command that is decided under rules.

    `results_id` is for the message in which the results of calls go back to the model, in case there is one.
    """

    rules: Rules = BY_DEFAULT
    results_id: str = ""


class _RuledRequest(IdempotentCommand, kw_only=True):
    """The same, of a command that a request may lead to."""

    rules: Rules = BY_DEFAULT
    results_id: str = ""


class _Decision(_RuledRequest):
    """What a person decides about a call; `by` says who. `turn_id` is for a turn that goes on with calls."""

    call_id: str
    turn_id: str
    at: int
    by: str | None = None


class CreateSession(IdempotentCommand):
    """Create the session."""

    session_id: str
    container_id: str
    image_id: str
    image_revision: int


class BranchSession(_RuledRequest):
    """Begin the session as a branch of the session `origin`, behind its event of this version, which was `left_at`.

    `digest` is that of the event's record, and `position` is where it stands in the log. `edit` takes the place of the
    last message that waits there, and `ids` are a turn's and a message's for each that waits then. Nothing more of an
    answer is known. Without an image it goes on with the one that the other session was on there, which only the actor
    knows. `checked` is what guards have said of the edit.
    """

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    origin: str
    version: int
    digest: str
    position: int
    at: int
    left_at: int
    edit: tuple[Block, ...] | None = None
    ids: tuple[tuple[str, str], ...] = ()
    so_far: SoFar = SoFar()
    checked: tuple[GuardChecked, ...] = ()


class Switch(IdempotentCommand):
    """Hand the session over to this image, at the end of the turn under way if there is one."""

    session_id: str
    image_id: str
    image_revision: int
    history: History


class ScheduleMessage(IdempotentCommand):
    """Have this message come at a time, and every so often up to another one: microseconds, since 1970-01-01 UTC."""

    session_id: str
    schedule_id: str
    content: tuple[Block, ...]
    due: int
    every: int | None = None
    until: int | None = None


class CancelSchedule(IdempotentCommand):
    """Have no message of the schedule come any more."""

    schedule_id: str


class FireSchedule(_Ruled):
    """The time `due` of a schedule has come; its message is accepted, in a turn of the id `message_turn_id`.

    An agent is started under the id `agent_id`, if one is given and none is live. `turn_id` is for a turn that goes on
    with calls.
    """

    schedule_id: str
    due: int
    at: int = 0
    agent_id: str | None = None
    turn_id: str = ""
    message_turn_id: str = ""
    message_id: str = ""


class Run(_RuledRequest):
    """Start an agent under this id, unless one is live; it takes up what waits.

    `turn_id` is for a turn that goes on with calls.
    """

    session_id: str
    agent_id: str
    at: int
    turn_id: str = ""


class Receive(IdempotentCommand):
    """Accept a message for the live agent, unless one of the guards that were asked refuses it."""

    agent_id: str
    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int
    request_id: str | None = None
    rules: Rules = BY_DEFAULT
    output: OutputSpec | None = None
    checked: tuple[GuardChecked, ...] = ()


class Finish(_Ruled):
    """The environment is done with an answer, or has failed; guards have been asked about it, and about its calls."""

    turn_id: str
    so_far: SoFar
    at: int
    checked: tuple[GuardChecked, ...] = ()


class PassAnswer(FrozenByName):
    """Guards let an answer pass of which nothing was told until now."""

    turn_id: str
    at: int
    checked: tuple[GuardChecked, ...] = ()


class Report(_Ruled):
    """A tool has answered a call; perhaps it was one that asks for a hand-over."""

    turn_id: str
    call_id: str
    result: Json
    is_error: bool
    at: int
    handover: HandoverRequested | None = None


class Compress(FrozenByName):
    """The environment has summarised all but the last `kept` messages of the conversation it was given."""

    turn_id: str
    summary: str
    kept: int
    usage: Usage
    model: str | None
    at: int
    rules: Rules = BY_DEFAULT


class Approve(_Decision):
    """A person approves a call, with other arguments if some are given; guards have been asked about it."""

    arguments: JsonObject | None = None
    digest: str | None = None
    checked: tuple[GuardChecked, ...] = ()


class Reject(_Decision):
    """A person rejects a call; the model is told so, unless `resume` is false: then the turn ends."""

    reason: str = ""
    resume: bool = True


class Respond(_Decision, kw_only=True):
    """A person answers a question."""

    value: Json


class Resume(_Ruled):
    """Go on with the calls that were running when the process ended."""

    turn_id: str
    at: int


class Interrupt(_RuledRequest):
    """End the turn under way; the agent goes on with what waits. Any agent, or what waits without one, if it is None.

    Children that calls wait for are interrupted first, and the turn ends when they have ended.
    """

    agent_id: str | None
    reason: str
    at: int
    so_far: SoFar = SoFar()


class Stop(_RuledRequest):
    """End the turn under way and the agent; what waits goes on waiting. Any agent, when `agent_id` is None."""

    agent_id: str | None
    reason: StopReason
    at: int
    so_far: SoFar = SoFar()


class Delete(_RuledRequest):
    """Stop the agent, if there is one, and delete the session."""

    session_id: str
    at: int
    so_far: SoFar = SoFar()


class BeginChild(FrozenByName):
    """Begin the session as a child with a turn of its own about the content; nothing, if it exists."""

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    parent: Parent
    budget: Budget
    agent_id: str
    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int


class ReportChild(_Ruled):
    """A child's turn is over: what came of it, and what the child and its own children have used in all.

    `result` is the answer to the call that is the child. `content` is the message that tells of a detached one, with
    `turn_id` and `message_id` for it; else `turn_id` is for a turn that goes on with the call. `agent_id` is for an
    agent that does, if none is live.
    """

    child_id: str
    outcome: ChildOutcome
    stop_reason: str
    steps: int
    usage: Usage
    cost: float | None
    version: int
    cursor: int
    digest: str
    at: int
    result: str = ""
    content: tuple[Block, ...] = ()
    turn_id: str = ""
    message_id: str = ""
    agent_id: str = ""


class GiveUpChildren(_Ruled):
    """The children that were interrupted have been silent for too long: go on without them."""

    at: int


SessionCommand: TypeAlias = (
    CreateSession
    | BranchSession
    | Switch
    | ScheduleMessage
    | CancelSchedule
    | FireSchedule
    | Run
    | Receive
    | Finish
    | PassAnswer
    | Report
    | Compress
    | Approve
    | Reject
    | Respond
    | Resume
    | Interrupt
    | Stop
    | Delete
    | BeginChild
    | ReportChild
    | GiveUpChildren
)
