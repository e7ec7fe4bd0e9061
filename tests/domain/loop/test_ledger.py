"""What was used and what it cost: sums, and what is not known stays unknown."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.ledger import (
    MOST_TOKENS,
    CostLimit,
    Ledger,
    Price,
    Spent,
    context_after,
    cost_of,
    price_of,
    prices_of,
    sum_of,
    tokens_in_context,
)

counts = st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "other"]), st.integers(0, 1000))
costs = st.none() | st.integers(0, 100).map(float)
uses = st.lists(st.tuples(st.sampled_from(["m", "n", "look"]), st.booleans(), counts, costs), max_size=8)


@given(uses)
def test_the_ledger_is_the_sum_of_its_uses(used: list[tuple[str, bool, dict[str, int], float | None]]) -> None:
    ledger = Ledger()

    for name, is_tool, usage, cost in used:
        ledger = ledger.with_tool(name, cost) if is_tool else ledger.with_model(name, usage, cost)

    total: Counter[str] = Counter()
    for _, is_tool, usage, _ in used:
        total.update({} if is_tool else usage)
    assert Counter(ledger.usage) == total
    assert ledger.cost == sum(cost or 0.0 for *_, cost in used)
    for is_tool, spent in ((False, ledger.models), (True, ledger.tools)):
        for name, each in spent.items():
            mine = [use for use in used if use[:2] == (name, is_tool)]
            assert each.calls == len(mine)
            assert each.unpriced == sum(cost is None for *_, cost in mine)


def test_a_use_without_a_price_counts_as_unknown() -> None:
    spent = Spent().plus({"input_tokens": 3}, 2.0).plus({"input_tokens": 4}, None)

    assert spent == Spent(calls=2, usage={"input_tokens": 7}, cost=2.0, unpriced=1)


def test_each_kind_of_token_has_its_price() -> None:
    usage = {
        "input_tokens": 1_000_000,
        "output_tokens": 2_000_000,
        "cache_creation_input_tokens": 4_000_000,
        "cache_read_input_tokens": 8_000_000,
    }

    assert cost_of(usage, Price(1.0, 10.0)) == pytest.approx(1 + 20 + 4 * 1.25 + 8 * 0.1)
    assert cost_of(usage, Price(1.0, 10.0, cache_write=100.0, cache_read=0.0)) == pytest.approx(1 + 20 + 400)


@pytest.mark.parametrize(("usage", "price"), [({"input_tokens": 1}, None), ({}, Price(1.0, 1.0)), ({}, None)])
def test_the_cost_of_what_is_not_known_is_not_known(usage: dict[str, int], price: Price | None) -> None:
    assert cost_of(usage, price) is None


def test_what_is_no_count_is_not_counted() -> None:
    odd: dict[str, Any] = {"input_tokens": 3, "service_tier": "standard", "nested": {"a": 1}, "yes": True, "less": -1}

    assert sum_of(odd, odd) == {"input_tokens": 6}
    assert sum_of({}, {"output_tokens": 0}) == {}
    assert cost_of(odd, Price(1_000_000.0, 0.0)) == 3.0


def test_a_sum_that_is_beyond_the_limit_stays_at_it() -> None:
    most = {"input_tokens": MOST_TOKENS - 1}

    assert sum_of(most, {"input_tokens": 7}) == sum_of(most, most) == most
    assert sum_of(most, {"input_tokens": MOST_TOKENS}) == most


def test_a_conversation_is_as_long_as_all_that_was_read_and_written() -> None:
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 8}

    assert tokens_in_context(usage) == 15
    assert tokens_in_context({}) == 0


def test_a_limit_is_exceeded_beyond_it_and_not_at_it() -> None:
    limit, cents = CostLimit(0.3), [0.1, 0.1, 0.1]

    assert sum(cents) > 0.3
    assert not limit.is_exceeded(sum(cents))
    assert limit.is_exceeded(0.30001)
    assert CostLimit(0).is_exceeded(0.000001)
    assert not CostLimit(0).is_exceeded(0.0)


@pytest.mark.parametrize("most", [0, 0.5, 3, math.inf])
def test_a_limit_is_an_amount(most: float) -> None:
    assert CostLimit(most).max_total == most


@pytest.mark.parametrize("amount", [math.nan, -0.01, math.inf, -math.inf, 10**400, True, "3", None])
@pytest.mark.parametrize("field", ["input", "output", "cache_write", "cache_read"])
def test_a_price_is_made_of_amounts(amount: Any, field: str) -> None:  # noqa: ANN401 - as callers may hand it in
    given: dict[str, Any] = {"input": 1, "output": 2, field: amount}
    if amount is None and field.startswith("cache_"):
        assert Price(**given) == Price(1, 2)
        return
    with pytest.raises(ConfigurationError, match=f"{field} of a price must be an amount of 0 or more, not"):
        Price(**given)


@pytest.mark.parametrize("most", [-1, math.nan, True, "3", 10**400])
def test_what_is_no_amount_is_no_limit(most: Any) -> None:  # noqa: ANN401 - as callers may hand it in
    with pytest.raises(ConfigurationError, match="max_total"):
        CostLimit(most)


def test_a_limit_stops_interrupts_or_warns() -> None:
    wrong: Any = "explode"

    with pytest.raises(ConfigurationError, match="'explode'"):
        CostLimit(1.0, wrong)


@pytest.mark.parametrize("model", ["claude-a", "claude-a-20250929", "claude-a@20250929"])
def test_a_model_that_answers_under_a_dated_name_has_the_price_of_its_name(model: str) -> None:
    assert price_of({"claude-a": Price(1, 2)}, model) == Price(1, 2)


@pytest.mark.parametrize("model", [None, "", "claude-b", "claude-b-20250929", "claude-a-5", "claude"])
def test_another_model_has_no_price(model: str | None) -> None:
    assert price_of({"claude-a": Price(1, 2)}, model) is None


def test_the_price_of_a_dated_name_goes_before_that_of_the_name() -> None:
    assert price_of({"claude-a": Price(1, 2), "claude-a-20250929": Price(3, 4)}, "claude-a-20250929") == Price(3, 4)


def iteration(tokens: int, kind: str) -> dict[str, object]:
    return {"type": kind, "input_tokens": tokens, "output_tokens": 1}


@pytest.mark.parametrize(
    ("usage", "server_calls", "length"),
    [
        ({"input_tokens": 50, "output_tokens": 1}, 0, 51),
        ({}, 0, 40),
        ({"input_tokens": 240}, 3, 60),
        ({"input_tokens": 80}, 3, 40),
        ({"input_tokens": 150, "iterations": [iteration(50, "message"), iteration(99, "message")]}, 1, 100),
        ({"input_tokens": 150, "iterations": [iteration(99, "message"), iteration(9, "compaction")]}, 0, 100),
        ({"input_tokens": 150, "iterations": [iteration(50, "request"), iteration(99, "request")]}, 0, 100),
        ({"input_tokens": 300, "iterations": [iteration(100, "request"), iteration(199, "request")]}, 1, 100),
        ({"input_tokens": 50, "output_tokens": 1, "iterations": None}, 0, 51),
        ({"input_tokens": 50, "output_tokens": 1, "iterations": [{"type": ["message"], "input_tokens": 9}]}, 0, 51),
    ],
)
def test_the_length_of_the_conversation_is_that_of_the_last_request(
    usage: dict[str, object], server_calls: int, length: int
) -> None:
    assert context_after(usage, server_calls=server_calls, before=40) == length


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "a mapping of models' names, not 5"),
        ({1: (1, 2)}, "not one with 1"),
        ({"m": (1,)}, "the price of 'm' is a `Price"),
    ],
)
def test_prices_are_prices_by_the_names_of_models(given: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        prices_of(given)
