"""Which shard a stream is in: the same for ever, evenly spread, and one for what belongs together."""

from __future__ import annotations

from collections import Counter

import pytest

from reenact.domain.shards import SHARDS, shard_of


@pytest.mark.parametrize(
    ("stream", "count", "shard"),
    [("session/ses_1", 256, 115), ("session/ses_2", 256, 181), ("image/img_1", 256, 155), ("session/é", 7, 2)],
)
def test_a_stream_is_in_the_shard_that_it_has_always_been_in(stream: str, count: int, shard: int) -> None:
    assert shard_of(stream, count=count) == shard


def test_what_has_the_name_of_a_session_and_is_none_goes_by_its_whole_name() -> None:
    assert shard_of("image/ses_1") != shard_of("session/ses_1")


def test_sessions_are_spread_evenly_over_all_shards() -> None:
    counts = Counter(shard_of(f"session/ses_{number}") for number in range(100 * SHARDS))

    assert set(counts) == set(range(SHARDS))
    assert max(counts.values()) < 150
