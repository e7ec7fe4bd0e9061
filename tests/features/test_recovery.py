"""Recovery: processes that are killed, and what there is when the runtime is opened again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Runtime, ToolResultBlock
from reenact.actors.journal.verify import verify
from reenact.actors.session.ports import Recovery
from reenact.testing import Crash, CrashPoint, CrashReport, CrashTest
from tests.crashes.evidence import UNKNOWN, Left, Promises, left
from tests.crashes.workloads import live, recover, settle
from tests.crashes.world import IDEMPOTENT, World, furnish
from tests.runtime.witness import Ears, heard_of, journal_of

scenarios("recovery.feature")

WORK: Final = {
    "I send messages": "text",
    "messages wait": "queue",
    "I send requests": "requests",
    "tools run": "tools",
    "a call waits for approval": "approval",
}
MOMENTS: Final = {
    "before the first one is recorded": Crash(CrashPoint.BEFORE_COMMIT, of="message-accepted"),
    "after the first one is recorded": Crash(CrashPoint.AFTER_COMMIT, of="message-accepted"),
    "after the second answer is published": Crash(CrashPoint.AFTER_PUBLISH, nth=2, of="answer-recorded"),
    "before the first answer is recorded": Crash(CrashPoint.BEFORE_COMMIT, of="answer-recorded"),
    "after the first outcome is recorded": Crash(CrashPoint.AFTER_OUTCOME),
    "after it was recorded that it waits": Crash(CrashPoint.AFTER_COMMIT, of="turn-completed"),
    **{f'before "{name}" runs': Crash(CrashPoint.BEFORE_EFFECT, of=name) for name in ("pay", "send", "peek", "look")},
    **{f'when "{name}" has run': Crash(CrashPoint.AFTER_EFFECT, of=name) for name in ("pay", "send", "peek", "look")},
}


class Ruins:
    """A log whose process was killed, and the runtime that is opened on it."""

    def __init__(self, home: Path, crashes: CrashTest) -> None:
        home.mkdir()
        self.home = home
        self.undo = ExitStack()
        self._crashes = crashes
        self._reports: list[CrashReport] = []
        self._runtime: Runtime | None = None
        self.left: Left | None = None
        self.tool = ""
        """The one that the steps speak of."""
        with World(home) as world, world.opened() as runtime:
            furnish(runtime, world)

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None
        return self._runtime

    @property
    def promises(self) -> Promises:
        return Promises(self._reports)

    @property
    def before(self) -> Left:
        """What the killed process has left."""
        assert self.left is not None
        return self.left

    def live(self, workload: str, crash: Crash) -> None:
        """Have a process work until it is killed."""
        self._reports.append(self._crashes.run_until_killed(live, self.home, workload, at=crash))
        self.left = left(self.home)

    def recover(self, recovery: Recovery, crash: Crash) -> None:
        """Have a process recover until it is killed."""
        self._reports.append(self._crashes.run_until_killed(recover, self.home, recovery, at=crash))

    def open(self, recovery: Recovery = "close") -> None:
        self.world = self.undo.enter_context(World(self.home, holds=False))
        self._runtime = self.undo.enter_context(self.world.opened(recovery))
        settle(self.runtime)

    def runs(self) -> Counter[str]:
        """Return how often each tool has run."""
        return Counter(effect.name for effect in self.world.effects)

    def results(self) -> dict[str, ToolResultBlock]:
        """Return what the model is told of each call that was started, by the tool."""
        blocks = [block for one in self.runtime.sessions.messages("s") for block in one.content]
        results = {block.tool_use_id: block for block in blocks if isinstance(block, ToolResultBlock)}
        return {name: results[call_id] for call_id, name in self.before.names.items()}


@pytest.fixture
def ruins(tmp_path: Path, crashes: CrashTest) -> Iterator[Ruins]:
    ruins = Ruins(tmp_path / "home", crashes)
    with ruins.undo:
        yield ruins
    shutil.rmtree(ruins.home)


@given('an agent with the tools "pay" and "send", which must not run twice')
def an_agent(ruins: Ruins) -> None:
    assert not {"pay", "send"} & IDEMPOTENT


@given('the tools "look" and "peek", which may')
def tools_that_may_run_twice(ruins: Ruins) -> None:
    assert {"look", "peek"} == IDEMPOTENT


@when(parsers.re(r"(?P<work>.+), and the process is killed (?P<moment>.+)"))
def the_process_is_killed(ruins: Ruins, work: str, moment: str) -> None:
    ruins.live(WORK[work], MOMENTS[moment])


@when(parsers.parse("it is killed again while it recovers, to {recovery} the turn"))
def it_is_killed_again(ruins: Ruins, recovery: Recovery) -> None:
    ruins.recover(recovery, Crash(CrashPoint.AFTER_COMMIT))


@when("the runtime is opened again")
def it_is_opened_again(ruins: Ruins) -> None:
    ruins.open()


@when(parsers.re(r"the runtime is opened again to (?P<recovery>close|resume) the turn"))
def it_is_opened_again_to(ruins: Ruins, recovery: Recovery) -> None:
    ruins.open(recovery)


@when("the session is run")
def the_session_is_run(ruins: Ruins) -> None:
    ears = Ears(ruins.runtime)
    ruins.runtime.sessions.run("s")
    ears.wait("turn_completed", count=2)


@when("I send the requests again")
def i_send_the_requests_again(ruins: Ruins) -> None:
    for request_id, (type_, data) in ruins.promises.asked.items():
        ruins.runtime.request(type_, {**data, "request_id": request_id})


@then("no message should have been accepted")
def no_message_was_accepted(ruins: Ruins) -> None:
    assert ruins.promises.accepted == {}


@then(parsers.re(r"the conversation should have (?P<count>\d+) questions?"))
def the_conversation_has_so_many_questions(ruins: Ruins, count: str) -> None:
    questions = [message.text for message in ruins.runtime.sessions.messages("s") if message.role == "user"]
    assert questions == ["one", "two"][: int(count)]


@then("what subscribers have heard should be there under its numbers")
def what_was_heard_is_there(ruins: Ruins) -> None:
    kept = {event.cursor: event for event in heard_of(journal_of(ruins.runtime), "s")}
    assert ruins.promises.heard
    assert {cursor: kept.get(cursor) for cursor in ruins.promises.heard} == ruins.promises.heard


@then("every turn should have ended once")
def every_turn_has_ended_once(ruins: Ruins) -> None:
    feed = heard_of(journal_of(ruins.runtime), "s")
    begun = [event.turn_id for event in feed if event.type == "turn_started"]
    assert begun
    assert [event.turn_id for event in feed if event.type == "turn_completed"] == begun


@then("the waiting messages should be answered in their order")
def the_waiting_messages_are_answered(ruins: Ruins) -> None:
    said = [message.text for message in ruins.runtime.sessions.messages("s")]
    assert said[0] == "hold"
    assert said[-4:] == ["two", "you said two.", "three", "you said three."]


@then("each should have been carried out once")
def each_was_carried_out_once(ruins: Ruins) -> None:
    assert ruins.promises.asked
    assert [container.name for container in ruins.runtime.containers.list()].count("once") == 1
    assert [message.text for message in ruins.runtime.sessions.messages("s")].count("once") == 1


@then(parsers.re(r'"(?P<tool>\w+)" should have run (?P<times>\d) times?'))
def the_tool_has_run_so_often(ruins: Ruins, tool: str, times: str) -> None:
    ruins.tool = tool
    assert ruins.runs()[tool] == int(times)


@then("the model should be told that nobody knows")
def the_model_is_told_that_nobody_knows(ruins: Ruins) -> None:
    result = ruins.results()[ruins.tool]
    assert result.is_error
    assert UNKNOWN in str(result.content)


@then("the model should be told what came of it")
def the_model_is_told_what_came_of_it(ruins: Ruins) -> None:
    result = ruins.results()[ruins.tool]
    assert not result.is_error
    assert str(result.content).startswith(ruins.tool)


@then("the tool whose outcome is recorded should not have run again")
def the_recorded_tool_has_not_run_again(ruins: Ruins) -> None:
    (call_id,) = ruins.before.results
    ruins.tool = ruins.before.names[call_id]
    assert ruins.runs()[ruins.tool] == ruins.before.ran[call_id] == 1


@then("the call should wait for approval")
def the_call_waits(ruins: Ruins) -> None:
    assert [call.name for call in ruins.runtime.agents.pending()] == ["buy"]
    assert ruins.runs()["buy"] == 0


@then("it should run once when it is approved")
def it_runs_once(ruins: Ruins) -> None:
    ears = Ears(ruins.runtime)
    (call,) = ruins.runtime.agents.pending()
    ears.wait("turn_completed", turn_id=ruins.runtime.agents.approve(call))
    assert ruins.runs()["buy"] == 1


@then("the log should be whole")
def the_log_is_whole(ruins: Ruins) -> None:
    assert verify(ruins.world.log) == []
