"""What users test with: mocks of the model, and a Messages API server on the loopback."""

from reenact.actors.environment.mock import (
    MockClaudeDriver,
    MockEnvironment,
    MockEnvironmentFactory,
    MockLLMProvider,
)
from reenact.actors.environment.scenarios import MockEvent, MockScenario
from reenact.testing.fake_api import FakeMessagesAPI, FakeRequest
from reenact.testing.fake_replies import FakeError, FakeReply

__all__ = [
    "FakeError",
    "FakeMessagesAPI",
    "FakeReply",
    "FakeRequest",
    "MockClaudeDriver",
    "MockEnvironment",
    "MockEnvironmentFactory",
    "MockEvent",
    "MockLLMProvider",
    "MockScenario",
]
