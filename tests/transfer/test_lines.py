"""Events as plain data."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reenact.projections.transfer.lines import named


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
def test_a_value_is_named_as_json_has_it(value: object) -> None:
    assert msgspec.json.encode(named(value)) == msgspec.json.encode(value)
