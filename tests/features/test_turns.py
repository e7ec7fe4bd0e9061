"""Turns: their order, their one end, the line of those that wait."""

from __future__ import annotations

from pytest_bdd import parsers, scenarios, step, then, when

from tests.features.story import Story, told

scenarios("turns.feature")

NOTHINGS = {"an empty text": "", "only white space": " \n\t"}


@step(parsers.parse("{count:d} messages wait for the agent"))
def so_many_wait(story: Story, count: int) -> None:
    (agent,) = story.runtime.agents.list()
    assert agent.queued == count


@when(parsers.re("I send the agent (?P<nothing>an empty text|only white space)"))
def i_send_nothing(story: Story, nothing: str) -> None:
    story.attempt(lambda: story.say(NOTHINGS[nothing]))


@then("I should hear, from the question on:")
def heard_from_the_question_on(story: Story, datatable: list[list[str]]) -> None:
    types = [row[0] for row in datatable]
    story.ears.wait(types[-1], count=types.count(types[-1]))
    story.settle()
    heard = told(story.of_session())
    assert heard[[row[0] for row in heard].index("user_message") :] == datatable


@then(parsers.parse('the first of them should be "{type_}"'))
def the_first_is(story: Story, type_: str) -> None:
    assert story.of_session()[0].type == type_


@then(parsers.parse('the last of them should be "{type_}"'))
def the_last_is(story: Story, type_: str) -> None:
    assert story.of_session()[-1].type == type_
