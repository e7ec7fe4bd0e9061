"""A session goes on with models of several providers, with tools: each is sent what the others said as it takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import Image, LLMConfig, LLMDriver, OpenAIProvider, Runtime
from reenact.actors.environment.api import OnEvent
from reenact.actors.environment.claude.environment import ClaudeClient, ClaudeDriver
from reenact.actors.environment.wire.driver import RetryPolicy
from reenact.domain.messages import Said
from reenact.testing import FakeChatAPI, FakeMessagesAPI
from tests.examples import examples

ODD_IDS = ["functions.lookup:0", "x" * 70, None]


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means nothing"


IMAGE = Image(id="chat", tools=(lookup,))


@pytest.fixture
def claude() -> Iterator[FakeMessagesAPI]:
    with FakeMessagesAPI() as api:
        yield api


@pytest.fixture
def chat() -> Iterator[FakeChatAPI]:
    with FakeChatAPI() as api:
        yield api


def test_a_conversation_goes_from_claude_to_a_server_of_ones_own_to_responses_and_back(
    claude: FakeMessagesAPI, chat: FakeChatAPI, tmp_path: Path
) -> None:
    log = tmp_path / "agents.db"
    one: Any = {"llm": LLMConfig(api_key="k", base_url=claude.url)}
    other: Any = {"llm_provider": OpenAIProvider(chat.url, "k", "m")}
    third: Any = {"llm_provider": OpenAIProvider(chat.url, "k", "m", api="responses", effort="low")}
    session_id: str | None = None

    for number, way in enumerate((one, other, third, one, other)):
        if way is one:
            claude.reply(
                text=None, thinking=f"Claude {number}", tools=[("lookup", {"word": "a"})], stop_reason="tool_use"
            )
            claude.reply(f"answer {number}", thinking=f"Claude again {number}")
        else:
            chat.reply(text=None, thinking=f"Other {number}", tools=[("lookup", {"word": "b"})] * 3, call_ids=ODD_IDS)
            chat.reply(f"answer {number}", thinking=f"Other again {number}")
        with Runtime.open(log, **way, tools=[lookup]) as runtime:
            image = IMAGE if session_id is None else None
            answer = runtime.ask(f"question {number}", session=session_id, image=image)
            session_id = answer.session_id
            assert (answer.outcome, answer.text, answer.failure) == ("completed", f"answer {number}", None)

    last_of_claude, last_of_chat = repr(claude.requests[-1].body), repr(chat.requests[-1].body)
    for number in range(4):
        assert f"question {number}" in last_of_chat
        assert f"answer {number}" in last_of_chat
    assert "answer 2" in last_of_claude
    assert last_of_chat.count("a means nothing") == 2
    assert last_of_chat.count("b means nothing") == 9
    own = [thought in last_of_claude for thought in ("Claude 0", "Claude again 0", "Other 1", "Other 2")]
    assert own == [True, True, False, False]
    own = [thought in last_of_chat for thought in ("Claude 0", "Other 1", "Other again 1", "Other 2")]
    assert own == [False, True, True, False]
    assert "openai:" not in last_of_claude + last_of_chat


class Alternating:
    """A driver that has another one answer each request, as a list says; also in the middle of a turn."""

    def __init__(self, drivers: Sequence[LLMDriver]) -> None:
        self._drivers = iter(drivers)

    @property
    def name(self) -> str:
        return "alternating"

    def provide(self) -> LLMDriver:
        return self

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, object]],
        on_event: OnEvent,
    ) -> None:
        sending = next(self._drivers).send_message(
            messages=messages, system=system, model="m", max_tokens=max_tokens, tools=tools, on_event=on_event
        )
        assert sending is not None
        await sending

    def interrupt(self) -> None:
        """Nothing is interrupted here."""


class Step(NamedTuple):
    """An answer of one of the models."""

    who: str
    thinking: str | None
    text: str | None
    calls: int

    def script(self, claude: FakeMessagesAPI, chat: FakeChatAPI) -> None:
        calls: list[tuple[str, dict[str, object]]] = [("lookup", {"word": "a"})] * self.calls
        if self.who == "claude":
            reason = "tool_use" if calls else "end_turn"
            claude.reply(self.text, thinking=self.thinking, tools=calls, stop_reason=reason)
        else:
            chat.reply(self.text, thinking=self.thinking, tools=calls)


def turn(calling: list[Step], end: Step) -> list[Step]:
    return [*calling, end]


WHO = st.sampled_from(["claude", "chat", "responses"])
THOUGHTS = st.sampled_from([None, "hm"])
CALLING = st.builds(Step, WHO, THOUGHTS, st.sampled_from([None, "I look."]), st.integers(1, 2))
ENDING = st.builds(Step, WHO, THOUGHTS, st.just("Done."), st.just(0))
TURNS = st.builds(turn, st.lists(CALLING, max_size=2), ENDING)


@settings(max_examples=examples(30))
@given(st.lists(TURNS, min_size=1, max_size=3))
def test_every_provider_takes_what_any_other_has_said_also_between_a_call_and_its_result(
    turns: list[list[Step]],
) -> None:
    with FakeMessagesAPI() as claude, FakeChatAPI() as chat:
        llm = LLMConfig(api_key="k", base_url=claude.url)
        drivers: dict[str, LLMDriver] = {
            "claude": ClaudeDriver(llm, ClaudeClient(llm), RetryPolicy(0)),
            "chat": asyncio.run(OpenAIProvider(chat.url, "k").provide()),
            "responses": asyncio.run(OpenAIProvider(chat.url, "k", api="responses", effort="low").provide()),
        }
        steps = [step for turn in turns for step in turn]
        for step in steps:
            step.script(claude, chat)

        provider = Alternating([drivers[step.who] for step in steps])
        with Runtime.in_memory(llm_provider=provider, default_image=IMAGE) as runtime:
            session_id = None
            for _ in turns:
                answer = runtime.ask("And now?", session=session_id)
                session_id = answer.session_id
                assert (answer.outcome, answer.failure, answer.text) == ("completed", None, "Done.")
            assert session_id is not None
            assert runtime.sessions.messages(session_id)

        assert len(claude.requests) + len(chat.requests) == len(steps)
