"""Asking: one call, one answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Answer, Image, TurnTimeoutError
from reenact.domain.messages import Said
from reenact.events import Envelope
from reenact.testing import MockEvent
from tests.features.story import Ears, Story, is_answer

scenarios("asking.feature")


def echo(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    for word in ("You said: ", conversation[-1].text):
        yield MockEvent("text_delta", data={"text": word})
    yield MockEvent("message_stop")


def answer_of(story: Story) -> Answer[object]:
    answer = story.answer
    assert is_answer(answer)
    return answer


@given(parsers.parse('scenario "{scenario}" is set'))
def the_scenario(story: Story, scenario: str) -> None:
    story.choose(scenario)


@given(parsers.re(r'I have asked "(?P<text>[^"]+)"'))
@when(parsers.re(r'I ask "(?P<text>[^"]+)"'))
def i_ask(story: Story, text: str) -> None:
    story.attempt(lambda: story.runtime.ask(text))
    story.session_id = answer_of(story).session_id


@when(parsers.re(r'I ask "(?P<text>[^"]+)" in the same session'))
def i_go_on(story: Story, text: str) -> None:
    story.attempt(lambda: story.runtime.ask(text, session=story.session_id))


@when(parsers.re(r'I ask "(?P<text>[^"]+)" in session "(?P<session_id>[^"]+)"'))
def i_ask_in(story: Story, text: str, session_id: str) -> None:
    story.attempt(lambda: story.runtime.ask(text, session=session_id))


@when(parsers.parse('I ask "{text}" in the same session, and listen'))
def i_listen(story: Story, text: str) -> None:
    mine = story.listeners["I"] = Ears()
    story.attempt(lambda: story.runtime.ask(text, session=story.session_id, on_event=mine.hear))


@when(parsers.parse("{count:d} threads ask, each in its own words, in {sessions:d} sessions"))
def many_ask(story: Story, count: int, sessions: int) -> None:
    story.mock.define_scenario("echo", echo)
    story.choose("echo")
    first = [story.runtime.ask("Hello").session_id for _ in range(sessions)]
    words = [f"words {number}" for number in range(count)]

    def ask(number: int) -> Answer:
        return story.runtime.ask(words[number], session=first[number % sessions])

    with ThreadPoolExecutor(count) as threads:
        story.attempt(lambda: list(zip(words, threads.map(ask, range(count)), strict=True)))


@when(parsers.parse('I ask "{text}", and the agent is interrupted'))
def i_am_interrupted(story: Story, text: str) -> None:
    def interrupt(event: Envelope) -> None:
        if event.type == "text_delta":
            story.runtime.agents.interrupt(event.context.agent_id or "")

    story.attempt(lambda: story.runtime.ask(text, on_event=interrupt))


@when(parsers.parse('I ask "{text}" and wait for no longer than {seconds:g} seconds'))
def i_lose_patience(story: Story, text: str, seconds: float) -> None:
    story.attempt(lambda: story.runtime.ask(text, image=Image(id="chat"), timeout=seconds))


@when("I wait for the turn of before")
def i_wait(story: Story) -> None:
    before = [answer for answer in story.answers if is_answer(answer)][-1]
    story.attempt(lambda: story.runtime.turns.wait(before.turn_id))


@then(parsers.re(r'the answer should be "(?P<text>[^"]*)", (?P<outcome>\w+)'))
def the_answer_is(story: Story, text: str, outcome: str) -> None:
    answer = answer_of(story)
    assert (answer.text, answer.outcome) == (text, outcome)


@then(parsers.parse('it should say why: "{why}"'))
def it_says_why(story: Story, why: str) -> None:
    failure = answer_of(story).failure
    assert failure is not None
    assert failure.message == why


@then(parsers.parse("the conversation should have {count:d} messages"))
def so_many_messages(story: Story, count: int) -> None:
    assert len(story.runtime.sessions.messages(story.session_id)) == count


@then("each of them should have the answer to its own words")
def each_has_its_own(story: Story) -> None:
    pairs: list[Any] = [*story.listed(tuple)]
    assert pairs
    assert all(answer.text == f"You said: {words}" for words, answer in pairs)


@then("I should have heard the events of that turn alone")
def i_heard_my_own(story: Story) -> None:
    mine, answer = story.listeners["I"], answer_of(story)
    of_turn = [event for event in story.ears.wait("turn_completed", count=2) if event.context.turn_id == answer.turn_id]
    assert of_turn == mine.of("turn_completed")
    assert mine.heard == tuple(event for event in story.ears.heard if event.context.turn_id == answer.turn_id)


@then("I should be told that the turn has not ended, and which one it is")
def i_am_told_which(story: Story) -> None:
    error = story.error
    assert isinstance(error, TurnTimeoutError)
    (agent,) = story.runtime.agents.list()
    assert error.turn_id == agent.turn_id
