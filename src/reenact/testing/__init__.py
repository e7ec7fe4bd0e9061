"""The testing kit: test kits for actors, mocks of the model, and fake model servers on the loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact._lazy import installed, lazy_names

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
    from reenact.testing.crash_test import CrashReport, CrashTest, Reporter
    from reenact.testing.crashing import Crash, CrashPoint, crash_at, effect
    from reenact.testing.fake_api import FakeMessagesAPI, FakeReply
    from reenact.testing.fake_chat_api import FakeChatAPI, FakeChatReply
    from reenact.testing.fake_server import FakeError, FakeRequest
    from reenact.testing.faulty_journal import CrashedError, FaultyJournal, torn_copy
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
    "FakeChatAPI",
    "FakeChatReply",
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

if not TYPE_CHECKING:
    __all__[:] = installed(__all__, "hypothesis", "ReplayMachine")

# These names are imported on first use: mocks need no test library, and a test run needs only a part of them.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "reenact.actors.environment.mock": (
            "MockClaudeDriver MockEffector MockEnvironment MockEnvironmentFactory MockEvent MockLLMProvider "
            "MockReceptor MockScenario PREDEFINED_SCENARIOS"
        ),
        "reenact.actors.environment.recorded.recording": "RecordedEnvironment",
        "reenact.testing.clock": "ManualClock SequentialIds wait_until",
        "reenact.testing.crash_test": "CrashReport CrashTest Reporter",
        "reenact.testing.crashing": "Crash CrashPoint crash_at effect",
        "reenact.testing.fake_api": "FakeMessagesAPI FakeReply",
        "reenact.testing.fake_chat_api": "FakeChatAPI FakeChatReply",
        "reenact.testing.fake_server": "FakeError FakeRequest",
        "reenact.testing.faulty_journal": "CrashedError FaultyJournal torn_copy",
        "reenact.testing.kit": "EventSourcedTestKit Result",
        "reenact.testing.machine": "ReplayMachine",
        "reenact.testing.portrait": "ReplayError",
    },
)
