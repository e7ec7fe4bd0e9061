"""Two requests have the same digest if, and only if, they ask for the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import InvalidInputError
from reenact.domain.idempotency import digest_of
from reenact.domain.operations.table import (
    AgentRejectRequest,
    AgentRespondRequest,
    ContainerCreateRequest,
    ImageContent,
    ImageRegisterRequest,
)
from reenact.domain.plain import Json, is_mapping, is_sequence
from reenact.domain.tools import ToolSpec

plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("a1é\ud800", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=5,
)


def answer(value: Json, **more: Any) -> bytes:  # noqa: ANN401 - what a request takes
    request = AgentRespondRequest(call_id="t1", value=value, **more)
    return digest_of(request.event_type, request)


def like(one: object, other: object) -> bool:
    """Return whether two values are equal, and of the same types throughout."""
    if type(one) is not type(other) or one != other:
        return False
    if is_mapping(one) and is_mapping(other):
        return all(like(one[name], other[name]) for name in one)
    return not is_sequence(one) or not is_sequence(other) or all(like(*pair) for pair in zip(one, other, strict=True))


@given(plain, plain)
def test_the_digests_of_two_answers_are_equal_if_and_only_if_the_answers_are(one: Json, other: Json) -> None:
    assert (answer(one) == answer(other)) == like(one, other)


@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_names_does_not_count(names: list[str]) -> None:
    assert answer({name: name * 2 for name in names}) == answer({"a": "aa", "b": "bb", "c": "cc"})


def test_the_id_of_the_request_does_not_count() -> None:
    assert answer(1, request_id="r") == answer(1, request_id="s") == answer(1)


def test_the_kind_of_the_request_counts() -> None:
    request = ContainerCreateRequest(name="home")

    assert digest_of("container_create_request", request) != digest_of("container_drop_request", request)


def test_a_field_that_has_its_default_counts_as_one_that_is_not_there() -> None:
    class Older(msgspec.Struct):
        call_id: str

    older, newer = Older("t1"), AgentRejectRequest(call_id="t1", reason="", resume=True)

    assert digest_of("agent_reject_request", older) == digest_of("agent_reject_request", newer)


@pytest.mark.parametrize("changed", [{"reason": "no"}, {"resume": False}, {"by": "ann"}, {"call_id": "t2"}])
def test_each_other_field_counts(changed: dict[str, Any]) -> None:
    request = AgentRejectRequest(call_id="t1")
    other = msgspec.structs.replace(request, **changed)

    assert digest_of("agent_reject_request", request) != digest_of("agent_reject_request", other)


def image(**content: Any) -> bytes:  # noqa: ANN401 - what an image takes
    return digest_of("image_register_request", ImageRegisterRequest(image=ImageContent(**content)))


def test_the_content_of_an_image_counts_but_for_its_defaults() -> None:
    assert image(id="i") == image(id="i", model=None)
    assert image(id="i") != image(id="i", model="m")


def test_a_function_counts_by_its_name_and_a_tool_by_what_is_known_of_it() -> None:
    class Tool:
        def __init__(self, spec: ToolSpec) -> None:
            self.spec = spec

    def look() -> None:
        """Look."""

    def other() -> None:
        """Look elsewhere."""

    assert image(tools=(look,)) == image(tools=(look,))
    assert image(tools=(look,)) != image(tools=(other,))
    assert image(tools=(Tool(ToolSpec(name="look")),)) == image(tools=(Tool(ToolSpec(name="look")),))
    assert image(tools=(Tool(ToolSpec(name="look")),)) != image(tools=(Tool(ToolSpec(name="look", cost=1.0)),))
    assert image(tools=(Tool(ToolSpec(name="look")),)) != image(tools=(object(),))
    assert image(tools=(object(),)) == image(tools=(object(),))


def test_what_never_ends_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(InvalidInputError, match=r"agent_respond_request .* give plain data"):
        answer(endless)
