"""A log is looked at in memory that does not grow with it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from reenact.actors.journal.checkpoint import CheckpointFile, write_checkpoint
from reenact.actors.journal.evidence import Evidence
from reenact.actors.journal.examination import Examination
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import evidence_of
from tests.examples import takes_long
from tests.journal.support import CODEC, Added, commit, said, step

KILOBYTE = 1024


def write(path: Path, streams: int, events: int) -> Path:
    with SqliteJournal.open(path, CODEC, synchronous="OFF") as journal:
        for number in range(streams):
            stream = f"s{number:05d}"
            for version in range(events):
                commit(journal, step(stream, version, Added(1), kept=[said(*"abc")]))
    return path


def peak(evidence: Evidence, kept: Path) -> int:
    """Return how many bytes it takes at the most to make a checkpoint and to verify the log with it."""
    tracemalloc.start()
    try:
        with kept.open("wb") as file:
            write_checkpoint(evidence, file.write, made_at=0)
        checkpoint = CheckpointFile(kept)
        checkpoint.must_be_of(evidence)
        assert list(Examination(evidence, codec=CODEC, ends=checkpoint.ends()).findings()) == []
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@takes_long()
@pytest.mark.no_cover
@pytest.mark.parametrize(("streams", "events"), [(1, 2000), (200, 10)], ids=["one long stream", "many streams"])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, streams: int, events: int) -> None:
    small = write(tmp_path / "small.db", max(1, streams // 10), events if streams > 1 else events // 10)
    large = write(tmp_path / "large.db", streams, events)

    def least(path: Path) -> int:
        """Return what it needs: once in a while what is imported, or what other threads do, comes to it."""
        with evidence_of(path) as evidence:
            return min(peak(evidence, tmp_path / "kept") for _ in range(3))

    assert least(large) < least(small) + 64 * KILOBYTE
