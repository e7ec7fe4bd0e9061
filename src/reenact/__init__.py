"""Reenact: event-sourced actors for AI agents."""

from __future__ import annotations

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
)
from reenact.actors.facades import Unsubscribe
from reenact.actors.kernel import ActorSystem, EventSourcedActor
from reenact.domain.agent import AgentInfo
from reenact.domain.container import ContainerInfo
from reenact.domain.errors import (
    AgentNotFoundError,
    AlreadyExistsError,
    ConfigurationError,
    ConflictError,
    ContainerNotFoundError,
    ImageNotFoundError,
    InvalidInputError,
    InvalidMessageError,
    LogLockedError,
    LogTooNewError,
    LogUnusableError,
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
)
from reenact.domain.image import Image, ImageInfo
from reenact.domain.messages import Message, OpaqueBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.session import SessionInfo

__all__ = [
    "ActorSystem",
    "AgentInfo",
    "AgentNotFoundError",
    "AlreadyExistsError",
    "AsyncRuntime",
    "ConfigurationError",
    "ConflictError",
    "ContainerInfo",
    "ContainerNotFoundError",
    "Effector",
    "Environment",
    "EnvironmentConfig",
    "EnvironmentFactory",
    "EventSourcedActor",
    "Image",
    "ImageInfo",
    "ImageNotFoundError",
    "InvalidInputError",
    "InvalidMessageError",
    "LLMConfig",
    "LLMDriver",
    "LLMProvider",
    "LogLockedError",
    "LogTooNewError",
    "LogUnusableError",
    "Message",
    "NotFoundError",
    "OpaqueBlock",
    "Receptor",
    "ReenactError",
    "RequestTimeoutError",
    "Runtime",
    "RuntimeClosedError",
    "SessionInfo",
    "SessionNotFoundError",
    "StorageError",
    "StorageFullError",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "UnknownCommandError",
    "UnknownEventTypeError",
    "UnknownScenarioError",
    "Unsubscribe",
]
