"""The epoch fence: a writer appends only to streams of the shards that its node owns, in the epochs in which it does.

The database refuses appends of a past epoch. This module determines the epochs in which a batch is written, and refuses
steps whose author has read the stream in an earlier epoch, since another node may have written it meanwhile.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol


class Fence(Protocol):
    """The shards that this node owns, as far as it knows; the database makes sure that it still does. Thread-safe.

    No method waits for the journal, or takes a lock under which the journal is used.
    """

    @property
    def owner(self) -> str:
        """The node's id in the table of shards; the node must have one once it owns a shard."""
        ...

    def shard_of(self, stream: str) -> int:
        """Return the shard of the stream."""
        ...

    def epoch_of(self, stream: str) -> int | None:
        """Return the epoch in which this node owns the shard of the stream, None if it does not."""
        ...


class _Claim(NamedTuple):
    """A shard's last epoch on this node, None for none, and the streams recovered in that epoch.

    `recovered` is None if all streams count as recovered, because the shard has had no other epoch here.
    """

    epoch: int | None
    recovered: set[str] | None


class Claims:
    """Knows which streams have been recovered in the current epochs of their shards. Thread-safe."""

    def __init__(self, fence: Fence) -> None:
        """Start without any."""
        self.fence = fence
        self._lock = threading.Lock()
        self._claims: dict[int, _Claim] = {}

    def trust(self, stream: str) -> None:
        """Accept steps of the stream in this epoch: the caller reads the stream after this."""
        with self._lock:
            claim = self._claim_of_epoch(self.fence.shard_of(stream), self.fence.epoch_of(stream))
            if claim.recovered is not None:
                claim.recovered.add(stream)

    def trusts(self, stream: str, shard: int, epoch: int) -> bool:
        """Return whether steps of the stream are accepted in the epoch."""
        with self._lock:
            claim = self._claims.get(shard)
            if claim is not None and claim.epoch != epoch and self.fence.epoch_of(stream) != epoch:
                return False  # the shard has been claimed again since the batch began
            claim = self._claim_of_epoch(shard, epoch)
            return claim.recovered is None or stream in claim.recovered

    def lose(self, stream: str, epoch: int | None) -> None:
        """Require recovery for all streams of the shard, even if the node comes to own it in this epoch.

        If the shard has been claimed again meanwhile, that is so in any case, and streams may have been recovered
        already.
        """
        with self._lock:
            if self.fence.epoch_of(stream) in {epoch, None}:
                self._claim_of_epoch(self.fence.shard_of(stream), None)

    def _claim_of_epoch(self, shard: int, epoch: int | None) -> _Claim:
        claim = self._claims.get(shard)
        if claim is None or claim.epoch != epoch:
            claim = self._claims[shard] = _Claim(epoch, None if claim is None else set())
        return claim


class Epochs:
    """The epochs of a batch: one for each shard, even if the fence changes meanwhile."""

    def __init__(self, claims: Claims, past: frozenset[tuple[int, int]] = frozenset()) -> None:
        """Start; the shards in `past` are no longer owned in these epochs, whatever the fence says."""
        self.held: dict[int, int] = {}
        """The shards whose streams are written, with their epochs."""
        self._claims = claims
        self._lost_shards = past
        self._shards: dict[str, int] = {}
        self._recovered: set[str] = set()

    @property
    def owner(self) -> str:
        """The id of the node; read only if streams are written."""
        return self._claims.fence.owner

    def take(self, stream: str) -> bool:
        """Return whether the node owns the shard of the stream, and include the shard in the database's check."""
        if stream in self._shards:
            return True
        fence = self._claims.fence
        shard = fence.shard_of(stream)
        if shard not in self.held:
            epoch = fence.epoch_of(stream)
            if epoch is None or (shard, epoch) in self._lost_shards:
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
        """Return the epoch of a stream that is written; 0 if another node owns it, as when it is being forgotten."""
        shard = self._shards.get(stream)
        return 0 if shard is None else self.held[shard]

    def recover(self, stream: str) -> None:
        """Accept later steps of the stream in this batch, and further ones once the batch is committed."""
        self._recovered.add(stream)

    def commit(self) -> None:
        """Apply the recoveries of the batch, which is committed."""
        for stream in self._recovered:
            self._claims.trust(stream)
