"""Reenact: event-sourced actors for AI agents."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from reenact.domain.agent import AgentInfo
from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.container import ContainerInfo
from reenact.domain.errors import (
    AgentNotFoundError,
    AlreadyExistsError,
    AuthenticationError,
    CallNotPendingError,
    ConfigurationError,
    ConflictError,
    ContainerNotFoundError,
    DeadlockError,
    ExportUnusableError,
    HistoryDiffersError,
    ImageNotFoundError,
    InvalidAnswerError,
    InvalidInputError,
    InvalidMessageError,
    LLMError,
    LogLockedError,
    LogTooNewError,
    LogUnusableError,
    MailboxFullError,
    NotFoundError,
    ProtocolError,
    RecordingError,
    RedactionError,
    ReenactError,
    RemoteError,
    RequestReusedError,
    RequestTimeoutError,
    RuntimeClosedError,
    ServerUnreachableError,
    SessionNotFoundError,
    StaleApprovalError,
    StorageError,
    StorageFullError,
    UnknownCommandError,
    UnknownEventTypeError,
    UnknownScenarioError,
    UnstorableError,
)
from reenact.domain.image import Image, ImageInfo
from reenact.domain.messages import Message, OpaqueBlock, Said, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.session import BranchPoint, SessionInfo

if TYPE_CHECKING:
    from reenact._aio import AsyncRuntime
    from reenact._runtime import Runtime
    from reenact.actors.environment.api import (
        Effector,
        Environment,
        EnvironmentConfig,
        EnvironmentFactory,
        LLMConfig,
        LLMDriver,
        LLMProvider,
        Receptor,
        Unsubscribe,
    )
    from reenact.actors.environment.claude import ClaudeEnvironment
    from reenact.actors.environment.tools.context import ToolContext
    from reenact.actors.environment.tools.outcome import ToolOutcome
    from reenact.actors.environment.tools.tool import Tool, tool
    from reenact.actors.environment.tools.toolbox import Toolbox
    from reenact.actors.feed.retention import Compacted, Retention
    from reenact.actors.feed.subscription import Subscription
    from reenact.actors.journal.api import Entry, Remembered, Segment
    from reenact.actors.journal.codec import Event
    from reenact.actors.kernel import (
        ActorContext,
        ActorFailedError,
        ActorSystem,
        Announcement,
        DeadLetter,
        EventSourcedActor,
        Origin,
        PooledActor,
        Reference,
        RestartLimitError,
        Stored,
        Supervision,
        Timer,
        UnhandledTypeError,
        by_type,
        waiting,
    )
    from reenact.audit import Audit
    from reenact.client.reconnect import Reconnect
    from reenact.client.runtime import RemoteRuntime
    from reenact.client.subscription import RemoteSubscription
    from reenact.domain.attachments import DocumentBlock, ImageBlock
    from reenact.domain.history import ToolCallInfo, TurnInfo, UsageInfo
    from reenact.domain.loop.asking import ask_user
    from reenact.domain.loop.ledger import CostLimit, Price, Spent
    from reenact.domain.loop.policy import Policies, Policy, Rule
    from reenact.domain.people import PendingCall
    from reenact.domain.tools import InvalidArgumentsError, MCPServer, ToolSpec
    from reenact.loop import AgentRuntime, AgentState, StepResult, ToolCall
    from reenact.projections.errors import (
        ProjectionFailedError,
        ProjectionMistakeError,
        ProjectionNotFoundError,
        ProjectionNotReadyError,
        ProjectionReplacedError,
        ProjectionsLockedError,
        ReadModelBehindError,
        ReadModelError,
    )
    from reenact.projections.own.declared import Projection, on
    from reenact.projections.own.projections import Projections
    from reenact.projections.status import ProjectionFailure, ProjectionStatus

__all__ = [
    "ActorContext",
    "ActorFailedError",
    "ActorSystem",
    "AgentInfo",
    "AgentNotFoundError",
    "AgentRuntime",
    "AgentState",
    "AlreadyExistsError",
    "Announcement",
    "AsyncRuntime",
    "Audit",
    "AuthenticationError",
    "BranchPoint",
    "CallNotPendingError",
    "ClaudeEnvironment",
    "Compacted",
    "ConfigurationError",
    "ConflictError",
    "ContainerInfo",
    "ContainerNotFoundError",
    "CostLimit",
    "DeadLetter",
    "DeadlockError",
    "DocumentBlock",
    "Effector",
    "Entry",
    "Environment",
    "EnvironmentConfig",
    "EnvironmentFactory",
    "Event",
    "EventSourcedActor",
    "ExportUnusableError",
    "HistoryDiffersError",
    "Image",
    "ImageBlock",
    "ImageInfo",
    "ImageNotFoundError",
    "InvalidAnswerError",
    "InvalidArgumentsError",
    "InvalidInputError",
    "InvalidMessageError",
    "LLMConfig",
    "LLMDriver",
    "LLMError",
    "LLMProvider",
    "LogLockedError",
    "LogTooNewError",
    "LogUnusableError",
    "MCPServer",
    "MailboxFullError",
    "Message",
    "NotFoundError",
    "OpaqueBlock",
    "Origin",
    "PendingCall",
    "Policies",
    "Policy",
    "PooledActor",
    "Price",
    "Projection",
    "ProjectionFailedError",
    "ProjectionFailure",
    "ProjectionMistakeError",
    "ProjectionNotFoundError",
    "ProjectionNotReadyError",
    "ProjectionReplacedError",
    "ProjectionStatus",
    "Projections",
    "ProjectionsLockedError",
    "ProtocolError",
    "ReadModelBehindError",
    "ReadModelError",
    "Receptor",
    "Reconnect",
    "RecordingError",
    "RedactionError",
    "ReenactError",
    "Reference",
    "Remembered",
    "RemoteError",
    "RemoteRuntime",
    "RemoteSubscription",
    "RequestReusedError",
    "RequestTimeoutError",
    "RestartLimitError",
    "Retention",
    "Rule",
    "Runtime",
    "RuntimeClosedError",
    "Said",
    "Segment",
    "ServerUnreachableError",
    "SessionInfo",
    "SessionNotFoundError",
    "Spent",
    "StaleApprovalError",
    "StepResult",
    "StorageError",
    "StorageFullError",
    "Stored",
    "Subscription",
    "Supervision",
    "TextBlock",
    "ThinkingBlock",
    "Timer",
    "Tool",
    "ToolCall",
    "ToolCallInfo",
    "ToolContext",
    "ToolOutcome",
    "ToolResultBlock",
    "ToolSpec",
    "ToolUseBlock",
    "Toolbox",
    "TurnInfo",
    "UnhandledTypeError",
    "UnknownCommandError",
    "UnknownEventTypeError",
    "UnknownScenarioError",
    "UnstorableError",
    "Unsubscribe",
    "UsageInfo",
    "ask_user",
    "by_type",
    "on",
    "tool",
    "waiting",
]

_LATER: Final = {
    "ActorContext": "reenact.actors.kernel",
    "ActorFailedError": "reenact.actors.kernel",
    "ActorSystem": "reenact.actors.kernel",
    "AgentRuntime": "reenact.loop",
    "AgentState": "reenact.loop",
    "Announcement": "reenact.actors.kernel",
    "AsyncRuntime": "reenact._aio",
    "Audit": "reenact.audit",
    "ClaudeEnvironment": "reenact.actors.environment.claude",
    "Compacted": "reenact.actors.feed.retention",
    "CostLimit": "reenact.domain.loop.ledger",
    "DeadLetter": "reenact.actors.kernel",
    "DocumentBlock": "reenact.domain.attachments",
    "Effector": "reenact.actors.environment.api",
    "Entry": "reenact.actors.journal.api",
    "Environment": "reenact.actors.environment.api",
    "EnvironmentConfig": "reenact.actors.environment.api",
    "EnvironmentFactory": "reenact.actors.environment.api",
    "Event": "reenact.actors.journal.codec",
    "EventSourcedActor": "reenact.actors.kernel",
    "ImageBlock": "reenact.domain.attachments",
    "InvalidArgumentsError": "reenact.domain.tools",
    "LLMConfig": "reenact.actors.environment.api",
    "LLMDriver": "reenact.actors.environment.api",
    "LLMProvider": "reenact.actors.environment.api",
    "MCPServer": "reenact.domain.tools",
    "Origin": "reenact.actors.kernel",
    "PendingCall": "reenact.domain.people",
    "Policies": "reenact.domain.loop.policy",
    "Policy": "reenact.domain.loop.policy",
    "PooledActor": "reenact.actors.kernel",
    "Price": "reenact.domain.loop.ledger",
    "Projection": "reenact.projections.own.declared",
    "ProjectionFailedError": "reenact.projections.errors",
    "ProjectionFailure": "reenact.projections.status",
    "ProjectionMistakeError": "reenact.projections.errors",
    "ProjectionNotFoundError": "reenact.projections.errors",
    "ProjectionNotReadyError": "reenact.projections.errors",
    "ProjectionReplacedError": "reenact.projections.errors",
    "ProjectionStatus": "reenact.projections.status",
    "Projections": "reenact.projections.own.projections",
    "ProjectionsLockedError": "reenact.projections.errors",
    "ReadModelBehindError": "reenact.projections.errors",
    "ReadModelError": "reenact.projections.errors",
    "Receptor": "reenact.actors.environment.api",
    "Reconnect": "reenact.client.reconnect",
    "Reference": "reenact.actors.kernel",
    "Remembered": "reenact.actors.journal.api",
    "RemoteRuntime": "reenact.client.runtime",
    "RemoteSubscription": "reenact.client.subscription",
    "RestartLimitError": "reenact.actors.kernel",
    "Retention": "reenact.actors.feed.retention",
    "Rule": "reenact.domain.loop.policy",
    "Runtime": "reenact._runtime",
    "Segment": "reenact.actors.journal.api",
    "Spent": "reenact.domain.loop.ledger",
    "StepResult": "reenact.loop",
    "Stored": "reenact.actors.kernel",
    "Subscription": "reenact.actors.feed.subscription",
    "Supervision": "reenact.actors.kernel",
    "Timer": "reenact.actors.kernel",
    "Tool": "reenact.actors.environment.tools.tool",
    "ToolCall": "reenact.loop",
    "ToolCallInfo": "reenact.domain.history",
    "ToolContext": "reenact.actors.environment.tools.context",
    "ToolOutcome": "reenact.actors.environment.tools.outcome",
    "ToolSpec": "reenact.domain.tools",
    "Toolbox": "reenact.actors.environment.tools.toolbox",
    "TurnInfo": "reenact.domain.history",
    "UnhandledTypeError": "reenact.actors.kernel",
    "Unsubscribe": "reenact.actors.environment.api",
    "UsageInfo": "reenact.domain.history",
    "ask_user": "reenact.domain.loop.asking",
    "by_type": "reenact.actors.kernel",
    "on": "reenact.projections.own.declared",
    "tool": "reenact.actors.environment.tools.tool",
    "waiting": "reenact.actors.kernel",
}
"""What is imported when it is first asked for: `reenact --help` waits for no database and no thread pool."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
