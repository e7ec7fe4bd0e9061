"""Views of a session's history: its turns, their tool calls, and usage and cost."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, Literal, TypeAlias

from reenact.domain.image import O_co
from reenact.domain.loop.ledger import Spent
from reenact.domain.loop.rounds import Stage
from reenact.domain.messages import Message, StopDetails, Usage
from reenact.domain.plain import Json, JsonObject
from reenact.domain.session.agent import Failure
from reenact.domain.session.people import PendingCall
from reenact.domain.stream.events import Outcome
from reenact.domain.structs import FrozenByName

Decision: TypeAlias = Literal["approved", "edited", "rejected", "answered"]


class TurnInfo(FrozenByName):
    """A turn: it is queued while `started_at` is None, and has ended once there is an `outcome`.

    `message_id` is the message that it answers: a turn that continues calls after a person has decided has that of the
    turn it continues. `steps` counts how often the model was asked; `usage` and `cost` are those of the turn so far,
    and None if unknown. `duration` is in seconds, `cost` in the currency of the prices. `stop_sequence` is the stop
    sequence that ended its last answer, `stop_details` says why the model refused.
    """

    id: str
    message_id: str
    accepted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: Outcome | None
    stop_reason: str | None
    duration: float | None
    steps: int
    model: str | None
    usage: Usage | None
    cost: float | None
    failure: Failure | None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class TurnLocation(FrozenByName):
    """The session of a turn, and the cursor of the turn's first event there."""

    turn_id: str
    session_id: str
    cursor: int


class Answer(FrozenByName, Generic[O_co]):
    """The result of a message, once its turn has ended.

    `message` is the model's last message in the turn and `text` its text; None and empty if there is none. `outcome` is
    `completed`, `interrupted`, `failed` (`failure` says why) or `waiting` (`pending` has the calls that wait for a
    person). `output` is the structured answer, in the type that was asked for, or as a JSON value; None if none was
    asked for, or there is none. `refusal` is None unless the model refused. `usage` and `cost` are those of the turn;
    `cost`, in the currency of the prices, is None if unknown.
    """

    text: str
    message: Message | None
    outcome: Outcome
    stop_reason: str | None
    refusal: StopDetails | None
    pending: tuple[PendingCall, ...]
    usage: Usage
    cost: float | None
    session_id: str
    turn_id: str
    failure: Failure | None
    output: O_co | None = None


class ToolCallInfo(FrozenByName):
    """A tool call that an answer requested, and its state.

    `turn_id` and `message_id` name the turn and the answer that requested it. `arguments` are those that it ran, or
    will run, with; `original` are the model's own, if a person changed them. `reason` says why a person was asked,
    `decision` what they did, and `decided_by` who they were, if known. `attempts` counts how often it was started and
    `started_at` is the last start; `ended_at` is when it got its result, from the tool or from whatever kept it from
    running (`ran` is then false). `cost` is in the currency of the prices, None if unknown.
    """

    id: str
    session_id: str
    turn_id: str
    message_id: str
    name: str
    arguments: JsonObject
    stage: Stage
    result: Json
    is_error: bool
    ran: bool
    cost: float | None
    attempts: int
    asked_at: datetime | None
    reason: str
    decision: Decision | None
    decided_by: str | None
    decided_at: datetime | None
    original: JsonObject | None
    started_at: datetime | None
    ended_at: datetime | None


class UsageInfo(FrozenByName):
    """What a session has used, by the names of models and of tools; the name is empty if unknown.

    Each entry has the number of uses, the sums of token counts under the Messages API's names, the total of the known
    costs in the currency of the prices, and the number of `unpriced` uses. `usage`, `cost` and `unpriced` are the sums
    over all entries.
    """

    session_id: str
    models: dict[str, Spent]
    tools: dict[str, Spent]
    usage: dict[str, int]
    cost: float
    unpriced: int


def usage_info(session_id: str, models: dict[str, Spent], tools: dict[str, Spent]) -> UsageInfo:
    """Return the usage of a session with its sums."""
    usage: dict[str, int] = {}
    for spent in models.values():
        for name, count in spent.usage.items():
            usage[name] = usage.get(name, 0) + count
    all_spent = (*models.values(), *tools.values())
    return UsageInfo(
        session_id=session_id,
        models=models,
        tools=tools,
        usage=usage,
        cost=sum((spent.cost for spent in all_spent), 0.0),
        unpriced=sum(spent.unpriced for spent in all_spent),
    )
