"""What every test of an environment needs: actors, the outside loop, and a configuration that names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact.actors.environment.api import EnvironmentConfig, LLMConfig
from reenact.actors.kernel import ActorSystem
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.testing import FakeMessagesAPI
from tests.kernel.memory import MemoryJournal


@pytest.fixture
def outside() -> Iterator[EventLoopThread]:
    loop = EventLoopThread()
    yield loop
    loop.close()


@pytest.fixture
def system(outside: EventLoopThread) -> Iterator[ActorSystem]:
    journal = MemoryJournal()
    system = ActorSystem(journal, event_loop=outside)
    yield system
    system.close()
    journal.close()


@pytest.fixture
def config(system: ActorSystem, outside: EventLoopThread) -> EnvironmentConfig:
    return EnvironmentConfig(
        agent_id="agt_1",
        session_id="ses_1",
        llm=LLMConfig(),
        system=system,
        outside=outside,
        new_id=lambda prefix: f"{prefix}_1",
    )


@pytest.fixture
def api() -> Iterator[FakeMessagesAPI]:
    with FakeMessagesAPI() as api:
        yield api
