"""What is typed into one chat is one conversation."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.testing import FakeMessagesAPI, FakeReply, FakeRequest
from tests.cli.conftest import KEY, Chat, ask

LETTERS = st.characters(categories=["Lu", "Ll", "Lo", "Nd", "Po", "So"], include_characters=" ")
inputs = st.text(LETTERS, min_size=1, max_size=40).map(str.strip).filter(lambda text: text[:1] not in ("", "/"))


def recalling(request: FakeRequest) -> FakeReply:
    """Answer with what the model can know of the conversation: how often it was asked, and for what at first."""
    asked = [message["content"][0]["text"] for message in request.body["messages"] if message["role"] == "user"]
    text = f"You have asked {len(asked)} times. The first time: {asked[0]}"
    return FakeReply(deltas=[text])  # in one piece: between two the terminal may get the line about what is under way


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(typed=st.lists(inputs, min_size=1, max_size=4))
def test_property_06_multi_turn_conversation_state(chat: Chat, typed: list[str]) -> None:
    """Property 06: Multi-Turn Conversation State (requirements 2.2, 2.6)."""
    with FakeMessagesAPI(api_key=KEY, default=recalling) as api:
        terminal = chat("--model", "claude-x", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=api.url)
        for number, text in enumerate(typed, start=1):
            ask(terminal, text, f"You have asked {number} times. The first time: {typed[0]}")
        terminal.send_line("/exit")
        status = terminal.wait_for_exit()

        sent = [message["content"][0]["text"] for message in api.requests[-1].body["messages"]]
    answers = [f"You have asked {number} times. The first time: {typed[0]}" for number in range(1, len(typed) + 1)]
    assert status.code == 0
    assert sent[::2] == typed
    assert sent[1::2] == answers[:-1]
