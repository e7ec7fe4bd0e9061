"""An answer is what its chunks add up to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.loop.assembling import Assembly, model_of
from reenact.domain.loop.faults import InvalidChunkError


def assembled(*chunks: Any) -> Assembly:  # noqa: ANN401
    assembly = Assembly()
    for chunk in chunks:
        assembly.add(chunk)
    return assembly


@given(st.lists(st.text()))
def test_text_is_joined(texts: list[str]) -> None:
    assembly = assembled(*({"content": text} for text in texts), {"content": None})

    assert assembly.result == {"content": "".join(texts), "tool_calls": []}


def test_calls_replace_what_was_there_before() -> None:
    one, two = {"id": "a"}, {"id": "b"}

    assert assembled({"tool_calls": [one]}, {"tool_calls": [two]}, {"tool_calls": None}).result["tool_calls"] == [two]
    assert assembled({"tool_calls": [one]}, {"tool_calls": []}).result["tool_calls"] == []


@given(st.data())
def test_pieces_of_calls_are_assembled_in_whatever_order_they_come(data: st.DataObject) -> None:
    calls = [(f"c{index}", f"tool{index}", json.dumps({"text": data.draw(st.text())})) for index in range(3)]
    pieces: list[list[dict[str, Any]]] = []
    for index, (id_, name, arguments) in enumerate(calls):
        cut = data.draw(st.integers(0, len(arguments)))
        pieces.append(
            [
                {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}},
                {"index": index, "id": None, "function": {"arguments": arguments[:cut]}},
                {"index": index, "function": {"name": "", "arguments": arguments[cut:]}},
                {"index": index},
            ]
        )
    order = data.draw(st.permutations([index for index in range(3) for _ in range(4)]))

    assembly = assembled(*({"tool_calls": [pieces[index].pop(0)]} for index in order))

    assert assembly.result["tool_calls"] == [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in calls
    ]


def test_a_whole_list_takes_the_place_of_pieces() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}}

    assembly = assembled({"tool_calls": [piece]}, {"tool_calls": [{"id": "b"}]}, {"tool_calls": [{**piece, "id": "c"}]})

    made = {"type": "function", "function": piece["function"]}
    assert assembly.result["tool_calls"] == [{**made, "id": "c"}]


def test_counts_of_tokens_replace_those_of_the_same_name() -> None:
    assembly = assembled(
        {"usage": {"input_tokens": 5, "output_tokens": 1}},
        {"usage": {"output_tokens": 9, "input_tokens": None}},
        {"usage": None},
    )

    assert assembly.usage == {"input_tokens": 5, "output_tokens": 9}


@pytest.mark.parametrize(
    ("payload", "model"),
    [({"model": "m"}, "m"), ({}, "unknown"), (None, "unknown"), ({"model": 5}, "unknown"), ({"model": ""}, "unknown")],
)
def test_the_model_is_the_one_that_the_payload_names(payload: object, model: str) -> None:
    assert model_of(payload) == model


def test_a_chunk_may_be_an_object_that_can_be_dumped() -> None:
    class Chunk:
        def model_dump(self, *, mode: str) -> dict[str, Any]:
            return {"content": "Hello"}

    assert assembled(Chunk()).result["content"] == "Hello"


@pytest.mark.parametrize("calls", [[1], ["a"], [{"id": "a"}, None]])
def test_calls_of_a_chunk_are_mappings(calls: list[object]) -> None:
    with pytest.raises(InvalidChunkError, match="a list of mappings"):
        assembled({"tool_calls": calls})
