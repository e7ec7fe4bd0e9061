"""The page of a session: what was said, what happened because of what, and where the time went."""

from __future__ import annotations

import pytest

from reenact import Runtime
from reenact.testing import wait_until
from tests.inspector.browsing import Browser, attribute, texts

MAIL = "/session?id=mail-2026-11-21"
MOST = 150_000
"""So many bytes a page has at the most."""


def test_the_page_says_which_session_it_is_and_what_it_is_at(night: Browser) -> None:
    page = night.page(MAIL)

    assert texts(page, "h1") == ["mail-2026-11-21"]
    assert texts(page, ".title .chip") == ["waits for a person"]
    assert "image mail-desk, revision 1" in texts(page, ".facts span")
    assert "40 events" in texts(page, ".facts span")
    assert "21 812 tokens in, 913 out" in texts(page, ".facts span")
    assert "cost 0.0627" in texts(page, ".facts span")


@pytest.mark.parametrize(
    ("session", "state"),
    [("refunds", "idle"), ("returns-november", "cut off"), ("mail-2026-11-21", "waits for a person")],
)
def test_a_session_is_idle_or_answers_or_waits(night: Browser, session: str, state: str) -> None:
    assert texts(night.page(f"/session?id={session}"), ".title .chip") == [state]


def test_what_was_said_stands_in_order_with_the_calls_of_each_answer(night: Browser) -> None:
    page = night.page(MAIL)

    said = texts(page, "#talk > li:not(.gap) > .text")
    calls = texts(page, "#talk .call .sum")
    assert said[:3] == [
        "Is anything left in the outbox?",
        "Nothing is left in the outbox. The last mail went out at 23:58.",
        "Read the mail that came in tonight, find the parcel of mail 311, and answer it.",
    ]
    assert calls[:3] == [
        'read_mail(folder: "inbox")',
        'track(parcel: "JD-0146-0000-8821-5503-7719-4402-1180")',
        'search_docs(query: "parcel late by nine days", limit: 2)',
    ]
    assert texts(page, "#talk .call.failed .out") == ["TimeoutError: carrier.example did not answer within 8 s"]
    assert texts(page, "#talk .call.waits .out") == ["waits for a person, look at it and decide"]
    assert texts(page, "#talk .gap") == ["23 min 07 s"]


def test_a_call_stands_with_what_it_was_given_and_what_it_returned_and_how_long_it_took(night: Browser) -> None:
    page = night.page(MAIL)

    box = page.select("#rail .box")[1]
    assert [one.get_text() for one in box.select("header b, .chip, .dur")] == ["track", "error", "8.5 s"]
    assert texts(box, "dt") == ["in", "error"]
    assert texts(box, "pre") == [
        "parcel: JD-0146-0000-8821-5503-7719-4402-1180",
        "TimeoutError: carrier.example did not answer within 8 s",
    ]
    assert "failed" in box["class"]


def test_each_line_names_what_it_follows_from(night: Browser) -> None:
    page = night.page(MAIL)

    message = page.select("#rail .who.person")[0].find_parent("li")
    answer = page.select("#rail .who.model")[0].find_parent("li")
    assert message is not None
    assert answer is not None
    assert texts(message, ".from") == ["from outside"]
    position = int(str(answer["id"]).removeprefix("p"))
    assert texts(answer, ".from") == [f"← {position - 1}"]
    assert attribute(answer.select_one(".pos"), "href") == f"/event?at={position}"
    assert attribute(answer.select_one(".pos"), "aria-label") == f"position {position}"


def test_time_in_which_nothing_happened_is_folded_and_says_whether_a_person_was_waited_for(night: Browser) -> None:
    idle = texts(night.page(MAIL), "#rail .idle")

    assert idle[0] == "nothing happened for 23 min 07 s"
    assert idle[1] == "waited for a person: 12 min 42 s"
    assert idle[2].startswith("waits for a person: ")
    assert idle[2].endswith(" so far")


def test_what_a_person_has_changed_is_shown_as_it_was_and_as_it_is(night: Browser) -> None:
    page = night.page(MAIL)

    assert texts(page, "#rail del")[0].startswith("We asked the carrier where your parcel is. If it has not come")
    assert texts(page, "#rail ins")[0].startswith("We asked the carrier where your parcel is, and ask again on Monday")
    edited = next(box for box in page.select("#rail .box") if "edited by a person" in box.get_text())
    assert "and ask again on Monday" in edited.get_text()


def test_what_waits_for_a_person_is_shown_in_full_with_its_digest(night: Browser) -> None:
    box = night.page(MAIL).select_one("#rail .box.waits")

    assert box is not None
    assert "A person is to approve send_mail" in box.get_text()
    assert "to: accounting@shop.example" in box.get_text()
    assert "digest" in box.get_text()


def test_the_drawing_has_a_bar_for_each_answer_and_each_call_and_folds_idle_time(night: Browser) -> None:
    page = night.page(MAIL)

    assert len(page.select(".lanes .m-turn")) == 5
    assert len(page.select(".lanes .m-tool")) == 3
    assert len(page.select(".lanes .m-fail")) == 1
    assert texts(page, ".lanes svg text") == ["23 min", "12 min", "so far"]
    ends = [float(str(bar["x"])[:-1]) + float(str(bar["width"])[:-1]) for bar in page.select(".lanes [width$='%']")]
    assert max(ends) <= 100.01


def test_every_event_can_be_seen_and_each_record_as_json(night: Browser) -> None:
    events = night.page(f"{MAIL}&show=events")
    records = night.page(f"{MAIL}&show=json&talk=json")

    assert len(events.select("#rail > li[id]")) == 40
    assert len(records.select("#rail > li[id]")) == 40
    assert '"type": "session-created"' in texts(records, "#rail pre")[0]
    assert '"type": "message-accepted"' in texts(records, "#talk pre")[0]
    assert texts(events, ".tabs [aria-current]") == ["Text", "Every event"]


def test_hostile_content_stands_there_as_text(night: Browser) -> None:
    page = night.page(MAIL)

    assert not page.select("img, #rail script, #talk script")
    assert "<script>alert('approve all')</script>" in page.get_text()
    assert "\\u202e" in texts(page, ".esc")
    assert "\u202e" not in page.get_text()


def test_a_branch_begins_with_what_it_shares_and_names_its_origin(runtime: Runtime, browser: Browser) -> None:
    branch = runtime.sessions.branch("greeting").id
    runtime.ask("And now?", session=branch)

    page = browser.page(f"/session?id={branch}")

    assert texts(page, "#talk .you .text") == ["Hello", "And now?"]
    assert attribute(page.select(".crumb a")[1], "href") == "/session?id=greeting"


def test_a_session_that_does_not_exist_is_not_found(night: Browser) -> None:
    page = night.page("/session?id=nobody", 404)

    assert "session_not_found" in page.get_text()


@pytest.mark.parametrize(
    "query", ["", "?id=refunds&at=x", "?id=refunds&at=9999", "?id=refunds&at=1", "?id=refunds&show=x"]
)
def test_an_address_that_names_no_such_page_says_what_is_wrong(night: Browser, query: str) -> None:
    assert "invalid_input" in night.page(f"/session{query}", 400).get_text()


def test_a_long_session_is_shown_a_window_at_a_time_with_its_end_first(long: Browser) -> None:
    page = long.page("/session?id=long")

    (pager,) = texts(page, ".pager:not(.below)")
    count = int("".join(filter(str.isdigit, pager.split("of ")[1])))
    assert count > 3000
    assert len(page.select("#rail .pos")) <= 200
    assert attribute(page.select_one("#session"), "data-last") == str(count)
    assert page.select_one(".pager a[rel=next]") is None


def test_links_lead_through_all_windows_of_a_long_session(long: Browser) -> None:
    address, seen, pages = "/session?id=long&show=events&at=1900", set[int](), 0
    while address:
        page = long.page(address)
        pages += 1
        seen |= {int(str(line["id"])[1:]) for line in page.select("#rail > li[id]")}
        follow = page.select_one(".pager a[rel=next]")
        address = "" if follow is None else str(follow["href"])

    assert pages > 5
    assert sorted(seen) == list(range(min(seen), max(seen) + 1))
    assert len(seen) > 1100


@pytest.mark.parametrize("show", ["", "&show=events", "&show=json&talk=json"])
def test_a_page_of_a_long_session_is_small(long: Browser, show: str) -> None:
    for at in ("", "&at=1500"):
        assert len(long.client.get(f"/session?id=long{show}{at}").content) <= MOST


def test_the_window_around_a_position_has_that_position_in_it(long: Browser) -> None:
    page = long.page("/session?id=long&at=1500&show=events")

    assert page.select_one("#p1500") is not None


def test_how_many_events_have_come_since_is_told_in_a_few_bytes(long: Browser) -> None:
    count = int(attribute(long.page("/session?id=long").select_one("#session"), "data-last"))

    news = long.page(f"/session?id=long&part=news&last={count - 7}")

    assert attribute(news.select_one("#events"), "data-count") == "7"
    assert len(str(news)) < 100


def test_a_page_of_a_session_needs_no_tables(night: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(night.source), "tables_now", None)
    page = night.page(MAIL)

    assert texts(page, "h1") == ["mail-2026-11-21"]
    assert not [fact for fact in texts(page, ".facts span") if "tokens" in fact]


def test_what_it_cost_is_unknown_where_no_answer_has_a_price(browser: Browser) -> None:
    wait_until(lambda: browser.source.tables.lag() == 0)

    assert "cost unknown" in texts(browser.page("/session?id=greeting"), ".facts span")
    assert "cost unknown" in browser.page("/state?id=greeting").select("#moment .pairs")[0].get_text()
