"""A session that is looked at while it is written: what comes is shown where it belongs, and nothing jumps."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest

from reenact import Image, Runtime
from reenact.inspector import Inspector, Source
from tests.browsers import Tab
from tests.inspector.talking import Talker

RATE: Final = 200
BEHIND: Final = 5.0
"""Seconds that a page may be behind, on machines that are busy with other tests."""
SHOWN: Final = """(told) => {
  const answer = document.querySelector("#talk .now"), more = answer?.querySelector(".more");
  if (!more) return false;
  const rest = more.hidden ? 0 : Number(more.textContent.replace(/\\D/g, ""));
  return answer.querySelector(".said").textContent.length + rest >= told;
}"""
"""Whether a page has so many characters of the answer under way, or counts them."""


class Watched:
    """A session that is open in a browser while a runtime writes it."""

    def __init__(self, runtime: Runtime, talker: Talker, inspector: Inspector, tab: Tab) -> None:
        self.talker = talker
        self.inspector = inspector
        self.tab = tab
        self._runtime = runtime
        runtime.containers.create(container_id="default")
        runtime.sessions.create("default", "chat", session_id="talk")
        self._agent = runtime.sessions.run("talk")

    def ask(self, text: str) -> None:
        """Send a message; the model is asked once this returns."""
        self._runtime.agents.receive(self._agent, text)
        self.talker.wait_until_asked()

    def answer(self, question: str, answer: str) -> None:
        """Send a message, and have it answered."""
        turn = self._runtime.agents.receive(self._agent, question)
        self.talker.wait_until_asked()
        self.talker.says(answer)
        self.talker.stops()
        self._runtime.turns.wait(turn)

    def open(self) -> None:
        self.tab(lambda page: page.goto(self.inspector.address))
        self.tab(lambda page: page.goto(f"{self.inspector.url}/session?id=talk"))
        self.shows("#following >> text=following")

    def shows(self, selector: str) -> None:
        """Wait until the page shows it."""
        self.tab(lambda page: page.wait_for_selector(selector))

    def has_shown(self, length: int) -> None:
        """Wait until the page has shown so many characters of the answer under way."""
        self.tab(lambda page: page.wait_for_function(SHOWN, arg=length))

    def text(self, selector: str) -> str:
        return self.tab(lambda page: page.inner_text(selector))


@pytest.fixture
def watched(log: str, tab: Tab) -> Iterator[Watched]:
    talker = Talker()
    with (
        Runtime.open(log, llm_provider=talker, default_image=Image(id="chat"), synchronous="OFF") as runtime,
        Source.open(log) as source,
        Inspector(source) as inspector,
    ):
        yield Watched(runtime, talker, inspector, tab)
        tab(lambda page: page.goto("about:blank"))


def test_an_answer_grows_while_it_is_given_and_stands_there_when_it_is_recorded(watched: Watched) -> None:
    watched.ask("Count")
    watched.talker.says("one ")
    watched.open()
    watched.shows("#talk .now .said >> text=one")
    words = [f"{number} " for number in range(400)]
    watched.talker.says(*words, "<b>\u202e\x1b")
    watched.shows("#talk .now .said .esc >> nth=1")

    assert watched.text("#talk .now .said") == f"one {''.join(words)}<b>\\u202e\\u001b"
    watched.talker.stops()
    watched.shows("#rail >> text=Turn ended: completed")
    assert watched.tab(lambda page: page.locator("#talk .now").count()) == 0
    assert watched.text("#talk li:last-child .text") == f"one {''.join(words)}<b>\\u202e\\u001b"
    assert watched.text(".title .chip") == "idle"
    assert not [said for said in watched.tab.said if "404" not in said]


def test_what_happens_while_the_page_is_held_is_counted_and_comes_when_it_is_let_go(watched: Watched) -> None:
    watched.answer("First", "The first answer.")
    watched.open()
    watched.tab(lambda page: page.keyboard.press("f"))
    watched.shows("#following >> text=held")
    watched.answer("Second", "The second answer.")
    watched.shows("#news >> text=4 new events")

    assert "The second answer." not in watched.text("#rail")
    watched.tab(lambda page: page.click("#news a"))
    watched.shows("#rail >> text=The second answer.")
    watched.shows("#following >> text=following")
    assert watched.tab(lambda page: page.locator("#news").is_hidden())


def test_new_events_do_not_move_what_somebody_reads(watched: Watched) -> None:
    for number in range(12):
        watched.answer(f"Question {number}", f"The answer to question {number}.")
    watched.open()
    watched.tab(lambda page: page.evaluate("scrollTo(0, 300)"))
    top = "[...document.querySelectorAll('#rail > li')][8].getBoundingClientRect().top"
    before = watched.tab(lambda page: page.evaluate(top))
    watched.answer("One more", "The last answer.")
    watched.shows("#news >> text=4 new events")

    assert "The last answer." in watched.text("#rail")
    assert watched.tab(lambda page: page.evaluate(top)) == before
    watched.tab(lambda page: page.evaluate("scrollTo(0, document.body.scrollHeight)"))
    watched.tab(lambda page: page.wait_for_selector("#news", state="hidden"))


def test_a_page_that_has_lost_the_inspector_says_since_when(watched: Watched) -> None:
    watched.open()

    watched.inspector.stop()

    watched.shows("#following.failed >> text=not following since")


def test_a_session_of_200_deltas_a_second_is_followed_without_falling_behind(watched: Watched) -> None:
    """With `make soak` for a minute, otherwise for a moment."""
    seconds = 60 if "SOAK_SEED" in os.environ else 1
    watched.ask("Count")
    watched.open()
    told = Counter(watched.talker, seconds)
    told.start()
    behind: list[float] = []
    while told.is_alive():
        length, since = told.length, time.monotonic()
        watched.has_shown(length)
        behind.append(time.monotonic() - since)

    watched.talker.stops()
    watched.shows("#rail >> text=Turn ended: completed")
    assert told.length == seconds * RATE * len("0000 ")
    assert behind
    assert max(behind) < BEHIND
    assert not [said for said in watched.tab.said if "404" not in said]


class Counter(threading.Thread):
    """Counts aloud, so many numbers a second; `length` is how many characters it has told by now."""

    def __init__(self, talker: Talker, seconds: int) -> None:
        super().__init__(name="counter", daemon=True)
        self._talker = talker
        self._numbers = seconds * RATE
        self.length = 0

    def run(self) -> None:
        begun, pace = time.monotonic(), threading.Event()
        for number in range(self._numbers):
            pace.wait(max(0.0, begun + number / RATE - time.monotonic()))
            text = f"{number % 10_000:04} "
            self._talker.says(text)
            self.length += len(text)
