"""Answers that are values: asked for here and afar, awaited or not, by one or by many, with crashes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact import (
    Answer,
    AsyncRuntime,
    Audit,
    ConfigurationError,
    Image,
    InvalidOutputError,
    OutputSpec,
    Runtime,
    tool,
)
from reenact._aio import AsyncFacades
from reenact.audit import Redaction, export_log, import_log
from reenact.client.runtime import RemoteRuntime
from reenact.domain.messages import Said, ToolResultBlock
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, MockEvent, MockLLMProvider, MockScenario, wait_until
from tests.logs import copy_log, log_at
from tests.runtime.conftest import Open, furnish
from tests.runtime.gated import HOLD, STOP, GatedFactory, text

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "said": {"type": "string"}},
    "required": ["n"],
}


class Number(msgspec.Struct):
    n: int
    said: str = ""


class Even(Number):
    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("it is odd")


@tool
def look() -> str:
    """Look."""
    return "five"


def count(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Answer with how many messages there are and the question, in pieces; in words as often as the question says."""
    question = next(said.text for said in conversation if said.role == "user")
    attempts = sum(said.role == "assistant" for said in conversation)
    if question.startswith("hold") and attempts == 1:
        yield HOLD
    if question.startswith("look") and not any(
        isinstance(block, ToolResultBlock) for block in conversation[-1].content
    ):
        yield MockEvent("tool_call", data={"name": "look", "input": {}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
        return
    if attempts < question.count("!"):
        yield text("Let me think")
    else:
        yield from map(text, ('{"n": ', f"{attempts}", f', "said": "{question}"', "}"))
    yield STOP


@pytest.fixture
def mock() -> GatedFactory:
    mock = GatedFactory()
    mock.scenarios.define_scenario("count", count)
    mock.set_scenario("count")
    return mock


@pytest.fixture(params=["here", "afar"])
def asker(request: pytest.FixtureRequest, runtime: Runtime) -> Iterator[Runtime | RemoteRuntime]:
    """A runtime in this process, or one that is connected to it."""
    if request.param == "here":
        yield runtime
    else:
        with Server(runtime) as server, Runtime.connect(server.url) as remote:
            yield remote


def test_the_answer_is_a_value_here_and_afar(asker: Runtime | RemoteRuntime) -> None:
    answer = asker.ask("one!", image="i", output=Number)

    assert (answer.output, answer.outcome) == (Number(1, "one!"), "completed")
    assert answer.text == '{"n": 1, "said": "one!"}'


def test_a_schema_or_a_spec_gives_what_json_has(asker: Runtime | RemoteRuntime) -> None:
    by_schema = asker.ask("x", image="i", output=SCHEMA)
    by_spec = asker.ask("x", image="i", output=OutputSpec(name="number", schema=SCHEMA))

    assert by_schema.output == by_spec.output == {"n": 0, "said": "x"}


def test_an_image_says_what_all_its_answers_are(asker: Runtime | RemoteRuntime) -> None:
    asker.images.register(Image(id="numbers", output=Number))

    answer = asker.ask("x", image="numbers")

    assert answer.output == {"n": 0, "said": "x"}
    assert asker.ask("x", image=Image(id="numbers", output=Number)).output == Number(0, "x")
    assert asker.ask("again", session=answer.session_id, output=Number).output == Number(1, "x")
    assert asker.turns.wait(answer.turn_id).output == answer.output


def test_messages_ask_for_values_too(asker: Runtime | RemoteRuntime) -> None:
    asker.sessions.create("c", "i", session_id="s")

    turn_id = asker.agents.receive(asker.sessions.run("s"), "x!", output=Number)

    assert asker.turns.wait(turn_id).output == {"n": 1, "said": "x!"}
    assert asker.turns.wait(turn_id, output=Number).output == Number(1, "x!")
    with pytest.raises(InvalidOutputError, match="it is odd"):
        asker.turns.wait(turn_id, output=Even)


def test_what_never_fits_fails_and_the_next_message_goes_on(asker: Runtime | RemoteRuntime) -> None:
    answer = asker.ask("!!!!", image="i", output=Number)

    assert (answer.outcome, answer.output, answer.text) == ("failed", None, "Let me think")
    assert answer.failure is not None
    assert answer.failure.type == "output_invalid"
    assert asker.ask("so?", session=answer.session_id).outcome == "completed"


def test_a_rule_that_only_the_type_knows_is_the_asker_s(asker: Runtime | RemoteRuntime) -> None:
    assert asker.ask("x", image="i", output=Even).output == Even(0, "x")
    with pytest.raises(InvalidOutputError, match="it is odd") as invalid:
        asker.ask("x!", image="i", output=Even)

    assert asker.turns.wait(invalid.value.turn_id).output == {"n": 1, "said": "x!"}


def test_what_cannot_be_asked_for_is_refused_before_anything_is_created(asker: Runtime | RemoteRuntime) -> None:
    with pytest.raises(ConfigurationError, match="cannot be matched in bounded time"):
        asker.ask("x", image="i", output={"type": "object", "properties": {"a": {"pattern": "(?=a)"}}})
    with pytest.raises(ConfigurationError, match="its `type` is 'object'"):
        asker.images.register(Image(id="new", output={"type": "array"}))

    assert asker.sessions.list() == []
    assert asker.images.get("new") is None


def test_tools_run_before_the_answer_comes(opened: Open) -> None:
    runtime = opened(tools=[look])
    furnish(runtime)
    runtime.images.register(Image(id="looking", tools=("look",), output=Number))

    answer = runtime.ask("look", image="looking")

    assert answer.output == {"n": 1, "said": "look"}
    assert [call.name for call in runtime.sessions.tool_calls(answer.session_id)] == ["look"]


async def awaited(runtime: AsyncFacades) -> tuple[Answer[Number], Answer]:
    answer = await runtime.ask("x!", image="i", output=Number)
    assert await runtime.turns.wait(answer.turn_id, output=Number) == answer
    agent_id = await runtime.sessions.run(answer.session_id)
    turn_id = await runtime.agents.receive(agent_id, "y", output=SCHEMA)
    return answer, await runtime.turns.wait(turn_id)


def test_it_is_awaited_here(opened: Open, log: str, mock: GatedFactory) -> None:
    async def ask() -> tuple[Answer[Number], Answer]:
        async with AsyncRuntime.open(log, environment=mock) as runtime:
            return await awaited(runtime)

    with opened() as before:
        furnish(before)

    first, second = asyncio.run(ask())

    assert (first.output, second.output) == (Number(1, "x!"), {"n": 2, "said": "x!"})


def test_it_is_awaited_afar(runtime: Runtime) -> None:
    async def ask(url: str) -> tuple[Answer[Number], Answer]:
        async with AsyncRuntime.connect(url) as afar:
            return await awaited(afar)

    with Server(runtime) as server:
        first, second = asyncio.run(ask(server.url))

    assert (first.output, second.output) == (Number(1, "x!"), {"n": 2, "said": "x!"})


def test_many_ask_for_values_at_once(asker: Runtime | RemoteRuntime) -> None:
    questions = [f"{'!' * (number % 3)}{number}" for number in range(12)]

    def ask(question: str) -> Number | None:
        return asker.ask(question, image="i", output=Number).output

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(ask, questions))

    assert answers == [Number(question.count("!"), question) for question in questions]


@pytest.mark.parametrize(
    ("recovery", "expected"),
    [("resume", ("completed", {"n": 1, "said": "hold!"})), ("close", ("interrupted", None))],
)
def test_a_repair_that_a_crash_cuts_short_goes_on_or_ends(
    opened: Open, log: str, mock: GatedFactory, recovery: str, expected: object
) -> None:
    runtime = opened()
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    turn_id = runtime.agents.receive(runtime.sessions.run("s"), "hold!", output=Number)
    wait_until(lambda: mock.gate.waiting == 1)
    ruins = copy_log(log, "ruins")

    again = opened(ruins, recovery=recovery)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(again.turns.wait, turn_id)
        while not waiting.done():
            mock.gate.open()

    assert (waiting.result().outcome, waiting.result().output) == expected


@pytest.mark.parametrize("as_driver", [False, True])
def test_mocks_say_values(opened: Open, as_driver: bool) -> None:  # noqa: FBT001 - both
    said = (MockEvent("output", data={"value": {"n": 7}}), STOP)
    scripted = {"seven": MockScenario("seven", said)}
    mock = MockLLMProvider("seven", scripted) if as_driver else MockEnvironmentFactory("seven", scripted)
    runtime = opened(**{"llm_provider" if as_driver else "environment": mock})
    furnish(runtime)

    assert runtime.ask("x", image="i", output=Number).output == Number(7)
    mock.set_scenario("structured-output")
    assert runtime.ask("x", image="i", output=Number).output == Number(0)


@pytest.mark.parametrize(
    "policy",
    [
        Redaction(fields=("answer-recorded.content",)),
        Redaction(fields=("*.content",)),
        Redaction(values=("secret",)),
        Redaction(fields=("message-accepted.output",)),
    ],
    ids=["the answers", "all contents", "a value", "what was asked for"],
)
def test_a_log_without_the_answers_says_nothing_of_them_and_holds(
    opened: Open, log: str, mock: GatedFactory, tmp_path: Path, policy: Redaction
) -> None:
    said = iter(['{"n": "secret"}', '{"n": 5, "said": "secret"}', '{"secret": 1}', "secret", "secret", "secret"])
    mock.scenarios.define_scenario("secretive", lambda _: [text(next(said)), STOP])
    mock.set_scenario("secretive")
    with opened() as runtime:
        furnish(runtime)
        first = runtime.ask("x", image="i", output=Number)
        second = runtime.ask("x", session=first.session_id, output=Number)
    assert (first.output, second.outcome) == (Number(5, "secret"), "failed")

    export_log(log, tmp_path / "left.jsonl", redaction=policy)
    import_log(tmp_path / "left.jsonl", log_at(tmp_path / "left.db"))

    leaves_answers = policy.fields == ("message-accepted.output",)
    assert ("secret" in (tmp_path / "left.jsonl").read_text("utf-8")) == leaves_answers
    with Audit.open(log_at(tmp_path / "left.db")) as audit:
        (replayed,) = audit.replay(first.session_id)
        assert replayed.divergence is None
        assert audit.verify().findings == ()
