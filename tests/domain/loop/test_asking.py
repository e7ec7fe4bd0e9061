"""Questions to people: which calls ask one, and which answers they take."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reenact.domain.errors import InvalidAnswerError
from reenact.domain.loop.asking import ASK_USER_SCHEMA, Question, checked_answer, question_of
from reenact.domain.loop.events import Option

TEXT = Question("Why?")
ONE = Question("Which?", (Option("First", "a"), Option("Second", 2), Option("a", True)))  # noqa: FBT003 - a value
MANY = Question("Which?", (Option("First", "a"), Option("Second", 2), Option("Third", True)), multi=True)  # noqa: FBT003


def test_a_question_without_options_is_answered_in_words() -> None:
    assert question_of({"prompt": "Why?"}) == TEXT
    assert question_of({"prompt": "Why?", "options": None, "multi": False}) == TEXT


def test_a_question_with_options_is_answered_by_selecting() -> None:
    options = (Option("a", "a"), Option("b", "b"))

    assert question_of({"prompt": "Which?", "options": ["a", "b"]}) == Question("Which?", options)
    assert question_of({"prompt": "Which?", "options": ["a", "b"], "multi": True}) == Question("Which?", options, True)  # noqa: FBT003 - as stored


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({}, "prompt"),
        ({"prompt": " "}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"prompt": "Which?", "options": []}, "options"),
        ({"prompt": "Which?", "options": "ab"}, "options"),
        ({"prompt": "Which?", "options": ["a", ""]}, "options"),
        ({"prompt": "Which?", "options": ["a", 2]}, "options"),
        ({"prompt": "Which?", "options": ["a"], "multi": "yes"}, "multi"),
    ],
)
def test_a_call_that_asks_nothing_is_told_which_argument_is_wrong(arguments: dict[str, Any], argument: str) -> None:
    wrong = question_of(arguments)

    assert isinstance(wrong, str)
    assert wrong.startswith(f"ask_user: argument `{argument}` must be")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt": st.sampled_from(["Which?", 7]),
            "options": st.none() | st.lists(st.sampled_from(["a", "b"]) | st.just(1), max_size=2),
            "multi": st.booleans() | st.just("yes"),
        },
    )
)
def test_what_the_schema_allows_is_a_question_and_nothing_that_has_no_prompt(arguments: dict[str, Any]) -> None:
    arguments = {name: value for name, value in arguments.items() if value is not None}
    valid = Draft202012Validator(ASK_USER_SCHEMA).is_valid(arguments)  # pyright: ignore[reportUnknownMemberType] # an overload of it is untyped

    question = question_of(arguments)

    assert "prompt" in arguments or isinstance(question, str)
    assert not valid or isinstance(question, Question) or arguments["options"] == []


def test_words_are_taken_as_they_are() -> None:
    assert checked_answer(TEXT, " because ") == " because "


@pytest.mark.parametrize("value", ["", " \n", 7, None, ["because"]])
def test_a_question_in_words_takes_no_other_answer(value: object) -> None:
    with pytest.raises(InvalidAnswerError, match=re.escape("'Why?'")):
        checked_answer(TEXT, value)


@pytest.mark.parametrize(("value", "answer"), [("a", "a"), (2, 2), (True, True), ("First", "a"), ("Second", 2)])
def test_an_option_is_selected_by_its_value_or_else_by_its_label(value: object, answer: object) -> None:
    picked = checked_answer(ONE, value)

    assert picked == answer
    assert type(picked) is type(answer)


@pytest.mark.parametrize("value", ["b", 1, 2.0, False, None, ["a"]])
def test_what_is_no_option_cannot_be_selected(value: object) -> None:
    with pytest.raises(InvalidAnswerError, match=re.escape("'First', 'Second', 'a'")):
        checked_answer(ONE, value)


@pytest.mark.parametrize(
    ("value", "answer"),
    [([], []), (["a", 2], ["a", 2]), (("Third", "First"), [True, "a"])],
)
def test_any_number_of_options_can_be_selected(value: object, answer: object) -> None:
    assert checked_answer(MANY, value) == answer


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a", "a list"),
        (b"a", "a list"),
        (7, "a list"),
        ({"a"}, "a list"),
        (["a", "z"], "'z' is none of the options"),
        (["a", "First"], "twice"),
        ([2, 2], "twice"),
    ],
)
def test_a_selection_of_several_is_a_list_of_different_options(value: object, why: str) -> None:
    with pytest.raises(InvalidAnswerError, match=re.escape(why)):
        checked_answer(MANY, value)
