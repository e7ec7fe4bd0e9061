"""Guards: what they let pass, what they refuse, and what is known of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Answer, Guard, GuardInput, Guards, Image, MessageRefusedError, Runtime, Said, guard, tool
from reenact.audit import Audit, Filter, Verdict, Why
from reenact.domain.messages import ToolResultBlock
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.logs import log_at

scenarios("guards.feature")

POINTS = {"messages": "message", "calls": "call", "answers": "answer"}


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Search, or say, what it is told to; greet otherwise."""
    last = conversation[-1]
    if isinstance(last.content[0], ToolResultBlock):
        yield MockEvent("text_delta", data={"text": "That is all."})
    elif last.text.startswith("Search for "):
        wanted = last.text.removeprefix("Search for ")
        yield MockEvent("tool_call", data={"id": "c1", "name": "search", "input": {"what": wanted}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
    else:
        said = last.text.removeprefix("Say ") if last.text.startswith("Say ") else "Hello from mock!"
        yield MockEvent("text_delta", data={"text": said})
    yield MockEvent("message_stop")


class Gatehouse:
    """A runtime with guards, what was searched, and what came of the last question."""

    def __init__(self, folder: Path) -> None:
        self.log = log_at(folder / "agents.db")
        self.mock = MockEnvironmentFactory("model", {"model": model}, delays=False)
        self.asked: list[GuardInput] = []
        self.searched: list[str] = []
        self.heard: list[Envelope] = []
        self.guards: list[Guard] = []
        self.runtime: Runtime | None = None
        self.answer: Answer | None = None
        self.refusal: MessageRefusedError | None = None
        self.verdict: Verdict | None = None
        self.parted: list[object] = []
        self.why: Why | None = None

    def open(self, name: str, point: str, *, hold: bool = False) -> None:
        def search(what: str) -> str:
            self.searched.append(what)
            return "found"

        guards = Guards(**{point: (name,)}, hold=hold)
        image = Image(id="guarded", guards=guards, tools=(tool(search, description="Search."),))
        self.runtime = Runtime.open(self.log, environment=self.mock, guards=self.guards, default_image=image)
        self.runtime.events.on_all(self.heard.append)

    def ask(self, text: str) -> None:
        assert self.runtime is not None
        self.answer = self.refusal = None
        try:
            self.answer = self.runtime.ask(text)
        except MessageRefusedError as refusal:
            self.refusal = refusal

    def close(self) -> None:
        if self.runtime is not None:
            self.runtime.close()

    def told(self) -> list[str]:
        """Return what was heard of answers and verdicts, once all is."""
        self.close()
        return [
            str(event.data["text"]) if event.type == "text_delta" else str(event.data["verdict"])
            for event in self.heard
            if event.type in {"text_delta", "guard_checked"}
        ]

    def audited(self) -> Audit:
        self.close()
        return Audit.open(self.log)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gatehouse]:
    gate = Gatehouse(tmp_path)
    yield gate
    gate.close()


@given(parsers.parse('a guard "{name}" that refuses what says "{word}"'))
def a_guard(gate: Gatehouse, name: str, word: str) -> None:
    def refuses(about: GuardInput) -> str | None:
        gate.asked.append(about)
        return f"it says {word}" if word in f"{about.text} {about.arguments}" else None

    gate.guards.append(guard(refuses, name=name))


@given(parsers.parse("a runtime whose image has the guard for {points}, and holds them back"))
def a_runtime_that_holds(gate: Gatehouse, points: str) -> None:
    gate.open("clean", POINTS[points], hold=True)


@given(parsers.re(r"a runtime whose image has the guard for (?P<points>\w+)$"))
def a_runtime(gate: Gatehouse, points: str) -> None:
    gate.open("clean", POINTS[points])


def raises(_: GuardInput) -> str | None:
    raise ValueError("out of order")


async def never_answers(_: GuardInput) -> str | None:
    await asyncio.Event().wait()
    return None


OTHERS: dict[str, Callable[[str], list[Guard]]] = {
    "nobody has given": lambda _: [],
    "raises": lambda name: [guard(raises, name=name)],
    "never answers": lambda name: [guard(never_answers, name=name, timeout=0.05)],
}


@given(parsers.parse('a runtime whose image has the guard "{name}" for messages, which {does}'))
def a_runtime_with_another(gate: Gatehouse, name: str, does: str) -> None:
    gate.guards = OTHERS[does](name)
    gate.open(name, "message")


@given(parsers.parse('I have asked "{text}"'))
@when(parsers.parse('I ask "{text}"'))
def i_ask(gate: Gatehouse, text: str) -> None:
    gate.ask(text)


@when("the log is verified, and its decisions are replayed")
def the_log_is_verified(gate: Gatehouse) -> None:
    with gate.audited() as audit:
        gate.asked.clear()
        gate.verdict = audit.verify()
        gate.parted = [one for one in audit.replay() if one.divergence is not None]


@when("I ask the log why the turn has ended")
def i_ask_why(gate: Gatehouse) -> None:
    with gate.audited() as audit:
        (end,) = audit.entries(Filter(types=frozenset({"turn-completed"})))
        gate.why = audit.why(end.position)


@then(parsers.re(r'the answer should be "(?P<text>[^"]*)", (?P<outcome>\w+)(, for "(?P<reason>\w+)")?$'))
def the_answer_is(gate: Gatehouse, text: str, outcome: str, reason: str | None) -> None:
    assert gate.answer is not None
    assert (gate.answer.text, gate.answer.outcome) == (text, outcome)
    assert reason in {None, gate.answer.stop_reason}


@then(parsers.re(r'it should fail because "(?P<name>\w+)" refuses the message(: "(?P<reason>[^"]+)")?$'))
def it_is_refused(gate: Gatehouse, name: str, reason: str | None) -> None:
    assert gate.refusal is not None
    assert gate.refusal.guard == name
    assert reason in {None, gate.refusal.reason}


@then("no message should have been accepted")
def nothing_was_accepted(gate: Gatehouse) -> None:
    with gate.audited() as audit:
        assert list(audit.entries(Filter(types=frozenset({"message-accepted"})))) == []


@then(parsers.re(r'the log should say that "(?P<name>\w+)" has (?P<verdict>\w+) the (?P<point>\w+)'))
def the_log_says(gate: Gatehouse, name: str, verdict: str, point: str) -> None:
    with gate.audited() as audit:
        checked = [entry.data for entry in audit.entries(Filter(types=frozenset({"guard-checked"})))]
    assert [(one["name"], one["verdict"], one["point"]) for one in checked] == [(name, verdict, point)]


@then("nothing should have been searched")
def nothing_was_searched(gate: Gatehouse) -> None:
    assert gate.searched == []


@then(parsers.parse('"{what}" should have been searched'))
def it_was_searched(gate: Gatehouse, what: str) -> None:
    assert gate.searched == [what]


@then(parsers.parse('the model should be told "{reason}"'))
def the_model_is_told(gate: Gatehouse, reason: str) -> None:
    assert gate.runtime is not None
    assert gate.answer is not None
    results = [
        block
        for message in gate.runtime.sessions.messages(gate.answer.session_id)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
    assert [(reason in str(one.content), one.is_error) for one in results] == [(True, True)]


@then(parsers.re(r'I should have heard "(?P<text>\w+)", and then that it is refused'))
def i_heard_it_before(gate: Gatehouse, text: str) -> None:
    assert gate.told() == [text, "refused"]


@then("I should have heard nothing of the answer")
def i_heard_nothing(gate: Gatehouse) -> None:
    assert gate.told() == ["refused"]


@then(parsers.re(r'I should have heard that it has passed, and then "(?P<text>\w+)"'))
def i_heard_it_behind(gate: Gatehouse, text: str) -> None:
    assert gate.told() == ["passed", text]


@then(parsers.parse("the conversation should have {count:d} message"))
def the_conversation_has(gate: Gatehouse, count: int) -> None:
    with Runtime.open(gate.log, environment=gate.mock) as runtime:
        (session,) = runtime.sessions.list()
        assert len(runtime.sessions.messages(session.id)) == count


@then("nothing should be wrong")
def nothing_is_wrong(gate: Gatehouse) -> None:
    assert gate.verdict is not None
    assert (list(gate.verdict.findings), gate.parted) == ([], [])


@then("the guard should not have been asked again")
def it_was_not_asked(gate: Gatehouse) -> None:
    assert gate.asked == []


@then(parsers.parse('it should say that the guard "{name}" refused the answer'))
def it_says_so(gate: Gatehouse, name: str) -> None:
    assert gate.why is not None
    said = [link.says for link in gate.why.causes]
    assert [one for one in said if one.startswith(f"Guard {name} refused the answer")]
