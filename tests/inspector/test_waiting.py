"""What waits for people, and what they do about it from the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from bs4 import BeautifulSoup
from bs4.element import Tag

from reenact import Runtime
from reenact.inspector import Source
from reenact.testing import wait_until
from tests.browsers import Tab
from tests.inspector.browsing import Browser, browsing, words
from tests.inspector.demo import demo
from tests.logs import log_at

MAIL, QUERY, QUESTION = range(3)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with demo(log_at(tmp_path / "night.db")) as runtime:
        yield runtime


@pytest.fixture
def shift(runtime: Runtime, tmp_path: Path) -> Iterator[Browser]:
    """Return a browser from which the morning shift decides."""
    with (
        Source.open(log_at(tmp_path / "night.db"), runtime.feed) as source,
        browsing(source, owner=runtime, by="morning shift") as browser,
    ):
        wait_until(lambda: source.tables.lag() == 0)
        yield browser


def ask(page: BeautifulSoup, number: int) -> Tag:
    return page.select(".ask")[number]


def fields(page: BeautifulSoup, form: Tag) -> dict[str, str]:
    """Return what a browser would send of the form if nobody chose or wrote anything."""
    found = {str(one["name"]): str(one.get("value", "")) for one in form.select("input[type=hidden]")}
    for area in form.select("textarea"):
        found[str(area["name"])] = area.get_text().removeprefix("\n").replace("\n", "\r\n")
    return found


def send(browser: Browser, page: BeautifulSoup, number: int, do: str, **more: str) -> httpx2.Response:
    """Press the button of a call, having written something more."""
    button = ask(page, number).select_one(f"button[value={do!r}]")
    assert button is not None
    assert not button.has_attr("disabled")
    (form,) = page.select(f"form#{button['form']}")
    return browser.client.post(str(form["action"]), data={**fields(page, form), "do": do, **more})


def call_of(runtime: Runtime, session_id: str, name: str) -> object:
    return [call for call in runtime.sessions.tool_calls(session_id) if call.name == name][-1]


def parsed(response: httpx2.Response, status: int = 200) -> BeautifulSoup:
    assert response.status_code == status, response.text
    return BeautifulSoup(response.text, "html.parser")


def test_each_call_is_shown_with_all_that_it_would_run_with(shift: Browser) -> None:
    page = shift.page("/waiting")

    assert [words(one) for one in page.select(".ask h2")] == ["Run send_mail ?", "Run run_query ?", "Answer ask_user ?"]
    assert "accounting@shop.example" in words(ask(page, MAIL).select_one("pre"))
    assert "\\u202e" in words(ask(page, QUERY).select_one("pre .esc"))
    assert "mail-2026-11-21" in words(ask(page, MAIL).select_one("dl"))
    assert [words(one) for one in ask(page, QUESTION).select("label.radio")] == ["October", "November so far"]
    assert words(page.select_one("nav .count")).startswith("3")
    assert "morning shift" in words(page.select_one(".head"))
    assert not page.select(":checked, [autofocus]")


def test_a_call_that_is_approved_runs_in_the_name_of_who_approved_it(shift: Browser, runtime: Runtime) -> None:
    page = parsed(send(shift, shift.page("/waiting"), MAIL, "approve"))

    (call,) = [one for one in runtime.sessions.tool_calls("mail-2026-11-21") if one.decided_by == "morning shift"]
    assert (call.name, call.decision) == ("send_mail", "approved")
    assert "send_mail was approved by morning shift" in words(page.select_one(".note.done"))
    assert len(page.select(".ask")) == 2


def test_the_model_is_told_why_a_call_was_rejected(shift: Browser, runtime: Runtime) -> None:
    send(shift, shift.page("/waiting"), QUERY, "reject", reason="not tonight")

    (call,) = [one for one in runtime.sessions.tool_calls("refund-report") if one.decided_by == "morning shift"]
    assert call.decision == "rejected"
    assert "not tonight" in str(call.result)


def test_a_rejection_may_end_the_turn(shift: Browser, runtime: Runtime) -> None:
    before = len(runtime.sessions.turns("refund-report"))

    send(shift, shift.page("/waiting"), QUERY, "reject", reason="no", stop="1")

    assert len(runtime.sessions.turns("refund-report")) == before


def test_a_question_is_answered_with_the_option_that_was_chosen(shift: Browser, runtime: Runtime) -> None:
    page = shift.page("/waiting")

    assert "choose an option; nothing was answered" in words(parsed(send(shift, page, QUESTION, "answer"), 400))
    send(shift, page, QUESTION, "answer", option="1")

    (call,) = runtime.sessions.tool_calls("q4-forecast")
    assert (call.result, call.decision, call.decided_by) == ("November so far", "answered", "morning shift")


def test_other_arguments_are_shown_once_more_before_they_are_approved(shift: Browser, runtime: Runtime) -> None:
    written = '{"sql": "SELECT 1 -- \\u202e"}'

    page = parsed(send(shift, shift.page("/waiting"), QUERY, "approve", arguments=written))
    assert len(runtime.agents.pending()) == 3
    shown, confirmed = page.select("pre.value")[1], page.select_one("form")
    assert confirmed is not None
    assert words(shown) == "sql: SELECT 1 -- \\u202e"
    shift.client.post("/waiting", data={**fields(page, confirmed), "do": "approve edited"})

    (call,) = [one for one in runtime.sessions.tool_calls("refund-report") if one.decided_by == "morning shift"]
    assert call.arguments == {"sql": "SELECT 1 -- \u202e"}
    assert call.original is not None


@pytest.mark.parametrize("written", ["[1]", '{"sql": ' * 10_000], ids=["a list", "deep"])
def test_arguments_that_are_no_object_are_refused(shift: Browser, runtime: Runtime, written: str) -> None:
    page = parsed(send(shift, shift.page("/waiting"), QUERY, "approve", arguments=written), 400)

    assert "nothing was approved" in words(page)
    assert len(runtime.agents.pending()) == 3


@pytest.mark.parametrize("do", ["approve", "reject"])
def test_what_was_decided_meanwhile_is_not_decided_again(shift: Browser, runtime: Runtime, do: str) -> None:
    looked_at = shift.page("/waiting")
    runtime.agents.approve(runtime.agents.pending()[MAIL], by="night shift")

    page = parsed(send(shift, looked_at, MAIL, do), 409)

    assert "night shift was first" in words(page)
    assert "Nothing was sent twice" in words(page)


def test_a_call_other_than_the_one_that_was_shown_is_not_decided(shift: Browser, runtime: Runtime) -> None:
    page = parsed(send(shift, shift.page("/waiting"), MAIL, "approve", seen="0" * 64), 409)

    assert "This is not the call that you looked at" in words(page)
    assert len(runtime.agents.pending()) == 3


def test_a_form_of_another_page_is_refused(shift: Browser, runtime: Runtime) -> None:
    page = shift.page("/waiting")

    assert send(shift, page, MAIL, "approve", form="guessed").status_code == 400
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}):
        assert shift.client.post("/waiting", data={}, headers=headers).status_code == 403
    assert shift.client.post("/waiting", json={}).status_code == 400
    assert shift.client.post("/waiting", data={"a": "b" * 4_000_001}).status_code == 400
    assert len(runtime.agents.pending()) == 3


def test_without_actions_nothing_can_be_decided(night: Browser) -> None:
    page = night.page("/waiting")

    assert len(page.select(".ask")) == 3
    assert all(one.has_attr("disabled") for one in page.select("main button"))
    assert "--allow-actions" in words(page.select_one(".note.looking"))
    answer = parsed(night.client.post("/waiting", data={"do": "approve"}), 403)
    assert "Nothing was done" in words(answer)


@pytest.mark.parametrize(
    "limit", ["reenact.inspector.pages.waiting.ROOM", "reenact.projections.read_model.waiting_list.LARGEST"]
)
def test_arguments_that_cannot_be_shown_as_a_whole_cannot_be_approved(
    shift: Browser, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    whole = shift.page("/waiting")
    monkeypatch.setattr(limit, 20)

    page = shift.page("/waiting")

    approve, reject = ask(page, 0).select("button")
    assert approve.has_attr("disabled")
    assert not reject.has_attr("disabled")
    assert "cannot be approved here" in words(ask(page, 0))
    assert send(shift, whole, MAIL, "approve").status_code in (400, 409)  # not seen as it was, if nothing is read
    assert len(runtime.agents.pending()) == 3


def test_many_calls_are_read_page_by_page(shift: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.inspector.pages.waiting.SIZE", 2)
    first = shift.page("/waiting")
    further = first.select_one("a[rel=next]")
    assert further is not None

    rest = shift.page(str(further["href"]))

    assert [words(one) for page in (first, rest) for one in page.select(".ask h2 .mono")] == [
        "send_mail",
        "run_query",
        "ask_user",
    ]
    assert rest.select_one("a[rel=next]") is None


def test_nobody_is_waited_for_once_all_is_decided(runtime: Runtime, shift: Browser) -> None:
    for call in runtime.agents.pending():
        runtime.agents.reject(call, resume=False)

    wait_until(lambda: "Nobody is waited for" in words(shift.page("/waiting")))


def test_a_turn_is_interrupted_once_that_was_confirmed(shift: Browser, runtime: Runtime) -> None:
    page = shift.page("/interrupt?id=returns-november")
    form = page.select_one("main form")
    assert form is not None
    assert "What do the returns of November say?" in words(page)

    shift.client.post("/interrupt", data=fields(page, form))

    assert runtime.sessions.turns("returns-november")[-1].outcome == "interrupted"
    again = parsed(shift.client.post("/interrupt", data=fields(page, form)), 409)
    assert "The turn has ended already" in words(again)


def test_a_session_branches_off_with_another_message(shift: Browser, runtime: Runtime) -> None:
    page = shift.page("/branch?id=poem")
    form = page.select_one("main form")
    assert form is not None
    assert fields(page, form)["edit"] == "And one about rain"

    response = shift.client.post("/branch", data={**fields(page, form), "do": "edit", "edit": "And one about snow"})

    made = runtime.sessions.list()[0]
    assert response.url.params["id"] == made.id
    assert made.origin is not None
    assert made.origin.session_id == "poem"
    assert [one.text for one in runtime.sessions.messages(made.id)][-1] == "And one about snow"


def test_a_session_branches_off_as_it_is(shift: Browser, runtime: Runtime) -> None:
    first = runtime.sessions.messages("poem")[0]
    page = shift.page("/branch?id=poem&at=12")
    form = page.select_one("main form")
    assert form is not None

    shift.client.post("/branch", data={**fields(page, form), "do": "as it is"})

    made = runtime.sessions.list()[0]
    assert made.origin is not None
    assert made.origin.position == 12
    assert runtime.sessions.messages(made.id)[0] == first


def test_what_cannot_be_done_is_said(shift: Browser) -> None:
    shift.page("/branch?id=nobody", 404)
    shift.page("/interrupt?id=nobody", 404)
    shift.page("/waiting?after=1", 400)
    page = shift.page("/branch?id=poem")
    form = page.select_one("main form")
    assert form is not None
    sent = shift.client.post("/branch", data={**fields(page, form), "do": "as it is", "at": "999999"})
    assert "the log ends at" in words(parsed(sent, 400))


def test_a_key_leads_to_a_button_and_does_not_press_it(shift: Browser, runtime: Runtime, tab: Tab) -> None:
    tab(lambda page: page.goto(shift.inspector.address))
    tab(lambda page: page.goto(f"{shift.inspector.url}/waiting"))

    tab(lambda page: page.keyboard.press("x"))
    assert tab(lambda page: page.evaluate("document.activeElement.value")) == "reject"
    tab(lambda page: page.keyboard.press("a"))
    assert tab(lambda page: page.evaluate("document.activeElement.value")) == "approve"
    assert len(runtime.agents.pending()) == 3

    tab(lambda page: page.keyboard.press("Enter"))
    tab(lambda page: page.wait_for_selector(".note.done"))
    assert len(runtime.agents.pending()) == 2
