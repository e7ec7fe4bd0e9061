"""The epoch fence: a writer appends to streams of the shards that its node owns, in the epochs that it owns them in.

The database refuses an append in an epoch that is past. What is here says in which epochs a batch is written, and holds
off whoever has read a stream in an earlier one: another node may have written it since.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol


class Fence(Protocol):
    """The shards that this node owns, as far as it knows; whether it still does, the database finds out. Thread-safe.

    No method waits for the journal, or takes a lock under which the journal is used.
    """

    @property
    def owner(self) -> str:
        """The id of the node, as the table of shards has it; it must have one once it owns something."""
        ...

    def shard_of(self, stream: str) -> int:
        """Return the shard of the stream."""
        ...

    def epoch_of(self, stream: str) -> int | None:
        """Return the epoch in which this node owns the shard of the stream, None if it does not."""
        ...


class _Claim(NamedTuple):
    """What is known of a shard: its last epoch here, None for none, and the streams that were recovered in it.

    No set stands for all streams: the shard was in no other epoch here before.
    """

    epoch: int | None
    recovered: set[str] | None


class Claims:
    """Knows which streams were recovered in the present epochs of their shards. Thread-safe."""

    def __init__(self, fence: Fence) -> None:
        """Begin with none."""
        self.fence = fence
        self._lock = threading.Lock()
        self._claims: dict[int, _Claim] = {}

    def trust(self, stream: str) -> None:
        """Accept steps of the stream in this epoch: whoever is behind them reads the stream from now on."""
        with self._lock:
            claim = self._claim(self.fence.shard_of(stream), self.fence.epoch_of(stream))
            if claim.recovered is not None:
                claim.recovered.add(stream)

    def trusts(self, stream: str, shard: int, epoch: int) -> bool:
        """Return whether steps of the stream are accepted in the epoch."""
        with self._lock:
            claim = self._claims.get(shard)
            if claim is not None and claim.epoch != epoch and self.fence.epoch_of(stream) != epoch:
                return False  # the shard was claimed again since the batch began
            claim = self._claim(shard, epoch)
            return claim.recovered is None or stream in claim.recovered

    def lose(self, stream: str, epoch: int | None) -> None:
        """Accept no step of the stream's shard before it was recovered, also if the node comes to own it in the epoch.

        If the shard was claimed again meanwhile, that is so without this, and streams may have been recovered already.
        """
        with self._lock:
            if self.fence.epoch_of(stream) in {epoch, None}:
                self._claim(self.fence.shard_of(stream), None)

    def _claim(self, shard: int, epoch: int | None) -> _Claim:
        claim = self._claims.get(shard)
        if claim is None or claim.epoch != epoch:
            claim = self._claims[shard] = _Claim(epoch, None if claim is None else set())
        return claim


class Epochs:
    """The epochs in which a batch is written: one for each shard, whatever the fence says meanwhile."""

    def __init__(self, claims: Claims, past: frozenset[tuple[int, int]] = frozenset()) -> None:
        """Take it that shards are owned in these epochs no more, whatever the fence says."""
        self.held: dict[int, int] = {}
        """The shards of which streams are written, with their epochs."""
        self._claims = claims
        self._past = past
        self._shards: dict[str, int] = {}
        self._recovered: set[str] = set()

    @property
    def owner(self) -> str:
        """The id of the node; it is asked for only if streams are written."""
        return self._claims.fence.owner

    def take(self, stream: str) -> bool:
        """Return whether the node owns the shard of the stream, and have the database make sure of it."""
        if stream in self._shards:
            return True
        fence = self._claims.fence
        shard = fence.shard_of(stream)
        if shard not in self.held:
            epoch = fence.epoch_of(stream)
            if epoch is None or (shard, epoch) in self._past:
                self._claims.lose(stream, epoch)
                return False
            self.held[shard] = epoch
        self._shards[stream] = shard
        return True

    def take_step(self, stream: str) -> bool:
        """Do the same for a step, whose author must have read the stream in this epoch."""
        if not self.take(stream):
            return False
        shard = self._shards[stream]
        return stream in self._recovered or self._claims.trusts(stream, shard, self.held[shard])

    def of(self, stream: str) -> int:
        """Return the epoch of a stream that is written; 0 if another node owns it, as of one that is forgotten."""
        shard = self._shards.get(stream)
        return 0 if shard is None else self.held[shard]

    def recover(self, stream: str) -> None:
        """Accept steps of the stream that come behind this in the batch, and behind it once that is committed."""
        self._recovered.add(stream)

    def commit(self) -> None:
        """Take note that the batch is committed."""
        for stream in self._recovered:
            self._claims.trust(stream)
