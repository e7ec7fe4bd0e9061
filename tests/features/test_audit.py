"""What happened: listed, explained, shown and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Image, Runtime, Said, tool
from reenact.audit import Audit, Difference, Filter, LogEntry, Shown, Why
from reenact.domain.errors import InvalidInputError
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.features.story import Ears
from tests.logs import log_at

scenarios("audit.feature")


@tool(intervention="required")
def mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def clerk(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Ask for a mail to be sent; when it is, say so."""
    if conversation[-1].text:
        yield MockEvent("tool_call", data={"id": "mail-1", "name": "mail", "input": {"to": "ann"}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
    else:
        yield MockEvent("text_delta", data={"text": "Ann has mail"})
        yield MockEvent("message_stop")


class Case:
    """A log in which a mail was sent, and what was found out about it."""

    def __init__(self, folder: Path) -> None:
        self._log = log_at(folder / "agents.db")
        self._mock = MockEnvironmentFactory()
        self._mock.define_scenario("clerk", clerk)
        self._mock.set_scenario("clerk")
        self.waiting = 0
        self.entries: list[LogEntry] = []
        self.following: Iterator[LogEntry] | None = None
        self.audit: Audit | None = None
        self.why: Why | None = None
        self.shown: Shown | None = None
        self.difference: Difference | None = None
        self.error: InvalidInputError | None = None

    def live(self, act: Callable[[Runtime], object]) -> None:
        """Let something happen, in a runtime of its own."""
        with Runtime.open(self._log, environment=self._mock, tools=[mail], synchronous="OFF") as runtime:
            act(runtime)

    def open(self) -> Audit:
        if self.audit is None:
            self.audit = Audit.open(self._log)
        return self.audit

    def close(self) -> None:
        if self.audit is not None:
            self.audit.close()

    def position(self, name: str) -> int:
        """Return where the last event of this type is."""
        (entry,) = [*self.open().entries(Filter(types=frozenset({name})))][-1:]
        return entry.position

    def attempt(self, ask: Callable[[Audit], object]) -> None:
        with pytest.raises(InvalidInputError) as raised:
            ask(self.open())
        self.error = raised.value


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path)
    yield case
    case.close()


def heard_of(runtime: Runtime, outcome: str, act: Callable[[], object]) -> None:
    """Act, and wait until a turn has ended so."""
    ears = Ears()

    def ended(event: Envelope) -> bool:
        return bool(event.data["outcome"] == outcome)

    with runtime.events.on_all(ears.hear):
        act()
        ears.wait("turn_completed", where=ended)


@given(parsers.parse('an agent that was asked "{text}", and wants to send a mail'))
def an_agent(case: Case, text: str) -> None:
    def act(runtime: Runtime) -> None:
        runtime.containers.create(container_id="home")
        runtime.images.register(Image(id="clerk", tools=(mail,)))
        runtime.sessions.create("home", "clerk", session_id="one")
        agent = runtime.sessions.run("one")
        heard_of(runtime, "waiting", lambda: runtime.agents.receive(agent, text))

    case.live(act)


@given(parsers.parse('Bob has approved the mail, and the agent has answered "{text}"'))
def bob_approved(case: Case, text: str) -> None:
    case.waiting = case.position("turn-completed")

    def act(runtime: Runtime) -> None:
        heard_of(runtime, "completed", lambda: runtime.agents.approve("mail-1", by="Bob"))
        assert runtime.sessions.messages("one")[-1].text == text

    case.live(act)


@given("another session in which nothing was said")
@when("another session is created")
def another_session(case: Case) -> None:
    case.live(lambda runtime: runtime.sessions.create("home", "clerk", session_id="two"))


@given("the session is deleted")
def deleted(case: Case) -> None:
    case.live(lambda runtime: runtime.sessions.delete("one"))


@given("a branch of the session from when the mail waited")
def a_branch(case: Case) -> None:
    case.live(lambda runtime: runtime.sessions.branch("one", at=case.waiting, new_session_id="two"))


@given("I follow what happens")
def i_follow(case: Case) -> None:
    case.following = case.open().follow(Filter(after=case.position("agent-stopped")), interval=0.01)


@when("I list what happened")
def i_list(case: Case) -> None:
    case.entries = list(case.open().entries())


@when(parsers.parse('I list what happened where "{text}" is said'))
def i_look_for(case: Case, text: str) -> None:
    case.entries = list(case.open().entries(Filter(text=text)))


@when("I list what happened in the first session")
def i_list_the_first(case: Case) -> None:
    case.entries = list(case.open().entries(Filter(session="one")))


@when(parsers.parse("I list the last {count:d} things that happened"))
def i_list_the_last(case: Case, count: int) -> None:
    newest = case.open().entries(backwards=True)
    case.entries = [next(newest) for _ in range(count)][::-1]


@then("the list should begin with the container and the image")
def it_begins(case: Case) -> None:
    assert [entry.type for entry in case.entries[:2]] == ["container-created", "image-registered"]


@then("it should be in the order of the log")
def in_order(case: Case) -> None:
    assert [entry.position for entry in case.entries] == list(range(1, len(case.entries) + 1))


@then("I should see only that the model answered")
def only_the_answer(case: Case) -> None:
    assert [entry.type for entry in case.entries] == ["answer-recorded"]


@then("nothing of the other session should be in the list")
def nothing_of_the_other(case: Case) -> None:
    assert {entry.session_id for entry in case.entries} == {"one"}


@then("I should see that a turn ended, and after it that the agent stopped")
def the_last_two(case: Case) -> None:
    assert [entry.type for entry in case.entries] == ["turn-completed", "agent-stopped"]


@then("I should see it")
def i_see_it(case: Case) -> None:
    assert case.following is not None
    found = next(case.following)
    assert (found.type, found.session_id) == ("session-created", "two")


@when("I ask why the mail was sent")
def why_the_mail(case: Case) -> None:
    case.why = case.open().why(case.position("tool-result"))


@when("I ask what followed from the message")
def what_followed(case: Case) -> None:
    case.why = case.open().why(case.position("message-accepted"))


@when("I ask why something happened behind the end of the log")
def why_nothing(case: Case) -> None:
    case.attempt(lambda audit: audit.why(999))


@then(parsers.parse('it should be because "{text}" came from outside'))
def because_it_came(case: Case, text: str) -> None:
    assert case.why is not None
    first = case.why.causes[0]
    assert first.says == f'A message came in: "{text}".'
    assert first.outside is not None
    assert first.outside.kind == "message"


@then("because Bob approved it")
def because_bob_approved(case: Case) -> None:
    assert case.why is not None
    assert ("tool-approved", "Bob") in [
        (link.type, link.outside.name) for link in case.why.causes if link.outside is not None
    ]


@then(parsers.parse('the mail should have followed, and the answer "{text}"'))
def it_followed(case: Case, text: str) -> None:
    assert case.why is not None
    told = [link.says for link in case.why.effects]
    assert 'Call mail-1 of mail returned: "sent to ann".' in told
    assert f'The model answered: "{text}".' in told


@then("I should be told where the log ends")
def told_the_end(case: Case) -> None:
    assert str(case.error).endswith(f"the log ends at {case.position('agent-stopped')}")


@when("I look at the session as it was when the mail waited")
def i_look_back(case: Case) -> None:
    case.shown = case.open().show("one", case.waiting)


@when("I look at the session")
def i_look(case: Case) -> None:
    case.shown = case.open().show("one")


@when("I look at the session as it was at position 1")
def i_look_too_early(case: Case) -> None:
    case.attempt(lambda audit: audit.show("one", 1))


@then("the mail should wait for a person, under the digest that Bob's approval was bound to")
def it_waits(case: Case) -> None:
    assert case.shown is not None
    (approved,) = case.open().entries(Filter(types=frozenset({"tool-approved"})))
    (call,) = case.shown.pending
    assert (call.id, call.arguments, call.digest) == ("mail-1", {"to": "ann"}, approved.data["digest"])


@then(parsers.parse('the last word should be "{text}", and a call'))
def last_word_and_call(case: Case, text: str) -> None:
    assert case.shown is not None
    asked, wanted = case.shown.messages
    assert asked.text == text
    assert [call.message_id for call in case.shown.calls] == [wanted.id]


@then(parsers.parse('it should be deleted, and its last word should be "{text}"'))
def it_is_deleted(case: Case, text: str) -> None:
    assert case.shown is not None
    assert case.shown.deleted
    assert case.shown.messages[-1].text == text


@then("I should be told where it begins")
def told_the_beginning(case: Case) -> None:
    assert "begins at position 3, behind 1" in str(case.error)


@when("I compare the session when the mail waited with the session now")
def i_compare(case: Case) -> None:
    case.difference = case.open().diff("one", case.waiting)


@when("I compare the session with itself")
def i_compare_with_itself(case: Case) -> None:
    case.difference = case.open().diff("one")


@when("I compare the branch with the session")
def i_compare_the_branch(case: Case) -> None:
    case.difference = case.open().diff("two", None, "one")


@then(parsers.re(r'"(?P<path>.+)" should have (been )?(?P<kind>added|removed|changed)'))
def it_changed(case: Case, path: str, kind: str) -> None:
    assert case.difference is not None
    found: list[Any] = [change.kind for change in case.difference.changes if change.path == path]
    assert found == [kind]


@then("nothing should have changed")
def nothing_changed(case: Case) -> None:
    assert case.difference is not None
    assert case.difference.changes == ()


@then("they should be the same up to when the mail waited")
def the_same_up_to_there(case: Case) -> None:
    assert case.difference is not None
    assert case.difference.common is not None
    assert case.difference.common.position == case.waiting
