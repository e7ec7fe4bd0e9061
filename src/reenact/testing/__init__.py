"""The testing kit: kits for actors of your own, mocks of the model, a Messages API server on the loopback."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reenact.actors.environment.mock import (
        PREDEFINED_SCENARIOS,
        MockClaudeDriver,
        MockEffector,
        MockEnvironment,
        MockEnvironmentFactory,
        MockEvent,
        MockLLMProvider,
        MockReceptor,
        MockScenario,
    )
    from reenact.actors.environment.recorded.recording import RecordedEnvironment
    from reenact.testing.clock import ManualClock, SequentialIds, wait_until
    from reenact.testing.crash_points import Crash, CrashPoint
    from reenact.testing.crash_test import CrashReport, CrashTest
    from reenact.testing.crashing import crash_at, effect
    from reenact.testing.fake_api import FakeMessagesAPI, FakeRequest
    from reenact.testing.fake_replies import FakeError, FakeReply
    from reenact.testing.faulty_journal import CrashedError, FaultyJournal, torn_copy
    from reenact.testing.fork_server import Reporter
    from reenact.testing.kit import EventSourcedTestKit, Result
    from reenact.testing.machine import ReplayMachine
    from reenact.testing.portrait import ReplayError

__all__ = [
    "PREDEFINED_SCENARIOS",
    "Crash",
    "CrashPoint",
    "CrashReport",
    "CrashTest",
    "CrashedError",
    "EventSourcedTestKit",
    "FakeError",
    "FakeMessagesAPI",
    "FakeReply",
    "FakeRequest",
    "FaultyJournal",
    "ManualClock",
    "MockClaudeDriver",
    "MockEffector",
    "MockEnvironment",
    "MockEnvironmentFactory",
    "MockEvent",
    "MockLLMProvider",
    "MockReceptor",
    "MockScenario",
    "RecordedEnvironment",
    "ReplayError",
    "ReplayMachine",
    "Reporter",
    "Result",
    "SequentialIds",
    "crash_at",
    "effect",
    "torn_copy",
    "wait_until",
]

_LATER: Final = {
    "Crash": "reenact.testing.crash_points",
    "CrashPoint": "reenact.testing.crash_points",
    "CrashReport": "reenact.testing.crash_test",
    "CrashTest": "reenact.testing.crash_test",
    "CrashedError": "reenact.testing.faulty_journal",
    "EventSourcedTestKit": "reenact.testing.kit",
    "FakeError": "reenact.testing.fake_replies",
    "FakeMessagesAPI": "reenact.testing.fake_api",
    "FakeReply": "reenact.testing.fake_replies",
    "FakeRequest": "reenact.testing.fake_api",
    "FaultyJournal": "reenact.testing.faulty_journal",
    "ManualClock": "reenact.testing.clock",
    "MockClaudeDriver": "reenact.actors.environment.mock",
    "MockEffector": "reenact.actors.environment.mock",
    "MockEnvironment": "reenact.actors.environment.mock",
    "MockEnvironmentFactory": "reenact.actors.environment.mock",
    "MockEvent": "reenact.actors.environment.mock",
    "MockLLMProvider": "reenact.actors.environment.mock",
    "MockReceptor": "reenact.actors.environment.mock",
    "MockScenario": "reenact.actors.environment.mock",
    "RecordedEnvironment": "reenact.actors.environment.recorded.recording",
    "PREDEFINED_SCENARIOS": "reenact.actors.environment.mock",
    "ReplayError": "reenact.testing.portrait",
    "ReplayMachine": "reenact.testing.machine",
    "Reporter": "reenact.testing.fork_server",
    "Result": "reenact.testing.kit",
    "SequentialIds": "reenact.testing.clock",
    "crash_at": "reenact.testing.crashing",
    "effect": "reenact.testing.crashing",
    "torn_copy": "reenact.testing.faulty_journal",
    "wait_until": "reenact.testing.clock",
}
"""What is imported when it is first asked for: mocks need no test library, and a test run not all of this."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
