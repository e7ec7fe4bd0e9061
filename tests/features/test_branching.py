"""Branching: a session goes on with the history of another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Image, Message, Runtime, Said, SessionInfo, ToolResultBlock, tool
from reenact.actors.environment.api import LLMDriver, OnEvent
from reenact.domain.stream.events import SessionCreated
from reenact.events import MessageStop, TextDelta, ToolCall
from reenact.testing import wait_until
from tests.logs import copy_log, log_at

scenarios("branching.feature")


class Story:
    """An original and a branch, the model that both are asked, and the mails that were sent."""

    name = "scripted"

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[str | None, Sequence[Said]]] = []
        self.offered: Sequence[Mapping[str, Any]] = ()
        self.mails: list[str] = []
        self.silent = Event()
        self.branched: SessionInfo | None = None
        self.before: Sequence[object] = ()
        self._log = log_at(folder / "agents.db")
        self.runtime = self._open()
        self.runtime.containers.create(container_id="c")
        self.register()
        self.runtime.sessions.create("c", "i", session_id="original")

    @property
    def branch(self) -> SessionInfo:
        assert self.branched is not None, "nothing has branched off"
        return self.branched

    def provide(self) -> LLMDriver:
        return Driver(self)

    def register(self) -> None:
        @tool(intervention="required")
        def mail(to: str) -> str:
            """Send a mail."""
            self.mails.append(to)
            return "sent"

        self.runtime.images.register(Image(id="i", model="usual", tools=(mail,)))

    def _open(self) -> Runtime:
        return Runtime.open(self._log, llm_provider=self, synchronous="OFF")

    def say(self, text: str, session_id: str, *, answered: bool = True) -> str:
        turn_id = self.runtime.agents.receive(self.runtime.sessions.run(session_id), text)
        if answered:
            self.ends(session_id, turn_id)
        return turn_id

    def ends(self, session_id: str, turn_id: str | None = None) -> None:
        def is_over() -> bool:
            turns = self.runtime.sessions.turns(session_id)
            return all(turn.outcome for turn in turns if turn_id in (None, turn.id)) and bool(turns)

        wait_until(is_over, 20, "the turn is over")

    def crash(self) -> None:
        ruins = copy_log(self._log, "ruins")
        self.runtime.close()
        self._log = ruins
        self.runtime = self._open()

    def told(self, session_id: str) -> list[str]:
        return [message.text for message in self.runtime.sessions.messages(session_id)]

    def events(self) -> Sequence[object]:
        journal = self.runtime._journal
        return [*journal.read("session/original"), *journal.read_feed("session/original")]


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
        story, last = self._story, messages[-1].text
        story.asked.append((model, messages))
        story.offered = tools
        if last == "Why?":
            story.silent.set()
            await asyncio.Event().wait()  # until it is cancelled
        elif last == "Mail her":
            on_event(ToolCall(id="call", name="mail", input={"to": "ada"}))
            on_event(MessageStop(stop_reason="tool_use"))
        else:
            on_event(TextDelta(text={"Hello": "Hi", "What now?": "Tea"}.get(last, "Well")))
            on_event(MessageStop())

    def interrupt(self) -> None:
        """Its task is cancelled."""


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.runtime.close()


@given(parsers.parse('a session in which "Hello" was answered with "Hi" and "What now?" with "Tea"'))
def an_original(story: Story) -> None:
    for text in ("Hello", "What now?"):
        story.say(text, "original")
    story.before = (story.events(), story.told("original"))


@given('the model thinks about "Why?"')
def it_thinks(story: Story) -> None:
    story.say("Why?", "original", answered=False)
    assert story.silent.wait(60)


@given(parsers.parse('"{text}" waits'))
def it_waits(story: Story, text: str) -> None:
    story.say(text, "original", answered=False)


@given("the agent waits for leave to send a mail")
def it_waits_for_leave(story: Story) -> None:
    story.say("Mail her", "original")
    assert [call.name for call in story.runtime.agents.pending()] == ["mail"]


@when("I branch off")
def i_branch(story: Story) -> None:
    story.branched = story.runtime.sessions.branch("original")


@when("I branch off from the branch")
def i_branch_again(story: Story) -> None:
    story.branched = story.runtime.sessions.branch(story.branch.id)


@when(parsers.parse('I branch off where "Hi" had been said'))
def i_branch_in_the_past(story: Story) -> None:
    story.branched = story.runtime.sessions.branch("original", at=_end_of_first_turn(story))


@when(parsers.parse('I branch off with "{text}" as the question'))
def i_branch_with_a_question(story: Story, text: str) -> None:
    story.branched = story.runtime.sessions.branch("original", edit=text)


@when(parsers.parse('I branch off with the model "{model}"'))
def i_branch_with_a_model(story: Story, model: str) -> None:
    story.branched = story.runtime.sessions.branch("original", model=model)


@when("I ask twice to branch off, with the same request")
def i_ask_twice(story: Story) -> None:
    request = {"session_id": "original", "request_id": "r1"}
    answers = [story.runtime.request("session_branch_request", request).data.result for _ in range(2)]
    assert answers[0] == answers[1]


@when("I run the branch")
def i_run(story: Story) -> None:
    story.runtime.sessions.run(story.branch.id)
    story.ends(story.branch.id)


@when(parsers.parse('I say "{text}" in the branch'))
def i_say(story: Story, text: str) -> None:
    story.say(text, story.branch.id)


@when(parsers.parse('I say "{text}" in the original'))
def i_say_in_the_original(story: Story, text: str) -> None:
    story.say(text, "original")


@when("the original is deleted")
def it_is_deleted(story: Story) -> None:
    story.runtime.sessions.delete("original")


@when("I approve the mail in the branch")
def i_approve(story: Story) -> None:
    story.ends(story.branch.id, story.runtime.agents.approve("call", session_id=story.branch.id))


@when("I reject the mail in the original")
def i_reject(story: Story) -> None:
    story.ends("original", story.runtime.agents.reject("call", "not today", session_id="original"))


@when("the process crashes")
def it_crashes(story: Story) -> None:
    story.crash()


@then(parsers.parse("the model should have been given {texts}"))
def it_was_given(story: Story, texts: str) -> None:
    wait_until(lambda: [said.text for said in story.asked[-1][1]] == _list(texts), 20, "the model was asked so")


@then(parsers.parse("the branch should hold {texts}"))
def it_holds(story: Story, texts: str) -> None:
    assert story.told(story.branch.id) == _list(texts)


@then("the original should be what it was")
def the_original_is_unchanged(story: Story) -> None:
    assert (story.events(), story.told("original")) == story.before


@then("the branch should say that it begins with what the original was then")
def it_says_where_it_begins(story: Story) -> None:
    origin = story.branch.origin
    assert story.runtime.sessions.get(story.branch.id) == story.branch
    assert origin is not None
    assert (origin.session_id, origin.position) == ("original", _end_of_first_turn(story))


@then("whoever follows the branch should hear of its beginning first, and of the original nothing")
def a_feed_of_its_own(story: Story) -> None:
    story.say("Hello?", story.branch.id)
    heard = story.runtime._journal.read_feed(f"session/{story.branch.id}")
    entries = [entry for row in heard for segment in row.segments for entry in segment.entries]
    assert heard[0].first_cursor == 1
    assert entries[0].type == "session_created"
    created = entries[0].data
    assert isinstance(created, SessionCreated)
    assert created.origin is not None
    assert created.origin.session_id == "original"
    assert [entry.type for entry in entries].count("user_message") == 1


@then(parsers.parse('the branch should run on the model "{model}", with the tools of the original'))
def it_runs_on(story: Story, model: str) -> None:
    assert story.asked[-1][0] == model
    assert [offered["name"] for offered in story.offered] == ["mail"]


@then(parsers.parse('the original should run on the model "{model}"'))
def the_original_runs_on(story: Story, model: str) -> None:
    story.say("And you?", "original")
    assert story.asked[-1][0] == model


@then('the turn about "Why?" should be under way in the original, and interrupted in the branch')
def it_is_interrupted(story: Story) -> None:
    outcomes = {id_: story.runtime.sessions.turns(id_)[2].outcome for id_ in ("original", story.branch.id)}
    assert outcomes == {"original": None, story.branch.id: "interrupted"}


@then("the mail should have been sent once")
def it_was_sent(story: Story) -> None:
    assert story.mails == ["ada"]


@then('the model should have been told "sent" in the branch, and that it was rejected in the original')
def it_was_told(story: Story) -> None:
    (sent,), (rejected,) = (_results(story.runtime.sessions.messages(id_)) for id_ in (story.branch.id, "original"))
    assert (sent.content, sent.is_error) == ("sent", False)
    assert "not today" in str(rejected.content)


@then("there should be one branch")
def there_is_one(story: Story) -> None:
    assert len(story.runtime.sessions.list_by_container("c")) == 2


def _end_of_first_turn(story: Story) -> int:
    rows = story.runtime._journal.read("session/original")
    return next(row.position for row in rows if type(row.event).__name__ == "TurnCompleted")


def _results(messages: Sequence[Message]) -> list[ToolResultBlock]:
    return [block for message in messages for block in message.content if isinstance(block, ToolResultBlock)]


def _list(texts: str) -> list[str]:
    return [text.strip('"') for text in texts.split('", "')]
