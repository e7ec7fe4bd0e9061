"""A key stands in no recording, however it is said, and what held it is found again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import Image, LLMConfig, Said, TextBlock
from reenact.actors.environment.recorded.format import Exchange, RecordedEvent, Redactor, Setting
from reenact.testing import MockEnvironmentFactory, MockEvent, RecordedEnvironment
from tests.environment.recorded.conftest import Open
from tests.runtime.witness import Ears

KEY = "sk-ant-SECRET-0123456789abcdef"
OTHER = "sk-ant-OTHERS-0123456789abcdef"


def redactor_of(*keys: str) -> Redactor:
    redactor = Redactor()
    for key in keys:
        redactor.learn(key)
    return redactor


def telling(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Give the key in two pieces, or, when it was given already, say how much was said."""
    pieces = (f"It is {KEY[:12]}", KEY[12:]) if len(conversation) == 1 else (f"{len(conversation)} messages",)
    for piece in pieces:
        yield MockEvent("text_delta", data={"text": piece})
    yield MockEvent("message_stop")


def talk(opened: Open, environment: object, log: Path, *questions: str, key: str | None, system: str = "") -> Ears:
    runtime = opened(environment, log, llm=LLMConfig(api_key=key))
    ears = Ears(runtime)
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i", system_prompt=system or None))
    agent = runtime.sessions.run(runtime.sessions.create("c", "i", session_id="s").id)
    for question in questions:
        ears.wait("turn_completed", turn_id=runtime.agents.receive(agent, question))
    runtime.close()
    return ears


def said(ears: Ears) -> list[str]:
    return [str(event.data["text"]) for event in ears.heard if event.type == "text_delta"]


def errors(ears: Ears) -> list[str]:
    return [str(event.data["message"]) for event in ears.heard if event.type == "error"]


def record(opened: Open, path: Path, *questions: str, system: str = "") -> None:
    mock = MockEnvironmentFactory("telling", {"telling": telling}, delays=False)
    factory = RecordedEnvironment.record(path, mock)
    talk(opened, factory, path.with_name("first.db"), *questions, key=KEY, system=system)


@pytest.mark.parametrize("key", [KEY, OTHER, None])
def test_a_key_that_came_in_pieces_is_not_in_the_file_and_the_conversation_goes_on(
    path: Path, opened: Open, key: str | None
) -> None:
    record(opened, path, "Which?", "And now?")

    ears = talk(opened, RecordedEnvironment.replay(path), path.with_name("second.db"), "Which?", "And now?", key=key)

    content = path.read_text()
    assert [part for part in (KEY, KEY[:12], KEY[12:]) if part in content] == []
    assert errors(ears) == []
    assert said(ears) == ["It is ***", "", "3 messages"]


@pytest.mark.parametrize("key", [KEY, OTHER, None])
def test_a_request_that_holds_the_key_is_answered_with_and_without_a_key(
    path: Path, opened: Open, key: str | None
) -> None:
    question, system = f"What is this: {KEY}?", f"Never say {KEY}."
    record(opened, path, question, "And now?", system=system)

    replay = RecordedEnvironment.replay(path)
    ears = talk(opened, replay, path.with_name("second.db"), question, "And now?", key=key, system=system)

    assert KEY not in path.read_text()
    assert errors(ears) == []
    assert replay.remaining == 0


def test_a_request_that_holds_another_key_is_not_answered_and_what_is_known_is_not_shown(
    path: Path, opened: Open
) -> None:
    record(opened, path, f"What is this: {KEY}?")

    replay = RecordedEnvironment.replay(path)
    asked = f"Is this {OTHER} and not {KEY}?"
    ears = talk(opened, replay, path.with_name("second.db"), asked, key=OTHER)

    (message,) = errors(ears)
    assert "asked user: 'Is this *** and not ***?', recorded 'What is this: ***?'" in message


def test_a_key_that_was_recorded_openly_is_found_by_a_runtime_that_hides_it(path: Path, opened: Open) -> None:
    mock = MockEnvironmentFactory("telling", {"telling": telling}, delays=False)
    question = f"What is this: {OTHER}?"
    talk(opened, RecordedEnvironment.record(path, mock), path.with_name("first.db"), question, key=None)

    ears = talk(opened, RecordedEnvironment.replay(path), path.with_name("second.db"), question, key=OTHER)

    assert errors(ears) == []


@given(st.data())
def test_pieces_without_keys_are_the_text_without_keys(data: st.DataObject) -> None:
    keys = ("abcdef", "abcdefgh", "fabcde")
    whole = "".join(data.draw(st.lists(st.sampled_from([*keys, *"abcdefgh "]), max_size=12)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    redactor = redactor_of(*keys)

    found = redactor.parts(pieces)

    assert len(found) == len(pieces)
    assert "".join(found) == redactor.text(whole)
    assert [key for key in keys if any(key in piece for piece in "".join(found).split("***"))] == []


def delta(type_: str, field: str, text: str, **more: str) -> RecordedEvent:
    return RecordedEvent(0.0, type_, {field: text, **more})


def test_pieces_of_one_text_go_together_whatever_stands_between_them_and_those_of_two_do_not() -> None:
    begin, end = "abcde", "fghij"
    events = (
        delta("thinking_delta", "text", begin),
        delta("thinking_delta", "text", end),
        delta("text_delta", "text", begin),
        RecordedEvent(0.0, "message_delta", {"usage": {}}),
        delta("text_delta", "text", f"{end}{begin}"),
        RecordedEvent(0.0, "tool_call", {"id": "1", "name": "x", "input": {}}),
        delta("text_delta", "text", end),
        delta("input_json_delta", "partial_json", f'"{begin}', id="1"),
        delta("input_json_delta", "partial_json", "{}", id="2"),
        delta("input_json_delta", "partial_json", f'{end}"', id="1"),
    )
    exchange = Exchange(number=1, session="s", turn="t", step=1, setting=Setting(), messages=(), events=events)

    found = redactor_of(begin + end).exchange(exchange).events

    texts = [one.data.get("text", one.data.get("partial_json")) for one in found]
    assert texts == ["***", "", "***", None, begin, None, end, '"***', "{}", '"']
    assert [one.type for one in found] == [one.type for one in events]


def test_of_a_key_that_could_be_guessed_there_is_no_digest() -> None:
    def hidden(key: str) -> int:
        messages = (Said("user", (TextBlock(f"It is {key}"),)),)
        exchange = Exchange(number=1, session="s", turn="t", step=1, setting=Setting(), messages=messages)
        return len(redactor_of(key).exchange(exchange).hidden)

    assert [hidden(key) for key in ("short", "some-secret", "0123456789abcdef")] == [0, 0, 1]


def test_a_key_is_recognised_in_a_text_that_is_json_and_in_the_middle_of_a_word() -> None:
    holder = redactor_of(KEY)
    redactor = Redactor(holder.digests(KEY))

    redactor.search({"a": ["x" * 5000, 1, None, json.dumps({"key": f"<{KEY}>"})]})

    assert redactor.secrets == (KEY,)
    assert redactor.text(f"_{KEY}_") == "_***_"
