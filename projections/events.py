"""The events that the log of a runtime holds, for projections: what was decided, not what subscribers hear of it."""

from __future__ import annotations

from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    OutputAccepted,
    OutputRejected,
    ResultsRecorded,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.children import ChildEnded, ChildrenInterrupted, ChildStarted
from reenact.domain.container import ContainerCreated
from reenact.domain.guards import GuardChecked
from reenact.domain.image import ImageRegistered
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
    Warning,  # noqa: A004 - the word of the catalogue
)
from reenact.domain.session_state import SessionBranched, SessionCreated, SessionDeleted

__all__ = [
    "AgentStarted",
    "AgentStopped",
    "AnswerRecorded",
    "ChildEnded",
    "ChildStarted",
    "ChildrenInterrupted",
    "ContainerCreated",
    "ContextCompressed",
    "GuardChecked",
    "HandoverRequested",
    "HumanApproveRequired",
    "HumanPromptRequired",
    "HumanResponded",
    "HumanSelectRequired",
    "ImageChanged",
    "ImageRegistered",
    "MessageAccepted",
    "MessageScheduled",
    "OutputAccepted",
    "OutputRejected",
    "ResultsRecorded",
    "RulesRecorded",
    "ScheduleCancelled",
    "ScheduleFired",
    "SessionBranched",
    "SessionCreated",
    "SessionDeleted",
    "StepStarted",
    "ToolApproved",
    "ToolEdited",
    "ToolPending",
    "ToolRejected",
    "ToolResult",
    "ToolStarted",
    "ToolsRequested",
    "TurnCompleted",
    "TurnContinued",
    "TurnFailed",
    "TurnInterrupted",
    "TurnStarted",
    "Warning",
]
