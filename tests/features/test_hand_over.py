"""Hand-over: another agent goes on with the same conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Audit, Image, ImageNotFoundError, Runtime, Said, SessionInfo, ToolResultBlock, handover_tool, tool
from reenact.actors.environment.api import LLMDriver, OnEvent
from reenact.actors.session.ports import Recovery
from reenact.events import MessageStop, TextDelta, ToolCall
from reenact.testing import wait_until
from tests.logs import copy_log, log_at

scenarios("hand_over.feature")

CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "Diagnose": ("diagnose", {"what": "all"}),
    "Connect me with billing": ("hand_over_to_billing", {}),
    "Connect me with nobody": ("hand_over_to_nobody", {}),
}
TOOLS = {"triage": ["diagnose", "hand_over_to_billing", "hand_over_to_nobody"], "billing": ["refund"]}
SESSION = "s"


class Asked:
    """What a model was asked, and with what."""

    def __init__(self, model: str | None, system: str | None, tools: Sequence[str], said: Sequence[Said]) -> None:
        self.model = model
        self.system = system
        self.tools = tools
        self.said = said

    @property
    def texts(self) -> list[str]:
        return [said.text for said in self.said]


class Story:
    """A session, the models that are asked in it, and what they were asked."""

    name = "scripted"

    def __init__(self, folder: Path) -> None:
        self.asked: list[Asked] = []
        self.thinks = Event()
        self.thought: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self.refusal: Exception | None = None
        self.branches: list[SessionInfo] = []
        self.recovery: Recovery = "close"
        self.log = log_at(folder / "agents.db")
        self.runtime = self.opened()
        self.runtime.containers.create(container_id="c")
        self.register(policies=None)

        @tool
        def refund(bill: str) -> str:
            """Refund a bill."""
            return bill

        self.runtime.images.register(Image(id="billing", model="large", system_prompt="Billing.", tools=(refund,)))
        self.runtime.sessions.create("c", "triage", session_id=SESSION)

    def register(self, policies: Mapping[str, object] | None) -> None:
        @tool(intervention="required")
        def diagnose(what: str) -> str:
            """Diagnose."""
            return f"{what} is well"

        tools = (diagnose, handover_tool("billing"), handover_tool("nobody", description="To nobody."))
        self.runtime.images.register(
            Image(id="triage", model="small", system_prompt="Triage.", tools=tools, policies=policies)
        )

    def opened(self) -> Runtime:
        return Runtime.open(self.log, llm_provider=self, synchronous="OFF", recovery=self.recovery)

    def provide(self) -> LLMDriver:
        return Driver(self)

    def say(self, text: str, *, answered: bool = True) -> None:
        turn_id = self.runtime.agents.receive(self.runtime.sessions.run(SESSION), text)
        if answered:
            self.ends(turn_id)

    def ends(self, turn_id: str | None = None) -> None:
        def is_over() -> bool:
            turns = self.runtime.sessions.turns(SESSION)
            return all(turn.outcome for turn in turns if turn_id in (None, turn.id))

        wait_until(is_over, 20, "the turn is over")

    def crash(self) -> None:
        ruins = copy_log(self.log, "ruins")
        self.runtime.close()
        self.thinks.clear()
        self.log = ruins
        self.runtime = self.opened()

    def heard(self, type: str) -> list[tuple[int, Any]]:  # noqa: A002 - the word of the events
        rows = self.runtime._journal.read_feed(f"session/{SESSION}")
        entries = [
            (row.first_cursor + place, entry)
            for row in rows
            for place, entry in enumerate(entry for segment in row.segments for entry in segment.entries)
        ]
        return [(cursor, entry.data) for cursor, entry in entries if entry.type == type]

    def results(self) -> list[ToolResultBlock]:
        blocks = [block for said in self.asked[-1].said for block in said.content]
        return [block for block in blocks if isinstance(block, ToolResultBlock)]


class Driver:
    def __init__(self, story: Story) -> None:
        self._story = story

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
        story, last = self._story, messages[-1]
        if "<conversation>" in last.text:
            on_event(TextDelta(text="THE SUMMARY"))
            on_event(MessageStop())
            return
        story.asked.append(Asked(model, system, [str(one["name"]) for one in tools], messages))
        if last.text == "Why?":
            story.thought = asyncio.get_running_loop(), asyncio.Event()
            story.thinks.set()
            await story.thought[1].wait()
        if last.text in CALLS:
            name, arguments = CALLS[last.text]
            on_event(ToolCall(id="call", name=name, input=arguments))
            on_event(MessageStop(stop_reason="tool_use"))
        else:
            on_event(TextDelta(text="Well"))
            on_event(MessageStop())

    def interrupt(self) -> None:
        """Its task is cancelled."""


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.runtime.close()


@given('the images "triage" and "billing", each with a model, a prompt and a tool of its own')
def images(story: Story) -> None:
    assert [image.id for image in story.runtime.images.list()] == ["triage", "billing"]


@given('a session on "triage" in which "Hello" was answered')
def a_session(story: Story) -> None:
    story.say("Hello")


@given(parsers.parse('"{text}" was answered'))
def it_was_answered(story: Story, text: str) -> None:
    story.say(text)


@given("nothing is under way")
def nothing(story: Story) -> None:
    story.ends()


@given("the agent is destroyed")
def it_is_destroyed(story: Story) -> None:
    for agent in story.runtime.agents.list():
        story.runtime.agents.destroy(agent.id)


@given('the model thinks about "Why?"')
def it_thinks(story: Story) -> None:
    story.say("Why?", answered=False)
    assert story.thinks.wait(60)


@given(parsers.parse('"{text}" waits'))
def it_waits(story: Story, text: str) -> None:
    story.say(text, answered=False)


@given("the agent waits for leave to use its tool")
def it_waits_for_leave(story: Story) -> None:
    story.say("Diagnose")
    assert [call.name for call in story.runtime.agents.pending()] == ["diagnose"]


@given('people are asked before "triage" hands over')
def people_are_asked(story: Story) -> None:
    story.register(policies={"tools": {"hand_over_to_billing": "required"}})
    assert story.runtime.sessions.switch(SESSION, "triage")


@given("turns go on after a crash")
def they_go_on(story: Story) -> None:
    story.recovery = "resume"


@when(parsers.parse('I hand the session over to "{image}"'))
def i_switch(story: Story, image: str) -> None:
    try:
        story.runtime.sessions.switch(SESSION, image)
    except ImageNotFoundError as error:
        story.refusal = error


@when(parsers.parse('I hand the session over to "{image}" with {history} of its history'))
def i_switch_with(story: Story, image: str, history: Any) -> None:  # noqa: ANN401 - the table's word
    story.runtime.sessions.switch(SESSION, image, history)


@when(parsers.parse('I say "{text}"'))
def i_say(story: Story, text: str) -> None:
    story.say(text)


@when("I give leave")
def i_give_leave(story: Story) -> None:
    story.ends(story.runtime.agents.approve("call"))


@when("the model has thought")
def it_has_thought(story: Story) -> None:
    assert story.thinks.wait(60)
    assert story.thought is not None
    loop, thought = story.thought
    loop.call_soon_threadsafe(thought.set)
    story.ends()


@when("the process crashes")
def it_crashes(story: Story) -> None:
    story.crash()


@when('I branch off where "Hello" had been answered, and now')
def i_branch_twice(story: Story) -> None:
    rows = story.runtime._journal.read(f"session/{SESSION}")
    end = next(row.position for row in rows if type(row.event).__name__ == "TurnCompleted")
    story.branches = [story.runtime.sessions.branch(SESSION, at=at) for at in (end, None)]


@when("I branch off now")
def i_branch(story: Story) -> None:
    story.branches = [story.runtime.sessions.branch(SESSION)]


@when(parsers.parse('I branch off now with the model "{model}"'))
def i_branch_with(story: Story, model: str) -> None:
    story.branches = [story.runtime.sessions.branch(SESSION, model=model)]


@then(parsers.parse('"{image}" should have answered "{text}", with its own model, prompt and tool'))
def it_has_answered(story: Story, image: str, text: str) -> None:
    wait_until(lambda: story.asked[-1].texts[-1] == text, 20, "the model was asked so")
    asked = story.asked[-1]
    assert (asked.model, asked.system) == {"triage": ("small", "Triage."), "billing": ("large", "Billing.")}[image]
    assert asked.tools == TOOLS[image]
    (agent,) = story.runtime.agents.list()
    assert agent.image_id == image


@then(parsers.parse('the session should say that it is on "{image}"'))
def it_is_on(story: Story, image: str) -> None:
    session = story.runtime.sessions.get(SESSION)
    assert session is not None
    assert session.image_id == image


@then("whoever follows the session should have heard of one change, under the next cursor")
def one_change(story: Story) -> None:
    ((cursor, changed),) = story.heard("image_changed")
    assert dict(changed) == {"image_id": "billing", "image_revision": 1, "previous": "triage", "history": "all"}
    (before, _), *_ = reversed(story.heard("turn_completed")[:1])
    assert cursor == before + 1


@then("whoever follows the session should have heard of no change")
def no_change(story: Story) -> None:
    assert story.heard("image_changed") == []


@then(parsers.parse('I should be told that there is no image "{image}"'))
def no_image(story: Story, image: str) -> None:
    assert isinstance(story.refusal, ImageNotFoundError)
    assert image in str(story.refusal)


@then(parsers.parse("the model should have been given {texts}"))
def it_was_given(story: Story, texts: str) -> None:
    expected = [text.strip('"') for text in texts.split(", ")]
    told = ["the summary" if text.endswith("THE SUMMARY") else text for text in story.asked[-1].texts]
    assert told == expected


@then('"triage" should have been told the result')
def it_was_told(story: Story) -> None:
    (result,) = story.results()
    assert (result.content, story.asked[-1].system) == ("all is well", "Triage.")


@then('"triage" should have been told that "billing" takes over')
def it_takes_over(story: Story) -> None:
    (result,) = story.results()
    assert (result.is_error, story.asked[-1].system) == (False, "Triage.")
    assert "billing takes over" in str(result.content)


@then('"triage" should have been told that there is nobody')
def there_is_nobody(story: Story) -> None:
    (result,) = story.results()
    assert (result.is_error, story.asked[-1].system) == (True, "Triage.")
    assert "nobody" in str(result.content)


@then("the reason should be found in the log")
def the_reason(story: Story) -> None:
    rows = story.runtime._journal.read(f"session/{SESSION}")
    changed = next(row for row in rows if type(row.event).__name__ == "ImageChanged")
    with Audit.open(story.log) as audit:
        why = audit.why(changed.position)
    assert {"handover-requested", "tool-started", "message-accepted"} <= {link.type for link in why.causes}


@then("the log should be whole")
def it_is_whole(story: Story) -> None:
    with Audit.open(story.log) as audit:
        findings = audit.verify().findings
    assert [one for one in findings if one.kind != "read model"] == []  # a copy of a schema has no indices


@then(parsers.parse('the first branch should be on "{first}", and the second on "{second}"'))
def they_are_on(story: Story, first: str, second: str) -> None:
    assert [branch.image_id for branch in story.branches] == [first, second]


@then(parsers.parse('the branch should be on "{image}"'))
def the_branch_is_on(story: Story, image: str) -> None:
    assert [branch.image_id for branch in story.branches] == [image]


@then(parsers.parse('the branch should have the model "{model}", and the prompt and the tool of "{image}"'))
def the_branch_has(story: Story, model: str, image: str) -> None:
    (branch,) = story.branches
    info = story.runtime.images.get(branch.image_id)
    assert info is not None
    assert (info.model, info.system_prompt) == (model, "Billing.")
    assert list(info.tools) == TOOLS[image]
