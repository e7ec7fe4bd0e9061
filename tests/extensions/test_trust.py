"""What a person has trusted: kept for the hooks that were there then."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reenact.domain.errors import ConfigurationError
from reenact.extensions.hooks import Trust


def test_a_project_is_trusted_with_the_hooks_that_it_had(tmp_path: Path) -> None:
    Trust(tmp_path / "state").add(Path("/a"), "one")

    again = Trust(tmp_path / "state")

    assert again.covers(Path("/a"), "one")
    assert not again.covers(Path("/a"), "two")
    assert not again.covers(Path("/b"), "one")


def test_trust_can_be_taken_back(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    trust.add(Path("/a"), "one")
    trust.add(Path("/b"), "two")

    assert trust.remove(Path("/a"))
    assert not trust.remove(Path("/a"))
    assert not trust.covers(Path("/a"), "one")
    assert trust.covers(Path("/b"), "two")


def test_what_is_trusted_is_nobody_elses_to_read(tmp_path: Path) -> None:
    Trust(tmp_path / "state").add(Path("/a"), "one")

    assert stat.S_IMODE((tmp_path / "state" / "trusted.json").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["trusted.json"]


@pytest.mark.parametrize("content", [b"", b"[", b"[]", b'{"/a": 1}', b"\xff", b"[" * 100_000])
def test_a_file_that_cannot_be_read_trusts_nothing_and_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "trusted.json").write_bytes(content)
    trust = Trust(tmp_path)

    assert not trust.covers(Path("/a"), "one")
    with pytest.raises(ConfigurationError, match=r"trusted\.json"):
        trust.add(Path("/a"), "one")
    assert (tmp_path / "trusted.json").read_bytes() == content


def test_what_cannot_be_remembered_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")

    with pytest.raises(ConfigurationError, match="cannot be read: Not a directory"):
        Trust(tmp_path / "state" / "more").add(Path("/a"), "one")


def test_of_many_who_trust_something_at_once_none_is_lost(tmp_path: Path) -> None:
    def add(number: int) -> None:
        Trust(tmp_path).add(Path(f"/{number}"), "one")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))

    assert all(Trust(tmp_path).covers(Path(f"/{number}"), "one") for number in range(24))
