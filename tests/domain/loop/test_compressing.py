"""What a summary replaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.loop.assembling import compressed, part_to_replace, request_for_summary, shortened
from reenact.domain.loop.instructions import CompressContext
from reenact.domain.loop.values import AppendOnlyList, Frozen

ROLES = st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=8)


def said(roles: list[str]) -> AppendOnlyList[Frozen]:
    return AppendOnlyList(Frozen(role=role, content=str(place)) for place, role in enumerate(roles))


@given(ROLES, st.integers(0, 9))
def test_the_results_of_tools_stay_with_what_called_for_them(roles: list[str], keep: int) -> None:
    first, end = part_to_replace(said(roles), keep)

    assert all(role == "system" for role in roles[:first])
    assert len(roles) - end >= min(keep, len(roles) - first)
    assert first == end or end == len(roles) or roles[end] != "tool"


@given(ROLES, st.integers(0, 9))
def test_what_was_replaced_is_kept_in_the_event(roles: list[str], keep: int) -> None:
    messages = said(roles)

    event = compressed(messages, part_to_replace(messages, keep), "in short")
    after = shortened(messages, event)

    place = event.kept
    assert [*after[:place], *event.replaced, *after[place + (event.summary is not None) :]] == messages
    assert event.summary is None or after[place] == event.summary


@pytest.mark.parametrize(
    ("payload", "model"), [({"model": "m", "messages": ["other"]}, "m"), (None, None), ("odd", None)]
)
def test_the_model_is_asked_about_what_is_replaced(payload: object, model: str | None) -> None:
    messages = said(["system", "user", "user", "user"])

    asked = request_for_summary(messages, (1, 3), CompressContext(prompt="Sum up.", payload=payload))

    assert asked["messages"] == [*messages[:3], {"role": "user", "content": "Sum up."}]
    assert asked.get("model") == model
