"""The page of a state: what was true at a position, and what is different at another one."""

from __future__ import annotations

import gc
import sys
import threading

import pytest
from bs4 import BeautifulSoup

from reenact.domain.plain import is_sequence
from reenact.domain.session.state import Session, SessionBranched
from reenact.inspector.states import States, full_state
from reenact.inspector.windows import History
from reenact.projections.explain.history import moment_of
from tests.browsers import Tab
from tests.inspector.browsing import Browser, attribute, texts

REFUNDS = "/state?id=refunds"


@pytest.fixture
def asked(night: Browser) -> int:
    """Return the position at which the turn ended that waits for the second refund."""
    ends = [
        line for line in night.page("/session?id=refunds").select("#rail > li.small") if "waiting" in line.get_text()
    ]
    return int(str(ends[-1]["id"])[1:])


def facts(page: BeautifulSoup) -> dict[str, str]:
    """Return what was true."""
    return dict(zip(texts(page, "#moment dl.pairs dt"), texts(page, "#moment dl.pairs dd"), strict=True))


def changes(page: BeautifulSoup) -> dict[str, tuple[str, str]]:
    """Return what is different, by its name."""
    rows = page.select("table.diff tbody tr:not(.same)")
    return {texts(row, "th")[0]: (texts(row, "td")[0], texts(row, "td")[1]) for row in rows}


def test_it_says_what_was_true_at_the_position(night: Browser, asked: int) -> None:
    page = night.page(f"{REFUNDS}&at={asked}")

    assert texts(page, "#told output") == [str(asked)]
    assert texts(page, "h2#then + .chip") == ["waiting_for_human_input"]
    assert facts(page)["turn"] == "none under way"
    assert facts(page)["messages"] == "10"
    assert facts(page)["used"] == "7 780 tokens in, 282 out, cost 0.0092"
    assert texts(page, "#moment .box.waits pre") == ["order: A-18 amount: 900"]


def test_what_came_later_was_not_said_yet(night: Browser, asked: int) -> None:
    then = texts(night.page(f"{REFUNDS}&at={asked}"), "#moment .talk .text")
    now = texts(night.page(REFUNDS), "#moment .talk .text")

    assert "Order A-18: paid back 900 for A-18" not in then
    assert now[-1] == "Order A-18: paid back 900 for A-18"


def test_two_positions_are_compared_side_by_side(night: Browser, asked: int) -> None:
    page = night.page(f"{REFUNDS}&at={asked}&left={asked}&right={asked + 4}")

    found = changes(page)
    (call,) = {name.rpartition(".")[0] for name in found if name.startswith("call[")}
    assert call.startswith('call["refund ')
    assert found["agent.state"] == ("waiting_for_human_input", "tool_executing")
    assert found[f"{call}.stage"] == ("waiting", "answered")
    assert found[f"{call}.result"] == ("nothing", "paid back 900 for A-18")
    assert found[f"{call}.by"] == ("nothing", "night shift")
    assert found["used.tools.refund.calls"] == ("1", "2")
    assert found["pending[0]"][1] == "nothing"
    assert "conversation.messages" not in found


def test_it_can_be_compared_the_other_way_round(night: Browser, asked: int) -> None:
    there = changes(night.page(f"{REFUNDS}&left={asked}&right={asked + 4}"))
    back = changes(night.page(f"{REFUNDS}&left={asked + 4}&right={asked}"))

    assert {name: (after, before) for name, (before, after) in back.items()} == there


def test_a_position_is_compared_with_the_one_before_unless_somebody_asks_otherwise(night: Browser, asked: int) -> None:
    page = night.page(f"{REFUNDS}&at={asked}")

    assert texts(page, "h2#d ~ .end")[0].endswith("in 1 event")
    assert [str(one["value"]) for one in page.select(".posin")] == [str(asked - 1), str(asked)]


def test_without_script_links_and_forms_lead_to_other_positions(night: Browser, asked: int) -> None:
    page = night.page(f"{REFUNDS}&at={asked}")

    back = night.page(attribute(page.select_one("#back"), "href"))
    slid = night.page(f"{REFUNDS}&n=1")

    assert texts(back, "#told output") == [str(asked - 1)]
    assert texts(slid, "h2#then + .chip") == ["no agent"]
    assert page.select_one("noscript button") is not None


def test_each_event_has_a_tick_and_a_long_session_has_times(night: Browser, long: Browser) -> None:
    short = night.page(REFUNDS)

    assert len(short.select(".track rect[data-n]")) == int(attribute(short.select_one("#slider"), "max"))
    assert len(long.page("/state?id=long").select(".track text")) == 5


def test_the_difference_of_far_positions_does_not_list_what_was_said(long: Browser) -> None:
    page = long.page("/state?id=long&left=20&right=2900")

    assert "not listed" in texts(page, "tr.same")[-1]
    assert int(changes(page)["conversation.messages"][1]) > 300
    assert len(str(page)) < 150_000


@pytest.mark.parametrize("query", ["", "?id=refunds&at=1", "?id=refunds&left=9999", "?id=refunds&n=x"])
def test_an_address_that_names_no_such_state_says_what_is_wrong(night: Browser, query: str) -> None:
    assert "invalid_input" in night.page(f"/state{query}", 400).get_text()


def alike(one: Session, other: Session) -> bool:
    """Return whether two states say the same of a session, but for what a light one has left out."""
    names = set(one.__struct_fields__) - {"known_calls", "conversation"}
    return all(getattr(one, name) == getattr(other, name) for name in names) and list(one.conversation) == list(
        other.conversation
    )


def test_states_are_those_that_the_log_comes_to_whatever_was_asked_before(long: Browser) -> None:
    states, history = States(), History(long.source.log, "long")
    for number in (history.count, 1, 2500, 999, 1000, 1001, 2500, 3):
        assert alike(states.at(history, number), full_state(history, number))


def test_a_state_of_a_branch_begins_with_that_of_its_origin(night: Browser) -> None:
    rows = night.source.log.find(names=["session-branched"])
    branched = next(row.event for row in rows if isinstance(row.event, SessionBranched))
    history = History(night.source.log, branched.session_id)
    states = States()
    for number in range(1, history.count + 1):
        row = history.row(number)
        known = moment_of(night.source.log, branched.session_id, at=row.position)
        assert alike(states.at(history, number), known.session)


def test_few_states_are_kept_and_those_are_found_that_are(long: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.inspector.states.KEPT", 3)
    states, history = States(), History(long.source.log, "long")
    states.at(history, 3000)
    threads = [threading.Thread(target=states.at, args=(history, number)) for number in (700, 1500, 2700)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert alike(states.at(history, 2999), full_state(history, 2999))
    assert states.ahead(history, 3000) <= 3000


def test_a_kept_state_holds_no_messages_of_the_states_that_are_read_on_from_it(long: Browser) -> None:
    states, history = States(), History(long.source.log, "long")

    def held() -> list[int]:
        referents: list[object] = gc.get_referents(states.at(history, 20).conversation)
        return [len(messages) for messages in referents if is_sequence(messages)]

    before = held()
    states.at(history, 900)
    assert held() == before == [2]


def test_the_slider_carries_the_state_along(tab: Tab, night: Browser, asked: int) -> None:
    tab(lambda page: page.goto(night.inspector.address))
    tab(lambda page: page.goto(f"{night.inspector.url}{REFUNDS}&at={asked}"))

    answer = "#moment .talk .text >> text=Order A-18: paid back 900"
    tab(lambda page: page.keyboard.press("End"))
    tab(lambda page: page.wait_for_selector(answer))
    end = int(tab(lambda page: page.inner_text("#told output")))
    tab(lambda page: page.keyboard.press("ArrowLeft"))
    tab(lambda page: page.wait_for_selector(f"#told output >> text={end - 1}"))
    tab(lambda page: page.keyboard.press("Shift+ArrowLeft"))
    tab(lambda page: page.wait_for_selector(answer, state="detached"))

    assert tab(lambda page: page.inner_text("#told .says")).startswith("A message came in")
    assert tab(lambda page: page.url).endswith(f"at={tab(lambda page: page.inner_text('#told output'))}")
    assert not [said for said in tab.said if "404" not in said]


def test_a_page_whose_state_takes_long_says_how_far_it_is_and_goes_on(
    long: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["reenact.inspector.pages.state"], "AT_ONCE", 0)
    monkeypatch.setattr(sys.modules["reenact.inspector.pages.state"], "SECONDS", 0.0)
    last = texts(long.page("/state?id=long", 503), ".empty p")[0]

    assert "of which 1 000 have been read" in last
    assert long.page("/state?id=long&part=moment").select_one("#moment") is not None
    assert attribute(long.page("/state?id=long&n=1").select_one("#slider"), "value") == "1"


def test_states_are_read_on_from_where_they_were(long: Browser) -> None:
    history, states = History(long.source.log, "long"), States()

    assert [states.advance(history, 2500, 0.0) for _ in range(4)] == [1000, 2000, 2500, 2500]
    assert states.advance(history, 3000, 60.0) == 3000
    assert alike(states.at(history, 2999), full_state(history, 2999))
