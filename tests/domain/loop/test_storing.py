"""States and events come back from JSON as they were; what was not written so is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.events import Custom, Done, Failed, HumanResponded, HumanSelectRequired, Option, StepCompleted
from reenact.domain.loop.faults import ErrorInfo, info_of
from reenact.domain.loop.folding import evolve
from reenact.domain.loop.people import response
from reenact.domain.loop.state import AgentState, built_in, event_from_json, from_json, state_from_json, to_json
from reenact.domain.loop.values import AppendOnlyList, Frozen

STATE = AgentState("s", metadata=Frozen(user="ü"))
FAILED = Failed(error=info_of(ValueError("no")), step=3)
DONE = Done(reason="enough", final_state=STATE)


@pytest.mark.parametrize("value", [STATE, evolve(STATE, DONE), FAILED, DONE, Custom(name="x", data={"a": [1]})])
def test_what_was_written_comes_back(value: Any) -> None:  # noqa: ANN401
    text = to_json(value)

    assert from_json(text) == value
    assert from_json(text.encode()) == value
    assert to_json(from_json(text)) == text


def test_events_come_back_together() -> None:
    events = [FAILED, DONE]

    assert from_json(to_json(events)) == events
    assert from_json(to_json(AppendOnlyList(events))) == events
    assert to_json([]) == "[]"


def test_the_json_of_an_event_says_what_it_is() -> None:
    assert json.loads(to_json(FAILED)) == {
        "type": "error",
        "step": 3,
        "error": {"type": "ValueError", "message": "no"},
    }
    assert "ü" in to_json(STATE)


def test_what_comes_back_cannot_be_changed() -> None:
    event: Any = event_from_json(to_json(Custom(name="x", data={"a": [1]})))
    state = state_from_json(to_json(STATE.replace(messages=[{"role": "user", "content": "hi"}])))

    with pytest.raises(TypeError, match="cannot be changed"):
        event.data["a"] = 2
    with pytest.raises(TypeError, match="cannot be changed"):
        state.messages[0]["role"] = "me"


def test_an_exception_is_not_stored() -> None:
    error = state_from_json(to_json(STATE.replace(error=ValueError("no")))).error

    assert (error, error and error.exception) == (ErrorInfo("ValueError", "no"), None)
    assert str(error) == "no"


@pytest.mark.parametrize("value", [5, {"session_id": "s"}, [5], "text"])
def test_only_states_and_events_are_written(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidInputError, match="only a state or events can be written as JSON"):
        to_json(value)
    with pytest.raises(TypeError, match="object is not JSON"):
        built_in(object())


@pytest.mark.parametrize(
    "text",
    [
        "{",
        b"\xff",
        "[" * 99999,
        "5",
        "{}",
        '{"type": "nothing"}',
        '{"type": "done"}x',
        '{"type": "llm_stream"}',
        "[5]",
        '{"session_id": 5, "status": "idle"}',
        '{"session_id": "s", "status": "asleep"}',
        '{"session_id": "s", "status": "idle", "messages": [5]}',
        '{"session_id": "s", "status": "idle", "events": [{}]}',
        '{"session_id": "s", "status": "idle", "max_steps": 0}',
    ],
)
def test_what_was_not_written_so_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidInputError, match="this is not "):
        from_json(text)


def test_a_state_is_no_event_and_an_event_no_state() -> None:
    with pytest.raises(InvalidInputError, match="this is not of type AgentState, but Done"):
        state_from_json(to_json(DONE))
    with pytest.raises(InvalidInputError, match="this is not of type LoopEvent, but AgentState"):
        event_from_json(to_json(STATE))


def test_a_message_of_an_exception_that_cannot_speak_is_its_name() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError

    told = [info_of(error).message for error in (MuteError(), ValueError(), ValueError("\ud800"))]

    assert told == ["MuteError", "ValueError", "ValueError"]


def test_a_step_in_which_nothing_happened_changes_only_the_count() -> None:
    after = evolve(STATE, StepCompleted(step=1))

    assert after == STATE.replace(status="running", step_count=1, events=[StepCompleted(step=1)])


@pytest.mark.parametrize("name", ["pending_prompt", "pending_select", "interruption", "error"])
def test_what_is_nothing_of_its_kind_is_refused_also_when_it_is_empty(name: str) -> None:
    nothings: tuple[Any, ...] = ("", [], 0)
    for nothing in nothings:
        with pytest.raises(InvalidInputError, match=f"{name} must be a "):
            STATE.replace(**{name: nothing})


def test_a_question_that_waits_is_answered_by_its_options_also_when_the_state_was_read() -> None:
    asked = HumanSelectRequired(session_id="s", prompt="Which?", options=(Option("One", "a"), Option("Two", "b")))
    state = state_from_json(to_json(evolve(AgentState("s"), asked)))

    assert response(state, "Two") == (HumanResponded(value="b"),)
