"""Pages have a size, whatever stands in the log: what has no room has a link."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from markupsafe import Markup, escape

from reenact import Image, Runtime, ask_user, tool
from reenact.inspector import Source
from reenact.inspector.fitting import MOST, fitted
from reenact.loop import Policies, Policy
from reenact.testing import ManualClock
from tests.inspector.browsing import Browser, attribute, browsing, texts
from tests.inspector.demo import EVENING
from tests.inspector.shop import Answer, Ids, Model

CALLS: Final = 300
WIDE: Final = "日本語\u202e" * 400


@tool
async def read(what: str) -> str:
    """Read something."""
    return what


@tool
async def pay(to: str) -> str:
    """Pay somebody, if a person lets it."""
    return to


@pytest.fixture(scope="module")
def crowded_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log whose answers have hundreds of calls: `ran` ran, `asks` waits for people, as `question` does."""
    path = tmp_path_factory.mktemp("crowd") / "crowd.db"
    clock = ManualClock(EVENING)
    model = Model(clock)
    policies = Policies(tools={"pay": Policy("required")})
    image = Image(id="clerk", model="m", tools=("read", "pay", ask_user), policies=policies)
    with Runtime.open(
        path, llm_provider=model, tools=[read, pay], synchronous="OFF", clock=clock, ids=Ids(clock)
    ) as runtime:
        model.hear(runtime.events)
        runtime.containers.create(container_id="office")
        runtime.images.register(image)
        for name in ("ran", "asks", "question", "wide"):
            runtime.sessions.create("office", "clerk", session_id=name)
        options = [f"{number}: {WIDE}" for number in range(CALLS)]
        model.will_say(Answer("", 1.0, calls=[("ask_user", {"prompt": WIDE, "options": options})]))
        runtime.ask("Ask me", session="question")
        calls = [("read", {"what": f"number {number}"}) for number in range(CALLS)]
        model.will_say(Answer("", 1.0, calls=calls), Answer("All of them.", 1.0))
        runtime.ask("Read them", session="ran")
        model.will_say(Answer("", 1.0, calls=[("pay", {"to": f"number {number}"}) for number in range(CALLS)]))
        runtime.ask("Pay them", session="asks")
        for _ in range(30):
            model.will_say(Answer(WIDE, 1.0, thought=WIDE))
            runtime.ask(WIDE, session="wide")
    return path


@pytest.fixture
def crowd(crowded_log: Path) -> Iterator[Browser]:
    with Source.open(crowded_log) as source, browsing(source) as browser:
        yield browser


@pytest.mark.no_cover
@pytest.mark.parametrize("session", ["ran", "asks", "question", "wide"])
@pytest.mark.parametrize("page", ["session", "session?show=events", "session?show=json&talk=json", "state"])
def test_a_page_of_a_session_has_its_size_whatever_stands_in_it(crowd: Browser, session: str, page: str) -> None:
    path, _, query = page.partition("?")
    first = crowd.source.log.find(stream=f"session/{session}", limit=1)[0].position
    last = crowd.source.log.find(stream=f"session/{session}", backwards=True, limit=1)[0].position

    for at in (first + 5, (first + last) // 2, last):
        response = crowd.client.get(f"/{path}?id={session}&at={at}&{query}")

        assert response.status_code == 200
        assert len(response.content) <= MOST


def test_pages_of_events_waiting_calls_and_lists_have_it_too(crowd: Browser) -> None:
    for at in range(1, crowd.source.log.head() + 1, 43):
        assert len(crowd.client.get(f"/event?at={at}").content) <= MOST
    for address in ("/", "/waiting", "/branches", "/costs", "/chain"):
        response = crowd.client.get(address)
        assert response.status_code == 200
        assert len(response.content) <= MOST, address


@pytest.mark.parametrize(("relation", "begin"), [("next", "from=1"), ("prev", "until=9999")])
def test_one_page_goes_on_where_the_other_ends(crowd: Browser, relation: str, begin: str) -> None:
    positions = [row.position for row in crowd.source.log.find(stream="session/ran", limit=5000)]
    begin = begin.replace("=1", f"={positions[0]}").replace("=9999", f"={positions[-1]}")
    address, seen, bounds = f"/session?id=ran&show=events&{begin}", list[int](), list[tuple[int, int]]()
    while address:
        page = crowd.page(address)
        shown = [int(str(line["id"])[1:]) for line in page.select("#rail > li[id]")]
        bounds.append((shown[0], shown[-1]))
        seen += shown
        link = page.select_one(f".pager a[rel={relation}]")
        address = "" if link is None else str(link["href"])

    assert len(bounds) > 2
    assert sorted(set(seen)) == positions
    steps = list(pairwise(bounds))[:-1]  # the last one has more than what is left
    if relation == "next":
        assert all(after[0] == before[1] + 1 for before, after in steps)
    else:
        assert all(after[1] == before[0] - 1 for before, after in steps)


def test_the_event_that_is_asked_for_is_there_with_what_is_around_it(crowd: Browser) -> None:
    positions = [row.position for row in crowd.source.log.find(stream="session/ran", limit=5000)]
    for at in (positions[0], positions[CALLS + 50], positions[-1]):
        page = crowd.page(f"/session?id=ran&at={at}")

        shown = [int(str(one["id"])[1:]) for one in page.select("#rail [id^=p]")]
        assert at in shown
        middle = len([one for one in shown if one < at]) / len(shown)
        assert 0.2 < middle < 0.8 or at in (positions[0], positions[-1])


def test_of_many_calls_that_wait_some_are_shown_and_the_others_counted(crowd: Browser) -> None:
    page = crowd.page("/session?id=asks")

    shown = len(page.select("#rail .box.waits"))
    assert 5 < shown < CALLS
    assert f"and {CALLS - shown} more calls" in page.select("#rail")[0].get_text()
    assert texts(page, "#talk li:not(.you) .quiet") == ["and 260 more parts"]


def test_a_question_that_is_too_long_to_be_shown_cannot_be_answered(crowd: Browser) -> None:
    page = crowd.page("/waiting")

    ask = next(ask for ask in page.select(".ask") if "too long to be shown" in ask.get_text())
    assert not ask.select("fieldset")
    assert attribute(ask.select_one("button.main"), "disabled") == ""


def test_one_thing_is_shown_however_little_room_there_is() -> None:
    def draw(text: str, more: str) -> Markup:
        return escape(text + more)

    assert fitted(["aaaa", "bb", "c"], 6, draw, "!") == ["aaaa!"]
    assert fitted(["aaaa", "bb", "c"], 8, draw, "!") == ["aaaa!", "bb!"]
    assert fitted(["aaaa", "bb"], 1, draw, "") == ["aaaa"]
    assert fitted([], 10, draw) == []
