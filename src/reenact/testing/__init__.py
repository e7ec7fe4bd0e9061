"""What users test with: mocks of the model, and a Messages API server on the loopback."""

from reenact.actors.environment.mock import (
    MockClaudeDriver,
    MockEnvironment,
    MockEnvironmentFactory,
    MockLLMProvider,
)
from reenact.actors.environment.scenarios import MockEvent, MockScenario

__all__ = [
    "MockClaudeDriver",
    "MockEnvironment",
    "MockEnvironmentFactory",
    "MockEvent",
    "MockLLMProvider",
    "MockScenario",
]
