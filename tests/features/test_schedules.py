"""Schedules: messages that come when it is time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Audit, Image, InvalidInputError, Runtime, Said, Schedule
from reenact.actors.environment.api import LLMDriver, OnEvent
from reenact.domain.messages import instant, text_of
from reenact.domain.session.agent import MessageAccepted, ScheduleFired
from reenact.events import MessageStop, TextDelta
from reenact.testing import ManualClock, wait_until
from tests.logs import copy_log, log_at

scenarios("schedules.feature")


class Story:
    """A session, the clock by which messages come to it, and what its agents were told."""

    name = "scripted"

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.told: list[tuple[str | None, str]] = []
        self.thinks = Event()
        self.thought: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self.scheduled: list[Schedule] = []
        self.refusal: Exception | None = None
        self.branch = ""
        self._crashes = 0
        self.log = log_at(folder / "agents.db")
        self.open()
        self.runtime.containers.create(container_id="c")
        self.runtime.images.register(Image(id="i"))
        self.runtime.images.register(Image(id="other", model="other"))
        self.runtime.sessions.create("c", "i", session_id="s")

    def open(self, *, with_model: bool = True) -> None:
        model = self if with_model else None
        self.runtime = Runtime.open(self.log, llm_provider=model, synchronous="OFF", clock=self.clock)

    def provide(self) -> LLMDriver:
        return Driver(self)

    def crash(self) -> None:
        self._crashes += 1
        ruins = copy_log(self.log, f"ruins-{self._crashes}")
        self.runtime.close()
        self.log = ruins

    def time(self, seconds: float) -> datetime:
        return instant(self.clock()) + timedelta(seconds=seconds)

    def schedule(self, text: str, **times: Any) -> None:  # noqa: ANN401 - as of `schedule`
        try:
            self.scheduled.append(self.runtime.agents.schedule("s", text, **times))
        except InvalidInputError as error:
            self.refusal = error

    def events(self) -> list[object]:
        return [row.event for row in self.runtime._journal.read("session/s")]

    def has_fired(self, times: int) -> bool:
        return len(self.fired()) == times

    def fired(self) -> list[ScheduleFired]:
        return [event for event in self.events() if isinstance(event, ScheduleFired)]


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
        story = self._story
        story.told.append((model, messages[-1].text))
        if messages[-1].text == "Why?":
            story.thought = asyncio.get_running_loop(), asyncio.Event()
            story.thinks.set()
            await story.thought[1].wait()
        on_event(TextDelta(text="Well"))
        on_event(MessageStop())

    def interrupt(self) -> None:
        """Its task is cancelled."""


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.runtime.close()


@given("a session, and a clock that I move")
def a_session(story: Story) -> None:
    assert story.runtime.agents.schedules("s") == []


@given("the agent is destroyed")
def it_is_destroyed(story: Story) -> None:
    story.runtime.agents.destroy(story.runtime.sessions.run("s"))


@given('the agent answers "Why?"')
def it_answers(story: Story) -> None:
    story.runtime.agents.receive(story.runtime.sessions.run("s"), "Why?")
    assert story.thinks.wait(60)


@when(parsers.parse('I schedule "{text}" in {seconds:d} seconds'))
def i_schedule(story: Story, text: str, seconds: int) -> None:
    story.schedule(text, at=story.time(seconds))


@when(parsers.re(r'I schedule "(?P<text>\w+)" every (?P<seconds>\d+) seconds'))
def i_schedule_again_and_again(story: Story, text: str, seconds: str) -> None:
    story.schedule(text, every=int(seconds))


@when(parsers.parse('I schedule "{text}" every {seconds:d} seconds, for {until:d} seconds'))
def i_schedule_up_to(story: Story, text: str, seconds: int, until: int) -> None:
    story.schedule(text, every=seconds, until=story.time(until))


@when(parsers.parse('I schedule "{text}" every {seconds:d} seconds, the first in {first:d} seconds'))
def i_schedule_from(story: Story, text: str, seconds: int, first: int) -> None:
    story.schedule(text, at=story.time(first), every=seconds)


@when(parsers.parse('I schedule "{text}" at no time'))
def i_schedule_never(story: Story, text: str) -> None:
    story.schedule(text)


@when(parsers.parse('I schedule "{text}" at a time of nowhere'))
def i_schedule_nowhere(story: Story, text: str) -> None:
    story.schedule(text, at=story.time(60).replace(tzinfo=None))


@when(parsers.parse('I schedule "{text}" once, for {until:d} seconds'))
def i_schedule_once_up_to(story: Story, text: str, until: int) -> None:
    story.schedule(text, at=story.time(10), until=story.time(until))


@when(parsers.re(r"(?P<seconds>\d+) seconds? pass(es)?"))
def time_passes(story: Story, seconds: str) -> None:
    story.clock.advance(int(seconds))


@when(parsers.parse("{seconds:d} seconds pass, {times:d} times"))
def time_passes_in_parts(story: Story, seconds: int, times: int) -> None:
    for _ in range(times):
        due = [one for one in story.runtime.agents.schedules("s") if one.at <= story.time(seconds)]
        expected = len(story.fired()) + len(due)
        story.clock.advance(seconds)
        wait_until(partial(story.has_fired, expected), 20, "all have come")


@when("the agent has answered")
def it_has_answered(story: Story) -> None:
    assert story.thought is not None
    loop, thought = story.thought
    loop.call_soon_threadsafe(thought.set)


@when("I cancel it")
def i_cancel(story: Story) -> None:
    wait_until(lambda: len(story.fired()) == 1, 20, "it has come")
    assert story.runtime.agents.cancel_schedule(story.scheduled[-1].id)


@when("the process crashes")
def it_crashes(story: Story) -> None:
    story.crash()
    story.open()


@when(parsers.parse("nothing runs for {seconds:d} seconds"))
def nothing_runs(story: Story, seconds: int) -> None:
    story.crash()
    story.clock.advance(seconds)
    story.open()


@when(parsers.parse("it runs for {seconds:d} seconds without a model"))
def it_runs_without_a_model(story: Story, seconds: int) -> None:
    story.runtime.close()
    story.open(with_model=False)
    story.clock.advance(seconds)


@when("I delete the session")
def i_delete(story: Story) -> None:
    story.runtime.sessions.delete("s")


@when("I branch off")
def i_branch(story: Story) -> None:
    story.branch = story.runtime.sessions.branch("s").id


@when("I hand the session over to another image")
def i_switch(story: Story) -> None:
    story.runtime.sessions.switch("s", "other")


@then("the agent should have been told nothing")
def told_nothing(story: Story) -> None:
    assert not [event for event in story.events() if isinstance(event, MessageAccepted | ScheduleFired)]
    assert story.told == []


@then(parsers.re(r'the agent should have been told (?P<texts>".*")'))
def told(story: Story, texts: str) -> None:
    expected = [text.strip('"') for text in texts.split(", ")]
    wait_until(lambda: [text for _, text in story.told] == expected, 20, "the agent was told")
    accepted = [text_of(event.content) for event in story.events() if isinstance(event, MessageAccepted)]
    assert accepted == expected


@then("no message should be to come")
def none_to_come(story: Story) -> None:
    assert story.runtime.agents.schedules() == []


@then("one message should be to come")
def one_to_come(story: Story) -> None:
    (one,) = story.runtime.agents.schedules("s")
    assert one == msgspec.structs.replace(story.scheduled[0], at=story.time(60))


@then("it should have come late")
def it_was_late(story: Story) -> None:
    assert [event.late for event in story.fired()] == [True]


@then("it should have come in time")
def it_was_in_time(story: Story) -> None:
    assert [event.late for event in story.fired()] == [False]


@then("the last should have come in time")
def the_last_was_in_time(story: Story) -> None:
    assert [event.late for event in story.fired()] == [True, False]


@then("an agent should be live")
def one_is_live(story: Story) -> None:
    assert len(story.runtime.agents.list()) == 1


@then(parsers.parse('"{text}" should wait for its turn'))
def it_waits(story: Story, text: str) -> None:
    wait_until(lambda: story.runtime.agents.list()[0].queued == 1, 20, "it waits")
    assert text not in [told for _, told in story.told]


@then(parsers.parse("{texts} should be to come, in this order"))
def these_are_to_come(story: Story, texts: str) -> None:
    found = [text_of(one.content) for one in story.runtime.agents.schedules()]
    assert found == [text.strip('"') for text in texts.split(", ")]
    assert {one.id for one in story.runtime.agents.schedules()} == {one.id for one in story.scheduled}


@then("to cancel it again should come to nothing")
def cancelled_already(story: Story) -> None:
    assert not story.runtime.agents.cancel_schedule(story.scheduled[-1].id)


@then(parsers.parse("it should be refused because {why}"))
def it_is_refused(story: Story, why: str) -> None:
    assert story.refusal is not None
    assert why in str(story.refusal)


@then("the branch should have been told nothing")
def the_branch_was_told_nothing(story: Story) -> None:
    assert story.runtime.sessions.messages(story.branch) == []
    assert story.runtime.agents.schedules(story.branch) == []


@then(parsers.parse('the other agent should have been told "{text}"'))
def the_other_was_told(story: Story, text: str) -> None:
    wait_until(lambda: story.told == [("other", text)], 20, "the other agent was told")


@then("the schedule should be found as the reason")
def the_reason(story: Story) -> None:
    accepted = next(row for row in story.runtime._journal.read("session/s") if isinstance(row.event, MessageAccepted))
    with Audit.open(story.log) as audit:
        why = audit.why(accepted.position)
    assert [link.type for link in why.causes] == ["message-scheduled", "schedule-fired"]


@then("the log should be whole")
def it_is_whole(story: Story) -> None:
    wait_until(lambda: all(turn.outcome for turn in story.runtime.sessions.turns("s")), 20, "the turn is over")
    with Audit.open(story.log) as audit:
        assert audit.verify().findings == ()
