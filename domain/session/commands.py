"""The commands of a session."""

from __future__ import annotations

from typing import TypeAlias

from reenact.domain.children import Budget, ChildOrigin, ChildOutcome, Parent
from reenact.domain.guards import GuardChecked
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, Usage
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Json, JsonObject
from reenact.domain.session.agent import HandoverRequested, ReceivedAnswer, StopReason
from reenact.domain.structs import FrozenByName
from reenact.domain.tools import History

BY_DEFAULT = Rules()


class _Ruled(FrozenByName, kw_only=True):
    """A command that is decided under rules.

    `results_id` is the id for the message that sends the results of calls back to the model, in case there is one.
    """

    rules: Rules = BY_DEFAULT
    results_id: str = ""


class _RuledRequest(IdempotentCommand, kw_only=True):
    """The same for a command that a request may cause."""

    rules: Rules = BY_DEFAULT
    results_id: str = ""


class _Decision(_RuledRequest):
    """A person's decision about a call; `by` is the person. `turn_id` is the id for a turn that continues the calls."""

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
    """Begin the session as a branch of the session `origin`, after its event of this version, recorded at `left_at`.

    `digest` is that of the event's row, and `position` is its position in the log. `edit` replaces the last message
    that is queued there, and `ids` are a turn id and a message id for each queued message. `so_far` holds no more of an
    answer than the events. Without an image the branch uses the one that the other session used at that event, which
    only the actor knows. `checked` are the guards' verdicts on the edit.

    `children` are those that calls wait for, as they were at the position `until` of the log: they are branched as
    well. With a `parent`, and the `budget` that it reserves, the branch is such a child; the command does nothing if it
    exists.
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
    so_far: ReceivedAnswer = ReceivedAnswer()
    checked: tuple[GuardChecked, ...] = ()
    until: int = 0
    children: tuple[ChildOrigin, ...] = ()
    parent: Parent | None = None
    budget: Budget | None = None


class Switch(IdempotentCommand):
    """Hand the session over to this image, at the end of the turn under way if there is one."""

    session_id: str
    image_id: str
    image_revision: int
    history: History


class ScheduleMessage(IdempotentCommand):
    """Schedule this message: at `due`, and then every `every` up to `until`, in microseconds, since 1970-01-01 UTC."""

    session_id: str
    schedule_id: str
    content: tuple[Block, ...]
    due: int
    every: int | None = None
    until: int | None = None


class CancelSchedule(IdempotentCommand):
    """Cancel the schedule."""

    schedule_id: str


class FireSchedule(_Ruled):
    """The time `due` of a schedule has come; its message is accepted, for a turn with the id `message_turn_id`.

    An agent with the id `agent_id` is started, if one is given and none is live. `turn_id` is the id for a turn that
    continues calls.
    """

    schedule_id: str
    due: int
    at: int = 0
    agent_id: str | None = None
    turn_id: str = ""
    message_turn_id: str = ""
    message_id: str = ""


class Run(_RuledRequest):
    """Start an agent with this id, unless one is live; it takes up what is queued.

    `turn_id` is the id for a turn that continues calls.
    """

    session_id: str
    agent_id: str
    at: int
    turn_id: str = ""


class Receive(IdempotentCommand):
    """Accept a message for the live agent, unless one of the guards that checked it has refused it."""

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
    """The environment has finished an answer, or failed; `checked` are the guards' verdicts on answer and calls."""

    turn_id: str
    so_far: ReceivedAnswer
    at: int
    checked: tuple[GuardChecked, ...] = ()


class PassAnswer(FrozenByName):
    """Guards have passed an answer that was held back until now."""

    turn_id: str
    at: int
    checked: tuple[GuardChecked, ...] = ()


class Report(_Ruled):
    """A tool has returned the result of a call, which may be one that requests a hand-over."""

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
    """A person approves a call, with other arguments if some are given; `checked` are the guards' verdicts on it."""

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
    """Continue the calls that were running when the process ended."""

    turn_id: str
    at: int


class Interrupt(_RuledRequest):
    """End the turn under way; the agent continues with its queue.

    With `agent_id` None, it may be the turn of any agent, or calls that wait without an agent. Children that calls wait
    for are interrupted first, and the turn ends when they have ended.
    """

    agent_id: str | None
    reason: str
    at: int
    so_far: ReceivedAnswer = ReceivedAnswer()


class Stop(_RuledRequest):
    """End the turn under way and stop the agent; the queue stays. `agent_id` None: any agent."""

    agent_id: str | None
    reason: StopReason
    at: int
    so_far: ReceivedAnswer = ReceivedAnswer()


class Delete(_RuledRequest):
    """Stop the agent, if there is one, and delete the session."""

    session_id: str
    at: int
    so_far: ReceivedAnswer = ReceivedAnswer()


class BeginChild(FrozenByName):
    """Begin the session as a child with a first turn about the content; does nothing if the session exists."""

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
    """A child's turn has ended: its outcome, and what the child and its own children have used in total.

    `result` is the result of the child's call. `content` is the message that reports the end of a detached child, with
    `turn_id` and `message_id` for it; otherwise `turn_id` is the id for a turn that continues the call. `agent_id` is
    the id for an agent that does, if none is live.
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
    """The interrupted children did not report in time: continue without them."""

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
