"""The names under which events stand in logs: none is changed, none goes away, and every event has one."""

from __future__ import annotations

from typing import get_args

from reenact.domain.container import ContainerCreated
from reenact.domain.history.stored import STORED
from reenact.domain.image import ImageRegistered
from reenact.domain.session.state import SessionEvent

NAMES = {
    "container-created": "ContainerCreated",
    "image-registered": "ImageRegistered",
    "session-created": "SessionCreated",
    "session-branched": "SessionBranched",
    "handover-requested": "HandoverRequested",
    "image-changed": "ImageChanged",
    "message-scheduled": "MessageScheduled",
    "schedule-cancelled": "ScheduleCancelled",
    "schedule-fired": "ScheduleFired",
    "session-deleted": "SessionDeleted",
    "session-forgotten": "SessionForgotten",
    "agent-started": "AgentStarted",
    "agent-stopped": "AgentStopped",
    "message-accepted": "MessageAccepted",
    "turn-started": "TurnStarted",
    "turn-interrupted": "TurnInterrupted",
    "turn-failed": "TurnFailed",
    "answer-recorded": "AnswerRecorded",
    "turn-completed": "TurnCompleted",
    "tools-requested": "ToolsRequested",
    "output-accepted": "OutputAccepted",
    "output-rejected": "OutputRejected",
    "results-recorded": "ResultsRecorded",
    "step-started": "StepStarted",
    "turn-continued": "TurnContinued",
    "context-compressed": "ContextCompressed",
    "rules-recorded": "RulesRecorded",
    "human-approve-required": "HumanApproveRequired",
    "human-prompt-required": "HumanPromptRequired",
    "human-select-required": "HumanSelectRequired",
    "tool-pending": "ToolPending",
    "tool-approved": "ToolApproved",
    "tool-edited": "ToolEdited",
    "tool-rejected": "ToolRejected",
    "human-responded": "HumanResponded",
    "tool-started": "ToolStarted",
    "tool-result": "ToolResult",
    "warning": "Warning",
    "child-started": "ChildStarted",
    "child-ended": "ChildEnded",
    "children-interrupted": "ChildrenInterrupted",
    "guard-checked": "GuardChecked",
}
"""As the logs of the first release have them. Names are only ever added."""


def test_the_stored_names_are_what_they_have_always_been() -> None:
    assert {name: kind.__name__ for name, kind in STORED.items()} == NAMES


def test_every_event_is_stored_under_one_name() -> None:
    kinds = [*get_args(SessionEvent), ContainerCreated, ImageRegistered]

    assert sorted(kind.__name__ for kind in STORED.values()) == sorted(kind.__name__ for kind in kinds)
    assert set(STORED.values()) == set(kinds)
