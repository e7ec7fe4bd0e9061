"""What is not exported is private, and what is exported is there."""

from __future__ import annotations

import difflib

import reenact
from reenact import ReenactError
from reenact.domain import errors
from tests.docs import api

ANNOUNCE = """\
The public names are not those that were announced:

{difference}

Programs rely on these lines. Announce the change: write it in CHANGELOG.md, as users notice it. What goes away or gets
another meaning first warns for the time that docs/deprecations.md states. Then write the list anew:
.venv/bin/python -m tests.docs.api"""


def difference(announced: list[str], found: list[str]) -> str:
    """Return what is announced and not there (-), and what is there and not announced (+)."""
    changed = difflib.unified_diff(announced, found, n=0, lineterm="")
    return "\n".join(line for line in changed if not line.startswith(("---", "+++", "@@")))


def test_no_public_name_has_changed_unannounced() -> None:
    changed = difference(api.SNAPSHOT.read_text(encoding="utf-8").splitlines(), list(api.lines()))

    assert changed == "", ANNOUNCE.format(difference=changed)


def test_a_parameter_that_is_gone_is_a_change() -> None:
    def old(name: str, timeout: float | None = None) -> None: ...
    def new(name: str) -> None: ...

    changed = difference([api.written("ask", old)], [api.written("ask", new)])

    assert changed == "-ask(name: str, timeout: float | None = None) -> None\n+ask(name: str) -> None"


def test_the_public_names_are_sorted_and_named_once() -> None:
    assert list(reenact.__all__) == sorted(set(reenact.__all__))


def test_every_public_name_exists() -> None:
    missing = [name for name in reenact.__all__ if not hasattr(reenact, name)]

    assert missing == []


def test_every_error_can_be_caught_by_its_name() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ReenactError)]

    assert [kind.__name__ for kind in kinds if kind.__name__ not in reenact.__all__] == []


def test_every_public_class_and_function_makes_a_promise() -> None:
    public = {name: getattr(reenact, name) for name in reenact.__all__}

    silent = [name for name, value in public.items() if callable(value) and not value.__doc__]

    assert silent == []
