"""Which requests are the same, and what is said of those that are not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import Said, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.actors.environment.recorded.format import Redactor, Setting, ToolDefinition
from reenact.actors.environment.recorded.matching import (
    EMPTY_DIGEST,
    Request,
    difference,
    digests_after,
    key_of,
    models_agree,
)

SETTING = Setting(system="Be brief.", model="one", tools=(ToolDefinition("echo", "", {"type": "object"}),))


def user(text: str) -> Said:
    return Said("user", (TextBlock(text),))


def round_of(*ids: str, result: str = "done") -> tuple[Said, Said]:
    calls = tuple(ToolUseBlock(id_, "echo", {"n": number}) for number, id_ in enumerate(ids))
    return Said("assistant", calls), Said("user", tuple(ToolResultBlock(id_, result) for id_ in ids))


SAID = st.sampled_from((user("Hello"), user("Bye"), Said("assistant", (TextBlock("Hi"),)), *round_of("a", "b")))


def test_ids_of_calls_do_not_count_but_their_places_do() -> None:
    calls, results = round_of("a", "b")
    renamed = round_of("x", "y")
    swapped = Said("user", results.content[::-1])

    assert digests_after(EMPTY_DIGEST, (calls, results), None) == digests_after(EMPTY_DIGEST, renamed, None)
    assert digests_after(EMPTY_DIGEST, (calls, swapped), None) != digests_after(EMPTY_DIGEST, renamed, None)


def test_a_result_of_a_call_that_nobody_made_is_like_any_other_such() -> None:
    _, one = round_of("a")
    _, other = round_of("b")

    assert digests_after(EMPTY_DIGEST, (one,), None) == digests_after(EMPTY_DIGEST, (other,), None)


@given(st.lists(SAID), st.lists(SAID), st.lists(SAID))
def test_digests_of_what_grows_or_turns_another_way_are_those_of_the_whole(
    begin: list[Said], one: list[Said], other: list[Said]
) -> None:
    conversations = (begin, begin + one, begin + other, begin)
    request = Request(SETTING)

    found = [request.ask(said, Redactor()) for said in conversations]

    assert found == [Request(SETTING).ask(said, Redactor()) for said in conversations]
    assert found[1] == digests_after(found[0], one, begin[-1] if begin else None)[-1]


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(SETTING, system=None),
        msgspec.structs.replace(SETTING, tools=()),
        msgspec.structs.replace(SETTING, mcp_servers=("files",)),
        msgspec.structs.replace(SETTING, api_tools=({"type": "web_search"},)),
    ],
)
def test_what_the_model_is_told_counts(other: Setting) -> None:
    assert key_of(EMPTY_DIGEST, SETTING) != key_of(EMPTY_DIGEST, other)


def test_how_long_an_answer_may_be_does_not_count_and_the_order_of_fields_neither() -> None:
    longer = msgspec.structs.replace(SETTING, max_tokens=7)
    one = msgspec.structs.replace(SETTING, api_tools=({"type": "x", "name": "y"},))
    other = msgspec.structs.replace(SETTING, api_tools=({"name": "y", "type": "x"},))

    assert key_of(EMPTY_DIGEST, SETTING) == key_of(EMPTY_DIGEST, longer)
    assert key_of(EMPTY_DIGEST, one) == key_of(EMPTY_DIGEST, other)


@pytest.mark.parametrize(
    ("asked", "recorded", "agree"),
    [("a", "a", True), ("a", "b", False), (None, "b", True), ("a", None, True), (None, None, True)],
)
def test_models_agree_unless_two_are_named(asked: str | None, recorded: str | None, *, agree: bool) -> None:
    assert models_agree(asked, recorded) is agree


@pytest.mark.parametrize(
    ("asked", "recorded", "where"),
    [
        ((user("One"),), (user("Two"),), "message 1: asked user: 'One', recorded 'Two'"),
        ((user("a" * 50 + "b"),), (user("a" * 50 + "c"),), f"…{'a' * 20 + 'b'!r}, recorded …{'a' * 20 + 'c'!r}"),
        ((user("One"), user("Two")), (user("One"),), "message 2: asked user: 'Two', recorded is none"),
        ((user("One"),), (user("One"), user("Two")), "message 2: not asked, recorded user: 'Two'"),
        ((user("One"),), (Said("assistant", (TextBlock("One"),)),), "asked user: 'One', recorded assistant: 'One'"),
        ((Said("user", ()),), (user("Two"),), "asked user: 'null', recorded 'Two'"),
        (round_of("a"), round_of("b", result="lost"), "message 2: asked user: "),
        ((*round_of("a"), user("One")), (*round_of("b"), user("Two")), "message 3: asked user: 'One'"),
        ((Said("user", (), refused=True),), (Said("user", ()),), "asked user (refused): '', recorded user: ''"),
        (
            (Said("assistant", (ThinkingBlock("so"), *round_of("a")[0].content)),),
            (),
            "message 1: asked assistant: '(Thinking)(echo is called)', recorded is none",
        ),
    ],
)
def test_the_first_difference_of_conversations_is_shown(
    asked: tuple[Said, ...], recorded: tuple[Said, ...], where: str
) -> None:
    assert where in difference(asked, SETTING, recorded, SETTING)


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (msgspec.structs.replace(SETTING, system="Be brave."), "system: asked 'Be brief.', recorded 'Be brave.'"),
        (msgspec.structs.replace(SETTING, model="two"), "model: asked 'one', recorded 'two'"),
        (msgspec.structs.replace(SETTING, tools=()), "tools: asked "),
        (msgspec.structs.replace(SETTING, mcp_servers=("files",)), "mcp servers: asked '[]', recorded '[\"files\"]'"),
    ],
)
def test_the_first_difference_of_settings_is_shown(other: Setting, where: str) -> None:
    assert difference((), SETTING, (), other).startswith(where)
