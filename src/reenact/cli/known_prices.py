"""What models cost that are well known: US dollars per million tokens, as published on platform.claude.com.

As of 2026-10-01. A model whose price is not certain, or depends on more than its tokens, is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reenact.domain.loop.ledger import Price

KNOWN_PRICES: Final[Mapping[str, Price]] = {
    "claude-opus-5-5": Price(4, 20, cache_write=5, cache_read=0.2),
    "claude-opus-5": Price(5, 25),
    "claude-opus-4-8": Price(5, 25),
    "claude-opus-4-7": Price(5, 25),
    "claude-opus-4-6": Price(5, 25),
    "claude-opus-4-5": Price(5, 25),
    "claude-sonnet-5-5": Price(2, 10),
    "claude-sonnet-5": Price(2, 10),
    "claude-sonnet-4-6": Price(3, 15),
    "claude-sonnet-4-5": Price(3, 15),
    "claude-haiku-4-5": Price(1, 5),
    "claude-fable-5": Price(10, 50),
    "claude-mythos-5": Price(10, 50),
}
"""By the names of the models without their dates. Where nothing is said of the cache it costs what `Price` says."""
