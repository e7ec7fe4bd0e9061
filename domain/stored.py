"""The names under which events stand in the log. A class may be renamed; a name here never is, and none goes away."""

from __future__ import annotations

import msgspec

from reenact.domain import agent, container, image, session

STORED: dict[str, type[msgspec.Struct]] = {
    "container-created": container.ContainerCreated,
    "image-registered": image.ImageRegistered,
    "session-created": session.SessionCreated,
    "session-deleted": session.SessionDeleted,
    "agent-started": agent.AgentStarted,
    "agent-stopped": agent.AgentStopped,
    "message-accepted": agent.MessageAccepted,
    "turn-started": agent.TurnStarted,
    "turn-interrupted": agent.TurnInterrupted,
    "turn-failed": agent.TurnFailed,
    "answer-recorded": agent.AnswerRecorded,
    "turn-completed": agent.TurnCompleted,
}
"""Every event in its first form. A later form gets a version, and an upcaster, where the log is opened."""
