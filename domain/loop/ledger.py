"""Usage and cost per model and per tool; uses without a price are counted as unknown, not as free."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.errors import ConfigurationError
from reenact.domain.plain import UserValue, is_mapping, is_sequence
from reenact.domain.structs import Frozen
from reenact.domain.tools import is_amount

MILLION = 1_000_000
MOST_TOKENS = 1 << 40
"""The limit of a token count, which no sum reaches either; a larger count is ignored."""
MOST_COST = 1e300
"""The greatest sum of costs, and the greatest cost limit."""
REQUEST = "request"
"""The type of an entry in a usage's `iterations` that is a request; entries of type `message` are the API's own."""
SMALLEST = 1e-9
"""Amounts that differ by no more than this count as equal."""
_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_DATED = re.compile(r"[-@]\d{8}$")
OnExceeded: TypeAlias = Literal["stop", "interrupt", "warn"]


class Price(UserValue):
    """The prices of a model's tokens, per million of them, in the currency of all prices.

    `cache_write` and `cache_read` default to what the Messages API charges: 1.25 and 0.1 times the price of an input
    token.

    Raises:
        ConfigurationError: a price is not an amount of 0 or more.
    """

    input: float
    output: float
    cache_write: float | None = None
    cache_read: float | None = None

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for a value that would make cost limits ineffective."""
        for name in self.__struct_fields__:
            amount: object = getattr(self, name)
            if not is_amount(amount) and (amount is not None or name in {"input", "output"}):
                raise ConfigurationError(f"{name} of a price must be an amount of 0 or more, not {amount!r:.80}")


def prices_of(prices: object) -> Mapping[str, Price]:
    """Return the prices by the names of models, or raise `ConfigurationError`."""
    if not is_mapping(prices):
        raise ConfigurationError(f"prices must be a mapping of models' names, not {prices!r:.100}")
    made: dict[str, Price] = {}
    for model, price in prices.items():
        if not isinstance(model, str):
            raise ConfigurationError(f"prices must be a mapping of models' names, not one with {model!r:.100}")
        try:
            made[model] = price if isinstance(price, Price) else msgspec.convert(price, Price)
        except msgspec.ValidationError as broken:
            raise ConfigurationError(
                f"the price of {model!r} is a `Price(input, output)` per million tokens: {broken}"
            ) from None
    return made


class CostLimit(UserValue):
    """The maximal cost, in the currency of the prices, and the reaction when it is exceeded (not when reached)."""

    max_total: float
    on_exceeded: OnExceeded = "stop"

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` unless the limit is an amount."""
        if not is_amount(self.max_total, MOST_COST) and self.max_total != math.inf:
            raise ConfigurationError(
                f"max_total of a cost limit must be an amount of 0 or more, not {self.max_total!r:.80}"
            )
        if self.on_exceeded not in ("stop", "interrupt", "warn"):
            raise ConfigurationError(
                f"on_exceeded of a cost limit must be 'stop', 'interrupt' or 'warn', not {self.on_exceeded!r}"
            )

    def is_exceeded(self, cost: float) -> bool:
        """Return whether the cost exceeds the limit by more than rounding errors of sums."""
        return cost - self.max_total > SMALLEST


class Spent(Frozen):
    """The use of one model or tool: how often, the sums of its token counts, and its cost.

    `unpriced` counts the uses whose cost is unknown; `cost` is that of the others.
    """

    calls: int = 0
    usage: dict[str, int] = {}
    cost: float = 0.0
    unpriced: int = 0

    def plus(self, usage: Mapping[str, object], cost: float | None, calls: int = 1) -> Spent:
        """Return the sums with one more use, or more."""
        return Spent(
            self.calls + calls,
            sum_of(self.usage, usage),
            self.cost + (cost or 0.0),
            self.unpriced + (calls if cost is None else 0),
        )


class Ledger(Frozen):
    """The use of each model and tool by name, and of all `children` together, as far as that is settled."""

    models: dict[str, Spent] = {}
    tools: dict[str, Spent] = {}
    children: Spent = Spent()

    @property
    def cost(self) -> float:
        """The sum of all known costs."""
        return sum(spent.cost for spent in (*self.models.values(), *self.tools.values(), self.children))

    @property
    def usage(self) -> dict[str, int]:
        """The sums of all models' token counts."""
        total: dict[str, int] = {}
        for spent in self.models.values():
            total = sum_of(total, spent.usage)
        return total

    def with_model(self, model: str, usage: Mapping[str, object], cost: float | None) -> Ledger:
        """Return the ledger with one more answer of the model."""
        spent = self.models.get(model, Spent()).plus(usage, cost)
        return Ledger({**self.models, model: spent}, self.tools, self.children)

    def with_tool(self, name: str, cost: float | None) -> Ledger:
        """Return the ledger with one more call of the tool."""
        tools = {**self.tools, name: self.tools.get(name, Spent()).plus({}, cost)}
        return Ledger(self.models, tools, self.children)

    def with_child(self, steps: int, usage: Mapping[str, object], cost: float | None) -> Ledger:
        """Return the ledger with a child's use since its last settlement; `steps` are answers of models."""
        return Ledger(self.models, self.tools, self.children.plus(usage, cost, steps))


def cost_of(usage: Mapping[str, object], price: Price | None) -> float | None:
    """Return the cost of an answer, or None if there is no price or its usage is unknown."""
    if price is None or not usage:
        return None
    cache_write = 1.25 * price.input if price.cache_write is None else price.cache_write
    cache_read = 0.1 * price.input if price.cache_read is None else price.cache_read
    rates = (price.input, price.output, cache_write, cache_read)
    return sum(_count(usage, name) * rate for name, rate in zip(_COUNTS, rates, strict=True)) / MILLION


def price_of(prices: Mapping[str, Price], model: str | None) -> Price | None:
    """Return the price of the model, which may report its name with a date: `NAME-20250929`."""
    known = prices.get(model or "")
    if known is None and model is not None and _DATED.search(model):
        return prices.get(_DATED.sub("", model))
    return known


def context_after(usage: Mapping[str, object], *, server_calls: int, before: int) -> int:
    """Return the number of tokens in the conversation after an answer; `before`, the previous number, if it is unknown.

    The last of the `iterations` in the usage has it. Without these, the usage of an answer for which the API ran tools
    is the sum of up to `server_calls` + 1 requests, each longer than the one before: their mean does not exceed the
    number. (platform.claude.com: "Compaction", "Server tools".)
    """
    messages = [one for one in iterations_of(usage) if str(one.get("type")) in {"message", REQUEST}]
    last = messages[-1] if messages else {**usage, "type": REQUEST}
    if server_calls and last["type"] == REQUEST:
        return max(before, tokens_in_context(last) // (server_calls + 1))
    return tokens_in_context(last) or before


def iterations_of(usage: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the usage of each request that an answer took, as far as the answer's usage has them."""
    iterations = usage.get("iterations")
    mappings = [one for one in iterations if is_mapping(one)] if is_sequence(iterations) else []
    return [{str(name): value for name, value in one.items()} for one in mappings]


def tokens_in_context(usage: Mapping[str, object]) -> int:
    """Return the sum of all token counts; after one request, that is the length of the conversation."""
    return sum(_count(usage, name) for name in _COUNTS)


def sum_of(usage: Mapping[str, object], more: Mapping[str, object]) -> dict[str, int]:
    """Return the sums of the token counts; values that are not counts are left out."""
    total = {name: _count(usage, name) for name in usage if _count(usage, name)}
    for name in more:
        count = _count(more, name)
        if count:
            total[name] = min(total.get(name, 0) + count, MOST_TOKENS - 1)
    return total


def _count(usage: Mapping[str, object], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and 0 < value < MOST_TOKENS else 0
