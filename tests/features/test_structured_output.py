"""Structured output: answers are values, and are asked for again until they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Answer, Audit, Image
from reenact.domain.messages import Said
from reenact.testing import MockEvent, wait_until
from tests.features.story import FOR_EVER, Ears, Story, is_answer

scenarios("structured_output.feature")

NOTHING = "(nothing)"


class Reading(msgspec.Struct):
    city: str
    degrees: int


class Model:
    """Says these answers, the last one again and again, and remembers what it was told."""

    def __init__(self) -> None:
        self.answers: Sequence[str] = ()
        self.stop_reason = "end_turn"
        self.told: list[list[Said]] = []

    def say(self, conversation: Sequence[Said]) -> Iterator[MockEvent]:
        self.told.append(list(conversation))
        text = self.answers[min(len(self.told), len(self.answers)) - 1]
        if text == NOTHING:
            yield MockEvent("message_stop", FOR_EVER)
        yield MockEvent("text_delta", data={"text": text})
        yield MockEvent("message_stop", data={"stop_reason": self.stop_reason})


@pytest.fixture
def model(story: Story) -> Model:
    model = Model()
    story.mock.define_scenario("structured", model.say)
    story.choose("structured")
    return model


def answer_of(story: Story) -> Answer[Any]:
    answer = story.answer
    assert is_answer(answer)
    return answer


@given("the model answers:")
def the_model_answers(model: Model, datatable: list[list[str]]) -> None:
    model.answers = [row[0] for row in datatable]


@given(parsers.re(r'the model (?P<ends>refuses with|is cut off after) "(?P<text>.+)"'))
def the_model_stops(model: Model, ends: str, text: str) -> None:
    model.answers = [text]
    model.stop_reason = {"refuses with": "refusal", "is cut off after": "max_tokens"}[ends]


@given(parsers.parse('I have asked "{text}" for a reading, and the process ended during the second answer'))
def the_process_ended(story: Story, model: Model, text: str) -> None:
    story.runtime.containers.create(container_id="home")
    story.session("home", "thermometer")
    story.before = [story.runtime.agents.receive(story.run(), text, output=Reading)]
    wait_until(lambda: len(model.told) == len(model.answers))


@when(parsers.re(r'the model answers "(?P<text>.+)" and the runtime goes on'))
def the_runtime_goes_on(story: Story, model: Model, text: str) -> None:
    model.answers = [text]
    story.crash(recovery="resume")
    (turn_id,) = story.before
    story.attempt(lambda: story.runtime.turns.wait(str(turn_id)))


@when(parsers.re(r'I ask "(?P<text>[^"]+)" for (?P<what>a reading|words)'))
def i_ask(story: Story, text: str, what: str) -> None:
    mine = story.listeners["I"] = Ears()
    if what == "words":
        story.attempt(lambda: story.runtime.ask(text, on_event=mine.hear))
    else:
        story.attempt(lambda: story.runtime.ask(text, on_event=mine.hear, output=Reading))


@when(parsers.re(r'I ask "(?P<text>[^"]+)" in the same session'))
def i_go_on(story: Story, text: str) -> None:
    session_id = answer_of(story).session_id
    story.attempt(lambda: story.runtime.ask(text, session=session_id))


@given(parsers.re(r'I have asked "(?P<text>[^"]+)" of an image whose answers are readings'))
@when(parsers.re(r'I ask "(?P<text>[^"]+)" of an image whose answers are readings'))
def i_ask_of_image(story: Story, text: str) -> None:
    story.attempt(lambda: story.runtime.ask(text, image=Image(id="thermometer", output=Reading)))


@then(parsers.re(r'I should be given the reading of (?P<degrees>\d+) degrees in "(?P<city>\w+)"'))
def i_have_the_reading(story: Story, degrees: str, city: str) -> None:
    assert answer_of(story).output == Reading(city, int(degrees))


@then(parsers.re(r'I should be given the reading of (?P<degrees>\d+) degrees in "(?P<city>\w+)", as JSON has it'))
@then(parsers.re(r'the turn should have the reading of (?P<degrees>\d+) degrees in "(?P<city>\w+)"'))
def there_is_the_reading(story: Story, degrees: str, city: str) -> None:
    assert answer_of(story).output == {"city": city, "degrees": int(degrees)}


@then(parsers.re(r'I should be given no value, and the words "(?P<text>.+)"'))
def i_have_words(story: Story, text: str) -> None:
    assert (answer_of(story).output, answer_of(story).text) == (None, text)


@then(parsers.parse('I should have heard that answer {attempt:d} was rejected: "{error}"'))
def i_heard_of_it(story: Story, attempt: int, error: str) -> None:
    (rejected,) = story.listeners["I"].of("output_rejected")
    assert (rejected.data["attempt"], rejected.data["errors"], rejected.data["again"]) == (attempt, (error,), True)


@then("what I heard of the first answer should be marked as superseded")
def it_is_superseded(story: Story) -> None:
    mine, message = story.listeners["I"], answer_of(story).message
    (rejected,) = mine.of("output_rejected")
    begun = [event.data["message_id"] for event in mine.of("message_start")]
    assert message is not None
    assert begun == [rejected.data["message_id"], message.id]


@then(parsers.parse('the model should have been told: "{error}"'))
def the_model_was_told(model: Model, error: str) -> None:
    assert error in model.told[1][-1].text


@then(parsers.parse("the model should have been asked {count:d} times"))
def the_model_was_asked(model: Model, count: int) -> None:
    assert len(model.told) == count


@then(parsers.parse('the turn should have failed with "{reason}"'))
def the_turn_failed(story: Story, reason: str) -> None:
    answer = answer_of(story)
    assert answer.failure is not None
    assert (answer.outcome, answer.stop_reason, answer.failure.type) == ("failed", reason, reason)


@then("the audit should find nothing wrong, and decide the same")
def the_audit_agrees(story: Story) -> None:
    story.close()
    with Audit.open(story.log) as audit:
        assert audit.verify().is_whole
        assert [found.divergence for found in audit.replay(story.session_id)] == [None]
