"""What environments and callers get wrong: it ends a turn or is refused, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reenact import (
    AgentNotFoundError,
    Answer,
    AsyncRuntime,
    Audit,
    Budget,
    ConfigurationError,
    ContainerNotFoundError,
    CostLimit,
    EnvironmentConfig,
    EnvironmentFailedError,
    Image,
    ImageNotFoundError,
    InvalidInputError,
    InvalidMessageError,
    LLMConfig,
    LogLockedError,
    NotFoundError,
    Policy,
    Price,
    ReenactError,
    Retention,
    Rule,
    Runtime,
    SessionInfo,
    UnknownCommandError,
    UnknownEventTypeError,
    handover_tool,
    tool,
)
from reenact.actors.api.operations import RuntimeOperations
from reenact.actors.environment.api import SystemBusConsumer, SystemBusProducer
from reenact.actors.idempotency import Attempt
from reenact.domain.operations.table import SessionCreateRequest
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent, MockLLMProvider
from tests.jsons import at
from tests.runtime.conftest import Open, furnish
from tests.runtime.witness import Ears, check


class Broken:
    """An environment that fails where it is told to, the first time."""

    name = "broken"
    faults: set[str]

    def __init__(self, factory: BrokenFactory) -> None:
        self._factory = factory
        self.producer: SystemBusProducer | None = None
        self.consumer: SystemBusConsumer | None = None
        self.receptor = self
        self.effector = self

    def connect(self, view: Any) -> None:  # noqa: ANN401 - it is both of the pair, and is given both views
        self._factory.fail("connect")
        if hasattr(view, "emit"):
            self.producer = view
        else:
            self.consumer = view
            view.on("turn_started", self._answer)

    def _answer(self, event: Envelope) -> None:
        if "request" in self._factory.faults and self.consumer is not None:
            self._factory.faults.discard("request")
            self.consumer.request("agent_list_request", {}, 5)
        self._factory.fail("turn_started")
        if self.producer is not None:
            self.producer.emit({"type": "text_delta", "data": {"text": "All right."}}, turn_id=event.context.turn_id)
            self.producer.emit({"type": "message_stop"}, turn_id=event.context.turn_id)

    def dispose(self) -> None:
        """There is nothing to release."""


class BrokenFactory:
    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)

    def create(self, _config: EnvironmentConfig) -> Broken:
        return Broken(self)

    def fail(self, where: str) -> None:
        if where in self.faults:
            self.faults.discard(where)
            raise RuntimeError(where)


def begin(runtime: Runtime) -> tuple[str, Ears]:
    furnish(runtime)
    ears = Ears(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    return runtime.sessions.run("s"), ears


@pytest.mark.parametrize("fault", ["turn_started", "request"])
def test_an_effector_that_raises_ends_the_turn_and_the_next_is_answered(opened: Open, fault: str) -> None:
    runtime = opened(environment=BrokenFactory(fault))
    agent_id, ears = begin(runtime)

    failed = runtime.agents.receive(agent_id, "One")
    ears.wait("turn_completed", turn_id=failed)
    answered = runtime.agents.receive(agent_id, "Two")
    ears.wait("turn_completed", turn_id=answered)

    assert [message.text for message in runtime.sessions.messages("s")] == ["One", "Two", "All right."]
    check(runtime)


def test_an_environment_that_cannot_be_connected_ends_its_agent_and_the_session_can_be_run_again(opened: Open) -> None:
    runtime = opened(environment=BrokenFactory("connect"))
    with pytest.raises(EnvironmentFailedError) as failed:
        begin(runtime)
    agent_id, ears = failed.value.agent_id, Ears(runtime)

    with pytest.raises(AgentNotFoundError):
        runtime.agents.receive(agent_id, "Anybody there?")
    again = runtime.sessions.run("s")
    turn_id = runtime.agents.receive(again, "And now?")
    ears.wait("turn_completed", turn_id=turn_id)

    assert runtime.agents.get(agent_id) is None
    assert runtime.sessions.messages("s")[-1].text == "All right."
    check(runtime)


def test_a_call_that_the_answer_does_not_stop_for_is_heard_and_not_run(opened: Open) -> None:
    mock = MockEnvironmentFactory(delays=False)
    call = MockEvent("tool_call", data={"name": "bash", "input": {"command": "ls"}})
    mock.define_scenario("shown", [MockEvent("message_start"), call, MockEvent("message_stop")])
    mock.set_scenario("shown")
    runtime = opened(environment=mock)
    heard: list[str] = []

    answer = runtime.ask("Go", on_event=lambda envelope: heard.append(envelope.type))

    assert (answer.outcome, heard.count("tool_call"), heard.count("message_start")) == ("completed", 1, 1)
    assert "tool_started" not in heard


def test_a_call_whose_input_has_keys_that_are_no_text_is_recorded_as_text(opened: Open) -> None:
    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario(
        "odd", [MockEvent("tool_call", data={"name": "x", "input": {1: 2}}), MockEvent("message_stop")]
    )
    mock.set_scenario("odd")
    runtime = opened(environment=mock)
    agent_id, ears = begin(runtime)

    turn_id = runtime.agents.receive(agent_id, "Go")
    ears.wait("turn_completed", turn_id=turn_id)

    check(runtime)


def test_default_sessions_of_different_pairs_are_different(runtime: Runtime) -> None:
    for container_id, image_id in (("a_b", "c"), ("a", "b_c")):
        runtime.containers.create(container_id=container_id)
        runtime.images.register(Image(id=image_id))

    def send(container_id: str, image_id: str) -> str:
        data = {"container_id": container_id, "image_id": image_id, "content": "Hello"}
        return at(str, runtime.request("message_send_request", data).data.result, "session_id")

    first, second, again = send("a_b", "c"), send("a", "b_c"), send("a_b", "c")

    assert first == again != second


def test_deleted_default_sessions_are_not_created_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = opened()
    runtime.images.register(Image(id="i"))
    tried: list[str | None] = []
    create = RuntimeOperations.session_create

    def counted(self: RuntimeOperations, request: SessionCreateRequest, attempt: Attempt) -> SessionInfo:
        tried.append(request.session_id)
        return create(self, request, attempt)

    monkeypatch.setattr(RuntimeOperations, "session_create", counted)

    for number in range(1, 4):
        sent = runtime.request("message_send_request", {"image_id": "i", "content": "Hello"}).data.result
        session_id = at(str, sent, "session_id")
        assert session_id.endswith(f"_{number}")
        runtime.sessions.delete(session_id)

    assert len(tried) == len(set(tried)) == 3


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"image_id": "nope", "content": "Hello"}, ImageNotFoundError),
        ({"image_id": "i", "content": "  "}, InvalidMessageError),
        ({"image_id": "i", "content": "Hello", "request_id": "\ud800"}, InvalidInputError),
    ],
)
def test_a_message_that_is_refused_creates_nothing(
    runtime: Runtime, data: dict[str, Any], error: type[Exception]
) -> None:
    runtime.images.register(Image(id="i"))
    before = runtime.containers.list()

    with pytest.raises(error):
        runtime.request("message_send_request", data)

    assert runtime.containers.list() == before
    assert runtime.agents.list() == []


NEAR: list[tuple[Callable[[Runtime], object], str]] = [
    (
        lambda runtime: runtime.agents.receive("s", "Hello"),
        r"'s' .*it is a session: sessions.run\('s'\) returns the id",
    ),
    (lambda runtime: runtime.agents.pending("s"), "it is a session"),
    (lambda runtime: runtime.agents.interrupt("s"), "it is a session"),
    (lambda runtime: runtime.agents.destroy("s"), "it is a session"),
    (lambda runtime: runtime.sessions.messages(runtime.sessions.run("s")), "it is an agent: its session is 's'"),
    (lambda runtime: runtime.sessions.run(runtime.sessions.run("s")), "it is an agent: its session is 's'"),
    (lambda runtime: runtime.events.register("turn_complete", print, None), r"\(did you mean 'turn_completed'\?\)"),
    (lambda runtime: runtime.request("session_runs_request", {}), r"\(did you mean 'session_run_request'\?\)"),
    (lambda _: make(Image, prompt="Be brief."), r"Image has no field 'prompt' \(did you mean 'system_prompt'\?\)"),
    (lambda _: make(LLMConfig, apikey="x"), r"LLMConfig has no field 'apikey' \(did you mean 'api_key'\?\)"),
    (lambda _: make(Retention, delta=""), r"Retention has no field 'delta' \(did you mean 'deltas'\?\)"),
    (lambda _: make(Policy, mod="first"), r"Policy has no field 'mod' \(did you mean 'mode'\?\)"),
    (lambda _: make(Rule, when="", modes=""), r"Rule has no field 'modes' \(did you mean 'mode'\?\)"),
    (lambda _: make(Budget, step=""), r"Budget has no field 'step' \(did you mean 'steps'\?\)"),
    (lambda _: make(Price, inputs=""), r"Price has no field 'inputs' \(did you mean 'input'\?\)"),
    (lambda _: make(CostLimit, max=""), r"CostLimit has no field 'max'"),
    (lambda _: call(Image, "chat"), r"name the fields of Image, as in Image\(id=…\)"),
    (lambda _: call(LLMConfig, "sk-ant-x"), r"name the fields of LLMConfig, as in LLMConfig\(api_key=…\)"),
    (lambda runtime: ask_on(runtime, Image), "an image must be an Image, not the class Image"),
    (lambda runtime: ask_on(runtime, {"id": "chat"}), "an image must be an Image, not dict"),
    (lambda runtime: call(runtime.images.register, Image), "an image must be an Image, not the class Image"),
    (
        lambda _: registered(intervention="requried"),
        "tool 'look': `intervention` must be one of 'never', 'required', 'first', 'always', None, not 'requried'",
    ),
    (
        lambda _: handed_over(history="al"),
        "tool 'hand_over_to_i': `history` must be one of 'all', 'summary', 'none', not 'al'",
    ),
    (AsyncRuntime, "use `async with AsyncRuntime.open"),
    (lambda _: make(Runtime), r"Runtime is opened; use Runtime\.open\(path\)"),
    (lambda _: call(Runtime, "a.db"), r"use Runtime\.open\(path\)"),
    (
        lambda _: enter(AsyncRuntime.in_memory()),
        "entered by `async with`; for `with`, there are Runtime and ActorSystem",
    ),
    (lambda _: asyncio.run(enter_awaited(Runtime.in_memory())), "entered by `with`; .* AsyncRuntime"),
]


def make(kind: Any, **fields: str) -> None:  # noqa: ANN401 - what no type checker takes
    kind(**fields)


def ask_on(runtime: Runtime, image: Any) -> None:  # noqa: ANN401 - likewise
    runtime.ask("Hello", image=image)


def registered(**settings: Any) -> None:  # noqa: ANN401 - likewise
    tool(name="look", **settings)(lambda: "")


def handed_over(**settings: Any) -> None:  # noqa: ANN401 - likewise
    handover_tool("i", **settings)


def call(kind: Any, given: Any) -> None:  # noqa: ANN401 - likewise
    kind(given)


def enter(opening: Any) -> None:  # noqa: ANN401 - likewise
    with opening:
        pytest.fail("it was entered")


async def enter_awaited(runtime: Any) -> None:  # noqa: ANN401 - likewise
    async with runtime:
        pytest.fail("it was entered")


@pytest.mark.parametrize("number", range(len(NEAR)))
def test_a_near_miss_is_told_what_is_right(opened: Open, number: int) -> None:
    runtime = opened()
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    mistaken, says = NEAR[number]

    with pytest.raises((ReenactError, TypeError), match=says):
        mistaken(runtime)


@pytest.mark.parametrize("bad", [None, 5, b"x", [], {}, "\ud800"])
def test_what_is_no_id_names_nothing(runtime: Runtime, bad: Any) -> None:  # noqa: ANN401 - anything at all
    runtime.containers.create(container_id="home")
    runtime.images.register(Image(id="i"))

    with pytest.raises(ContainerNotFoundError):
        runtime.sessions.create(bad, "i")
    with pytest.raises(ImageNotFoundError):
        runtime.sessions.create("home", bad)
    with pytest.raises(ContainerNotFoundError):
        runtime.sessions.list_by_container(bad)
    with pytest.raises(AgentNotFoundError):
        runtime.agents.receive(bad, "Hello")
    with pytest.raises(UnknownEventTypeError):
        runtime.events.on(bad, print)
    with pytest.raises(InvalidInputError):
        runtime.events.on("text_delta", bad)
    with pytest.raises(UnknownCommandError):
        runtime.request(bad, {})
    with pytest.raises(InvalidInputError):
        runtime.images.register(bad)
    runtime.agents.interrupt(bad)
    runtime.agents.destroy(bad)
    assert runtime.sessions.delete(bad) is False


@pytest.mark.parametrize("data", [None, 5, [], {1: 2}, {"\ud800": 1}])
def test_data_that_is_no_mapping_of_names_is_refused(runtime: Runtime, data: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(InvalidInputError):
        runtime.request("container_list_request", data)


@pytest.mark.parametrize("timeout", [float("inf"), 1e30, 10**400, None])
def test_a_request_may_wait_for_ever_however_that_is_written(runtime: Runtime, timeout: float | None) -> None:
    response = runtime.request("container_create_request", {"container_id": "lab"}, timeout)

    assert at(str, response.data.result, "id") == "lab"


@pytest.mark.parametrize("timeout", [float("nan"), "1", True])
def test_a_timeout_that_is_no_number_is_refused_before_anything_happens(runtime: Runtime, timeout: float) -> None:
    with pytest.raises(InvalidInputError, match="seconds"):
        runtime.request("container_create_request", {"container_id": "lab"}, timeout)

    assert runtime.containers.get("lab") is None


SETTINGS: list[tuple[str, object, str]] = [
    ("keys", "ring.keys", r"keys must be a KeyRing, such as KeyRing\.file\(path\), not str"),
    ("llm", "claude", r"llm must be an LLMConfig\(api_key=…\), not str"),
    ("llm", LLMConfig, r"llm must be an instance; write LLMConfig\(\)"),
    (
        "environment",
        "mock",
        r"environment must be an object with `create`, such as MockEnvironmentFactory\(\), not str",
    ),
    ("environment", MockEnvironmentFactory, r"environment must be an instance; write MockEnvironmentFactory\(\)"),
    ("environment", MockLLMProvider(), "give it as llm_provider"),
    ("llm_provider", 5, r"llm_provider must be an object with `provide`, such as OpenAIProvider\(model=…\), not int"),
    ("llm_provider", MockLLMProvider, r"llm_provider must be an instance; write MockLLMProvider\(\)"),
    ("llm_provider", MockEnvironmentFactory(), "give it as environment"),
    ("prices", {"x": (1, 2)}, r"the price of 'x' is a `Price\(input, output\)`"),
    ("prices", {1: (1, 2)}, "prices must be a mapping of models' names, not one with 1"),
    ("prices", 5, "prices must be a mapping of models' names, not 5"),
    ("clock", partial(datetime.now, UTC), r"the clock returned datetime.*; it tells the time as an int, microseconds"),
    ("clock", time.time_ns, r"the clock returned \d+, which is after the year 9999 .* in microseconds"),
    ("clock", 5, "clock must be a function that returns the time, not 5"),
]


@pytest.mark.parametrize(("name", "given", "says"), SETTINGS)
def test_a_setting_of_another_kind_is_refused_before_there_is_a_log(
    tmp_path: Path,
    name: str,
    given: Any,  # noqa: ANN401 - what no type checker takes
    says: str,
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Runtime.open(tmp_path / "a.db", **{name: given})

    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("name", "given", "says"), [one for one in SETTINGS if one[0] != "keys"])
def test_a_runtime_in_memory_refuses_the_same_settings(name: str, given: Any, says: str) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(ConfigurationError, match=says):
        Runtime.in_memory(**{name: given})


def test_an_audit_takes_no_keys_of_another_kind(log: str) -> None:
    keys: Any = "ring.keys"

    with pytest.raises(ConfigurationError, match="keys must be a KeyRing"):
        Audit.open(log, keys=keys)


async def hear(_: Envelope) -> None:
    pytest.fail("nobody awaits it")


class Hearing:
    async def __call__(self, _: Envelope) -> None:
        pytest.fail("nobody awaits it")


@pytest.mark.parametrize("handler", [hear, Hearing(), partial(hear)])
def test_a_coroutine_function_that_nobody_would_await_is_refused(runtime: Runtime, handler: Any) -> None:  # noqa: ANN401 - likewise
    for register in (
        lambda: runtime.events.on("text_delta", handler),
        lambda: runtime.events.on_all(handler),
        lambda: runtime.ask("Hello", image="i", on_event=handler),
    ):
        with pytest.raises(InvalidInputError, match=r"is a coroutine function.*use AsyncRuntime"):
            register()

    assert runtime.agents.list() == []


def test_for_asyncio_too_a_handler_can_be_called() -> None:
    handler: Any = 5

    async def register() -> None:
        async with AsyncRuntime.in_memory() as runtime:
            with pytest.raises(InvalidInputError, match="cannot be called"):
                runtime.events.on_all(handler)

    asyncio.run(register())


@pytest.mark.sqlite_only("in PostgreSQL a log has as many nodes as one likes")
def test_a_log_that_this_process_has_open_already_is_named_as_its_own(opened: Open) -> None:
    opened()

    with pytest.raises(LogLockedError, match=r"by this process; use the runtime that has it open, or close that first"):
        opened()


def scheduled(runtime: Runtime, answer: Answer[Any]) -> Any:  # noqa: ANN401 - given in the place of an id
    return runtime.agents.schedule(answer.session_id, "Hi", every=60)


def several(answer: Answer[Any]) -> Any:  # noqa: ANN401 - given in the place of an id
    return [answer.session_id]


IN_THE_PLACE_OF_IDS: list[tuple[Callable[[Runtime, Any, Any], object], str]] = [
    (
        lambda runtime, answer, _: runtime.ask("Hi", session=answer),
        "session must be an id, not Answer; give its session_id",
    ),
    (lambda runtime, _, info: runtime.ask("And?", session=info), "session must be an id, not SessionInfo; give its id"),
    (lambda runtime, answer, _: runtime.turns.wait(answer), "turn must be an id, not Answer; give its turn_id"),
    (lambda runtime, _, info: runtime.sessions.delete(info), "session must be an id, not SessionInfo; give its id"),
    (lambda runtime, _, info: runtime.sessions.list(parent=info), "parent must be an id, not SessionInfo; give its id"),
    (
        lambda runtime, _, info: runtime.sessions.switch(info.id, info),
        "image must be an id, not SessionInfo; give its image_id",
    ),
    (lambda runtime, answer, _: runtime.agents.pending(answer), "agent must be an id, not Answer"),
    (
        lambda runtime, answer, _: runtime.events.stream(answer),
        "session must be an id, not Answer; give its session_id",
    ),
    (lambda runtime, answer, _: runtime.events.stream(answer, children=True), "; give its session_id"),
    (
        lambda runtime, answer, _: runtime.events.stream(several(answer), children=True),
        "follows one session, by its id, not list; open one for each",
    ),
    (lambda runtime, answer, _: runtime.events.on_all(print, session_id=answer), "session"),
    (lambda runtime, answer, _: runtime.agents.cancel_schedule(scheduled(runtime, answer)), "schedule must be an id"),
]


@pytest.mark.parametrize(("give", "says"), IN_THE_PLACE_OF_IDS)
def test_what_has_an_id_is_not_taken_for_the_id(give: Callable[[Runtime, Any, Any], object], says: str) -> None:
    mock, image = MockEnvironmentFactory(delays=False), Image(id="i")
    with Runtime.in_memory(environment=mock, default_image=image) as runtime:
        answer = runtime.ask("Hello")
        info = runtime.sessions.get(answer.session_id)

        with pytest.raises(InvalidInputError) as refused:
            give(runtime, answer, info)

    assert says in str(refused.value)
    assert len(str(refused.value)) < 100


def deep() -> Any:  # noqa: ANN401 - given in the place of an id
    value: object = "x"
    for _ in range(200_000):
        value = [value]
    return value


GIVEN_NESTED_VALUES: list[Callable[[Runtime], object]] = [
    lambda runtime: runtime.sessions.create(deep(), "i"),
    lambda runtime: runtime.sessions.run(deep()),
    lambda runtime: runtime.ask("Hi", session=deep()),
    lambda runtime: runtime.events.stream(deep()),
    lambda runtime: runtime.turns.wait(deep()),
    lambda runtime: runtime.sessions.switch("s", deep()),
]


@pytest.mark.parametrize("give", GIVEN_NESTED_VALUES)
def test_a_value_that_is_nested_too_deeply_to_be_shown_is_no_id(give: Callable[[Runtime], object]) -> None:
    with Runtime.in_memory() as runtime, pytest.raises(NotFoundError, match="<a deeply nested list> does not exist"):
        give(runtime)


NESTED_PARAMETERS: list[Callable[[Runtime], object]] = [
    lambda runtime: runtime.ask("Hi", timeout=deep()),
    lambda runtime: runtime.ask("Hi", output=deep()),
    lambda runtime: runtime.sessions.list(limit=deep()),
    lambda runtime: runtime.sessions.list(waiting=deep()),
    lambda runtime: runtime.sessions.branch("s", at=deep()),
    lambda runtime: runtime.sessions.switch("s", "i", history=deep()),
    lambda runtime: runtime.agents.schedule("s", "Hi", at=deep()),
    lambda runtime: runtime.agents.schedule("s", "Hi", every=deep()),
    lambda runtime: runtime.images.register(Image(id="i", max_tokens=deep())),
    lambda runtime: runtime.images.register(Image(id="i", output=deep())),
    lambda runtime: runtime.events.on(deep(), print),
    lambda runtime: runtime.request(deep(), {}),
    lambda runtime: runtime.request("container_list_request", {}, timeout=deep()),
    lambda runtime: runtime.close(timeout=deep()),
]


@pytest.mark.parametrize("give", NESTED_PARAMETERS)
def test_a_parameter_that_is_nested_too_deeply_to_be_shown_is_refused(give: Callable[[Runtime], object]) -> None:
    with (
        Runtime.in_memory() as runtime,
        pytest.raises((InvalidInputError, ConfigurationError), match="<a deeply nested list>"),
    ):
        give(runtime)


def test_a_tool_that_is_nested_too_deeply_to_be_shown_is_refused() -> None:
    image = Image(id="i", tools=({"type": "x", "name": "y", "more": deep()},))
    with Runtime.in_memory() as runtime, pytest.raises(ConfigurationError, match="got <a deeply nested dict>"):
        runtime.images.register(image)
