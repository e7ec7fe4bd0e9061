"""What is asked of a session."""

from __future__ import annotations

from typing import Any, TypeAlias

from reenact.domain.agent import SoFar, StopReason
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, Usage
from reenact.domain.structs import FrozenByName

BY_DEFAULT = Rules()


class CreateSession(IdempotentCommand):
    """Create the session."""

    session_id: str
    container_id: str
    image_id: str
    image_revision: int


class BranchSession(IdempotentCommand):
    """Begin the session as a branch of the session `origin`, behind its event of this version, which was `left_at`.

    `digest` is that of the event's record, and `position` is where it stands in the log. `edit` takes the place of the
    last message that waits there, and `ids` are a turn's and a message's for each that waits then. `results_id` is as
    below; nothing more of an answer is known.
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
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Run(IdempotentCommand):
    """Start an agent under this id, unless one is live; it takes up what waits.

    `turn_id` is, here and below, for a turn that goes on with calls, and `results_id` for the message in which their
    results go back to the model, in case there is one.
    """

    session_id: str
    agent_id: str
    at: int
    turn_id: str = ""
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Receive(IdempotentCommand):
    """Accept a message for the live agent."""

    agent_id: str
    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int
    request_id: str | None = None
    rules: Rules = BY_DEFAULT


class Finish(FrozenByName):
    """The environment is done with an answer, or has failed."""

    turn_id: str
    so_far: SoFar
    at: int
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Report(FrozenByName):
    """A tool has answered a call."""

    turn_id: str
    call_id: str
    result: Any
    is_error: bool
    at: int
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Compress(FrozenByName):
    """The environment has summarised all but the last `kept` messages of the conversation it was given."""

    turn_id: str
    summary: str
    kept: int
    usage: Usage
    model: str | None
    at: int
    rules: Rules = BY_DEFAULT


class Approve(IdempotentCommand):
    """A person approves a call, with other arguments if some are given."""

    call_id: str
    turn_id: str
    at: int
    arguments: dict[str, Any] | None = None
    digest: str | None = None
    by: str | None = None
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Reject(IdempotentCommand):
    """A person rejects a call; the model is told so, unless `resume` is false: then the turn ends."""

    call_id: str
    turn_id: str
    at: int
    reason: str = ""
    resume: bool = True
    by: str | None = None
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Respond(IdempotentCommand):
    """A person answers a question."""

    call_id: str
    turn_id: str
    at: int
    value: Any
    by: str | None = None
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Resume(FrozenByName):
    """Go on with the calls that were running when the process ended."""

    turn_id: str
    at: int
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Interrupt(IdempotentCommand):
    """End the turn under way; the agent goes on with what waits."""

    agent_id: str
    reason: str
    at: int
    so_far: SoFar = SoFar()
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Stop(IdempotentCommand):
    """End the turn under way and the agent; what waits goes on waiting. Any agent, when `agent_id` is None."""

    agent_id: str | None
    reason: StopReason
    at: int
    so_far: SoFar = SoFar()
    rules: Rules = BY_DEFAULT
    results_id: str = ""


class Delete(IdempotentCommand):
    """Stop the agent, if there is one, and delete the session."""

    session_id: str
    at: int
    so_far: SoFar = SoFar()
    rules: Rules = BY_DEFAULT
    results_id: str = ""


SessionCommand: TypeAlias = (
    CreateSession
    | BranchSession
    | Run
    | Receive
    | Finish
    | Report
    | Compress
    | Approve
    | Reject
    | Respond
    | Resume
    | Interrupt
    | Stop
    | Delete
)
