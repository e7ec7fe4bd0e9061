"""An agent: one live run of a session, which answers one queued message after the other, each in a turn."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.guards import GuardChecked
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.rounds import Round, RoundEvent
from reenact.domain.loop.rules import DEFAULT_RULES, StoredRules
from reenact.domain.messages import Block, StopDetails, ToolResultBlock, Usage
from reenact.domain.output import OutputSpec
from reenact.domain.stream.events import AgentState, Outcome
from reenact.domain.structs import Fact, Frozen, FrozenByName
from reenact.domain.tools import History


class AgentInfo(FrozenByName):
    """A live agent as callers see it. `queued` counts the messages that wait for their turn."""

    id: str
    session_id: str
    container_id: str
    image_id: str
    state: AgentState
    turn_id: str | None
    queued: int
    started_at: datetime


class AgentStarted(Fact):
    """The session has an agent that runs it."""

    agent_id: str


class MessageAccepted(Fact):
    """A message was accepted, and is queued for its turn. `at` is microseconds since 1970-01-01 UTC.

    `output` is the required form of its answer, if it differs from the image's.
    """

    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int
    request_id: str | None = None
    output: OutputSpec | None = None


class TurnStarted(Fact):
    """The agent began the turn of the message that was queued first."""

    turn_id: str
    at: int


class TurnInterrupted(Fact):
    """The turn was interrupted."""

    turn_id: str
    reason: str


class AnswerRecorded(Fact):
    """The model's answer in the turn, whole or `partial`.

    `first_delta` is the time in seconds from the request to the model until the first delta of content arrived; None if
    none did, or it was not measured.
    """

    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    stop_reason: str
    partial: bool
    usage: Usage
    model: str | None
    at: int
    cost: float | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    first_delta: float | None = None


class OutputAccepted(Fact):
    """The answer just recorded has the required form."""

    turn_id: str
    message_id: str


class OutputRejected(Fact):
    """The answer just recorded lacks the required form and is superseded: it is the turn's `attempt`-th, from 1.

    `errors` says where it does not fit, `again` whether the model is asked again. `from_state` is the agent's state
    before.
    """

    turn_id: str
    message_id: str
    attempt: int
    errors: tuple[str, ...]
    again: bool
    from_state: AgentState
    at: int


class ToolsRequested(Fact):
    """The answer just recorded requests tools: a round of calls begins. `from_state` is the agent's state before."""

    turn_id: str
    from_state: AgentState


class ResultsRecorded(Fact):
    """All calls of the round are answered; the results go back to the model. `turn_id` is None outside of a turn."""

    turn_id: str | None
    message_id: str
    content: tuple[ToolResultBlock, ...]
    at: int


class StepStarted(Fact):
    """The model is asked again; `step` counts within the turn, which began with step 1."""

    turn_id: str
    step: int
    at: int


class TurnContinued(Fact):
    """A turn begins that continues a round of calls after a person has decided."""

    turn_id: str
    at: int


class ContextCompressed(Fact):
    """The model gets the summary instead of the first `replaced` messages, all of which the log keeps."""

    turn_id: str
    summary: str
    replaced: int
    usage: Usage
    model: str | None
    cost: float | None
    at: int


class Failure(Fact):
    """Why a turn failed, as the environment reports it."""

    type: str
    message: str
    retryable: bool = False


class TurnFailed(Fact):
    """The turn cannot continue, for a reason that does not come from the environment."""

    turn_id: str
    failure: Failure


class UnrecordedUsage(Fact):
    """The usage of an answer without content, for which no message is recorded."""

    model: str | None
    usage: Usage
    cost: float | None


class TurnCompleted(Fact):
    """The turn has ended. `from_state` is the agent's state before; `duration` is in seconds.

    `usage` and `cost` are the sums of everything that the turn used, including `unsaid`. `stop_sequence` and
    `stop_details` are those of its last answer.
    """

    turn_id: str
    outcome: Outcome
    stop_reason: str
    usage: Usage
    duration: float
    from_state: AgentState
    failure: Failure | None = None
    cost: float | None = None
    unsaid: UnrecordedUsage | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class RulesRecorded(Fact):
    """From here on these rules apply, which differ from those recorded before; policies use `cwd` and `home` for paths.

    Until one is recorded, the rules of a definition without any settings apply.
    """

    rules: StoredRules = DEFAULT_RULES
    cwd: str | None = None
    home: str | None = None


class AgentStopped(Fact):
    """The session has no agent any more."""

    agent_id: str
    reason: str


class HandoverRequested(Fact):
    """The session is to be handed over to this image at the end of the turn; this replaces an earlier request.

    `call_id` is the call of the tool that requests it, None if a caller does.
    """

    image_id: str
    image_revision: int
    history: History
    call_id: str | None = None


class MessageScheduled(Fact):
    """A message is scheduled at `due`, then every `every` microseconds, up to `until`; times since 1970-01-01 UTC."""

    schedule_id: str
    content: tuple[Block, ...]
    due: int
    every: int | None
    until: int | None


class ScheduleCancelled(Fact):
    """The schedule was cancelled; it sends no further messages."""

    schedule_id: str


class ScheduleFired(Fact):
    """The message that was due at `due` is sent, in this turn; `late` if that time was missed.

    `then` is when the next one is due, None if that was the last.
    """

    schedule_id: str
    turn_id: str
    due: int
    late: bool
    then: int | None


class ImageChanged(Fact):
    """From here on the session uses this image; its agent sees this much of the previous conversation."""

    image_id: str
    image_revision: int
    history: History


AgentEvent: TypeAlias = (
    AgentStarted
    | MessageAccepted
    | TurnStarted
    | TurnInterrupted
    | TurnFailed
    | AnswerRecorded
    | OutputAccepted
    | OutputRejected
    | ToolsRequested
    | ResultsRecorded
    | StepStarted
    | TurnContinued
    | ContextCompressed
    | TurnCompleted
    | AgentStopped
    | RulesRecorded
    | GuardChecked
    | HandoverRequested
    | ImageChanged
    | MessageScheduled
    | ScheduleCancelled
    | ScheduleFired
    | RoundEvent
    | LimitWarning
)


class Queued(Frozen):
    """A queued message. `at` is when it was accepted, in microseconds since 1970-01-01 UTC."""

    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int
    output: OutputSpec | None = None


class Scheduled(Frozen):
    """A scheduled message; times are in microseconds."""

    id: str
    content: tuple[Block, ...]
    due: int
    every: int | None
    until: int | None


class Turn(Frozen):
    """A turn under way: when it was asked for and when it began, in microseconds since 1970-01-01 UTC.

    `steps` counts how often the model was asked, `usage` and `cost` are those of its answers so far; `activity` is the
    agent's state as far as decisions know it. `outcome` is the digest of the last round's calls and results, and
    `repeats` how often in a row it has been the same. `before` counts the steps of the turns that this one continues,
    and `children` the child sessions that were started in all of them. `output` is the required form of the answer, if
    the message sets one, and `rejected` counts the answers without that form.
    """

    id: str
    message_id: str
    asked_at: int
    at: int
    activity: AgentState = "thinking"
    steps: int = 1
    usage: Usage = {}
    cost: float | None = None
    calls: str = ""
    outcome: str = ""
    repeats: int = 0
    before: int = 0
    children: int = 0
    output: OutputSpec | None = None
    rejected: int = 0
    passed: str | None = None
    """The id of the answer that passed its guards."""

    @property
    def requests(self) -> int:
        """How often the model was asked, including the turns that this one continues."""
        return self.before + self.steps

    def after(self, turn: Turn) -> Turn:
        """Return this turn as the continuation of the other."""
        return msgspec.structs.replace(
            self,
            before=turn.requests,
            calls=turn.calls,
            outcome=turn.outcome,
            repeats=turn.repeats,
            children=turn.children,
            output=turn.output,
            rejected=turn.rejected,
        )


class Agent(Frozen):
    """The state of the live agent; `failed` is true until it begins its next message."""

    id: str
    failed: bool = False

    def state(self, turn: Turn | None, round_: Round | None) -> AgentState:
        """Return the agent's state as far as decisions know it."""
        if turn is not None:
            return turn.activity
        if round_ is not None:  # the remaining calls wait for people
            return "waiting_for_human_input"
        return "error" if self.failed else "idle"


StopReason: TypeAlias = Literal["destroyed", "deleted", "shutdown", "crash", "finished"]


class ReceivedAnswer(FrozenByName):
    """The part of an answer that had arrived when its turn ended; `untold` if its failure was not announced yet."""

    message_id: str | None = None
    content: tuple[Block, ...] = ()
    stop_reason: str | None = None
    usage: Usage = {}
    model: str | None = None
    responding: bool = False
    failure: Failure | None = None
    untold: bool = False
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    first_delta: float | None = None
