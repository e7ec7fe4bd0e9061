"""Sessions without a live agent leave memory when there are many, and nobody notices."""

from __future__ import annotations

import pytest

from reenact import Image, Runtime
from reenact.actors import runtime as runtimes
from reenact.actors.api import operations
from reenact.testing import MockEnvironmentFactory, wait_until


def test_more_sessions_than_may_live_are_created_and_run_and_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "MOST_LIVE", 20)
    with Runtime.in_memory(environment=MockEnvironmentFactory()) as runtime:
        home = runtime.containers.create("home")
        runtime.images.register(Image(id="chat"))

        sessions = [runtime.sessions.create(home.id, "chat").id for _ in range(200)]

        wait_until(lambda: runtime._system.live() <= 30, what="idle sessions to leave")
        assert [found.id for session in sessions if (found := runtime.sessions.get(session))] == sessions
        assert runtime.sessions.delete(sessions[0])
        assert runtime.agents.get(runtime.sessions.run(sessions[1])) is not None


def test_a_live_agent_stays_however_many_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "MOST_LIVE", 5)
    with Runtime.in_memory(environment=MockEnvironmentFactory()) as runtime:
        home = runtime.containers.create("home")
        runtime.images.register(Image(id="chat"))
        talking = runtime.sessions.create(home.id, "chat").id
        agent = runtime.sessions.run(talking)

        for _ in range(100):
            runtime.sessions.create(home.id, "chat")
        ended: list[str | None] = []
        with runtime.events.on("turn_completed", lambda event: ended.append(event.context.agent_id)):
            runtime.agents.receive(agent, "Hello")
            wait_until(lambda: ended == [agent], what="the agent to answer")

        assert runtime.sessions.run(talking) == agent
        assert [message.text for message in runtime.sessions.messages(talking)] == ["Hello", "Hello from mock!"]


def test_of_many_images_some_definitions_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MOST_DEFINITIONS", 5)
    with Runtime.in_memory(environment=MockEnvironmentFactory(delays=False)) as runtime:
        images = [runtime.images.register(Image(id=f"of {user}")).id for user in range(12)]

        answers = [runtime.ask("Hello", image=image).text for image in (*images, *images)]

        assert answers == ["Hello from mock!"] * 24
        caching = runtime._ports.operations
        assert caching is not None
        assert len(caching._definitions) <= 5
