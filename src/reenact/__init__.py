"""Reenact: event-sourced actors for AI agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    raise ImportError(
        "Reenact does not run on Windows: its logs are locked with fcntl, which Windows lacks. "
        "Use the Windows Subsystem for Linux, or a server elsewhere (docs/supported.md)."
    )

from reenact._lazy import installed, lazy_names
from reenact.domain.errors import (
    AgentNotFoundError,
    AgentStoppedError,
    AlreadyExistsError,
    AuthenticationError,
    CallNotPendingError,
    CheckpointError,
    ConfigurationError,
    ConflictError,
    ContainerNotFoundError,
    DeadlockError,
    EnvironmentFailedError,
    ExportUnusableError,
    HistoryDiffersError,
    ImageNotFoundError,
    InvalidAnswerError,
    InvalidInputError,
    InvalidMessageError,
    InvalidOutputError,
    KeyRingError,
    LLMError,
    LogAccessError,
    LogEncryptedError,
    LogLockedError,
    LogTooNewError,
    LogUnreachableError,
    LogUnusableError,
    MailboxFullError,
    MessageRefusedError,
    MissingExtraError,
    NodeUnreadyError,
    NotFoundError,
    ProtocolError,
    ReadTooLongError,
    RecordingError,
    RedactionError,
    ReenactError,
    RemoteError,
    RequestReusedError,
    RequestTimeoutError,
    RuntimeClosedError,
    ServerUnreachableError,
    SessionForgottenError,
    SessionInUseError,
    SessionLockedError,
    SessionNotEncryptedError,
    SessionNotFoundError,
    ShardMovedError,
    StaleApprovalError,
    StorageError,
    StorageFullError,
    ToolUnavailableError,
    TurnNotFoundError,
    TurnTimeoutError,
    UnknownCommandError,
    UnknownEventTypeError,
    UnknownScenarioError,
    UnstorableError,
    WrongKeyError,
)

if TYPE_CHECKING:
    from reenact._async_runtime import AsyncActorSystem, AsyncRuntime
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
    from reenact.actors.environment.claude.environment import ClaudeEnvironment, ClaudeProvider
    from reenact.actors.environment.guards import Guard, guard
    from reenact.actors.environment.openai.provider import OpenAIProvider
    from reenact.actors.environment.tools.arguments import ToolContext
    from reenact.actors.environment.tools.outcome import ToolOutcome
    from reenact.actors.environment.tools.tool import Tool, tool
    from reenact.actors.environment.tools.toolbox import Toolbox
    from reenact.actors.feed.family import FamilyStream
    from reenact.actors.feed.retention import Compacted, Retention
    from reenact.actors.feed.subscription import Subscription
    from reenact.actors.journal.api import Entry, Remembered, Segment
    from reenact.actors.journal.codec import Event
    from reenact.actors.journal.key_ring import KeyRing
    from reenact.actors.kernel import (
        ActorContext,
        ActorFailedError,
        ActorSystem,
        Announcement,
        DeadLetter,
        EventLoopActor,
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
    from reenact.client.dialing import Reconnect
    from reenact.client.runtime import RemoteRuntime
    from reenact.client.subscription import RemoteSubscription
    from reenact.domain.attachments import DocumentBlock, ImageBlock
    from reenact.domain.children import AgentTool, Budget, Parent, agent_tool
    from reenact.domain.container import ContainerInfo
    from reenact.domain.guards import GuardInput, Guards
    from reenact.domain.image import Image, ImageInfo
    from reenact.domain.loop.asking import ask_user
    from reenact.domain.loop.ledger import CostLimit, Price, Spent
    from reenact.domain.messages import (
        Message,
        OpaqueBlock,
        Said,
        StopDetails,
        TextBlock,
        ThinkingBlock,
        ToolResultBlock,
        ToolUseBlock,
    )
    from reenact.domain.output import OutputSpec
    from reenact.domain.policy.judge import Policies
    from reenact.domain.policy.rules import Policy, Rule
    from reenact.domain.session.agent import AgentInfo, Failure
    from reenact.domain.session.people import Caller, PendingCall
    from reenact.domain.session.schedules import Schedule
    from reenact.domain.session.state import BranchPoint, Forgotten, SessionInfo
    from reenact.domain.session.told import Answer, ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
    from reenact.domain.tools import InvalidArgumentsError, MCPServer, ToolSpec, handover_tool
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
    from reenact.projections.generations import ProjectionFailure, ProjectionStatus
    from reenact.projections.views.declared import Projection, on
    from reenact.projections.views.projections import Projections

__all__ = [
    "ActorContext",
    "ActorFailedError",
    "ActorSystem",
    "AgentInfo",
    "AgentNotFoundError",
    "AgentRuntime",
    "AgentState",
    "AgentStoppedError",
    "AgentTool",
    "AlreadyExistsError",
    "Announcement",
    "Answer",
    "AsyncActorSystem",
    "AsyncRuntime",
    "Audit",
    "AuthenticationError",
    "BranchPoint",
    "Budget",
    "CallNotPendingError",
    "Caller",
    "CheckpointError",
    "ClaudeEnvironment",
    "ClaudeProvider",
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
    "EnvironmentFailedError",
    "Event",
    "EventLoopActor",
    "EventSourcedActor",
    "ExportUnusableError",
    "Failure",
    "FamilyStream",
    "Forgotten",
    "Guard",
    "GuardInput",
    "Guards",
    "HistoryDiffersError",
    "Image",
    "ImageBlock",
    "ImageInfo",
    "ImageNotFoundError",
    "InvalidAnswerError",
    "InvalidArgumentsError",
    "InvalidInputError",
    "InvalidMessageError",
    "InvalidOutputError",
    "KeyRing",
    "KeyRingError",
    "LLMConfig",
    "LLMDriver",
    "LLMError",
    "LLMProvider",
    "LogAccessError",
    "LogEncryptedError",
    "LogLockedError",
    "LogTooNewError",
    "LogUnreachableError",
    "LogUnusableError",
    "MCPServer",
    "MailboxFullError",
    "Message",
    "MessageRefusedError",
    "MissingExtraError",
    "NodeUnreadyError",
    "NotFoundError",
    "OpaqueBlock",
    "OpenAIProvider",
    "Origin",
    "OutputSpec",
    "Parent",
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
    "ReadTooLongError",
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
    "Schedule",
    "Segment",
    "ServerUnreachableError",
    "SessionForgottenError",
    "SessionInUseError",
    "SessionInfo",
    "SessionLockedError",
    "SessionNotEncryptedError",
    "SessionNotFoundError",
    "ShardMovedError",
    "Spent",
    "StaleApprovalError",
    "StepResult",
    "StopDetails",
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
    "ToolUnavailableError",
    "ToolUseBlock",
    "Toolbox",
    "TurnInfo",
    "TurnLocation",
    "TurnNotFoundError",
    "TurnTimeoutError",
    "UnhandledTypeError",
    "UnknownCommandError",
    "UnknownEventTypeError",
    "UnknownScenarioError",
    "UnstorableError",
    "Unsubscribe",
    "UsageInfo",
    "WrongKeyError",
    "agent_tool",
    "ask_user",
    "by_type",
    "guard",
    "handover_tool",
    "on",
    "tool",
    "waiting",
]

if not TYPE_CHECKING:
    __all__[:] = installed(__all__, "websockets", "Reconnect RemoteRuntime RemoteSubscription")

# These names are imported on first use: `reenact --help` must not import a database driver or a thread pool.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "reenact._async_runtime": "AsyncActorSystem AsyncRuntime",
        "reenact._runtime": "Runtime",
        "reenact.actors.environment.api": (
            "Effector Environment EnvironmentConfig EnvironmentFactory LLMConfig LLMDriver LLMProvider "
            "Receptor Unsubscribe"
        ),
        "reenact.actors.environment.claude.environment": "ClaudeEnvironment ClaudeProvider",
        "reenact.actors.environment.openai.provider": "OpenAIProvider",
        "reenact.actors.environment.guards": "Guard guard",
        "reenact.actors.environment.tools.arguments": "ToolContext",
        "reenact.actors.environment.tools.outcome": "ToolOutcome",
        "reenact.actors.environment.tools.tool": "Tool tool",
        "reenact.actors.environment.tools.toolbox": "Toolbox",
        "reenact.actors.feed.retention": "Compacted Retention",
        "reenact.actors.feed.family": "FamilyStream",
        "reenact.actors.feed.subscription": "Subscription",
        "reenact.actors.journal.api": "Entry Remembered Segment",
        "reenact.actors.journal.codec": "Event",
        "reenact.actors.journal.key_ring": "KeyRing",
        "reenact.actors.kernel": (
            "ActorContext ActorFailedError ActorSystem Announcement DeadLetter EventLoopActor "
            "EventSourcedActor Origin PooledActor Reference RestartLimitError Stored Supervision Timer "
            "UnhandledTypeError by_type waiting"
        ),
        "reenact.audit": "Audit",
        "reenact.client.dialing": "Reconnect",
        "reenact.client.runtime": "RemoteRuntime",
        "reenact.client.subscription": "RemoteSubscription",
        "reenact.domain.session.agent": "AgentInfo Failure",
        "reenact.domain.attachments": "DocumentBlock ImageBlock",
        "reenact.domain.children": "AgentTool Budget Parent agent_tool",
        "reenact.domain.container": "ContainerInfo",
        "reenact.domain.guards": "GuardInput Guards",
        "reenact.domain.session.told": "Answer ToolCallInfo TurnInfo TurnLocation UsageInfo",
        "reenact.domain.image": "Image ImageInfo",
        "reenact.domain.loop.asking": "ask_user",
        "reenact.domain.loop.ledger": "CostLimit Price Spent",
        "reenact.domain.messages": (
            "Message OpaqueBlock Said StopDetails TextBlock ThinkingBlock ToolResultBlock ToolUseBlock"
        ),
        "reenact.domain.output": "OutputSpec",
        "reenact.domain.session.people": "Caller PendingCall",
        "reenact.domain.policy.judge": "Policies",
        "reenact.domain.policy.rules": "Policy Rule",
        "reenact.domain.session.schedules": "Schedule",
        "reenact.domain.session.state": "BranchPoint Forgotten SessionInfo",
        "reenact.domain.tools": "InvalidArgumentsError MCPServer ToolSpec handover_tool",
        "reenact.loop": "AgentRuntime AgentState StepResult ToolCall",
        "reenact.projections.errors": (
            "ProjectionFailedError ProjectionMistakeError ProjectionNotFoundError ProjectionNotReadyError "
            "ProjectionReplacedError ProjectionsLockedError ReadModelBehindError ReadModelError"
        ),
        "reenact.projections.generations": "ProjectionFailure ProjectionStatus",
        "reenact.projections.views.declared": "Projection on",
        "reenact.projections.views.projections": "Projections",
    },
)
