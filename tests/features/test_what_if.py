"""What would have been decided otherwise under other rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import ConfigurationError, CostLimit, Image, Policies, Price, Runtime, Said, tool
from reenact.audit import Audit, Otherwise, Redaction, Retraced, ToolRedaction, import_log
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.features.test_audit import heard_of
from tests.logs import log_at

scenarios("what_if.feature")

BEGINS = MockEvent("message_start", data={"model": "mock"})
USED = MockEvent("message_delta", data={"usage": {"input_tokens": 1, "output_tokens": 1}})


@tool(intervention="required")
def mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@tool
def look_up(number: int) -> str:
    """Look something up."""
    return f"found {number}"


def clerk(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Ask for a mail to be sent; when it is, say so."""
    yield from (BEGINS, USED)
    if conversation[-1].text:
        yield MockEvent("tool_call", data={"id": "mail-1", "name": "mail", "input": {"to": "ann"}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
    else:
        yield MockEvent("text_delta", data={"text": "Ann has mail"})
        yield MockEvent("message_stop")


def scout(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Look three things up, one after the other, and answer."""
    yield from (BEGINS, USED)
    number = len(conversation) // 2
    if number < 3:
        yield MockEvent("tool_call", data={"id": f"look-{number}", "name": "look_up", "input": {"number": number}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
    else:
        yield MockEvent("text_delta", data={"text": "Found"})
        yield MockEvent("message_stop")


class Case:
    """A log, and what would be otherwise in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log: str | Path = log_at(folder / "agents.db")
        self.mock = MockEnvironmentFactory(delays=False)
        self.mock.define_scenario("clerk", clerk)
        self.mock.define_scenario("scout", scout)
        self.found: list[Retraced] = []
        self.error: ConfigurationError | None = None

    def live(self, scenario: str, act: Callable[[Runtime], object]) -> None:
        self.mock.set_scenario(scenario)
        with Runtime.open(self.log, environment=self.mock, tools=[mail, look_up], synchronous="OFF") as runtime:
            act(runtime)

    def suppose(self, **given: Any) -> None:  # noqa: ANN401 - as `replay` takes them
        with Audit.open(self.log) as audit:
            self.found = list(audit.replay(**given))

    @property
    def otherwise(self) -> list[Otherwise]:
        return [one for retraced in self.found for one in retraced.otherwise]

    @property
    def mailed(self) -> Otherwise:
        (one,) = [one for one in self.otherwise if one.tool == "mail"]
        return one


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@given(parsers.parse('an agent that was asked "{text}", and wants to send a mail'))
def a_clerk(case: Case, text: str) -> None:
    def act(runtime: Runtime) -> None:
        runtime.containers.create(container_id="home")
        runtime.images.register(Image(id="clerk", tools=(mail,)))
        runtime.sessions.create("home", "clerk", session_id="one")
        agent = runtime.sessions.run("one")
        heard_of(runtime, "waiting", lambda: runtime.agents.receive(agent, text))

    case.live("clerk", act)


@given(parsers.parse('Bob has approved the mail, and the agent has answered "{text}"'))
def approved(case: Case, text: str) -> None:
    def act(runtime: Runtime) -> None:
        heard_of(runtime, "completed", lambda: runtime.agents.approve("mail-1", by="Bob"))
        assert runtime.sessions.messages("one")[-1].text == text

    case.live("clerk", act)


@given("an agent that looked something up three times, and answered")
def a_scout(case: Case) -> None:
    def act(runtime: Runtime) -> None:
        runtime.images.register(Image(id="scout", tools=(look_up,)))
        runtime.sessions.create("home", "scout", session_id="two")
        assert runtime.ask("What is there?", session="two").text == "Found"

    case.live("scout", act)


@given("a branch of the session in which the mail was sent")
def a_branch(case: Case) -> None:
    case.live("clerk", lambda runtime: runtime.sessions.branch("one", new_session_id="three"))


@given("an export of the log without what mails say")
def an_export(case: Case) -> None:
    hidden = Redaction(tools=(ToolRedaction(name="mail", arguments=("to",)),))
    with Audit.open(case.log) as audit:
        audit.export(case.folder / "hidden.jsonl", redaction=hidden)
    case.log = case.folder / "hidden.db"
    import_log(case.folder / "hidden.jsonl", case.log)


@when("I suppose the policies, limits and prices that held")
def as_it_was(case: Case) -> None:
    case.suppose(policies=Policies(), prices={}, max_steps=100, max_repeats=3, cost_limit=None)


@when("I suppose that mails are denied")
def denied(case: Case) -> None:
    case.suppose(policies=Policies(deny=("mail",)))


@when("I suppose that mails may always be sent")
def allowed(case: Case) -> None:
    case.suppose(policies={"mail": "never"})


@when("I suppose that somebody is asked before anything is looked up")
def asked(case: Case) -> None:
    case.suppose(policies={"look_*": "always"})


@when(parsers.parse('I suppose that the image "{image}" may not send mails'))
def denied_to(case: Case, image: str) -> None:
    case.suppose(policies={"images": {image: {"deny": ["mail"]}}})


@when('I suppose that the image "clerk" has a mail tool that nobody is asked about')
def another_image(case: Case) -> None:
    def mail(to: str) -> str:
        """Send a mail."""
        return to

    case.suppose(images=[Image(id="clerk", tools=(mail,))])


@when(parsers.parse("I suppose that a turn has at most {steps:d} steps"))
def fewer_steps(case: Case, steps: int) -> None:
    case.suppose(max_steps=steps)


@when(parsers.parse("I suppose that a session may cost {amount:d}"))
def at_most(case: Case, amount: int) -> None:
    case.suppose(cost_limit=amount)


@when(parsers.parse("I suppose that a session may cost {amount:d}, and that a token costs 1"))
def at_most_and_priced(case: Case, amount: int) -> None:
    case.suppose(cost_limit=CostLimit(amount), prices={"mock": Price(1_000_000, 1_000_000)})


@when("I suppose policies that cannot be read")
def broken(case: Case) -> None:
    unread: Mapping[str, object] = {"images": {"clerk": {"mail": "sometimes"}}}
    with pytest.raises(ConfigurationError) as raised:
        case.suppose(policies=unread)
    case.error = raised.value


@then("nothing would be otherwise")
def nothing(case: Case) -> None:
    assert case.found
    assert case.otherwise == []


@then(parsers.parse("nothing would be otherwise, but for {count:d} decision that cannot be made again"))
def nothing_but(case: Case, count: int) -> None:
    assert case.otherwise == []
    assert sum(one.undecided for one in case.found) == count


@then(parsers.re(r"(?P<count>\d+) (?P<what>call|turn)s? would be otherwise"))
def so_many(case: Case, count: str, what: str) -> None:
    assert [one.tool is None for one in case.otherwise] == [what == "turn"] * int(count)


@then(parsers.re(r'the mail was asked about, and would (?P<would>be denied|run), since "(?P<why>.*)"'))
def the_mail(case: Case, would: str, why: str) -> None:
    decided = {"be denied": "deny", "run": "run"}[would]
    assert case.mailed.recorded.decision == "ask"
    assert (case.mailed.decided.decision, case.mailed.decided.reason) == (decided, why)


@then(parsers.parse('it would be ended by "{limit}", since "{why}"'))
def ended(case: Case, limit: str, why: str) -> None:
    (one,) = case.otherwise
    assert (one.recorded.decision, one.decided.decision) == ("go_on", "stop")
    assert (one.decided.limit, one.decided.reason) == (limit, why)


@then(parsers.parse('I should be told the place: "{place}"'))
def told(case: Case, place: str) -> None:
    assert str(case.error).startswith(place)
