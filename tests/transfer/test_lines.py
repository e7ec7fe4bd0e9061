"""Events as plain data, however deep what is in them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reenact.projections.transfer.lines import named

DEEPER_THAN_FUNCTIONS = 2_000


class Part(msgspec.Struct, tag="part"):
    """A part of an event."""

    number: int
    rest: Any = None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.builds(Part, st.integers(), inner) | st.tuples(inner)
    ),
    max_leaves=20,
)


@given(value=values)
def test_what_is_very_deep_inside_is_named_as_it_is_elsewhere(value: object) -> None:
    deep: Any = value
    for _ in range(DEEPER_THAN_FUNCTIONS):
        deep = [deep]

    found: Any = named(deep)

    for _ in range(DEEPER_THAN_FUNCTIONS):
        (found,) = found
    assert msgspec.json.encode(found) == msgspec.json.encode(named(value))
