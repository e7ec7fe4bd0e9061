"""The stored names of events. A class may be renamed; a stored name never changes and is never removed."""

from __future__ import annotations

import msgspec

from reenact.domain import children, container, guards, image
from reenact.domain.loop import events as loop
from reenact.domain.session import agent, state

STORED: dict[str, type[msgspec.Struct]] = {
    "container-created": container.ContainerCreated,
    "image-registered": image.ImageRegistered,
    "session-created": state.SessionCreated,
    "session-branched": state.SessionBranched,
    "session-deleted": state.SessionDeleted,
    "session-forgotten": state.SessionForgotten,
    "agent-started": agent.AgentStarted,
    "agent-stopped": agent.AgentStopped,
    "message-accepted": agent.MessageAccepted,
    "turn-started": agent.TurnStarted,
    "turn-interrupted": agent.TurnInterrupted,
    "turn-failed": agent.TurnFailed,
    "answer-recorded": agent.AnswerRecorded,
    "turn-completed": agent.TurnCompleted,
    "output-accepted": agent.OutputAccepted,
    "output-rejected": agent.OutputRejected,
    "tools-requested": agent.ToolsRequested,
    "results-recorded": agent.ResultsRecorded,
    "step-started": agent.StepStarted,
    "turn-continued": agent.TurnContinued,
    "context-compressed": agent.ContextCompressed,
    "rules-recorded": agent.RulesRecorded,
    "handover-requested": agent.HandoverRequested,
    "image-changed": agent.ImageChanged,
    "message-scheduled": agent.MessageScheduled,
    "schedule-cancelled": agent.ScheduleCancelled,
    "schedule-fired": agent.ScheduleFired,
    "human-approve-required": loop.HumanApproveRequired,
    "human-prompt-required": loop.HumanPromptRequired,
    "human-select-required": loop.HumanSelectRequired,
    "tool-pending": loop.ToolPending,
    "tool-approved": loop.ToolApproved,
    "tool-edited": loop.ToolEdited,
    "tool-rejected": loop.ToolRejected,
    "human-responded": loop.HumanResponded,
    "tool-started": loop.ToolStarted,
    "tool-result": loop.ToolResult,
    "warning": loop.Warning,
    "child-started": children.ChildStarted,
    "child-ended": children.ChildEnded,
    "children-interrupted": children.ChildrenInterrupted,
    "guard-checked": guards.GuardChecked,
}
"""Every event in its first form. A later form gets a version in its name, and an upcaster where the log is opened."""
