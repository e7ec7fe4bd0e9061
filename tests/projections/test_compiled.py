"""What is executed is what SQLAlchemy makes of the tables and statements."""

from __future__ import annotations

from tests.projections.compiled import FILE, compiled


def test_the_text_of_the_statements_is_that_of_their_definitions() -> None:
    assert FILE.read_text() == compiled(), "run `python -m tests.projections.compiled`"
