"""How many examples the property tests try, and what chance draws for them."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")
ALL: Final = 60
"""Examples of a property that says no number of its own, where there is time for all."""
SOME: Final = ALL // 5
"""Likewise in the profiles `quick`, which is for seeing soon whether a change is right, and `ci`."""

SHORT: Final = "TESTS_SHORT"
"""A variable of the environment that is there while `pytest --short` runs."""

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=SOME,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("ci"))
settings.register_profile("soak", settings.get_profile("ci"), derandomize=False, max_examples=2 * ALL, database=None)
settings.register_profile("dev", deadline=None, max_examples=100)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2_000,
    stateful_step_count=100,
    suppress_health_check=[HealthCheck.too_slow],
)


def load_profile() -> None:
    """Load the profile."""
    settings.load_profile(profile())
    if profile() == "thorough":
        os.environ.setdefault("PYTEST_TIMEOUT", "0")  # as many examples as these take as long as they take


def examples(count: int) -> int:
    """Return how many examples of so many to try: all of them, or in the profiles `quick` and `ci` every fifth."""
    return count if settings().max_examples >= ALL else max(1, count // (ALL // SOME))


def some(cases: Sequence[T]) -> Sequence[T]:
    """Return all of them, or in the profile `quick` every fourth, and the last."""
    return cases if tries_all() else every_fourth(cases)


def every_fourth(cases: Sequence[T]) -> Sequence[T]:
    """Return every fourth case, and the last."""
    return [*cases[:-1:4], *cases[-1:]]


def takes_long() -> pytest.MarkDecorator:
    """Mark what is left out in the profile `quick`: others say in less time what it says of much."""
    return pytest.mark.skipif(not tries_all(), reason="it takes long: `make test COVER=1` runs it")


def needs(what: str) -> None:
    """Leave the test out if `pytest --short` runs it: what it needs takes long to start, or to answer."""
    if SHORT in os.environ:
        pytest.skip(f"it needs {what}: `make test COVER=1` has that")


def tries_all() -> bool:
    """Return whether there is time for every case."""
    return profile() != "quick"


def profile() -> str:
    """Return the profile that `HYPOTHESIS_PROFILE` names, or `quick`."""
    return os.environ.get("HYPOTHESIS_PROFILE", "quick")


def chance_of(name: str) -> random.Random:
    """Return what draws the same in each run of a test; with `make soak`, the same for each seed."""
    return random.Random(os.environ.get("SOAK_SEED", "") + name)
