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
    ConfigurationError,
    ConflictError,
    ContainerNotFoundError,
    DeadlockError,
    ImageNotFoundError,
    InvalidInputError,
    InvalidMessageError,
    LLMError,
    LogLockedError,
    LogTooNewError,
    LogUnusableError,
    MailboxFullError,
    NotFoundError,
    ReenactError,
    RequestTimeoutError,
    RuntimeClosedError,
    SessionNotFoundError,
    StorageError,
    StorageFullError,
    UnknownCommandError,
    UnknownEventTypeError,
    UnknownScenarioError,
    UnstorableError,
)
from reenact.domain.image import Image, ImageInfo
from reenact.domain.messages import Message, OpaqueBlock, Said, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.session import SessionInfo

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
    from reenact.actors.journal.api import Entry, Segment
    from reenact.actors.journal.codec import Event
    from reenact.actors.kernel import (
        ActorContext,
        ActorFailedError,
        ActorSystem,
        Announcement,
        DeadLetter,
        EventSourcedActor,
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
    from reenact.projections.errors import ProjectionFailedError, ReadModelBehindError, ReadModelError

__all__ = [
    "ActorContext",
    "ActorFailedError",
    "ActorSystem",
    "AgentInfo",
    "AgentNotFoundError",
    "AlreadyExistsError",
    "Announcement",
    "AsyncRuntime",
    "ClaudeEnvironment",
    "ConfigurationError",
    "ConflictError",
    "ContainerInfo",
    "ContainerNotFoundError",
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
    "Image",
    "ImageBlock",
    "ImageInfo",
    "ImageNotFoundError",
    "InvalidInputError",
    "InvalidMessageError",
    "LLMConfig",
    "LLMDriver",
    "LLMError",
    "LLMProvider",
    "LogLockedError",
    "LogTooNewError",
    "LogUnusableError",
    "MailboxFullError",
    "Message",
    "NotFoundError",
    "OpaqueBlock",
    "PooledActor",
    "ProjectionFailedError",
    "ReadModelBehindError",
    "ReadModelError",
    "Receptor",
    "ReenactError",
    "Reference",
    "RequestTimeoutError",
    "RestartLimitError",
    "Runtime",
    "RuntimeClosedError",
    "Said",
    "Segment",
    "SessionInfo",
    "SessionNotFoundError",
    "StorageError",
    "StorageFullError",
    "Stored",
    "Supervision",
    "TextBlock",
    "ThinkingBlock",
    "Timer",
    "ToolResultBlock",
    "ToolUseBlock",
    "UnhandledTypeError",
    "UnknownCommandError",
    "UnknownEventTypeError",
    "UnknownScenarioError",
    "UnstorableError",
    "Unsubscribe",
    "by_type",
    "waiting",
]

_LATER: Final = {
    "ActorContext": "reenact.actors.kernel",
    "ActorFailedError": "reenact.actors.kernel",
    "ActorSystem": "reenact.actors.kernel",
    "Announcement": "reenact.actors.kernel",
    "AsyncRuntime": "reenact._aio",
    "ClaudeEnvironment": "reenact.actors.environment.claude",
    "DeadLetter": "reenact.actors.kernel",
    "Effector": "reenact.actors.environment.api",
    "Entry": "reenact.actors.journal.api",
    "Environment": "reenact.actors.environment.api",
    "EnvironmentConfig": "reenact.actors.environment.api",
    "EnvironmentFactory": "reenact.actors.environment.api",
    "Event": "reenact.actors.journal.codec",
    "EventSourcedActor": "reenact.actors.kernel",
    "LLMConfig": "reenact.actors.environment.api",
    "LLMDriver": "reenact.actors.environment.api",
    "LLMProvider": "reenact.actors.environment.api",
    "PooledActor": "reenact.actors.kernel",
    "ProjectionFailedError": "reenact.projections.errors",
    "ReadModelBehindError": "reenact.projections.errors",
    "ReadModelError": "reenact.projections.errors",
    "Receptor": "reenact.actors.environment.api",
    "Reference": "reenact.actors.kernel",
    "RestartLimitError": "reenact.actors.kernel",
    "Runtime": "reenact._runtime",
    "Segment": "reenact.actors.journal.api",
    "Stored": "reenact.actors.kernel",
    "Supervision": "reenact.actors.kernel",
    "Timer": "reenact.actors.kernel",
    "UnhandledTypeError": "reenact.actors.kernel",
    "Unsubscribe": "reenact.actors.environment.api",
    "by_type": "reenact.actors.kernel",
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
