"""Environments and drivers of users, well-behaved or not: every turn ends, once, and says why."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from reenact import EnvironmentConfig, EnvironmentFailedError, Image, Runtime
from reenact.actors.environment.api import OnEvent, SystemBusConsumer, SystemBusProducer, Unsubscribe
from reenact.domain.messages import Said
from reenact.domain.stream.events import UserMessage
from reenact.events import Envelope
from reenact.testing import MockClaudeDriver, MockLLMProvider
from tests.runtime.conftest import Open, furnish
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import PATIENCE, Ears, check

SCRIPT: tuple[dict[str, Any], ...] = (
    {"type": "message_start"},
    {"type": "text_delta", "data": {"text": "You said "}},
    {"type": "text_delta", "data": {"text": "it."}},
    {"type": "message_stop"},
)


class ScriptedReceptor:
    producer: SystemBusProducer | None = None

    def connect(self, producer: SystemBusProducer) -> None:
        self.producer = producer

    def emit(self, event: Mapping[str, Any]) -> None:
        if self.producer is not None:
            self.producer.emit(event)


class ScriptedEffector:
    """Hears the user's messages and has the receptor say the script, at once or from a thread of its own."""

    def __init__(self, config: EnvironmentConfig, receptor: ScriptedReceptor, *, threaded: bool) -> None:
        self._agent_id = config.agent_id
        self._receptor = receptor
        self._threaded = threaded
        self._unsubscribe: Unsubscribe | None = None
        self.threads: list[threading.Thread] = []
        self.questions: list[str] = []

    def connect(self, consumer: SystemBusConsumer) -> None:
        self._unsubscribe = consumer.on("user_message", self._hear)

    def _hear(self, event: Envelope) -> None:
        if event.context.agent_id != self._agent_id:
            return
        assert isinstance(event.data, UserMessage)
        self.questions.append(event.data.message.text)
        if self._threaded:
            self.threads.append(threading.Thread(target=self.speak))
            self.threads[-1].start()
        else:
            self.speak()

    def speak(self) -> None:
        for event in SCRIPT:
            self._receptor.emit(event)

    def dispose(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        for thread in self.threads:
            thread.join(PATIENCE)


class ScriptedEnvironment:
    name = "scripted"

    def __init__(self, config: EnvironmentConfig, *, threaded: bool) -> None:
        self.receptor = ScriptedReceptor()
        self.effector = ScriptedEffector(config, self.receptor, threaded=threaded)

    def dispose(self) -> None:
        self.effector.dispose()


class ScriptedFactory:
    def __init__(self, *, threaded: bool) -> None:
        self._threaded = threaded
        self.made: list[ScriptedEnvironment] = []

    def create(self, config: EnvironmentConfig) -> ScriptedEnvironment:
        self.made.append(ScriptedEnvironment(config, threaded=self._threaded))
        return self.made[-1]


def run(runtime: Runtime) -> tuple[str, Ears]:
    furnish(runtime)
    ears = Ears(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    return runtime.sessions.run("s"), ears


@pytest.mark.parametrize("threaded", [False, True])
def test_an_effector_that_hears_questions_and_a_receptor_that_emits_mappings_are_an_environment(
    opened: Open, *, threaded: bool
) -> None:
    factory = ScriptedFactory(threaded=threaded)
    runtime = opened(environment=factory)
    agent_id, ears = run(runtime)

    for question in ("one", "two", "three"):
        runtime.agents.receive(agent_id, question)
    ears.wait("turn_completed", count=3)

    said = [message.text for message in runtime.sessions.messages("s")]
    assert said == ["one", "You said it.", "two", "You said it.", "three", "You said it."]
    assert factory.made[0].effector.questions == ["one", "two", "three"]
    check(runtime)


class Stumbling(ScriptedFactory):
    """Its effector raises when a turn starts, before it answers for the first time."""

    def __init__(self, error: BaseException, *, later: bool) -> None:
        super().__init__(threaded=False)
        self.error, self.later = error, later

    def create(self, config: EnvironmentConfig) -> ScriptedEnvironment:
        made = super().create(config)
        errors = [self.error]

        def stumble(_: Envelope) -> None:
            if errors:
                raise errors.pop()
            made.effector.speak()

        async def later(event: Envelope) -> None:
            stumble(event)

        def connect(consumer: SystemBusConsumer) -> None:
            consumer.on("turn_started", later if self.later else stumble)

        made.effector.connect = connect  # type: ignore[method-assign]
        return made


class SilentError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("later", [False, True], ids=["plain", "coroutine"])
@pytest.mark.parametrize(
    "error",
    [KeyError("no"), SilentError("no"), SystemExit("no"), asyncio.CancelledError("no")],
    ids=lambda one: type(one).__name__,
)
def test_a_turn_at_whose_start_an_effector_raises_fails_and_the_next_one_goes_on(
    opened: Open, error: BaseException, *, later: bool
) -> None:
    runtime = opened(environment=Stumbling(error, later=later))
    agent_id, _ = run(runtime)

    failed, answered = (runtime.turns.wait(runtime.agents.receive(agent_id, "Hello"), PATIENCE) for _ in range(2))

    assert failed.failure is not None
    assert failed.failure.type == "environment_error"
    assert failed.failure.message.startswith(f"the environment failed on turn_started: {type(error).__name__}: ")
    assert answered.text == "You said it."
    check(runtime)


class Driver:
    """A driver made of a plain function, which is what most people have."""

    def __init__(self, act: Callable[[OnEvent], object]) -> None:
        self._act = act

    def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> None:
        self._act(on_event)

    def interrupt(self) -> None:
        pass


class AsyncDriver(Driver):
    """The same as a coroutine function."""

    async def send_message(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # a driver may be either
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> None:
        self._act(on_event)


class Provider:
    name = "own"

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def provide(self) -> Driver:
        return self._driver


class AsyncProvider(Provider):
    async def _later(self) -> Driver:
        return self._driver

    def provide(self) -> Awaitable[Driver]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # a provider may be either
        return self._later()


def text(words: object) -> dict[str, Any]:
    return {"type": "text_delta", "data": {"text": words}}


def answers(on_event: OnEvent) -> None:
    for event in SCRIPT:
        on_event(event)


def answers_and_goes_on(on_event: OnEvent) -> None:
    answers(on_event)
    on_event(text(" And more"))
    message = "too late"
    raise ValueError(message)


def raises(on_event: OnEvent) -> None:
    on_event(text("Half"))
    message = "boom"
    raise ValueError(message)


def exits(on_event: OnEvent) -> None:
    on_event(text("Half"))
    raise SystemExit(3)


def times_out(on_event: OnEvent) -> None:
    on_event(text("Half"))
    raise TimeoutError


def stops_short(on_event: OnEvent) -> None:
    on_event(text("Half"))


def reports(*events: Any) -> Callable[[OnEvent], None]:  # noqa: ANN401 - nonsense of any kind
    def report(on_event: OnEvent) -> None:
        on_event(text("Half"))
        for event in events:
            on_event(event)
        on_event({"type": "message_stop"})

    return report


@pytest.mark.parametrize("provider", [Provider, AsyncProvider])
@pytest.mark.parametrize("driver", [Driver, AsyncDriver])
@pytest.mark.parametrize("act", [answers, answers_and_goes_on])
def test_a_driver_may_be_plain_or_asynchronous_and_so_may_its_provider(
    opened: Open, provider: type[Provider], driver: type[Driver], act: Callable[[OnEvent], object]
) -> None:
    runtime = opened(llm_provider=provider(driver(act)))
    agent_id, ears = run(runtime)

    runtime.agents.receive(agent_id, "Hello")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "completed"
    assert runtime.sessions.messages("s")[-1].text == "You said it."
    check(runtime)


@pytest.mark.parametrize(
    ("act", "error_type"),
    [
        (raises, "driver_error"),
        (exits, "driver_error"),
        (times_out, "timeout_error"),
        (stops_short, "incomplete_stream"),
        (reports(42), "driver_error"),
        (reports(None), "driver_error"),
        (reports({}), "driver_error"),
        (reports({"type": 7}), "driver_error"),
        (reports({"type": "turn_completed", "data": {}}), "driver_error"),
        (reports({"type": "text_delta"}), "driver_error"),
        (reports({"type": "text_delta", "data": "text"}), "driver_error"),
        (reports(text(7)), "driver_error"),
        (reports(text("\ud800")), "driver_error"),
        (reports({"type": "message_delta", "data": {"usage": {"input_tokens": 2**70}}}), "driver_error"),
        (reports({"type": "error", "data": {"code": "overloaded_error"}}), "overloaded_error"),
    ],
)
@pytest.mark.parametrize("driver", [Driver, AsyncDriver])
def test_a_driver_that_fails_ends_its_turn_with_an_error_and_the_agent_goes_on(
    opened: Open, driver: type[Driver], act: Callable[[OnEvent], object], error_type: str
) -> None:
    acts = iter([act, answers])

    def act_next(on_event: OnEvent) -> None:
        next(acts)(on_event)

    runtime = opened(llm_provider=Provider(driver(act_next)))
    agent_id, ears = run(runtime)

    runtime.agents.receive(agent_id, "Hello")
    ears.wait("turn_completed")
    info = runtime.agents.get(agent_id)
    assert info is not None
    assert info.state == "error"
    runtime.agents.receive(agent_id, "And now?")
    ears.wait("turn_completed", count=2)

    assert [event.data["outcome"] for event in ears.of("turn_completed")] == ["failed", "completed"]
    assert [event.data["type"] for event in ears.of("error", "error_message")] == [error_type] * 2
    said = [(message.text, message.partial) for message in runtime.sessions.messages("s")]
    assert said == [("Hello", False), ("Half", True), ("And now?", False), ("You said it.", False)]
    check(runtime)


def test_a_plain_driver_that_hangs_can_be_interrupted(opened: Open) -> None:
    let_go = threading.Event()

    def hangs(on_event: OnEvent) -> None:
        on_event(text("Half"))
        let_go.wait(PATIENCE)
        on_event(text(" the other half"))

    runtime = opened(llm_provider=Provider(Driver(hangs)))
    agent_id, ears = run(runtime)
    runtime.agents.receive(agent_id, "Hello")
    ears.wait("text_delta")

    runtime.agents.interrupt(agent_id)
    runtime.close()
    let_go.set()

    assert [event.data["outcome"] for event in ears.of("turn_completed")] == ["interrupted"]
    assert [event.data["text"] for event in ears.of("text_delta")] == ["Half"]


def test_a_provider_that_raises_fails_the_turn(opened: Open) -> None:
    class Broken(Provider):
        def provide(self) -> Driver:
            message = "no model today"
            raise OSError(message)

    runtime = opened(llm_provider=Broken(Driver(answers)))
    agent_id, ears = run(runtime)

    runtime.agents.receive(agent_id, "Hello")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "failed"
    assert "no model today" in str(ears.of("error_message")[0].data["message"])


def test_a_factory_that_raises_leaves_the_session_as_it_was(opened: Open, mock: GatedFactory) -> None:
    class Hesitant:
        tries = 0

        def create(self, config: EnvironmentConfig) -> Any:  # noqa: ANN401 - an environment
            self.tries += 1
            if self.tries == 1:
                message = "not yet"
                raise OSError(message)
            return mock.create(config)

    runtime = opened(environment=Hesitant())
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")

    with pytest.raises(OSError, match="not yet"):
        runtime.sessions.run("s")
    assert runtime.agents.list() == []
    assert runtime.agents.get(runtime.sessions.run("s")) is not None
    check(runtime)


class Unreachable(ScriptedFactory):
    """Its environments cannot be connected until the backend is up."""

    def __init__(self, part: str) -> None:
        super().__init__(threaded=False)
        self.part, self.is_up = part, False

    def create(self, config: EnvironmentConfig) -> ScriptedEnvironment:
        made = super().create(config)
        part: Any = getattr(made, self.part)
        connect = part.connect

        def try_to_connect(to: object) -> None:
            if not self.is_up:
                message = "no route"
                raise OSError(message)
            connect(to)

        part.connect = try_to_connect
        return made


@pytest.mark.parametrize("part", ["receptor", "effector"])
def test_whoever_starts_an_agent_learns_why_its_environment_could_not_be_connected(opened: Open, part: str) -> None:
    factory = Unreachable(part)
    runtime = opened(environment=factory)
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")

    refusal = r"^agent 'agt_.*' could not start: .* OSError\('no route'\)$"
    with pytest.raises(EnvironmentFailedError, match=refusal) as failed:
        runtime.sessions.run("s")
    with pytest.raises(EnvironmentFailedError, match=refusal):
        runtime.ask("Hello", session="s")
    assert runtime.agents.get(failed.value.agent_id) is None
    assert runtime.sessions.messages("s") == []

    factory.is_up = True
    assert runtime.ask("Hello", session="s", timeout=PATIENCE).text == "You said it."
    check(runtime)


def test_an_environment_is_told_what_its_agent_is(opened: Open, mock: GatedFactory) -> None:
    told: list[EnvironmentConfig] = []

    class Curious:
        def create(self, config: EnvironmentConfig) -> Any:  # noqa: ANN401 - an environment
            told.append(config)
            return mock.create(config)

    runtime = opened(environment=Curious(), base_path="/work")
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i", model="m", system_prompt="Be brief.", max_tokens=7))
    runtime.sessions.create("c", "i", session_id="s")
    runtime.images.register(Image(id="i", model="other"))
    agent_id = runtime.sessions.run("s")

    (config,) = told
    assert (config.agent_id, config.session_id, config.cwd) == (agent_id, "s", "/work")
    assert (config.model, config.system_prompt, config.max_tokens) == ("m", "Be brief.", 7)


def test_every_environment_is_disposed_of_once_its_agent_is_gone(opened: Open) -> None:
    factory = ScriptedFactory(threaded=False)
    disposed: list[ScriptedEnvironment] = []
    runtime = opened(environment=factory)
    agent_id, _ = run(runtime)
    factory.made[0].dispose = lambda: disposed.append(factory.made[0])  # type: ignore[method-assign]  # watched

    runtime.agents.destroy(agent_id)

    assert disposed == factory.made


def test_the_mock_driver_can_be_provided() -> None:
    provider = MockLLMProvider("simple-text", delays=False)
    with Runtime.in_memory(llm_provider=provider) as runtime:
        agent_id, ears = run(runtime)
        runtime.agents.receive(agent_id, "Hello")
        ears.wait("turn_completed")
        assert runtime.sessions.messages("s")[-1].text == "Hi"
    assert isinstance(provider.provide(), MockClaudeDriver)
