"""What stands in the place of what was taken out, and what is still told apart around it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.loop.events import AskedCall, ToolApproved
from reenact.domain.marks import equal_except_marks, is_marked, mark
from reenact.domain.messages import TextBlock

MARK = mark("field")
texts = st.text(alphabet="ab[ ", max_size=4)


@given(st.lists(texts, min_size=1, max_size=4), texts)
def test_a_text_fits_what_is_left_of_it_and_nothing_that_begins_or_ends_otherwise(parts: list[str], gone: str) -> None:
    left, whole = MARK.join(parts), gone.join(parts)

    assert equal_except_marks(left, whole)
    assert equal_except_marks(whole, left)
    assert not equal_except_marks(f"x{left}", f"y{whole}")
    assert not equal_except_marks(f"{left}x", f"{whole}y")


@pytest.mark.parametrize(
    ("recorded", "decided"),
    [
        (MARK, {"any": ["thing"]}),
        ({"redacted": MARK}, {"a": 1, "b": 2}),
        ([1, {"a": MARK}], (1, {"a": 7})),
        ({MARK: 1, "b": 2}, {"a": 1, "b": 2}),
        (f"a{MARK}b{MARK}c", "a-b-c"),
        (f"was not run: {MARK}", mark("value")),
        (TextBlock(f"so {mark('value')}"), TextBlock("so what")),
        (AskedCall("i", "n", {"a": MARK}, MARK), AskedCall("i", "n", {"a": 1}, "12", "", {"a": 1})),
        (ToolApproved(id="a", digest=MARK), ToolApproved(id="a", digest="12")),
    ],
)
def test_what_was_taken_out_may_have_been_anything(recorded: Any, decided: Any) -> None:  # noqa: ANN401 - any
    assert is_marked(recorded)
    assert equal_except_marks(recorded, decided)


@pytest.mark.parametrize(
    ("recorded", "decided"),
    [
        ("a", "b"),
        (1, "1"),
        (b"a", b"b"),
        ({"redacted": "a"}, {"a": 1}),
        ([1, MARK], [2, 1]),
        ([MARK], [1, 2]),
        ({"a": MARK, "b": 1}, {"a": 1, "b": 2}),
        ({"a": MARK}, {"b": MARK}),
        ({"a": 1, "b": MARK}, [1, 2]),
        (f"a{MARK}b{MARK}c", "a-c"),
        (f"ab{MARK}bc", "abc"),
        (TextBlock(MARK), ToolApproved(id="a", digest="b")),
        (TextBlock(MARK), {"text": "a", "citations": None}),
        (AskedCall("i", "n", {"a": 1}, "12"), AskedCall("i", "n", {"a": 1}, "12", "", {"a": 1})),
        (AskedCall("i", "n", {"a": MARK}, MARK), AskedCall("j", "n", {"a": 1}, "12")),
    ],
)
def test_what_is_left_must_be_the_same(recorded: Any, decided: Any) -> None:  # noqa: ANN401 - any
    assert not equal_except_marks(recorded, decided)


def test_what_is_no_number_is_like_itself_alone() -> None:
    assert equal_except_marks({"a": [float("nan")]}, {"a": [float("nan")]})
    assert not equal_except_marks({"a": [float("nan")]}, {"a": [1.0]})


@pytest.mark.parametrize(
    "value", ["[redacted]", "[redacted: a", 1, None, {"a": ["b"]}, TextBlock("a"), b"[redacted: a]"]
)
def test_what_has_no_mark_is_not_marked(value: object) -> None:
    assert not is_marked(value)
