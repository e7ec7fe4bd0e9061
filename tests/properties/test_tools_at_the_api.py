"""Whatever happened to calls before, the API takes every request, and what it has seen before stays as it was."""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reenact import Image, LLMConfig, Runtime, tool
from reenact.actors.session.ports import Recovery
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.testing import FakeMessagesAPI, FakeReply, FakeRequest, wait_until
from reenact.testing.fake_rules import refusal
from tests.logs import copy_log, is_begun, log_at
from tests.runtime.witness import PATIENCE, check, live_sessions, unfinished

Block = dict[str, Any]
NAMES = ("fetch", "fetch", "risky", "hang", "broken", "nowhere")


class Reply(msgspec.Struct, frozen=True):
    """What the model says to one request."""

    thinks: bool
    text: str
    calls: tuple[str, ...]
    stop_reason: str
    stalls: bool


DONE = Reply(thinks=False, text="Done.", calls=(), stop_reason="by its calls", stalls=False)
REFUSED = Reply(thinks=False, text="", calls=(), stop_reason="refusal", stalls=False)


class Episode(msgspec.Struct, frozen=True):
    """A message, what the model says to it and to what follows, what happens meanwhile, and what people decide."""

    replies: tuple[Reply, ...]
    meanwhile: tuple[str, ...]
    decisions: tuple[str, ...]


replies = st.builds(
    Reply,
    thinks=st.booleans(),
    text=st.sampled_from(["", "Let me see", " "]),
    calls=st.lists(st.sampled_from(NAMES), max_size=3).map(tuple),
    stop_reason=st.sampled_from(["by its calls"] * 6 + ["max_tokens", "refusal"]),
    stalls=st.sampled_from([False] * 5 + [True]),
)
happenings = st.sampled_from(["finish", "finish", "interrupt", "crash close", "crash resume", "close", "destroy"])
episodes = st.builds(
    Episode,
    replies=st.lists(replies, min_size=1, max_size=4).map(tuple),
    meanwhile=st.lists(happenings, min_size=1, max_size=3).map(tuple),
    decisions=st.lists(st.sampled_from(["approve", "reject", "stop"]), min_size=1, max_size=2).map(tuple),
)


class Stage:
    """A runtime on a Messages API whose answers are written down; what hangs is let go when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.copies = 0
        self.log = log_at(directory / "agents.db")
        self.plan: deque[Reply] = deque()
        self.requests: list[FakeRequest] = []
        self.hanging: list[threading.Event] = []
        self.signed: dict[str, str] = {}
        self.resumed: set[str] = set()
        self.number = 0
        self.stalled = False
        self.refused: list[FakeRequest] = []
        self.api = FakeMessagesAPI(default=self._answer).start()
        self.runtime: Runtime
        self.open("close")
        self.runtime.containers.create(container_id="c")
        policies = Policies(tools={"risky": Policy("required")})
        self.runtime.images.register(Image(id="i", tools=self.tools(), policies=policies, max_steps=6))
        self.runtime.sessions.create("c", "i", session_id="s")

    def tools(self) -> tuple[Any, ...]:
        def fetch(n: int) -> str:
            return f"page {n}"

        def broken() -> str:
            message = "out of order"
            raise OSError(message)

        def hang() -> str:
            event = threading.Event()
            self.hanging.append(event)
            event.wait()
            return "late, and well"

        async def risky(n: int) -> list[int]:
            return [n]

        return (tool(fetch, idempotent=True), tool(broken), tool(hang), tool(risky))

    def open(self, recovery: Recovery) -> None:
        self.let_go()
        if recovery == "resume" and is_begun(self.log):
            self.resumed |= unfinished(self.log)
        llm = LLMConfig(api_key="any", base_url=self.api.url)
        self.runtime = Runtime.open(self.log, llm=llm, recovery=recovery, synchronous="OFF", tools=self.tools())

    def crash(self, recovery: Recovery) -> None:
        """Go on with what a crash at this moment would have left; what is still asked after it, nobody asked."""
        self.copies += 1
        copy = copy_log(self.log, str(self.copies))
        self.keep_requests()
        self.runtime.close()
        self.let_go()
        self.api.requests.clear()
        self.log = copy
        self.open(recovery)

    def keep_requests(self) -> None:
        self.requests += self.api.requests
        self.api.requests.clear()

    def let_go(self) -> None:
        hanging, self.hanging = self.hanging, []
        for event in hanging:
            event.set()

    def close(self) -> None:
        self.runtime.close()
        self.let_go()
        self.api.close()

    def agent(self) -> str:
        return self.runtime.sessions.run("s")

    def rest(self) -> bool:
        """Wait until nothing moves; return whether a turn is under way."""

        def resting() -> bool:
            state = next((state for state, _ in live_sessions(self.runtime).values()), None)
            if state is None or state.turn is None:
                return state is None or state.round is not None or not state.queue or state.agent is None
            if state.round is None:
                return self.stalled
            hang = [call for call in state.round.at("running") if call.name == "hang"]
            return bool(hang) and len(hang) == len(state.round.at("running")) == len(self.hanging)

        wait_until(resting, PATIENCE, "nothing to move")
        return any(state.turn is not None for state, _ in live_sessions(self.runtime).values())

    def _answer(self, request: FakeRequest) -> FakeReply:
        self.number += 1
        planned = self.plan.popleft() if self.plan else DONE
        content: list[Block] = []
        if planned.thinks:
            signature = f"signature {self.number}"
            self.signed[signature] = f"Well, {self.number}"
            content.append({"type": "thinking", "thinking": self.signed[signature], "signature": signature})
        if planned.text:
            content.append({"type": "text", "text": planned.text})
        for place, name in enumerate(planned.calls):
            arguments = {"n": place} if name in {"fetch", "risky"} else {}
            id_ = f"toolu_{self.number}_{place}"
            content.append({"type": "tool_use", "id": id_, "name": name, "input": arguments})
        natural = "tool_use" if planned.calls else "end_turn"
        reason = natural if planned.stop_reason == "by its calls" else planned.stop_reason
        self.stalled = planned.stalls
        if reason == "refusal" and not planned.stalls:
            self.refused.append(request)
        return FakeReply(content=content, stop_reason=reason, stall_after=4 if planned.stalls else None)


@contextmanager
def staged() -> Generator[Stage]:
    with tempfile.TemporaryDirectory(prefix="reenact-") as directory:
        stage = Stage(Path(directory))
        try:
            yield stage
        finally:
            stage.close()


@settings(max_examples=settings().max_examples // 4)
@example([Episode((DONE,), ("finish",), ("approve",)), Episode((REFUSED,), ("finish",), ("approve",))])
@given(st.lists(episodes, min_size=1, max_size=3))
def test_every_request_is_one_that_the_api_takes_and_begins_as_the_one_before(history: list[Episode]) -> None:
    with staged() as stage:
        for episode in history:
            play(stage, episode)
        decide(stage, ("reject",))
        last = stage.runtime.agents.receive(stage.agent(), "And now?")
        stage.rest()
        stage.keep_requests()
        outcome = check(stage.runtime, resumed=stage.resumed)["s"].turns[last].outcome

    assert outcome == "completed"
    before: list[tuple[str, Block]] = []
    for request in stage.requests:
        assert refusal({"x-api-key": "any", **request.headers}, request.body, None) is None
        blocks = said_in(request.body)
        assert blocks[: len(before)] == before
        before = before_last_message(blocks) if any(request is one for one in stage.refused) else blocks
        for _, block in blocks:
            if block["type"] == "thinking":
                assert block["thinking"] == stage.signed[block["signature"]]


def play(stage: Stage, episode: Episode) -> None:
    stage.plan = deque(episode.replies)
    stage.runtime.agents.receive(stage.agent(), "Please")
    for happening in (*episode.meanwhile, "interrupt"):
        if not stage.rest():
            break
        match happening:
            case "finish":
                stage.let_go()
            case "interrupt":
                stage.runtime.agents.interrupt(stage.agent())
            case "destroy":
                stage.runtime.agents.destroy(stage.agent())
            case "close":
                stage.runtime.close()
                stage.open("close")
            case _:
                stage.crash("resume" if happening == "crash resume" else "close")
        stage.stalled = False if happening != "finish" else stage.stalled
    stage.stalled = False
    stage.plan.clear()
    decide(stage, episode.decisions)


def decide(stage: Stage, decisions: tuple[str, ...]) -> None:
    """Decide until nothing is left to be decided, and nothing is under way."""
    for number in range(10):
        if stage.rest():
            stage.runtime.agents.interrupt(stage.agent())
            stage.stalled = False
            continue
        pending = stage.runtime.agents.pending()
        if not pending:
            return
        match decisions[number % len(decisions)]:
            case "approve":
                stage.runtime.agents.approve(pending[0])
            case how:
                stage.runtime.agents.reject(pending[0], "no", resume=how == "reject")


def before_last_message(blocks: list[tuple[str, Block]]) -> list[tuple[str, Block]]:
    """Return the blocks without the turn that is under way: once the API refuses it, it is left out."""
    begin = max(place for place, block in enumerate(blocks) if block == ("user", {"type": "text", "text": "Please"}))
    return blocks[:begin]


def said_in(body: dict[str, Any]) -> list[tuple[str, Block]]:
    """Return the blocks of the conversation, without what is said to the cache."""
    said: list[tuple[str, Block]] = []
    for one in body["messages"]:
        content = one["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said += [
            (one["role"], {key: value for key, value in block.items() if key != "cache_control"}) for block in blocks
        ]
    return said
