"""What a log comes to: counted once, told apart, and unknown where nothing is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Price, Retention, Runtime, Said
from reenact.projections.statistics.figures import By, Figures, Statistics
from reenact.testing import MockEvent
from tests.features import test_audit
from tests.features.test_audit import Case, heard_of, mail

scenarios("statistics.feature")


def priced(_conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Answer as a model with a name that says what it used."""
    yield MockEvent("message_start", data={"model": "small"})
    yield MockEvent("text_delta", data={"text": "Bob has mail"})
    yield MockEvent("message_delta", data={"usage": {"input_tokens": 20, "output_tokens": 10}})
    yield MockEvent("message_stop")


class Books(Case):
    """A log in which a mail was sent, and what it comes to."""

    found: Statistics | None = None
    prices: dict[str, Price]

    @property
    def total(self) -> Figures:
        assert self.found is not None
        return self.found.total

    def ask(self, by: By | None = None, until: datetime | None = None) -> None:
        self.found = self.open().stats(by, until=until)


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    books = Books(tmp_path)
    yield books
    books.close()


@given(parsers.parse('an agent that was asked "{text}", and wants to send a mail'))
def an_agent(books: Books, text: str) -> None:
    test_audit.an_agent(books, text)


@given(parsers.parse('Bob has approved the mail, and the agent has answered "{text}"'))
def bob_approved(books: Books, text: str) -> None:
    test_audit.bob_approved(books, text)


@given("a branch of the session, in which nothing was said")
def a_branch(books: Books) -> None:
    books.live(lambda runtime: runtime.sessions.branch("one", new_session_id="two"))


@given("the deltas in the log are compacted")
def compacted(books: Books) -> None:
    at_once = Retention(deltas=timedelta(0))
    with Runtime.open(books._log, environment=books._mock, tools=[mail], retention=at_once) as runtime:
        assert runtime.events.compact().deltas > 0


@given(parsers.parse("a price of {price:d} for a million tokens of the model"))
def a_price(books: Books, price: int) -> None:
    books.prices = {"small": Price(input=price, output=price)}


@given(parsers.parse('the agent is asked "{text}", and answers'))
def is_asked(books: Books, text: str) -> None:
    books._mock.define_scenario("priced", priced)
    books._mock.set_scenario("priced")
    with Runtime.open(books._log, environment=books._mock, tools=[mail], prices=books.prices) as runtime:
        agent = runtime.sessions.run("one")
        heard_of(runtime, "completed", lambda: runtime.agents.receive(agent, text))


@when("I ask what all of it comes to")
def i_ask(books: Books) -> None:
    books.ask()


@when(parsers.re("I ask what it comes to by (?P<by>day|model|tool)"), converters={"by": str})
def i_ask_by(books: Books, by: By) -> None:
    books.ask(by)


@when("I ask what all before it comes to")
def i_ask_before(books: Books) -> None:
    books.ask(until=datetime(2000, 1, 1, tzinfo=UTC))


@then("there should be 2 turns, one of which waited and one of which was completed")
def two_turns(books: Books) -> None:
    assert books.total.turns is not None
    assert books.total.turns.outcomes == {"completed": 1, "waiting": 1}
    assert books.total.turns.duration.count == 2


@then("there should be 1 call, and 1 approval that somebody waited for")
def one_call(books: Books) -> None:
    calls, approvals = books.total.calls, books.total.approvals
    assert (calls.count, calls.failed, calls.denied, calls.duration.count) == (1, 0, 0, 1)
    assert (approvals.decisions, approvals.waited.count, approvals.waiting) == ({"approved": 1}, 1, 0)


@then("there should be 2 answers, each with a time to its first delta")
def two_answers(books: Books) -> None:
    assert books.total.answers is not None
    assert books.total.first_delta is not None
    assert (books.total.answers.count, books.total.first_delta.count) == (2, 2)


@then(parsers.parse("the cost of {count:d} answers should be unknown"))
def unknown_cost(books: Books, count: int) -> None:
    assert books.total.answers is not None
    assert books.total.answers.unpriced == count


@then(parsers.parse("the model with a price should have cost {cost:g}"))
def known_cost(books: Books, cost: float) -> None:
    assert books.found is not None
    by_name = {one.key: one.answers for one in books.found.groups}
    (nameless, small) = (by_name[""], by_name["small"])
    assert nameless is not None
    assert small is not None
    assert (nameless.unpriced, small.unpriced) == (2, 0)
    assert small.cost == pytest.approx(cost)


@then("only the mail should be in the list")
def only_the_mail(books: Books) -> None:
    assert books.found is not None
    assert [(one.key, one.calls.count, one.turns) for one in books.found.groups] == [("mail", 1, None)]


@then("all of it should be on one day")
def one_day(books: Books) -> None:
    assert books.found is not None
    (day,) = books.found.groups
    assert (day.turns, day.answers, day.calls) == (books.total.turns, books.total.answers, books.total.calls)


@then("there should be nothing")
def nothing(books: Books) -> None:
    assert books.total == Figures()
