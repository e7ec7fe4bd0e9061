"""Questions to people: text prompts and selections, and the check of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from reenact.domain.errors import InvalidAnswerError
from reenact.domain.loop.calls import json_text
from reenact.domain.loop.events import Option
from reenact.domain.plain import Json, JsonObject, is_sequence
from reenact.domain.structs import Frozen
from reenact.domain.tools import ToolSpec

ASK_USER = "ask_user"
"""The tool by which a model asks a person; nothing runs, and the person's answer is the result."""
ASK_USER_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "The question, as the person will read it."},
        "options": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What the person can select from. Leave it out for a question that is answered in words.",
        },
        "multi": {"type": "boolean", "description": "Whether any number of the options may be selected."},
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


ask_user = ToolSpec(
    name=ASK_USER,
    description=(
        "Ask the person you work for a question, and wait for the answer. Ask only what you cannot find out yourself. "
        "Give options if the answer is one of a few."
    ),
    input_schema=ASK_USER_SCHEMA,
    idempotent=True,
)
"""The tool's spec: an image that has it among its `tools` lets its agent ask."""


class Question(Frozen):
    """A question to a person: for text if `options` is None; else for one option, or for any number if `multi`."""

    prompt: str
    options: tuple[Option, ...] | None = None
    multi: bool = False


def question_of(arguments: Mapping[str, object]) -> Question | str:
    """Return the question that a call of `ask_user` asks, or a text that says what is wrong with its arguments."""
    prompt, options, multi = arguments.get("prompt"), arguments.get("options"), arguments.get("multi", False)
    if not isinstance(prompt, str) or not prompt.strip():
        return f"{ASK_USER}: argument `prompt` must be the text of the question"
    if options is None:
        return Question(prompt)
    texts = _texts(options)
    if not texts:
        return f"{ASK_USER}: argument `options` must be a list of texts with at least one in it, or be left out"
    if not isinstance(multi, bool):
        return f"{ASK_USER}: argument `multi` must be true or false"
    return Question(prompt, tuple(Option(text, text) for text in texts), multi)


def checked_answer(question: Question, value: object) -> Json:
    """Return the answer as it is recorded.

    Options are matched by their values or, if no value matches, by their labels.

    Raises:
        InvalidAnswerError: the answer does not fit the question.
    """
    if question.options is None:
        if isinstance(value, str) and value.strip():
            return value
        raise InvalidAnswerError(f"the question {question.prompt!r} must be answered with text, not {value!r}")
    if not question.multi:
        return _selected_option(question.options, value)
    if not is_sequence(value):
        raise InvalidAnswerError(f"several options can be selected: answer with a list of them, not {value!r}")
    picked = [_selected_option(question.options, one) for one in value]
    if len({json_text(one) for one in picked}) < len(picked):
        raise InvalidAnswerError(f"an option is selected twice in {value!r}")
    return picked


def _texts(value: object) -> Sequence[str]:
    """Return the texts; empty if the value is not a list of non-empty texts."""
    try:
        texts = msgspec.convert(value, list[str])
    except msgspec.ValidationError:
        return ()
    return texts if all(texts) else ()


def _selected_option(options: Sequence[Option], value: object) -> Json:
    for option in options:
        if type(option.value) is type(value) and option.value == value:
            return option.value
    for option in options:
        if isinstance(value, str) and option.label == value:
            return option.value
    labels = ", ".join(repr(option.label) for option in options)
    raise InvalidAnswerError(f"{value!r} is none of the options: {labels}")
