"""The parameter `schema` is taken out of a URL, and nothing else of it is touched."""

from __future__ import annotations

import pytest

from reenact.domain.database_url import split_url


@pytest.mark.parametrize(
    ("url", "split"),
    [
        ("postgresql://h/d", ("postgresql://h/d", "postgresql://h/d", None)),
        ("postgresql://h/d?", ("postgresql://h/d", "postgresql://h/d", None)),
        ("postgresql://h/d?schema=a&schema=b", ("postgresql://h/d", "postgresql://h/d", "b")),
        ("postgresql://h/d?x=1&schema=&y=2", ("postgresql://h/d", "postgresql://h/d?x=1&y=2", "")),
        ("postgresql://u:?p@h/d?x=1", ("postgresql://u:?p@h/d", "postgresql://u:?p@h/d?x=1", None)),
    ],
)
def test_a_url_is_split(url: str, split: tuple[str, str, str | None]) -> None:
    assert split_url(url) == split
