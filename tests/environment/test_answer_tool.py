"""The tool that stands for the answer: its call is heard as text, and nothing else of an answer changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from reenact.actors.environment.answer_tool import AnswerTool
from reenact.domain.messages import TextBlock, ToolUseBlock, text_of
from reenact.domain.output import OutputSpec, read_output
from reenact.domain.stream.answer import Complete, gather
from reenact.domain.stream.events import (
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    StreamData,
    TextDelta,
    ThinkingDelta,
    ToolCall,
)

NUMBER = OutputSpec(name="number", schema={"type": "object", "properties": {"n": {"type": "integer"}}})
LOOK = ToolCall(id="a", name="look", input={})
CALL = ToolCall(id="b", name="final_answer", input={"n": 5})
STOP = MessageStop(stop_reason="tool_use")


def heard(*reported: StreamData | Mapping[str, object], others: Sequence[str] = ()) -> list[StreamData]:
    found: list[StreamData] = []
    tool = AnswerTool(NUMBER, [{"name": name} for name in others], found.append)
    for event in reported:
        tool.convert(event)
    return found


def test_the_model_is_told_of_a_tool_that_takes_the_answer() -> None:
    tool = AnswerTool(NUMBER, [], print)

    assert (tool.definition["name"], tool.definition["input_schema"]) == ("final_answer", NUMBER.schema)


def test_it_has_a_name_that_no_other_tool_has() -> None:
    assert AnswerTool(NUMBER, [{"name": "final_answer"}, {"name": "final_answer_2"}], print).name == "final_answer_3"


def test_its_call_is_the_text_of_the_answer() -> None:
    assert heard(MessageStart(), CALL, MessageDelta(usage={}), STOP) == [
        MessageStart(),
        TextDelta(text='{"n":5}'),
        MessageDelta(usage={}),
        MessageStop(stop_reason="end_turn"),
    ]


def test_what_cannot_be_read_of_its_call_is_the_text_as_the_model_wrote_it() -> None:
    call = ToolCall(id="b", name="final_answer", input={"INVALID_JSON": '{"n": '})

    assert TextDelta(text='{"n": ') in heard(MessageStart(), call, STOP)


def test_a_call_in_pieces_is_heard_when_it_is_whole() -> None:
    pieces = [InputJsonDelta(partial_json=piece) for piece in ('{"n"', ":5}")]

    assert heard(ToolCall(id="b", name="final_answer"), *pieces, STOP) == [
        TextDelta(text='{"n":5}'),
        MessageStop(stop_reason="end_turn"),
    ]
    assert heard(ToolCall(name="look"), *pieces) == [ToolCall(name="look"), *pieces]


def test_mappings_are_heard_as_what_they_say() -> None:
    reported: dict[str, Any] = {"type": "tool_call", "data": {"name": "final_answer", "input": {"n": 1}}}

    assert heard(reported) == [TextDelta(text='{"n":1}')]


@pytest.mark.parametrize("before", [TextDelta(text="Let me see."), ThinkingDelta(text="Hm.")])
def test_words_before_it_do_not_hide_it(before: StreamData) -> None:
    answer = gather(heard(MessageStart(), before, CALL, STOP))

    assert read_output(answer.blocks) == {"n": 5}
    assert answer.stop_reason == "end_turn"


def test_other_calls_are_carried_out_first() -> None:
    found = heard(CALL, LOOK, STOP, others=["look"])

    assert found == [TextDelta(text='{"n":5}'), LOOK, STOP]


@pytest.mark.parametrize("stop", [MessageStop(), MessageStop(stop_reason="max_tokens"), STOP])
def test_an_answer_without_it_is_what_it_is(stop: MessageStop) -> None:
    said = [MessageStart(), TextDelta(text="{}"), stop]

    assert heard(*said) == said


def test_another_attempt_begins_anew() -> None:
    assert heard(CALL, MessageStart(), CALL)[-1] == TextDelta(text='{"n":5}')


def test_a_whole_message_has_it_as_text_too() -> None:
    whole = Complete(
        stop_reason="tool_use",
        content=(TextBlock("So:"), ToolUseBlock("b", "final_answer", {"n": 5}), ToolUseBlock("a", "look", {})),
    )

    found = heard(TextDelta(text="So:"), CALL, LOOK, whole)

    assert found[:2] == [TextDelta(text="So:"), TextDelta(text='\n{"n":5}')]
    (told,) = [event for event in found if isinstance(event, Complete)]
    assert told.stop_reason == "tool_use"
    assert told.content == (TextBlock("So:"), TextBlock('\n{"n":5}'), ToolUseBlock("a", "look", {}))
    assert text_of(told.content) == "".join(event.text for event in found if isinstance(event, TextDelta))


def test_a_whole_message_that_is_nothing_but_the_call_is_text_alone() -> None:
    found = heard(CALL, Complete(stop_reason="tool_use", content=(ToolUseBlock("b", "final_answer", {"n": 5}),)))

    assert found[-1] == Complete(stop_reason="end_turn", content=(TextBlock('{"n":5}'),))
