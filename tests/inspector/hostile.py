"""A log in which strangers have written whatever does harm, wherever they can: names, ids, words, calls, results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from reenact import Image, Runtime, ToolOutcome, ask_user, tool
from reenact.domain.plain import JsonObject
from reenact.inspector.text import CUT
from reenact.loop import Policies, Policy
from reenact.testing import ManualClock
from tests.inspector.shop import Answer, Ids, Model

BIDI: Final = "\u202e\u2066\u200f"
HARM: Final = (
    f"{BIDI}<script>alert(1)</script><img src=x onerror=alert(1)>\x1b]0;owned\x07\x1b[31m"
    "\"'><svg onload=alert(1)>{{ 7 * 7 }}{% raw %}</textarea></pre>&amp;\r\nFORGED\x7f\x85\u2028\ufeff\U000e0041"
)
"""Whatever a terminal, a browser or a reader of lines might obey; a line that begins with FORGED is none of ours."""
NAME: Final = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> {{7*7}}/../?id=x#%00&amp;" + "e\u0301" * 50
"""Names and ids are printable, and no more can be said of them."""
WITH_NUL: Final = f"\x00{HARM}"
LONG: Final = 10_000_000
MANY: Final = 200
"""Calls in one answer."""


@tool
async def shout(words: str) -> str:
    """Say it very often."""
    return words * (LONG // len(words))


@tool
async def pay(to: str) -> str:
    """Pay somebody, if a person lets it."""
    return to


@tool
async def fail(why: str) -> ToolOutcome:
    """Fail."""
    return ToolOutcome(why, is_error=True)


def write_hostile(path: str | Path) -> None:
    """Write the log; two calls in it wait for people."""
    clock = ManualClock(datetime(2026, 11, 21, 1, tzinfo=UTC))
    model = Model(clock)
    with Runtime.open(
        path, llm_provider=model, tools=[shout, pay, fail], synchronous="OFF", clock=clock, ids=Ids(clock)
    ) as runtime:
        model.hear(runtime.events)
        runtime.containers.create(container_id=NAME)
        policies = Policies(tools={"pay": Policy("required")})
        tools = ("shout", "pay", "fail", ask_user)
        runtime.images.register(Image(id=NAME, model=HARM, system_prompt=HARM, tools=tools, policies=policies))
        for name in ("", "many", "asks"):
            runtime.sessions.create(NAME, NAME, session_id=NAME + name)
        calls: list[tuple[str, JsonObject]] = [
            ("shout", {"words": HARM}),
            ("fail", {"why": WITH_NUL}),
            (HARM, {HARM: {HARM: [HARM] * 3}}),
            ("fail", {"why": "x" * 5 * CUT}),
        ]
        model.will_say(
            Answer(WITH_NUL, 1.0, (1, 2), thought=WITH_NUL, calls=calls),
            Answer("", 1.0, error=f"{HARM}: {WITH_NUL}"),
        )
        runtime.ask(HARM, session=NAME)
        model.will_say(Answer(HARM, 1.0, calls=[("fail", {"why": HARM})] * MANY))
        runtime.ask("y" * 5 * CUT, session=NAME + "many")
        asked: list[tuple[str, JsonObject]] = [
            ("pay", {"to": HARM}),
            ("ask_user", {"prompt": HARM, "options": [HARM, "no"]}),
            ("pay", {"to": "you"}),
        ]
        model.will_say(Answer(HARM, 1.0, calls=asked))
        runtime.ask(HARM, session=NAME + "asks")
        *_, last = runtime.agents.pending()
        runtime.agents.reject(last, reason=HARM, by=HARM)
        runtime.sessions.branch(NAME, new_session_id=f"{NAME}branch")
