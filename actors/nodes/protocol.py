"""The protocol of ownership, without clock, thread or database: what a node sends, and what it makes of the answers.

The thread in `ownership` and the simulation in the tests run this same code. Safety rests on none of it, but on the
epoch fence: the database refuses the writes of whoever is not the owner in the present epoch. What is here keeps every
shard with one live owner, and evenly spread.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

Epochs: TypeAlias = Mapping[int, int]
"""Shards with their epochs."""

Status: TypeAlias = Literal["live", "late", "gone"]
"""Of a node: it has renewed its lease; it has not, but is connected; it has lost its connection, or has ended."""

NOTHING: Final[Epochs] = {}


@dataclass(frozen=True)
class Timing:
    """How long things take, in seconds."""

    lease: float = 3.0
    tick: float = 0.25

    @property
    def trusted(self) -> float:
        """How long after a renewal a node takes commands: less than the lease, for clocks do not go alike."""
        return self.lease * 2 / 3

    @property
    def answer(self) -> float:
        """How long an answer of the database is waited for: another connection is in time to renew the lease."""
        return self.lease / 3

    @property
    def patience(self) -> float:
        """How long a node must be late before its shards are taken.

        When the database's clock jumps, all nodes are late at once; those that live have renewed until then.
        """
        return 2 * self.tick

    @property
    def grace(self) -> float:
        """How long a node that has lost its connection and has another takes nothing from those that are gone.

        When the database has restarted, all nodes are gone, and one of them is the first to come back.
        """
        return self.lease / 2


@dataclass(frozen=True)
class Renewal:
    """Renews the lease of the node, and asks for a `View`."""

    drains: bool


@dataclass(frozen=True)
class GiveBack:
    """Makes the node no longer the owner of the shards in these epochs, unless they are just written.

    The answer is the shards that were given back, with their epochs.
    """

    held: Epochs


@dataclass(frozen=True)
class Claim:
    """Makes the node the owner in the next epoch, of the shards that still are in these and have no live owner.

    The answer is the shards that it owns now, with their new epochs.
    """

    seen: Epochs


Message: TypeAlias = Renewal | GiveBack | Claim


@dataclass(frozen=True)
class Peer:
    """A node as another one sees it."""

    id: str
    address: str
    status: Status
    drains: bool


@dataclass(frozen=True)
class View:
    """What the database holds at one moment: nodes by id, and all shards with their epochs and owners."""

    nodes: Mapping[str, Peer]
    shards: Mapping[int, tuple[int, str | None]]


Answer: TypeAlias = View | Epochs


class Tenant(Protocol):
    """What lives in the shards of a node. One thread calls it, which renews the lease meanwhile: do not keep it."""

    def claimed(self, epochs: Epochs, given_back: Collection[int]) -> None:
        """Take commands for the shards from now on; all that past owners have written can be read by now.

        Those that were given back have been left in order, the others by a node that has ended, or is stopped or cut
        off. If it raises, the shards are given back.
        """
        ...

    def leaving(self, shards: Collection[int], left: Callable[[], None]) -> None:
        """Take no more commands for the shards, finish what is under way, and call `left` then, from any thread.

        If it raises, the shards are given back at once.
        """
        ...

    def lost(self, shards: Collection[int]) -> None:
        """Drop what is known of the shards: what was not acknowledged yet will be refused."""
        ...


class Node:
    """One node, as it knows itself. Times are those of its own monotonic clock.

    One thread calls its methods. Any thread may call `takes_commands`, `epoch_of`, `owner_of` and what `leaving` gets;
    so what these read is replaced as a whole, and what they write is a deque. A shard that is left is found in
    `leaving` before it is gone from `held`.
    """

    def __init__(self, id_: str, timing: Timing, tenant: Tenant, clock: Callable[[], float]) -> None:
        """Begin without shards; the id is no other node's, before or after."""
        self.id = id_
        """Another one for each process, and each time."""
        self.drains = False
        """Whether it leaves all shards and claims none."""
        self.held = NOTHING
        """The shards it takes commands for."""
        self.leaving = NOTHING
        """Those it takes no more commands for, and has not given back."""
        self.owns_nothing = True
        self.has_share = False
        """Whether it has owned as many shards as it should, and still owns some."""
        self._timing = timing
        self._tenant = tenant
        self._clock = clock
        self._view: View | None = None
        self._renewed_at: float | None = None
        self._is_cut_off = False
        self._grace_until: float | None = None
        self._late_since: dict[str, float] = {}
        self._left: deque[Epochs] = deque()

    def takes_commands(self, shard: int) -> bool:
        """Return whether commands for the shard are to be taken now."""
        return shard in self.held and self.is_trusted

    @property
    def is_trusted(self) -> bool:
        """Whether it was not too long ago that the lease was renewed."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() - renewed_at < self._timing.trusted

    def epoch_of(self, shard: int) -> int | None:
        """Return the epoch to append with, also for what is under way in a shard that is left; None if it is lost.

        Whether it still is the shard's, the append finds out.
        """
        epoch = self.held.get(shard)
        return self.leaving.get(shard) if epoch is None else epoch

    def owner_of(self, shard: int) -> Peer | None:
        """Return who owned the shard when the database was asked last; None if nobody did."""
        view = self._view
        if view is None:
            return None
        _, owner = view.shards[shard]
        return None if owner is None else view.nodes.get(owner)

    def has_ended(self, node_id: str) -> bool:
        """Return whether the node of this id had ended when the database was asked last."""
        peer = None if self._view is None else self._view.nodes.get(node_id)
        return peer is None or peer.status == "gone"

    @property
    def has_peers(self) -> bool:
        """Whether other nodes live that can take shards over, as far as the database was asked."""
        view = self._view
        peers = () if view is None else view.nodes.values()
        return any(peer.id != self.id and peer.status == "live" and not peer.drains for peer in peers)

    def tick(self) -> Generator[Message, Answer, None]:
        """Yield what to send to the database, one after the other, and take the answers; close it if one stays away."""
        asked_at = self._clock()
        view = yield Renewal(self.drains)
        assert isinstance(view, View)
        self._see(view)
        self._view = view
        self._renewed_at = asked_at
        quota = self._quota(view)
        self._leave(sorted(self.held)[quota:])
        given_back = self._to_give_back(view)
        answer: Answer = NOTHING
        if given_back:
            answer = yield GiveBack(given_back)
        self.owns_nothing = answer == given_back and not self.held and not self.leaving
        free = self._free(view, quota)
        if free:
            self.owns_nothing = False
            epochs = yield Claim(free)
            assert not isinstance(epochs, View)
            self._take(epochs)
        # Who had its share goes on serving while it claims those of a node that has gone.
        self.has_share = not self.drains and (len(self.held) >= quota or (self.has_share and bool(self.held)))

    def disconnected(self) -> None:
        """Take it that the connection is lost: what was sent last may have had its effect or not."""
        self._is_cut_off = self._renewed_at is not None

    def lose_all(self) -> None:
        """Own nothing any more."""
        self._lose({*self.held, *self.leaving})

    def _see(self, view: View) -> None:
        """Compare what is held with what the database says, and remember who is late."""
        now = self._clock()
        own = _owned_by(self.id, view)
        self._lose({shard for shard, epoch in [*self.held.items(), *self.leaving.items()] if own.get(shard) != epoch})
        late = [id_ for id_, peer in view.nodes.items() if peer.status == "late"]
        self._late_since = {id_: self._late_since.get(id_, now) for id_ in late}
        if self._is_cut_off:
            self._is_cut_off = False
            self._grace_until = now + self._timing.grace

    def _quota(self, view: View) -> int:
        """Return how many shards this node is to own: all live ones the same number, the rest goes to who has most."""
        if self.drains:
            return 0
        owned = Counter(owner for _, owner in view.shards.values())
        ids = {id_ for id_, peer in view.nodes.items() if peer.status == "live" and not peer.drains} | {self.id}
        ranking = sorted(ids, key=lambda id_: (-owned[id_], id_))
        share, rest = divmod(len(view.shards), len(ids))
        return share + (ranking.index(self.id) < rest)

    def _leave(self, shards: Collection[int]) -> None:
        if not shards:
            return
        epochs = {shard: self.held[shard] for shard in shards}
        self.leaving = {**self.leaving, **epochs}
        self.held = _without(self.held, shards)
        left = partial(self._left.append, epochs)
        try:
            self._tenant.leaving(shards, left)
        except BaseException:
            left()
            raise

    def _to_give_back(self, view: View) -> Epochs:
        """Return what is owned and not used: it was left, or claimed by a message whose answer was lost."""
        while self._left:
            epochs = self._left.popleft()
            self.leaving = {shard: epoch for shard, epoch in self.leaving.items() if epochs.get(shard) != epoch}
        used = {**self.held, **self.leaving}
        return {shard: epoch for shard, epoch in _owned_by(self.id, view).items() if shard not in used}

    def _free(self, view: View, quota: int) -> Epochs:
        """Return shards to claim, with the epochs they are in: others begin elsewhere in the same list."""
        wanted = quota - len(self.held)
        free = sorted(shard for shard, (_, owner) in view.shards.items() if self._is_free(view, owner))
        if wanted <= 0 or not free:
            return NOTHING
        live = sorted({id_ for id_, peer in view.nodes.items() if peer.status == "live"} | {self.id})
        begin = live.index(self.id) * len(free) // len(live)
        return {shard: view.shards[shard][0] for shard in [*free[begin:], *free[:begin]][:wanted]}

    def _is_free(self, view: View, owner: str | None) -> bool:
        if owner is None:
            return True
        if owner == self.id or (self._grace_until is not None and self._clock() < self._grace_until):
            return False
        peer = view.nodes.get(owner)
        if peer is None or peer.status == "gone":
            return True
        return peer.status == "late" and self._clock() - self._late_since[owner] >= self._timing.patience

    def _take(self, epochs: Epochs) -> None:
        if not epochs:
            return
        assert self._view is not None
        owners = self._view.shards
        self.held = {**self.held, **epochs}
        try:
            self._tenant.claimed(epochs, {shard for shard in epochs if owners[shard][1] is None})
        except BaseException:
            self.held = _without(self.held, epochs)
            raise

    def _lose(self, shards: Collection[int]) -> None:
        if shards:
            self._forget(shards)
            self._tenant.lost(shards)

    def _forget(self, shards: Collection[int]) -> None:
        self.held = _without(self.held, shards)
        self.leaving = _without(self.leaving, shards)


def _owned_by(id_: str, view: View) -> Epochs:
    return {shard: epoch for shard, (epoch, owner) in view.shards.items() if owner == id_}


def _without(epochs: Epochs, shards: Collection[int]) -> Epochs:
    return {shard: epoch for shard, epoch in epochs.items() if shard not in shards}
