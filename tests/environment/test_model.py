from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anthropic
import httpx2
import msgspec
import openai
import pytest

from reenact.actors.environment.api import EnvironmentConfig, LLMConfig, LLMDriver, OnEvent
from reenact.actors.environment.model import ModelEnvironment, ProviderEnvironmentFactory
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.errors import LLMError, SessionNotFoundError
from reenact.domain.messages import Said, TextBlock
from reenact.domain.stream.events import MessageStart, MessageStop, StreamData, StreamError, TextDelta
from tests.environment.support import HELLO, PATIENCE, Bus

REQUEST = httpx2.Request("POST", "http://localhost/v1/messages")
HI = (TextDelta(text="Hi"), MessageStop())


class Driver:
    """Does what the test wants, and remembers what it was asked."""

    def __init__(self, act: Callable[[OnEvent], Awaitable[None]] | None = None) -> None:
        self.act = act
        self.asked: list[dict[str, object]] = []
        self.interrupted = threading.Event()
        self.closed = threading.Event()

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> None:
        self.asked.append(
            {"messages": messages, "system": system, "model": model, "max_tokens": max_tokens, "tools": tools}
        )
        if self.act is not None:
            await self.act(on_event)
        else:
            say(on_event)

    def interrupt(self) -> None:
        self.interrupted.set()

    async def aclose(self) -> None:
        self.closed.set()


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class PlainDriver:
    """Answers without asyncio, and waits in the middle for an interrupt if it is told to."""

    def __init__(self, *, waits: bool = False) -> None:
        self.thread: threading.Thread | None = None
        self.waits = waits
        self.interrupted = threading.Event()
        self.closed = threading.Event()

    def send_message(self, *, on_event: OnEvent, **_: object) -> None:
        self.thread = threading.current_thread()
        on_event(MessageStart())
        if self.waits:
            assert self.interrupted.wait(PATIENCE)
            raise RuntimeError("interrupted")
        say(on_event)

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        self.closed.set()


def say(on_event: OnEvent, *events: StreamData) -> None:
    for event in events or HI:
        on_event(event)


def around(driver: LLMDriver, config: EnvironmentConfig) -> tuple[ModelEnvironment, Bus]:
    environment, bus = ModelEnvironment("test", config, lambda: driver), Bus()
    bus.connect(environment)
    return environment, bus


async def never(_: OnEvent) -> None:
    await asyncio.get_running_loop().create_future()


def test_a_turn_is_answered_by_the_driver_in_that_turn(config: EnvironmentConfig) -> None:
    environment, bus = around(Driver(), config)

    bus.answer("trn_1")
    bus.complete("trn_1", "completed")
    bus.answer("trn_2")

    assert bus.events("trn_1") == bus.events("trn_2") == list(HI)
    environment.dispose()


def test_the_driver_is_given_the_conversation_and_the_agents_settings(config: EnvironmentConfig) -> None:
    driver = Driver()
    llm = LLMConfig(model="configured", max_tokens=77)
    environment, bus = around(driver, msgspec.structs.replace(config, llm=llm, system_prompt="Be brief."))
    named, other = around(driver, msgspec.structs.replace(config, llm=llm, model="image's"))

    bus.said = (*HELLO, Said("assistant", (TextBlock("Hi"),)), *HELLO)
    bus.answer("trn_1")
    other.answer("trn_1")

    assert driver.asked[0] == {
        "messages": bus.said, "system": "Be brief.", "model": "configured", "max_tokens": 77, "tools": ()
    }  # fmt: skip
    assert driver.asked[1]["model"] == "image's"
    environment.dispose()
    named.dispose()


def test_events_keep_their_order_however_many_they_are(config: EnvironmentConfig) -> None:
    texts = [TextDelta(text=str(number)) for number in range(5000)]

    async def act(on_event: OnEvent) -> None:
        for number, event in enumerate(texts):
            on_event(event)
            if number % 100 == 0:
                await asyncio.sleep(0)
        on_event(MessageStop())

    environment, bus = around(Driver(act), config)

    assert bus.answer("trn_1") == [*texts, MessageStop()]
    environment.dispose()


@pytest.mark.parametrize(
    ("error", "error_type", "retryable"),
    [
        (RuntimeError("boom"), "driver_error", False),
        (SystemExit("boom"), "driver_error", False),
        (KeyboardInterrupt("boom"), "driver_error", False),
        (GeneratorExit("boom"), "driver_error", False),
        (BaseExceptionGroup("boom", [GeneratorExit()]), "driver_error", False),
        (SpeechlessError(), "driver_error", False),
        (TimeoutError("boom"), "timeout_error", True),
        (ConnectionResetError("boom"), "api_connection_error", True),
        (httpx2.ReadError("boom"), "api_connection_error", True),
        (httpx2.ReadTimeout("boom"), "timeout_error", True),
        (anthropic.APIConnectionError(message="boom", request=REQUEST), "api_connection_error", True),
        (anthropic.APITimeoutError(REQUEST), "timeout_error", True),
        (
            anthropic.AuthenticationError("boom", response=httpx2.Response(401, request=REQUEST), body=None),
            "authentication_error",
            False,
        ),
        (
            anthropic.InternalServerError(
                "boom",
                response=httpx2.Response(529, request=REQUEST),
                body={"type": "error", "error": {"type": "overloaded_error", "message": "boom"}},
            ),
            "overloaded_error",
            True,
        ),
        (openai.APIConnectionError(request=REQUEST), "api_connection_error", True),
        (openai.APITimeoutError(REQUEST), "timeout_error", True),
        (
            openai.RateLimitError("boom", response=httpx2.Response(429, request=REQUEST), body={"type": "requests"}),
            "rate_limit_error",
            True,
        ),
        (SessionNotFoundError("ses_1"), "driver_error", False),
        (asyncio.CancelledError(), "driver_error", False),
    ],
)
def test_what_the_driver_raises_becomes_an_error_of_its_type(
    error: BaseException, error_type: str, *, retryable: bool, config: EnvironmentConfig
) -> None:
    async def act(on_event: OnEvent) -> None:
        on_event(TextDelta(text="half"))
        raise error

    environment, bus = around(Driver(act), config)

    half, failed = bus.answer("trn_1")

    assert half == TextDelta(text="half")
    assert isinstance(failed, StreamError)
    assert (failed.type, failed.retryable) == (error_type, retryable)
    assert failed.message
    environment.dispose()


def test_the_name_of_a_file_that_is_no_text_is_told_as_python_escapes_it(config: EnvironmentConfig) -> None:
    async def act(_: OnEvent) -> None:
        raise ConnectionRefusedError("\udcff.sock")

    environment, bus = around(Driver(act), config)

    (failed,) = bus.answer("trn_1")

    assert isinstance(failed, StreamError)
    assert failed.message == "ConnectionRefusedError: \\udcff.sock"
    environment.dispose()


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (KeyError("boom"), True),
        (SystemExit("boom"), True),
        (ConnectionResetError("boom"), False),
        (LLMError("rate_limit_error", "boom"), False),
    ],
)
def test_a_mistake_of_a_driver_is_logged_with_where_it_is_and_a_failure_of_the_api_is_not(
    error: BaseException, *, is_logged: bool, config: EnvironmentConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(_: OnEvent) -> None:
        raise error

    environment, bus = around(Driver(act), config)

    bus.answer("trn_1")

    records = [record for record in caplog.records if record.name == "reenact.environment"]
    assert [record.levelname for record in records] == ["WARNING"] * is_logged
    assert all(record.exc_info and record.exc_info[1] is error for record in records)
    environment.dispose()


def test_a_driver_that_returns_in_the_middle_has_left_the_stream_incomplete(config: EnvironmentConfig) -> None:
    async def act(on_event: OnEvent) -> None:
        on_event(TextDelta(text="half"))

    environment, bus = around(Driver(act), config)

    failed = bus.answer("trn_1")[-1]

    assert isinstance(failed, StreamError)
    assert (failed.type, failed.retryable) == ("incomplete_stream", True)
    environment.dispose()


def test_an_event_that_is_none_becomes_an_error(config: EnvironmentConfig) -> None:
    async def act(on_event: OnEvent) -> None:
        on_event({"type": "texts", "data": {}})
        await never(on_event)

    environment, bus = around(driver := Driver(act), config)

    failed = bus.answer("trn_1")[-1]
    bus.complete("trn_1", "failed")

    assert isinstance(failed, StreamError)
    assert failed.type == "driver_error"
    assert driver.interrupted.wait(PATIENCE)
    environment.dispose()


def test_an_interrupt_cancels_the_driver_and_says_nothing(config: EnvironmentConfig) -> None:
    cancelled = threading.Event()

    async def act(on_event: OnEvent) -> None:
        on_event(TextDelta(text="half"))
        try:
            await never(on_event)
        finally:
            cancelled.set()

    environment, bus = around(driver := Driver(act), config)
    bus.start("trn_1")
    bus.wait("trn_1", len)

    bus.complete("trn_1")

    assert cancelled.wait(PATIENCE)
    assert driver.interrupted.is_set()
    driver.act = None
    bus.answer("trn_2")
    assert bus.events("trn_1") == [TextDelta(text="half")]
    environment.dispose()


def test_a_turn_that_has_completed_by_itself_is_not_interrupted(config: EnvironmentConfig) -> None:
    go_on = threading.Event()

    async def act(on_event: OnEvent) -> None:
        say(on_event)
        await asyncio.to_thread(go_on.wait, PATIENCE)

    environment, bus = around(driver := Driver(act), config)
    bus.answer("trn_1")

    bus.complete("trn_1", "completed")
    go_on.set()
    bus.answer("trn_2")

    assert not driver.interrupted.is_set()
    environment.dispose()


def test_another_turns_end_does_not_interrupt(config: EnvironmentConfig) -> None:
    go_on = threading.Event()

    async def act(on_event: OnEvent) -> None:
        on_event(MessageStart())
        await asyncio.to_thread(go_on.wait, PATIENCE)
        say(on_event)

    environment, bus = around(driver := Driver(act), config)
    bus.start("trn_1")
    bus.wait("trn_1", len)

    bus.complete("trn_0")
    go_on.set()

    assert bus.wait("trn_1", lambda events: len(events) == 3) == [MessageStart(), *HI]
    assert not driver.interrupted.is_set()
    environment.dispose()


def test_a_driver_without_asyncio_runs_on_a_thread_of_its_own(config: EnvironmentConfig) -> None:
    environment, bus = around(driver := PlainDriver(), config)

    events = bus.answer("trn_1")

    assert events == [MessageStart(), *HI]
    assert driver.thread is not None
    assert driver.thread.name == "reenact-driver"
    environment.dispose()
    assert driver.closed.wait(PATIENCE)


def test_a_driver_without_asyncio_can_be_interrupted(config: EnvironmentConfig) -> None:
    environment, bus = around(driver := PlainDriver(waits=True), config)
    bus.start("trn_1")
    bus.wait("trn_1", len)

    bus.complete("trn_1")

    assert driver.interrupted.wait(PATIENCE)
    environment.dispose()


def test_a_driver_may_be_provided_asynchronously_and_is_so_once(config: EnvironmentConfig) -> None:
    provided: list[Driver] = []

    class Provider:
        name = "later"

        async def provide(self) -> Driver:
            await asyncio.sleep(0)
            provided.append(Driver())
            return provided[-1]

    environment, bus = ProviderEnvironmentFactory(Provider()).create(config), Bus()
    bus.connect(environment)

    bus.answer("trn_1")
    bus.answer("trn_2")

    assert environment.name == "later"
    assert len(provided) == 1
    environment.dispose()


def test_a_provider_that_fails_is_asked_again_in_the_next_turn(config: EnvironmentConfig) -> None:
    failures = [RuntimeError("not yet")]

    def provide() -> LLMDriver:
        if failures:
            raise failures.pop()
        return Driver()

    environment, bus = ModelEnvironment("test", config, provide), Bus()
    bus.connect(environment)

    failed = bus.answer("trn_1")[-1]
    answered = bus.answer("trn_2")

    assert isinstance(failed, StreamError)
    assert "not yet" in failed.message
    assert answered == list(HI)
    environment.dispose()


def test_a_conversation_that_cannot_be_read_fails_the_turn(config: EnvironmentConfig) -> None:
    class Forgetful(Bus):
        def conversation(self) -> Sequence[Said]:
            raise SessionNotFoundError("ses_1")

    environment, bus = ModelEnvironment("test", config, Driver), Forgetful()
    bus.connect(environment)

    failed = bus.answer("trn_1")[-1]

    assert isinstance(failed, StreamError)
    assert "ses_1" in failed.message
    environment.dispose()


def test_disposing_ends_what_is_under_way_and_closes_the_driver(config: EnvironmentConfig) -> None:
    environment, bus = around(driver := Driver(never), config)
    bus.start("trn_1")

    environment.dispose()
    environment.dispose()

    assert driver.closed.wait(PATIENCE)
    assert bus.handlers == {}


def test_the_end_of_the_loop_closes_the_driver_too(config: EnvironmentConfig, outside: EventLoopThread) -> None:
    environment, bus = around(driver := Driver(), config)
    bus.answer("trn_1")

    outside.close()
    environment.dispose()

    assert driver.closed.is_set()


def test_what_is_heard_after_the_end_is_ignored(config: EnvironmentConfig, outside: EventLoopThread) -> None:
    environment, bus = around(Driver(), config)
    handlers = dict(bus.handlers)
    environment.dispose()
    config.system.close()
    bus.handlers = handlers

    bus.start("trn_1")
    bus.complete("trn_1")

    assert bus.events("trn_1") == []


def test_a_turn_that_starts_once_the_loop_has_ended_is_ignored(
    config: EnvironmentConfig, outside: EventLoopThread
) -> None:
    environment, bus = around(Driver(), config)
    outside.close()

    bus.start("trn_1")
    bus.complete("trn_1")
    environment.dispose()
    config.system.close()

    assert bus.events("trn_1") == []


def test_a_driver_that_lingers_is_cancelled_when_the_next_turn_needs_it(
    config: EnvironmentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.actors.environment.driver_runner._LINGER_SECONDS", 0.01)

    async def act(on_event: OnEvent) -> None:
        say(on_event)
        await never(on_event)

    environment, bus = around(Driver(act), config)

    bus.answer("trn_1")
    bus.complete("trn_1", "completed")

    assert bus.answer("trn_2") == list(HI)
    environment.dispose()


def test_a_driver_that_cannot_be_interrupted_is_cancelled_all_the_same(
    config: EnvironmentConfig, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled = threading.Event()

    class Stubborn(Driver):
        def interrupt(self) -> None:
            raise RuntimeError("no")

    async def act(on_event: OnEvent) -> None:
        on_event(MessageStart())
        try:
            await never(on_event)
        finally:
            cancelled.set()

    environment, bus = around(Stubborn(act), config)
    bus.start("trn_1")
    bus.wait("trn_1", len)

    bus.complete("trn_1")

    assert cancelled.wait(PATIENCE)
    assert "could not be interrupted" in caplog.text
    environment.dispose()
