"""Recording and replaying behind a runtime: what is answered, what is not, and what is said of that."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact import (
    ConfigurationError,
    EnvironmentConfig,
    EnvironmentFactory,
    Image,
    LLMConfig,
    MCPServer,
    Runtime,
    Said,
)
from reenact.actors.environment.api import OnEvent, SystemBusConsumer, SystemBusProducer
from reenact.actors.environment.recorded.file import read
from reenact.actors.environment.recorded.format import Cut, Exchange, Setting, ToolDefinition, ToolRun
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.domain.errors import RecordingError
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent, MockLLMProvider, RecordedEnvironment, wait_until
from tests.environment.recorded.conftest import Open
from tests.environment.recorded.stage import (
    HOUR,
    IMAGE,
    Step,
    Turn,
    call,
    cuts,
    echo,
    fail,
    hang,
    heard_of,
    mock_of,
    play,
    text,
)
from tests.jsons import at
from tests.runtime.test_environments import ScriptedFactory
from tests.runtime.witness import PATIENCE, Ears

ASKS = Step((text("Let me see"), call("echo", text="x")), "tool_use")
SAYS = Step((text("It is "), text("so")))


def two_turns() -> tuple[Turn, ...]:
    return (Turn(0, "Hello", (ASKS, SAYS)), Turn(0, "And now?", (SAYS,)))


def recorded(path: Path, turns: Sequence[Turn] | None = None, image: Image = IMAGE) -> list[Any]:
    """Record the conversations; return what was heard."""
    turns = two_turns() if turns is None else turns
    return play(RecordedEnvironment.record(path, mock_of(turns)), turns, image)


def asked(question: str, session: int = 0) -> Turn:
    return Turn(session, question, (SAYS,))


def errors_in(heard: Sequence[Sequence[tuple[str, Any]]]) -> list[dict[str, Any]]:
    return [data for session in heard for type_, data in session if type_ == "error"]


def texts_in(heard: Sequence[tuple[str, Any]]) -> list[str]:
    """Return what was answered in each turn."""
    answers: list[str] = []
    for type_, data in heard:
        if type_ == "turn_started":
            answers.append("")
        elif type_ == "text_delta":
            answers[-1] += data["text"]
    return answers


# What stands in the file.


def test_the_file_holds_what_was_asked_and_what_was_said(path: Path) -> None:
    recorded(path)

    first, run, second, third = read(str(path))
    assert isinstance(first, Exchange)
    assert first.setting is not None
    assert (first.setting.system, first.setting.model, first.setting.max_tokens) == ("Be brief.", "mock-1", 8192)
    assert [tool.name for tool in first.setting.tools] == ["echo", "fail", "hang"]
    assert [said.text for said in first.messages] == ["Hello"]
    assert [spoken.type for spoken in first.events] == ["text_delta", "tool_call", "message_stop"]
    assert [spoken.at for spoken in first.events] == sorted(spoken.at for spoken in first.events)
    assert isinstance(run, ToolRun)
    assert (run.exchange, run.name, run.input, run.result) == (1, "echo", {"text": "x"}, {"said": "x"})
    assert isinstance(second, Exchange)
    assert isinstance(third, Exchange)
    assert [(one.step, one.follows, one.setting) for one in (second, third)] == [(2, 1, None), (1, 3, None)]


def test_a_conversation_is_written_once_however_long_it_gets(path: Path) -> None:
    recorded(path, [asked(f"Question {number}") for number in range(20)])

    told = [len(entry.messages) for entry in read(str(path)) if isinstance(entry, Exchange)]
    assert told == [1, *([2] * 19)]


def test_keys_and_headers_are_nowhere_in_the_file(path: Path, opened: Open) -> None:
    class Chatty:
        name = "chatty"

        def provide(self) -> Chatty:
            return self

        def send_message(self, *, on_event: OnEvent, **_: object) -> None:
            raise ValueError("refused: the key sk-secret-1234 is not known")

        def interrupt(self) -> None:
            pass

    server = MCPServer.http("files", "http://127.0.0.1:9/", headers={"Authorization": "Bearer hush-hush"})
    runtime = opened(RecordedEnvironment.record(path, Chatty()), llm=LLMConfig(api_key="sk-secret-1234"))
    ears = Ears(runtime)
    say(runtime, "Hello", Image(id="i", mcp_servers=(server,)))
    ears.wait("turn_completed")

    content = path.read_text()
    assert "the key *** is not known" in content
    assert '"mcp_servers":["files"]' in content
    for secret in ("sk-secret-1234", "hush-hush", "127.0.0.1"):
        assert secret not in content


def say(runtime: Runtime, question: str, image: Image | None = None) -> str:
    if runtime.images.get("i") is None:
        runtime.images.register(image or Image(id="i"))
    response = runtime.request("message_send_request", {"image_id": "i", "content": question})
    return at(str, response.data.result, "turn_id")


def test_what_was_answered_is_on_the_disk_before_anybody_hears_that_it_is_complete(path: Path, opened: Open) -> None:
    runtime = opened(RecordedEnvironment.record(path, MockEnvironmentFactory(delays=False)))
    there: list[int] = []
    runtime.events.on("message_stop", lambda _: there.append(len(read(str(path)))))
    ears = Ears(runtime)

    for number in range(1, 11):
        say(runtime, "Hello")
        ears.wait("turn_completed", count=number)

    assert there == [*range(1, 11)]


def test_two_agents_at_once_are_recorded_in_one_file_and_replayed_at_once(path: Path, opened: Open) -> None:
    both = threading.Barrier(2)

    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        yield text(f"{said[-1].text}, ")
        yield text(f"number {len(said)}")
        yield MockEvent("message_stop")

    def heard(environment: Any, log: Path) -> dict[str, list[tuple[str, Any]]]:  # noqa: ANN401 - a factory
        runtime = opened(environment, log)
        ears = Ears(runtime)
        runtime.containers.create(container_id="c")
        runtime.images.register(IMAGE)

        def talk(name: str) -> None:
            agent = runtime.sessions.run(runtime.sessions.create("c", "i", session_id=name).id)
            both.wait(PATIENCE)
            for number in range(5):
                ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, f"{name} {number}"))

        threads = [threading.Thread(target=talk, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        runtime.close()
        return {name: heard_of(ears, name) for name in ("one", "two")}

    mock = MockEnvironmentFactory("said", {"said": script}, delays=False)
    first = heard(RecordedEnvironment.record(path, mock), path.with_name("first.db"))
    replay = RecordedEnvironment.replay(path)
    second = heard(replay, path.with_name("second.db"))

    assert second == first
    assert texts_in(second["two"])[-1] == "two 4, number 9"
    assert replay.remaining == 0


# What answers a request, and what does not.


def test_a_request_that_the_recording_does_not_hold_fails_its_turn_and_says_where_it_differs(path: Path) -> None:
    recorded(path)

    heard = play(RecordedEnvironment.replay(path), (asked("Hello"), asked("And then?")))

    (error,) = errors_in(heard)
    assert error["type"] == "recording_mismatch"
    assert error["retryable"] is False
    assert error["message"] == (
        f"the recording {path} does not hold this request: 5 messages, the last from user: 'And then?'; the nearest "
        "that it holds is number 4, which differs first in message 5: asked user: 'And then?', recorded 'And now?'"
    )
    assert [data["outcome"] for type_, data in heard[0] if type_ == "turn_completed"] == ["completed", "failed"]


@pytest.mark.parametrize(
    ("image", "where"),
    [
        ({"system_prompt": "Be long."}, "system: asked 'Be long.', recorded 'Be brief.'"),
        ({"model": "mock-2"}, "model: asked 'mock-2', recorded 'mock-1'"),
        ({"tools": ()}, "tools: asked '[]', recorded"),
    ],
)
def test_what_the_model_is_told_besides_counts_too(path: Path, image: Mapping[str, Any], where: str) -> None:
    recorded(path)
    other = msgspec.structs.replace(IMAGE, **image)

    (error,) = errors_in(play(RecordedEnvironment.replay(path), (asked("Hello"),), other))

    assert where in error["message"]


def test_a_model_that_is_not_named_is_any(path: Path) -> None:
    recorded(path, (asked("Hello"),))

    heard = play(
        RecordedEnvironment.replay(path), (asked("Hello"),), Image(id="i", system_prompt="Be brief.", tools=IMAGE.tools)
    )

    assert texts_in(heard[0]) == ["It is so"]


def test_a_recording_of_nothing_answers_nothing(path: Path) -> None:
    path.write_text('{"format":"reenact-recording","version":1,"entries":[]}')

    (error,) = errors_in(play(RecordedEnvironment.replay(path), (asked("Hello"),)))

    assert error["message"].endswith("'Hello'; it holds none")


def saying(*answers: str) -> tuple[Turn, ...]:
    """The same question in several sessions, each with another answer."""
    return tuple(Turn(number, "Hello", (Step((text(answer),)),)) for number, answer in enumerate(answers))


def test_the_same_request_gets_the_recorded_answers_in_their_order_and_no_more(path: Path) -> None:
    recorded(path, saying("One", "Two"))

    heard = play(RecordedEnvironment.replay(path), [asked("Hello", number) for number in range(3)])

    assert [texts_in(one)[0] for one in heard] == ["One", "Two", ""]
    (error,) = errors_in(heard)
    assert error["type"] == "recording_mismatch"
    assert "holds this request 2 times" in error["message"]
    assert "repeat=True" in error["message"]


def test_the_last_answer_is_given_again_if_that_is_wanted(path: Path) -> None:
    recorded(path, saying("One", "Two"))
    replay = RecordedEnvironment.replay(path, repeat=True)

    heard = play(replay, [asked("Hello", number) for number in range(4)])

    assert [texts_in(one)[0] for one in heard] == ["One", "Two", "Two", "Two"]
    assert replay.remaining == 0


def test_a_session_stays_with_the_recorded_session_that_it_began_with(path: Path) -> None:
    turns = [
        Turn(session, question, (Step((text(answer),)),))
        for session, question, answer in (
            (0, "Hello", "Hi"), (1, "Hello", "Hi"), (1, "And now?", "Of 1"), (0, "And now?", "Of 0")
        )
    ]  # fmt: skip
    recorded(path, turns)

    heard = play(
        RecordedEnvironment.replay(path),
        [asked("Hello"), asked("Hello", 1), asked("And now?"), asked("And now?", 1)],
    )

    assert [texts_in(one) for one in heard] == [["Hi", "Of 0"], ["Hi", "Of 1"]]


# Tools.


def test_no_tool_is_run_on_replay(path: Path) -> None:
    recorded(path)

    def echo(text: str) -> dict[str, object]:
        """Say it again."""
        raise AssertionError(text)

    image = Image(id="i", system_prompt="Be brief.", model="mock-1", tools=(echo, *IMAGE.tools[1:]))
    heard = play(RecordedEnvironment.replay(path), two_turns(), image)

    assert [data["result"] for type_, data in heard[0] if type_ == "tool_result"] == [{"said": "x"}]
    assert texts_in(heard[0]) == ["Let me seeIt is so", "It is so"]


def test_tools_are_run_if_that_is_wanted_and_their_results_count(path: Path) -> None:
    before = recorded(path)
    ran: list[str] = []
    other = False

    def echo(text: str) -> dict[str, object]:
        """Say it again."""
        ran.append(text)
        return {"said": "something else"} if other else {"said": text}

    image = Image(id="i", system_prompt="Be brief.", model="mock-1", tools=(echo, *IMAGE.tools[1:]))
    same = play(RecordedEnvironment.replay(path, run_tools=True), two_turns(), image)
    other = True
    (error,) = errors_in(play(RecordedEnvironment.replay(path, run_tools=True), two_turns()[:1], image))

    assert ran == ["x", "x"]
    assert same == before
    assert "something else" in error["message"]
    assert "differs first in message 3" in error["message"]


def test_a_tool_that_runs_is_interrupted_with_its_turn(path: Path) -> None:
    turns = (Turn(0, "Hello", (Step(ending="hang"),)), asked("And now?"))
    before = recorded(path, turns)

    after = play(RecordedEnvironment.replay(path, run_tools=True), turns)

    assert after == before


def test_each_of_two_equal_calls_has_its_own_result_also_if_the_second_ended_first(path: Path, opened: Open) -> None:
    second_has_ended = threading.Event()
    numbers = itertools.count(1)

    async def draw() -> int:
        """Draw a number."""
        number = next(numbers)
        if number == 1:
            await asyncio.to_thread(second_has_ended.wait, PATIENCE)
        return number

    def results(environment: EnvironmentFactory, log: str) -> list[object]:
        runtime = opened(environment, path.with_name(log))
        runtime.events.on("tool_result", lambda _: second_has_ended.set())
        answer = runtime.ask("Draw twice", image=Image(id="i", tools=(draw,)), timeout=PATIENCE)
        messages = runtime.sessions.messages(answer.session_id)
        return [result.content for one in messages for result in one.tool_results]

    turn = Turn(0, "Draw twice", (Step((call("draw"), call("draw")), "tool_use"), SAYS))
    first = results(RecordedEnvironment.record(path, mock_of([turn])), "first.db")
    second = results(RecordedEnvironment.replay(path), "second.db")

    assert [entry.result for entry in read(str(path)) if isinstance(entry, ToolRun)] == [2, 1]
    assert second == first == ["1", "2"]


def test_a_call_whose_result_was_not_recorded_is_answered_with_a_mismatch(path: Path, opened: Open) -> None:
    recorded(path)
    lines = path.read_text().split("\n")
    path.write_text("\n".join(line for line in lines if '"kind":"tool"' not in line))

    heard = play(RecordedEnvironment.replay(path), two_turns()[:1])

    (result,) = [data for type_, data in heard[0] if type_ == "tool_result"]
    assert result["is_error"] is True
    assert "recording_mismatch" in result["result"]
    assert 'holds no result of echo({"text":"x"})' in result["result"]
    (error,) = errors_in(heard)
    assert "differs first in message 3" in error["message"]


# Delays and interrupts.


@pytest.fixture
def slow(path: Path) -> Path:
    """A recording in which an hour passes after the first word."""
    events: tuple[tuple[str, dict[str, str], float], ...] = (
        ("text_delta", {"text": "It is "}, 0.0),
        ("text_delta", {"text": "so"}, 3600.0),
        ("message_stop", {}, 3600.0),
    )
    setting = {"system": "Be brief.", "tools": json.loads(_tools())}
    exchange = {
        "kind": "exchange", "number": 1, "session": "s", "turn": "t", "step": 1, "setting": setting,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "events": [{"type": type_, "data": data, "at": at} for type_, data, at in events],
    }  # fmt: skip
    path.write_text(json.dumps({"format": "reenact-recording", "version": 1, "entries": [exchange]}))
    return path


def _tools() -> bytes:
    specs = Toolbox((echo, fail, hang)).specs()
    return msgspec.json.encode([ToolDefinition(spec.name, spec.description, spec.input_schema) for spec in specs])


@pytest.mark.parametrize("delays", [False, 0, 1e-6])
def test_delays_are_left_out_or_scaled(slow: Path, delays: float) -> None:
    heard = play(RecordedEnvironment.replay(slow, delays=delays), (asked("Hello"),))

    assert texts_in(heard[0]) == ["It is so"]


def test_delays_are_waited_for_and_an_interrupt_ends_them(slow: Path, opened: Open) -> None:
    runtime = opened(RecordedEnvironment.replay(slow, delays=True))
    ears = Ears(runtime)
    turn = say(runtime, "Hello", IMAGE)
    ears.wait("text_delta")

    (agent,) = runtime.agents.list()
    runtime.agents.interrupt(agent.id)

    (completed,) = ears.wait("turn_completed", turn_id=turn)
    assert completed.data["outcome"] == "interrupted"
    assert runtime.sessions.messages(agent.session_id)[-1].text == "It is "


@pytest.mark.parametrize("delays", [-1, float("nan"), float("inf"), "fast", None])
def test_what_is_no_factor_is_refused(slow: Path, delays: Any) -> None:  # noqa: ANN401 - not what it should be
    with pytest.raises(ConfigurationError, match="delays must be"):
        RecordedEnvironment.replay(slow, delays=delays)


def test_what_nobody_heard_any_more_is_taken_back(path: Path, opened: Open) -> None:
    """The last words of an answer come in after its turn is over, and before the environment has heard of that."""
    factory = _Stubborn()
    runtime = opened(RecordedEnvironment.record(path, factory))
    ears = Ears(runtime)
    say(runtime, "Hello")
    factory.emit("text_delta", text="It is ")
    ears.wait("text_delta")
    (agent,) = runtime.agents.list()

    factory.last_words = ("so",)
    runtime.agents.interrupt(agent.id)
    ears.wait("turn_completed")
    runtime.close()

    replay = opened(RecordedEnvironment.replay(path), path.with_name("replay.db"))
    again = Ears(replay)
    say(replay, "Hello")
    again.wait("text_delta")
    (agent,) = replay.agents.list()
    replay.agents.interrupt(agent.id)
    again.wait("turn_completed")
    assert cuts(read(str(path))) == [Cut(1, 1)]
    assert [event.data["text"] for event in again.of("text_delta")] == ["It is "]
    assert again.of("message_stop") == []


class _Stubborn:
    """Makes an environment that says what the test tells it to, also as the first thing when its turn is over."""

    name = "stubborn"

    def __init__(self) -> None:
        self.last_words: tuple[str, ...] = ()
        self._producer: SystemBusProducer | None = None

    @property
    def receptor(self) -> _Stubborn:
        return self

    @property
    def effector(self) -> _Ends | _Raises | _Loop:
        return _Ends(self)

    def create(self, config: EnvironmentConfig) -> _Stubborn:
        return self

    def connect(self, producer: SystemBusProducer) -> None:
        self._producer = producer

    def emit(self, type_: str, **data: object) -> None:
        assert self._producer is not None
        self._producer.emit({"type": type_, "data": data})

    def dispose(self) -> None:
        pass


class _Ends:
    def __init__(self, environment: _Stubborn) -> None:
        self._environment = environment

    def connect(self, consumer: SystemBusConsumer) -> None:
        # The interrupt shuts the way in before it is recorded, and what is recorded is heard after that.
        consumer.on("interrupted", self._say_more)

    def _say_more(self, _: Envelope) -> None:
        for words in self._environment.last_words:
            self._environment.emit("text_delta", text=words)
            self._environment.emit("message_stop")


# Other environments.


def test_a_conversation_that_was_summarised_is_summarised_again(path: Path) -> None:
    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        yield text("THE SUMMARY" if "<conversation>" in said[0].text else f"answer {len(said)}")
        yield MockEvent("message_delta", data={"usage": {"input_tokens": 900, "output_tokens": 200}})
        yield MockEvent("message_stop")

    mock = MockEnvironmentFactory("long", {"long": script}, delays=False)
    image = Image(id="i", compress_at=1000)
    turns = [asked(f"Question {number}") for number in range(4)]

    first = play(RecordedEnvironment.record(path, mock), turns, image)
    second = play(RecordedEnvironment.replay(path), turns, image)

    assert second == first
    assert [type_ for type_, _ in first[0]].count("context_compressed") >= 2
    assert path.read_text().count("THE SUMMARY") >= 2


@pytest.mark.parametrize("threaded", [False, True])
def test_an_environment_that_acts_on_the_message_itself_is_recorded(path: Path, *, threaded: bool) -> None:
    turns = (asked("Hello"), asked("And now?"))

    first = play(RecordedEnvironment.record(path, ScriptedFactory(threaded=threaded)), turns, Image(id="i"))
    second = play(RecordedEnvironment.replay(path), turns, Image(id="i"))

    assert texts_in(second[0]) == ["You said it.", "You said it."]
    assert second == first


@pytest.mark.parametrize("is_async", [False, True])
def test_an_effector_that_raises_is_recorded_as_what_the_runtime_says_of_it(path: Path, *, is_async: bool) -> None:
    first = play(RecordedEnvironment.record(path, _Broken(is_async=is_async)), (asked("Hello"),), Image(id="i"))
    second = play(RecordedEnvironment.replay(path), (asked("Hello"),), Image(id="i"))

    (error,) = errors_in(second)
    assert (error["type"], "boom" in error["message"]) == ("environment_error", True)
    assert second == first


class _Broken(_Stubborn):
    def __init__(self, *, is_async: bool) -> None:
        super().__init__()
        self._is_async = is_async

    @property
    def effector(self) -> _Raises:
        return _Raises(is_async=self._is_async)


class _Raises:
    def __init__(self, *, is_async: bool) -> None:
        self._is_async = is_async

    def connect(self, consumer: SystemBusConsumer) -> None:
        consumer.on("turn_started", self._raise_later if self._is_async else self._raise)

    def _raise(self, _: Envelope) -> None:
        raise ValueError("boom")

    async def _raise_later(self, event: Envelope) -> None:
        await asyncio.sleep(0)
        self._raise(event)


class _HearsAll(_Stubborn):
    """Asks for a tool and runs it itself; unless it answers at once, its result comes when the turn is interrupted."""

    def __init__(self, *, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once

    @property
    def effector(self) -> _Loop:
        return _Loop(self)


class _Loop:
    def __init__(self, environment: _HearsAll) -> None:
        self._environment = environment

    def connect(self, consumer: SystemBusConsumer) -> None:
        consumer.on_all(self._hear)

    def _hear(self, event: Envelope) -> None:
        emit = self._environment.emit
        match event.type:
            case "turn_started":
                emit("tool_call", id="c1", name="echo", input={"text": "x"})
                emit("message_stop", stop_reason="tool_use")
            case "step_started":
                emit("text_delta", text="So it is")
                emit("message_stop")
            case "tool_started" if self._environment.at_once:
                emit("tool_result", id="c1", name="echo", result="x")
            case "interrupted":
                emit("tool_result", id="c1", name="echo", result="too late")
            case _:
                pass


def test_an_environment_that_hears_everything_and_runs_tools_itself_is_recorded(path: Path) -> None:
    first = play(RecordedEnvironment.record(path, _HearsAll(at_once=True)), (asked("Hello"),))
    second = play(RecordedEnvironment.replay(path), (asked("Hello"),))

    assert texts_in(second[0]) == ["So it is"]
    assert second == first


def test_a_result_that_came_too_late_is_no_result(path: Path, opened: Open) -> None:
    def heard(environment: EnvironmentFactory, log: Path) -> list[tuple[str, Any]]:
        runtime = opened(environment, log)
        ears = Ears(runtime)
        turn = say(runtime, "Hello", IMAGE)
        ears.wait("tool_started")
        (agent,) = runtime.agents.list()
        runtime.agents.interrupt(agent.id)
        ears.wait("turn_completed", turn_id=turn)
        runtime.close()
        return heard_of(ears, agent.session_id)

    first = heard(RecordedEnvironment.record(path, _HearsAll(at_once=False)), path.with_name("first.db"))
    second = heard(RecordedEnvironment.replay(path), path.with_name("second.db"))

    assert cuts(read(str(path))) == [Cut(2)]
    assert "too late" not in str(second)
    assert second == first


def test_providers_and_factories_are_recorded_and_nothing_else(path: Path) -> None:
    provider = MockLLMProvider("simple-text", delays=False)

    heard = play(RecordedEnvironment.record(path, provider), (asked("Hello"),), Image(id="i"))

    assert texts_in(heard[0]) == ["Hi"]
    with pytest.raises(ConfigurationError, match="a str cannot be recorded"):
        RecordedEnvironment.record(path, "claude")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # none of these
    with pytest.raises(ConfigurationError, match="'replace' or 'continue'"):
        RecordedEnvironment.record(path, provider, existing="merge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # none of these
    with pytest.raises(RecordingError, match="no directory"):
        RecordedEnvironment.record(path / "x", provider)


def test_a_recording_is_replaced_unless_it_is_to_be_continued(path: Path) -> None:
    recorded(path, saying("One"))
    turns = (asked("Hello"),)
    RecordedEnvironment.record(path, mock_of(turns), existing="continue").dispose()
    play(RecordedEnvironment.record(path, mock_of(saying("Two")), existing="continue"), saying("Two"))
    heard = play(RecordedEnvironment.replay(path), (asked("Hello"), asked("Hello", 1)))

    recorded(path, saying("Three"))
    again = play(RecordedEnvironment.replay(path), turns)

    assert [texts_in(one)[0] for one in heard] == ["One", "Two"]
    assert [texts_in(one)[0] for one in again] == ["Three"]
    play(RecordedEnvironment.record(path.with_name("new.json"), mock_of(turns), existing="continue"), turns)


def test_an_environment_is_as_it_is_alone(path: Path, opened: Open) -> None:
    mock = MockEnvironmentFactory("slow", {"slow": [text("It is "), MockEvent("message_stop", HOUR)]})
    factory = RecordedEnvironment.record(path, mock)
    runtime = opened(factory)
    ears = Ears(runtime)
    say(runtime, "Hello")
    ears.wait("text_delta")

    runtime.close()
    factory.dispose()

    (exchange,) = read(str(path))
    assert isinstance(exchange, Exchange)
    assert (exchange.complete, [spoken.type for spoken in exchange.events]) == (False, ["text_delta"])
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "reenact-loop"], PATIENCE)


def test_nothing_but_the_setting_of_the_first_request_repeats(path: Path) -> None:
    recorded(path, (asked("Hello"), asked("Hello", 1)))

    settings = [entry.setting for entry in read(str(path)) if isinstance(entry, Exchange)]

    assert settings[0] == settings[1]
    assert isinstance(settings[0], Setting)
