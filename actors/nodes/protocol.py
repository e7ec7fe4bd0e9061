"""The protocol of ownership, without clock, thread or database: a node's messages, and its reaction to the answers.

The thread in `ownership` and the simulation in the tests run this same code. Safety does not depend on it, but on the
epoch fence: the database refuses the writes of a node that is not the owner in the current epoch. This module ensures
that every shard has one live owner, and that shards are evenly distributed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

Epochs: TypeAlias = Mapping[int, int]
"""Shards with their epochs."""

Status: TypeAlias = Literal["live", "late", "gone"]
"""A node that has renewed its lease; one that has not, but is connected; one that is disconnected or has ended."""

NOTHING: Final[Epochs] = {}


@dataclass(frozen=True)
class Timing:
    """Durations of the protocol, in seconds."""

    lease: float = 3.0
    tick: float = 0.25

    @property
    def trusted(self) -> float:
        """How long after a renewal a node accepts commands: less than the lease, since clocks differ."""
        return self.lease * 2 / 3

    @property
    def answer(self) -> float:
        """How long a node waits for an answer of the database: with another connection it can still renew the lease."""
        return self.lease / 3

    @property
    def patience(self) -> float:
        """How long a node must be late before its shards are claimed.

        When the database's clock jumps, all nodes are late at once; those that are alive have renewed their leases by
        then.
        """
        return 2 * self.tick

    @property
    def grace(self) -> float:
        """How long a node that has just reconnected claims nothing from nodes that are gone.

        When the database has restarted, all nodes are gone, and one of them is the first to reconnect.
        """
        return self.lease / 2


@dataclass(frozen=True)
class Renewal:
    """Renews the lease of the node, and requests a `View`."""

    drains: bool


@dataclass(frozen=True)
class GiveBack:
    """Ends the node's ownership of the shards in these epochs, except for those being written.

    The answer is the shards that were given back, with their epochs.
    """

    held: Epochs


@dataclass(frozen=True)
class Claim:
    """Makes the node the owner, in the next epoch, of those shards that are in these epochs without a live owner.

    The answer is the shards that the node has claimed, with their new epochs.
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
    """The content of the database at one moment: nodes by id, and all shards with their epochs and owners."""

    nodes: Mapping[str, Peer]
    shards: Mapping[int, tuple[int, str | None]]


Answer: TypeAlias = View | Epochs


class Tenant(Protocol):
    """What runs in the shards of a node. The thread that renews the lease calls it: its methods must return soon."""

    def claimed(self, epochs: Epochs, given_back: Collection[int]) -> None:
        """Accept commands for the shards from now on; everything that past owners have written can be read.

        The shards in `given_back` were given back in order, the others belonged to a node that has ended, or is stopped
        or cut off. If this raises, the shards are given back.
        """
        ...

    def leaving(self, shards: Collection[int], left: Callable[[int], None]) -> None:
        """Accept no more commands for the shards, and finish current work.

        Call `left` with each shard, from any thread, once its own work is finished; no shard waits for another one.

        If this raises, the shards are given back at once.
        """
        ...

    def lost(self, shards: Collection[int]) -> None:
        """Drop all state of the shards: what is not acknowledged yet will be refused."""
        ...


class Node:
    """One node's knowledge of itself. Times are those of its own monotonic clock.

    One thread calls its methods. Any thread may call `takes_commands`, `epoch_of`, `owner_of` and the callback of
    `leaving`; so the fields that these read are replaced as a whole, and the callback writes to a deque. A shard that
    is given up is added to `leaving` before it is removed from `held`.
    """

    def __init__(self, id_: str, timing: Timing, tenant: Tenant, clock: Callable[[], float]) -> None:
        """Start without shards; the id must never have been another node's."""
        self.id = id_
        """Unique for each process and each start."""
        self.drains = False
        """Whether it gives up all shards and claims none."""
        self.held = NOTHING
        """The shards for which it accepts commands."""
        self.leaving = NOTHING
        """The shards for which it accepts no more commands, and that it has not given back yet."""
        self.owns_nothing = True
        self.has_share = False
        """Whether it has owned as many shards as it should, except those that others give up now, and still owns some.

        Another node gives up a shard when no turn is running there any more, which may take as long as a turn does.
        """
        self._timing = timing
        self._tenant = tenant
        self._clock = clock
        self._view: View | None = None
        self._renewed_at: float | None = None
        self._is_cut_off = False
        self._grace_until: float | None = None
        self._late_since: dict[str, float] = {}
        self._given_up: deque[Epochs] = deque()

    def takes_commands(self, shard: int) -> bool:
        """Return whether commands for the shard are accepted now."""
        return shard in self.held and self.is_trusted

    @property
    def is_trusted(self) -> bool:
        """Whether the lease was renewed recently enough."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() - renewed_at < self._timing.trusted

    def epoch_of(self, shard: int) -> int | None:
        """Return the epoch for appends, also in a shard that is being given up; None if the node does not own it.

        The append finds out whether the epoch is still current.
        """
        epoch = self.held.get(shard)
        return self.leaving.get(shard) if epoch is None else epoch

    def owner_of(self, shard: int) -> Peer | None:
        """Return the owner of the shard when the database was last asked; None if there was none."""
        view = self._view
        if view is None:
            return None
        _, owner = view.shards[shard]
        return None if owner is None else view.nodes.get(owner)

    def has_ended(self, node_id: str) -> bool:
        """Return whether the node with this id had ended when the database was last asked."""
        peer = None if self._view is None else self._view.nodes.get(node_id)
        return peer is None or peer.status == "gone"

    @property
    def has_peers(self) -> bool:
        """Whether there were other live nodes that can take over shards when the database was last asked."""
        view = self._view
        peers = () if view is None else view.nodes.values()
        return any(peer.id != self.id and peer.status == "live" and not peer.drains for peer in peers)

    def tick(self) -> Generator[Message, Answer, None]:
        """Yield the messages to the database and receive the answers; close the generator if an answer is lost."""
        asked_at = self._clock()
        view = yield Renewal(self.drains)
        assert isinstance(view, View)
        self._compare_with_view(view)
        self._view = view
        self._renewed_at = asked_at
        quota = self._quota(view)
        self._give_up(sorted(self.held)[quota:])
        given_back = self._unused_shards(view)
        answer: Answer = NOTHING
        if given_back:
            answer = yield GiveBack(given_back)
        self.owns_nothing = answer == given_back and not self.held and not self.leaving
        free = self._shards_to_claim(view, quota)
        if free:
            self.owns_nothing = False
            epochs = yield Claim(free)
            assert not isinstance(epochs, View)
            self._take_claimed(epochs)
        is_full = len(self.held) >= quota or (
            bool(self.held) and len(self.held) + self._count_shards_to_come(view) >= quota
        )
        # A node that had its share keeps serving while it claims those of a node that has gone.
        self.has_share = not self.drains and (is_full or (self.has_share and bool(self.held)))

    def disconnected(self) -> None:
        """Record that the connection is lost: the last message may have taken effect or not."""
        self._is_cut_off = self._renewed_at is not None

    def lose_all(self) -> None:
        """Give up the ownership of all shards at once."""
        self._lose({*self.held, *self.leaving})

    def _compare_with_view(self, view: View) -> None:
        """Compare the held shards with the database's view, and record which nodes are late."""
        now = self._clock()
        own = _owned_by(self.id, view)
        self._lose({shard for shard, epoch in [*self.held.items(), *self.leaving.items()] if own.get(shard) != epoch})
        late = [id_ for id_, peer in view.nodes.items() if peer.status == "late"]
        self._late_since = {id_: self._late_since.get(id_, now) for id_ in late}
        if self._is_cut_off:
            self._is_cut_off = False
            self._grace_until = now + self._timing.grace

    def _quota(self, view: View) -> int:
        """Return how many shards this node should own: the same for all live nodes, the rest to those that own most."""
        return 0 if self.drains else self._quotas(view)[self.id]

    def _quotas(self, view: View) -> Mapping[str, int]:
        owned = Counter(owner for _, owner in view.shards.values())
        ids = {id_ for id_, peer in view.nodes.items() if peer.status == "live" and not peer.drains} | {self.id}
        ranking = sorted(ids, key=lambda id_: (-owned[id_], id_))
        share, rest = divmod(len(view.shards), len(ids))
        return {id_: share + (place < rest) for place, id_ in enumerate(ranking)}

    def _count_shards_to_come(self, view: View) -> int:
        """Return how many shards other live nodes own beyond their quotas, and will give up."""
        quotas = self._quotas(view)
        owned = Counter(owner for _, owner in view.shards.values() if owner in view.nodes and owner != self.id)
        live = (id_ for id_, peer in view.nodes.items() if peer.status == "live")
        return sum(max(0, owned[id_] - quotas.get(id_, 0)) for id_ in live)

    def _give_up(self, shards: Collection[int]) -> None:
        if not shards:
            return
        epochs = {shard: self.held[shard] for shard in shards}
        self.leaving = {**self.leaving, **epochs}
        self.held = _without(self.held, shards)
        try:
            self._tenant.leaving(shards, lambda shard: self._given_up.append({shard: epochs[shard]}))
        except BaseException:
            self._given_up.append(epochs)
            raise

    def _unused_shards(self, view: View) -> Epochs:
        """Return owned shards that are not used: given up, or claimed by a message whose answer was lost."""
        while self._given_up:
            epochs = self._given_up.popleft()
            self.leaving = {shard: epoch for shard, epoch in self.leaving.items() if epochs.get(shard) != epoch}
        used = {**self.held, **self.leaving}
        return {shard: epoch for shard, epoch in _owned_by(self.id, view).items() if shard not in used}

    def _shards_to_claim(self, view: View, quota: int) -> Epochs:
        """Return shards to claim, with their current epochs; each node starts at a different place in the same list."""
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

    def _take_claimed(self, epochs: Epochs) -> None:
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
            self._drop_shards(shards)
            self._tenant.lost(shards)

    def _drop_shards(self, shards: Collection[int]) -> None:
        self.held = _without(self.held, shards)
        self.leaving = _without(self.leaving, shards)


def _owned_by(id_: str, view: View) -> Epochs:
    return {shard: epoch for shard, (epoch, owner) in view.shards.items() if owner == id_}


def _without(epochs: Epochs, shards: Collection[int]) -> Epochs:
    return {shard: epoch for shard, epoch in epochs.items() if shard not in shards}
