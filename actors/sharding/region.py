"""The shards that this node owns: which actors are on it, and what happens when it gains or loses shards."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from reenact.actors.kernel import ActorSystem
from reenact.actors.nodes.ownership import Ownership
from reenact.actors.nodes.protocol import Epochs, Node, Peer
from reenact.domain.errors import ReenactError, RuntimeClosedError
from reenact.domain.shards import SHARDS, shard_of

_logger = logging.getLogger("reenact.nodes")


@dataclass
class _LeavingShard:
    """A shard that is being handed off: its callback, the number of pending hand-offs, and the admitted streams."""

    shard: int
    left: Callable[[int], None]
    waits_for: int = 1
    admit: set[str] = field(default_factory=set[str])


class ShardRegion:
    """The shards that this node owns, as the journal, the kernel and callers of actors see them. Thread-safe.

    It is created before the log is opened, and owns nothing until it joins. The ownership's thread calls it when shards
    are gained or lost; the consequences run on a thread of its own, since they read the log.
    """

    def __init__(self) -> None:
        self._node: Node | None = None
        self._count = SHARDS
        self._system: ActorSystem | None = None
        self._claimed_epochs: deque[Epochs] = deque()
        # Shards left by nodes that had ended before this one began.
        self._orphaned_shards: set[int] = set()
        # The shards that are being left. Changed under the lock.
        self._leaving: dict[int, _LeavingShard] = {}
        self._lock = threading.Lock()
        # Set when there is work for the thread.
        self._wake = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def owner(self) -> str:
        """The id of this node."""
        return self._joined.id

    def shard_of(self, stream: str) -> int:
        """Return the shard of a stream."""
        return shard_of(stream, count=self._count)

    def epoch_of(self, stream: str) -> int | None:
        """Return the epoch in which to write the stream; None if it does not belong to this node."""
        return None if self._node is None else self._node.epoch_of(self.shard_of(stream))

    def may_start(self, stream: str) -> bool:
        """Return whether the actor of the stream may be started on this node."""
        return self._node is not None and self._node.takes_commands(self.shard_of(stream))

    def may_be_here(self, stream: str) -> bool:
        """Return whether the actor may be started, or was admitted by `admit` while its shard is being left."""
        leaving = self._leaving.get(self.shard_of(stream))
        return self.may_start(stream) or (leaving is not None and stream in leaving.admit and self._joined.is_trusted)

    def admit(self, stream: str) -> Callable[[], None]:
        """Admit an actor although its shard is being left, since an actor of its family cannot leave before it has run.

        Call the returned function once the actor has received its message; then it is handed off, too.
        """
        with self._lock:
            leaving = self._leaving.get(self.shard_of(stream))
            if leaving is None:
                return _do_nothing
            leaving.admit.add(stream)
            leaving.waits_for += 1
        return partial(self._end_let_in, stream, leaving)

    def is_leader(self) -> bool:
        """Return whether this node performs the tasks that one node does for all: the owner of the first shard does."""
        return self._node is not None and self._node.takes_commands(0)

    def is_here(self, stream: str) -> bool:
        """Return whether commands for the stream are handled here, also while its actor has yet to leave."""
        if self.may_start(stream):
            return True
        return self.epoch_of(stream) is not None and self._system is not None and self._system.resident(stream)

    def was_found(self, stream: str) -> bool:
        """Return whether a crash left the stream before this node began; otherwise it comes from another live node."""
        return self.shard_of(stream) in self._orphaned_shards

    def owner_of(self, stream: str) -> Peer | None:
        """Return the owner of the stream when this node last read the owners; None if there was none."""
        return self._joined.owner_of(self.shard_of(stream))

    def has_ended(self, node_id: str) -> bool:
        """Return whether the node with this id had ended when this node last read the owners."""
        return self._joined.has_ended(node_id)

    def join(
        self,
        ownership: Ownership,
        system: ActorSystem,
        *,
        recover: Callable[[Callable[[str], bool]], None],
        changed: Callable[[], None],
    ) -> None:
        """Take over shards; return when this node has its share, or after the time of a lease.

        `recover` resumes unfinished work in the streams for which its argument returns True. `changed` is called
        whenever the owners of shards may have changed. From then on, both are called on the region's thread.

        Raises:
            StorageError: the log cannot be read.
        """
        self._node, self._count, self._system = ownership.node, ownership.count, system
        until = time.monotonic() + ownership.timing.lease
        while not self._is_closed:
            self._wake.wait(until - time.monotonic())
            self._wake.clear()
            self._recover_claimed(recover)
            if ownership.has_share or time.monotonic() > until:
                break
        self._orphaned_shards = set()
        self._thread = threading.Thread(target=self._run, args=(recover, changed), name="reenact-region", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop taking over shards. Idempotent."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def looked(self) -> None:
        """Wake the thread after the ownership has read the owners; `claimed` has been called before."""
        self._wake.set()

    def claimed(self, epochs: Epochs, given_back: Collection[int]) -> None:
        """Schedule the recovery of the shards; see `nodes.protocol.Tenant`."""
        if self._thread is None:
            self._orphaned_shards = {*self._orphaned_shards, *epochs} - {*given_back}
        self._claimed_epochs.append(epochs)
        self._wake.set()

    def leaving(self, shards: Collection[int], left: Callable[[int], None]) -> None:
        """Let the actors leave memory as soon as their current work is done."""
        if self._system is None:
            for shard in shards:
                left(shard)
            return
        leaving = {shard: _LeavingShard(shard, left) for shard in shards}
        with self._lock:
            self._leaving |= leaving
        self._system.hand_off(self.shard_of, shards, lambda shard: self._count_departed(leaving[shard]))

    def _end_let_in(self, stream: str, leaving: _LeavingShard) -> None:
        assert self._system is not None
        self._system.hand_off(stream.__eq__, [True], lambda _: self._count_departed(leaving))

    def _count_departed(self, leaving: _LeavingShard) -> None:
        with self._lock:
            leaving.waits_for -= 1
            is_left = not leaving.waits_for
            if is_left and self._leaving.get(leaving.shard) is leaving:
                del self._leaving[leaving.shard]
        if is_left:
            leaving.left(leaving.shard)

    def lost(self, shards: Collection[int]) -> None:
        """Drop the actors at once."""
        with self._lock:
            for shard in shards:
                self._leaving.pop(shard, None)
        if self._system is not None:
            self._system.drop(lambda stream: self.shard_of(stream) in shards)

    @property
    def _joined(self) -> Node:
        assert self._node is not None, "it has not joined yet"
        return self._node

    def _run(self, recover: Callable[[Callable[[str], bool]], None], changed: Callable[[], None]) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._is_closed:
                return
            try:
                changed()
                self._recover_claimed(recover)
            except RuntimeClosedError:
                return
            except ReenactError as error:
                _logger.warning(
                    "sessions that moved to this node cannot be resumed now; that is tried again: %s", error
                )

    def _recover_claimed(self, recover: Callable[[Callable[[str], bool]], None]) -> None:
        while self._claimed_epochs and not self._is_closed:
            epochs = self._claimed_epochs[0]
            if self._system is not None:
                self._system.take_up()
            recover(lambda stream: self.shard_of(stream) in epochs)  # noqa: B023 - called at once
            self._claimed_epochs.popleft()


def _do_nothing() -> None:
    """Do nothing: the actor's shard is not being left."""
