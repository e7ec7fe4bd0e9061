"""What a scenario holds: a runtime on a real log, and what was heard of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Condition
from typing import Any, TypeGuard, TypeVar

from reenact import Answer, EnvironmentFactory, Image, ReenactError, Runtime, Unsubscribe
from reenact.domain.messages import Said
from reenact.domain.stream.events import MessageData
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent, MockLLMProvider, MockScenario
from tests.logs import copy_log, log_at

Listed = TypeVar("Listed")

PATIENCE = 60.0
"""Seconds after which what was waited for is not going to happen."""

FOR_EVER = 3_600_000
"""The delay, in milliseconds, of an event that no scenario lives to see."""

ENDLESS = MockScenario(
    "endless",
    (
        MockEvent("message_start"),
        MockEvent("text_delta", data={"text": "Once upon"}),
        MockEvent("message_stop", delay=FOR_EVER),
    ),
)
SPEECHLESS = MockScenario("speechless", (MockEvent("message_start"), MockEvent("message_stop", delay=FOR_EVER)))
BREAKING_OFF = MockScenario(
    "breaking-off",
    (
        MockEvent("text_delta", data={"text": "Half an"}),
        MockEvent("error", data={"type": "overloaded_error", "message": "The line broke", "retryable": True}),
    ),
)


class Ears:
    """Hears events, in order, and wakes whoever waits for one."""

    def __init__(self) -> None:
        self._heard: list[Envelope] = []
        self._changed = Condition()

    def hear(self, event: Envelope) -> None:
        with self._changed:
            self._heard.append(event)
            self._changed.notify_all()

    @property
    def heard(self) -> tuple[Envelope, ...]:
        with self._changed:
            return tuple(self._heard)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.heard]

    def of(self, *types: str) -> list[Envelope]:
        return [event for event in self.heard if event.type in types]

    def wait(self, *types: str, count: int = 1, where: Callable[[Envelope], bool] = lambda _: True) -> list[Envelope]:
        """Return the events of these types once there are `count` of them."""

        def found() -> list[Envelope]:
            return [event for event in self._heard if event.type in types and where(event)]

        with self._changed:
            came = self._changed.wait_for(lambda: len(found()) >= count, PATIENCE)
            assert came, f"waited for {count} of {types}, heard {[event.type for event in self._heard]}"
            return found()


class Story:
    """What is under test, the one session and agent that the steps speak of, and what the last call answered."""

    def __init__(self, folder: Path) -> None:
        self.mock = MockEnvironmentFactory(delays=True)
        for scenario in (ENDLESS, SPEECHLESS, BREAKING_OFF):
            self.mock.define_scenario(scenario.name, scenario)
        self.mock.define_scenario("attentive", attentive)
        self.choose: Callable[[str], None] = self.mock.set_scenario
        self.ears = Ears()
        self.listeners: dict[str, Ears] = {}
        self.subscriptions: list[Unsubscribe] = []
        self.container_id = self.session_id = self.agent_id = ""
        self.before: Sequence[object] = ()
        self._path = folder / "log" / "agents.db"
        self._path.parent.mkdir()
        self._runtime: Runtime | None = None
        self._closed = True
        self._deafen: Unsubscribe | None = None
        self._outcomes: list[object] = []

    @property
    def log(self) -> str:
        """Where the log is."""
        return log_at(self._path)

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None, "no runtime is open"
        return self._runtime

    @property
    def answer(self) -> object:
        """What the last call returned; a call that failed has no answer."""
        outcome = self._outcomes[-1]
        if isinstance(outcome, ReenactError):
            raise outcome
        return outcome

    def listed(self, kind: type[Listed]) -> list[Listed]:
        """Return the list that the last call returned; all that is in it is of the kind."""
        answer = self.answer
        assert _is_list(answer)
        found = [item for item in answer if isinstance(item, kind)]
        assert len(found) == len(answer), answer
        return found

    @property
    def answers(self) -> list[object]:
        """What each of the calls returned."""
        return [outcome for outcome in self._outcomes if not isinstance(outcome, ReenactError)]

    @property
    def error(self) -> ReenactError:
        """How the last call failed."""
        outcome = self._outcomes[-1]
        assert isinstance(outcome, ReenactError), f"it returned {outcome!r}"
        return outcome

    def attempt(self, call: Callable[[], object]) -> None:
        """Make the call under test; its answer, or its error, is what *then* steps look at."""
        try:
            self._outcomes.append(call())
        except ReenactError as error:
            self._outcomes.append(error)

    def open(self) -> None:
        self._open(environment=self.mock)

    def open_with_provider(self) -> None:
        """Have the mock stand one floor below: as a driver in the standard environment."""
        provider = MockLLMProvider()
        self._open_anew(llm_provider=provider)
        self.choose = provider.set_scenario

    def open_on(self, environment: EnvironmentFactory) -> None:
        """Open a runtime on a log of its own, with this environment in the place of the mock."""
        self._open_anew(environment=environment)

    def reopen_on(self, environment: EnvironmentFactory) -> None:
        """Close the runtime and open it again with this environment."""
        self.close()
        self._open(environment=environment)

    def _open_anew(self, **settings: Any) -> None:  # noqa: ANN401 - what `Runtime.open` takes
        self.close()
        if self._runtime is not None:
            self._path = self._path.with_name(f"{self._path.stem}-next.db")
        self._open(**settings)

    def _open(self, **settings: Any) -> None:  # noqa: ANN401 - what `Runtime.open` takes
        self._runtime = Runtime.open(log_at(self._path), **settings)
        self._closed = False
        self._deafen = self._runtime.events.on_all(self.ears.hear)

    def close(self) -> None:
        self._closed = True
        if self._runtime is not None:
            self._runtime.close()

    def crash(self, **settings: Any) -> None:  # noqa: ANN401 - what `Runtime.open` takes
        """Go on with the files as they are at this moment, as after a power cut."""
        copy_log(log_at(self._path), "ruins")
        if self._deafen is not None:
            self._deafen()
        self.close()
        self._path = self._path.with_name("ruins") / self._path.name
        self._open(environment=self.mock, **settings)

    def image(self, image_id: str) -> str:
        return self.runtime.images.register(Image(id=image_id, name=image_id)).id

    def session(self, container_id: str, image_id: str, session_id: str | None = None) -> str:
        created = self.runtime.sessions.create(container_id, self.image(image_id), session_id=session_id)
        self.session_id = created.id
        return created.id

    def run(self) -> str:
        self.agent_id = self.runtime.sessions.run(self.session_id)
        return self.agent_id

    def say(self, text: str) -> str:
        """Send the message; return its turn's id."""
        return self.runtime.agents.receive(self.agent_id, text)

    def begin(self, scenario: str) -> str:
        """Send a message whose turn goes on until something ends it; return its turn's id once it is under way."""
        self.mock.set_scenario(scenario)
        turn_id = self.say("Tell me a story")
        last = "message_start" if scenario == SPEECHLESS.name else "text_delta"
        self.ears.wait(last, where=lambda event: event.context.turn_id == turn_id)
        return turn_id

    def completed(self, count: int = 1) -> list[Envelope]:
        """Return the turns that were completed, once there are `count` of them."""
        return self.ears.wait("turn_completed", count=count)

    def of_session(self) -> list[Envelope]:
        """Return what was heard of the session, without commands."""
        heard = (event for event in self.ears.heard if event.context.session_id == self.session_id)
        return [event for event in heard if event.category != "command"]

    def settle(self) -> None:
        """Return when everything published so far has been heard; nothing is published once the runtime is closed."""
        if self._closed:
            return
        marker = self.runtime.containers.create()
        self.ears.wait("container_created", where=lambda event: event.data["container_id"] == marker.id)


def attentive(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Answer with everything that the person has said so far, and how often it was answered."""
    said = ", ".join(message.text for message in conversation if message.role == "user")
    answered = sum(message.role == "assistant" for message in conversation)
    yield MockEvent("text_delta", data={"text": f"You said: {said} (answered: {answered})"})
    yield MockEvent("message_stop")


def told(events: Iterable[Envelope]) -> list[list[str]]:
    """Return the type of each event, and what a reader wants to know of it."""
    return [[event.type, _detail(event)] for event in events]


def is_answer(value: object) -> TypeGuard[Answer[object]]:
    """Return whether it is an answer, of whatever type its value is."""
    return isinstance(value, Answer)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _detail(event: Envelope) -> str:
    data = event.data
    match event.type:
        case "agent_state_changed":
            return f"{data['previous']} to {data['current']}"
        case "text_delta" | "thinking_delta":
            return f'"{data["text"]}"'
        case "user_message" | "assistant_message":
            assert isinstance(data, MessageData)
            return data.message.text
        case "error" | "error_message":
            return str(data["message"])
        case "message_stop":
            return str(data["stop_reason"])
        case "interrupted" | "agent_stopped":
            return str(data["reason"])
        case "turn_completed":
            return str(data["outcome"])
        case _:
            return ""
