"""A hand-over to an image for which no agent can be made."""

from __future__ import annotations

from collections.abc import Sequence

from reenact import EnvironmentConfig, Image, Runtime
from reenact.actors.environment.mock import MockEnvironment
from reenact.domain.session.agent import AgentStopped, ImageChanged
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.runtime.conftest import furnish
from tests.runtime.witness import journal_of


class Choosy(MockEnvironmentFactory):
    """Makes no environment for the model `odd`."""

    def create(self, config: EnvironmentConfig) -> MockEnvironment:
        if config.model == "odd":
            raise ValueError(config.model)
        return super().create(config)


def events(runtime: Runtime) -> Sequence[object]:
    return [row.event for row in journal_of(runtime).read("session/s")]


def test_the_agent_ends_and_the_way_back_is_open(log: str) -> None:
    with Runtime.open(log, environment=Choosy(delays=False)) as runtime:
        furnish(runtime)
        runtime.images.register(Image(id="odd", model="odd"))
        runtime.sessions.create("c", "i", session_id="s")
        runtime.sessions.run("s")

        assert runtime.sessions.switch("s", "odd")

        wait_until(lambda: isinstance(events(runtime)[-1], AgentStopped), what="the agent has ended")
        assert events(runtime)[-1] == AgentStopped(_agent_of(runtime), "crash")
        assert runtime.agents.list() == []
        assert runtime.sessions.switch("s", "i", "none")
        assert runtime.ask("Hello", session="s").text == "Hello from mock!"
        assert [event.image_id for event in events(runtime) if isinstance(event, ImageChanged)] == ["odd", "i"]


def _agent_of(runtime: Runtime) -> str:
    return next(event.agent_id for event in events(runtime) if isinstance(event, AgentStopped))
