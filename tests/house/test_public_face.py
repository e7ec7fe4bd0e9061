"""What is not exported is private, and what is exported is there."""

from __future__ import annotations

import reenact


def test_the_public_names_are_sorted_and_named_once() -> None:
    assert list(reenact.__all__) == sorted(set(reenact.__all__))


def test_every_public_name_exists() -> None:
    missing = [name for name in reenact.__all__ if not hasattr(reenact, name)]

    assert missing == []


def test_every_public_class_and_function_makes_a_promise() -> None:
    public = {name: getattr(reenact, name) for name in reenact.__all__}

    silent = [name for name, value in public.items() if callable(value) and not value.__doc__]

    assert silent == []
