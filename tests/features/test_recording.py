"""Recordings: what is kept of an environment, and heard again without it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Image, RecordingError, Said
from reenact.events import Envelope
from reenact.testing import MockEvent, RecordedEnvironment
from tests.environment.recorded.stage import anonymous
from tests.features.story import Story

scenarios("recording.feature")


class Tape:
    """A recording, what was heard while it was made, and how often somebody was really asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recorded: list[Any] = []
        self.asked = 0
        self.ran = 0
        self.begin = 0

    def run(self, city: str) -> str:
        """What the weather is like."""
        self.ran += 1
        return f"It rains in {city}"


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return Tape(tmp_path / "recording.json")


def texts_in(words: str) -> list[str]:
    return re.findall(r'"([^"]*)"', words)


def talk(story: Story, tape: Tape, questions: Sequence[str], *, until: str | None = None) -> None:
    """Ask the questions one after the other; interrupt the last answer after some words, if any are named."""
    tape.begin = len(story.ears.heard)
    for question in questions:
        turn_id = story.say(question)
        if until is not None:
            _wait(story, "text_delta", turn_id, text=until)
            story.runtime.agents.interrupt(story.agent_id)
        _wait(story, "turn_completed", turn_id)


def _wait(story: Story, type_: str, turn_id: str, **data: object) -> None:
    def fits(event: Envelope) -> bool:
        return event.context.turn_id == turn_id and all(event.data[name] == value for name, value in data.items())

    story.ears.wait(type_, where=fits)


def begin(story: Story, tape: Tape) -> None:
    story.runtime.images.register(Image(id="chat", tools=(tape.run,)))
    if story.runtime.containers.get("default") is None:
        story.runtime.containers.create(container_id="default")
    story.session_id = story.runtime.sessions.create("default", "chat").id
    story.run()


def heard(story: Story, tape: Tape) -> list[Any]:
    of_turns = [event for event in story.ears.heard[tape.begin :] if event.context.turn_id is not None]
    return [[event.type, anonymous(msgspec.to_builtins(event.data))] for event in of_turns]


def record(story: Story, tape: Tape, questions: Sequence[str], *, until: str | None = None) -> None:
    story.open_on(RecordedEnvironment.record(tape.path, story.mock))
    begin(story, tape)
    talk(story, tape, questions, until=until)
    tape.recorded = heard(story, tape)
    story.mock.define_scenario("never", _never(tape))
    story.mock.set_scenario("never")


def _never(tape: Tape) -> Any:  # noqa: ANN401 - a script
    def script(_: Sequence[Said]) -> Iterator[MockEvent]:
        tape.asked += 1
        yield MockEvent("message_stop")

    return script


@given("a model that asks for a tool and says what came of it")
def a_model_with_a_tool(story: Story) -> None:
    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        results = [block for block in said[-1].content if getattr(block, "tool_use_id", None)]
        if results:
            yield MockEvent("text_delta", data={"text": "So it is"})
            yield MockEvent("message_stop")
        else:
            yield MockEvent("tool_call", data={"name": "run", "input": {"city": "Rome"}})
            yield MockEvent("message_stop", data={"stop_reason": "tool_use"})

    story.mock.define_scenario("with-weather", script)
    story.mock.set_scenario("with-weather")


@given(parsers.re('I have recorded the questions? (?P<questions>[^,]+(, "[^"]*" and "[^"]*")?)$'))
def i_have_recorded(story: Story, tape: Tape, questions: str) -> None:
    record(story, tape, texts_in(questions))


@given(parsers.parse('I have recorded the question "{question}", interrupted after "{words}"'))
def i_have_recorded_interrupted(story: Story, tape: Tape, question: str, words: str) -> None:
    record(story, tape, [question], until=words)


@given(parsers.parse('I have asked "{question}" of the recording'))
def i_have_asked(story: Story, tape: Tape, question: str) -> None:
    i_ask(story, tape, f'"{question}"')


@given("a file that is not a recording")
def a_file(tape: Tape) -> None:
    tape.path.write_text('{"format": "a shopping list", "version": 1}')


@when(parsers.re("I ask (?P<questions>.*) of the recording$"))
def i_ask(story: Story, tape: Tape, questions: str) -> None:
    story.open_on(RecordedEnvironment.replay(tape.path))
    begin(story, tape)
    talk(story, tape, texts_in(questions))


@when(parsers.parse('I ask "{question}" of the recording and interrupt it after "{words}"'))
def i_ask_and_interrupt(story: Story, tape: Tape, question: str, words: str) -> None:
    story.open_on(RecordedEnvironment.replay(tape.path))
    begin(story, tape)
    talk(story, tape, [question], until=words)


@when(parsers.parse('I ask "{question}" of the recording in two sessions'))
def i_ask_twice(story: Story, tape: Tape, question: str) -> None:
    i_ask(story, tape, f'"{question}"')
    begin(story, tape)
    talk(story, tape, [question])


@when("the runtime is closed and opened again with the recording")
def it_is_reopened(story: Story, tape: Tape) -> None:
    story.reopen_on(RecordedEnvironment.replay(tape.path))
    story.run()


@when(parsers.re('I ask (?P<questions>"[^"]*" and "[^"]*")$'))
def i_go_on(story: Story, tape: Tape, questions: str) -> None:
    talk(story, tape, texts_in(questions))


@when("I open it as a recording")
def i_open_it(story: Story, tape: Tape) -> None:
    story.attempt(lambda: RecordedEnvironment.replay(tape.path))


@then("I should hear what I heard when it was recorded")
def the_same_is_heard(story: Story, tape: Tape) -> None:
    assert heard(story, tape) == tape.recorded
    assert tape.recorded[-1][0] == "turn_completed"


@then("the mock should not have been asked again")
def nobody_was_asked(tape: Tape) -> None:
    assert tape.asked == 0


@then("the tool should have run once")
def it_ran_once(tape: Tape) -> None:
    assert tape.ran == 1


@then(parsers.parse('the turn should fail with "{type_}"'))
def the_turn_fails(story: Story, tape: Tape, type_: str) -> None:
    assert [event.data["outcome"] for event in _of(story, tape, "turn_completed")] == ["failed"]
    assert [event.data["type"] for event in _of(story, tape, "error")] == [type_]


@then(parsers.re(r"the failure should name (?P<words>.*)$"))
def the_failure_names(story: Story, tape: Tape, words: str) -> None:
    (error,) = _of(story, tape, "error")
    assert [word for word in texts_in(words) if word not in str(error.data["message"])] == []


@then("it should be refused as no recording")
def it_is_refused(story: Story) -> None:
    assert isinstance(story.error, RecordingError)
    assert "a shopping list" in str(story.error)


def _of(story: Story, tape: Tape, type_: str) -> list[Envelope]:
    return [event for event in story.ears.heard[tape.begin :] if event.type == type_]
