"""What a node does with what it reads: one node, and views of the database made by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from reenact.actors.nodes.protocol import (
    Answer,
    Claim,
    Epochs,
    GiveBack,
    Message,
    Node,
    Peer,
    Renewal,
    Status,
    Timing,
    View,
)

TIMING = Timing(lease=3.0, tick=0.25)


class Shards:
    """A tenant that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []
        self.left: list[tuple[Collection[int], Callable[[int], None]]] = []
        self.fails_at: str | None = None

    def claimed(self, epochs: Epochs, given_back: Collection[int]) -> None:
        self._tell("claimed", epochs)

    def leaving(self, shards: Collection[int], left: Callable[[int], None]) -> None:
        self.left.append((shards, left))
        self._tell("leaving", shards)

    def lost(self, shards: Collection[int]) -> None:
        self._tell("lost", shards)

    def leave(self, time: int) -> None:
        """Leave all that was to be left that time."""
        shards, left = self.left[time]
        for shard in shards:
            left(shard)

    def _tell(self, name: str, shards: Collection[int]) -> None:
        self.told.append((name, sorted(shards)))
        if self.fails_at == name:
            raise RuntimeError(name)


class Bench:
    """The node "b" with a clock and a database that do as the test says."""

    def __init__(self) -> None:
        self.now = 100.0
        self.shards = Shards()
        self.node = Node("b", TIMING, self.shards, lambda: self.now)
        self.rows: dict[int, tuple[int, str | None]] = dict.fromkeys(range(4), (0, None))
        self.peers: dict[str, Peer] = {}
        self.sent: list[Message] = []
        self.written: set[int] = set()

    def put(self, owner: str | None, *shards: int, epoch: int = 7) -> None:
        self.rows |= dict.fromkeys(shards, (epoch, owner))

    def see(self, id_: str, status: Status, *, drains: bool = False) -> None:
        self.peers[id_] = Peer(id_, f"{id_}:1", status, drains)

    def takes_commands(self, shard: int) -> bool:
        return self.node.takes_commands(shard)

    def owns_nothing(self) -> bool:
        return self.node.owns_nothing

    def tick(self) -> list[Message]:
        """Run a tick whose messages all succeed; return what was sent after the renewal."""
        return self.tick_until(None)

    def tick_until(self, lost: type[Message] | None) -> list[Message]:
        """Run a tick; the answer to a message of the kind `lost` stays away."""
        self.sent = []
        tick = self.node.tick()
        message = next(tick)
        try:
            while True:
                self.sent.append(message)
                answer = self._answer(message)
                if lost is not None and isinstance(message, lost):
                    tick.close()
                    self.node.disconnected()
                    break
                message = tick.send(answer)
        except StopIteration:
            pass
        return self.sent[1:]

    def _answer(self, message: Message) -> Answer:
        match message:
            case Renewal():
                return View(dict(self.peers), dict(self.rows))
            case GiveBack(held=held):
                given_back = {shard: epoch for shard, epoch in held.items() if shard not in self.written}
                self.rows |= {shard: (epoch, None) for shard, epoch in given_back.items()}
                return given_back
            case Claim(seen=seen):
                epochs = {shard: epoch + 1 for shard, epoch in seen.items()}
                self.rows |= {shard: (epoch, "b") for shard, epoch in epochs.items()}
                return epochs


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_node_alone_claims_everything_in_the_next_epoch(bench: Bench) -> None:
    assert bench.tick() == [Claim(dict.fromkeys(range(4), 0))]
    assert bench.shards.told == [("claimed", [0, 1, 2, 3])]
    assert bench.node.held == dict.fromkeys(range(4), 1)
    assert bench.tick() == []


def test_it_takes_commands_for_two_thirds_of_the_lease_after_it_asked_for_a_renewal(bench: Bench) -> None:
    assert not bench.takes_commands(0)
    bench.tick()

    bench.now += 1.99
    assert bench.takes_commands(0)
    bench.now += 0.02
    assert not bench.takes_commands(0)
    assert bench.node.epoch_of(0) == 1
    bench.tick()
    assert bench.takes_commands(0)
    assert not bench.takes_commands(9)


def test_it_claims_its_share_beside_others_and_begins_elsewhere_than_they_do(bench: Bench) -> None:
    bench.see("a", "live")

    assert bench.tick() == [Claim({2: 0, 3: 0})]


def test_the_rest_goes_to_those_who_have_most(bench: Bench) -> None:
    bench.see("a", "live")
    bench.see("c", "live")
    bench.put("a", 0)
    bench.put("c", 1)

    assert bench.tick() == [Claim({2: 0})]
    assert bench.tick() == []


def test_it_leaves_what_is_more_than_its_share_and_gives_it_back_once_it_was_left(bench: Bench) -> None:
    bench.tick()
    bench.see("a", "live")

    assert bench.tick() == []
    assert bench.shards.told[-1] == ("leaving", [2, 3])
    assert (bench.takes_commands(2), bench.node.epoch_of(2)) == (False, 1)
    assert bench.tick() == []

    bench.shards.leave(0)
    assert bench.tick() == [GiveBack({2: 1, 3: 1})]
    assert bench.shards.told[-1] == ("leaving", [2, 3])
    assert bench.node.held == {0: 1, 1: 1}
    assert bench.node.epoch_of(2) is None


def test_each_shard_is_given_back_when_it_was_left_whatever_is_under_way_in_others(bench: Bench) -> None:
    bench.tick()
    bench.see("a", "live")
    bench.tick()
    ((_, left),) = bench.shards.left

    left(3)
    assert bench.tick() == [GiveBack({3: 1})]
    assert (bench.node.epoch_of(2), bench.node.epoch_of(3)) == (1, None)
    left(2)
    assert bench.tick() == [GiveBack({2: 1})]


def test_it_has_its_share_when_it_has_what_others_have_left_and_lacks_what_they_are_leaving(bench: Bench) -> None:
    bench.put("a", *range(4))
    bench.see("a", "live")
    bench.tick()
    assert not bench.node.has_share

    bench.put(None, 3)
    bench.tick()
    assert (list(bench.node.held), bench.node.has_share) == ([3], True)


def test_it_has_not_its_share_while_it_lacks_what_nobody_leaves(bench: Bench) -> None:
    bench.put("a", *range(3))
    bench.see("a", "late")
    bench.tick()

    assert (list(bench.node.held), bench.node.has_share) == ([3], False)


def test_one_that_drains_leaves_everything_and_is_counted_by_nobody(bench: Bench) -> None:
    bench.see("a", "live", drains=True)
    assert bench.tick() == [Claim(dict.fromkeys(range(4), 0))]

    bench.node.drains = True
    assert bench.tick() == []
    assert bench.sent == [Renewal(drains=True)]
    assert not bench.owns_nothing()
    bench.shards.leave(0)
    assert bench.tick() == [GiveBack(dict.fromkeys(range(4), 1))]
    assert bench.owns_nothing()
    assert bench.tick() == []


def test_what_is_just_written_is_given_back_with_the_next_tick(bench: Bench) -> None:
    bench.tick()
    bench.node.drains = True
    bench.tick()
    bench.shards.leave(0)
    bench.written = {1}

    bench.tick()
    assert not bench.owns_nothing()
    bench.written = set()
    assert bench.tick() == [GiveBack({1: 1})]
    assert bench.owns_nothing()


def test_what_nobody_that_lives_owns_is_claimed_at_once(bench: Bench) -> None:
    bench.see("a", "gone")
    bench.put("a", 0, 1)
    bench.put("unknown", 2)

    assert bench.tick() == [Claim({0: 7, 1: 7, 2: 7, 3: 0})]


def test_the_shards_of_one_that_is_late_are_claimed_when_it_stays_late(bench: Bench) -> None:
    bench.tick()
    bench.see("a", "late")
    bench.put("a", 0)
    assert bench.tick() == []

    bench.now += 0.4
    bench.see("a", "live")
    bench.tick()
    bench.see("a", "late")
    bench.now += 0.4
    assert not [message for message in bench.tick() if isinstance(message, Claim)]
    bench.now += 0.5
    assert Claim({0: 7}) in bench.tick()


def test_one_that_lost_its_connection_takes_nothing_from_others_for_a_while(bench: Bench) -> None:
    bench.tick()
    bench.node.disconnected()
    bench.put("a", 0)
    bench.put(None, 1)

    assert bench.tick() == [Claim({1: 7})]
    bench.now += 1.4
    assert bench.tick() == []
    bench.now += 0.2
    assert bench.tick() == [Claim({0: 7})]


def test_one_that_has_never_had_a_connection_waits_for_nobody(bench: Bench) -> None:
    bench.node.disconnected()
    bench.put("a", 0, 1, 2, 3)

    assert bench.tick() == [Claim(dict.fromkeys(range(4), 7))]


def test_it_drops_what_another_one_owns_or_what_is_in_another_epoch(bench: Bench) -> None:
    bench.tick()
    bench.see("a", "live")
    bench.put("a", 0, 1)
    bench.put("b", 2, epoch=0)

    assert bench.tick() == [GiveBack({2: 0})]
    assert bench.shards.told[-1] == ("lost", [0, 1, 2])
    assert bench.node.held == {3: 1}


def test_a_claim_whose_answer_was_lost_is_given_back_and_made_anew(bench: Bench) -> None:
    assert bench.tick_until(Claim) == [Claim(dict.fromkeys(range(4), 0))]
    assert bench.node.held == {}

    assert bench.tick() == [GiveBack(dict.fromkeys(range(4), 1))]
    assert bench.tick() == [Claim(dict.fromkeys(range(4), 1))]
    assert bench.node.held == dict.fromkeys(range(4), 2)


def test_what_was_given_back_without_an_answer_is_not_given_back_twice(bench: Bench) -> None:
    bench.tick()
    bench.node.drains = True
    bench.tick()
    bench.shards.leave(0)

    assert bench.tick_until(GiveBack) == [GiveBack(dict.fromkeys(range(4), 1))]
    assert bench.tick() == []
    assert bench.owns_nothing()


def test_shards_that_cannot_be_taken_up_are_given_back_and_tried_again(bench: Bench) -> None:
    bench.shards.fails_at = "claimed"
    with pytest.raises(RuntimeError, match="claimed"):
        bench.tick()
    assert bench.node.epoch_of(0) is None

    bench.shards.fails_at = None
    assert bench.tick() == [GiveBack(dict.fromkeys(range(4), 1))]
    assert bench.tick() == [Claim(dict.fromkeys(range(4), 1))]


def test_shards_that_cannot_be_left_are_given_back_all_the_same(bench: Bench) -> None:
    bench.tick()
    bench.node.drains = True
    bench.shards.fails_at = "leaving"
    with pytest.raises(RuntimeError, match="leaving"):
        bench.tick()

    assert bench.tick() == [GiveBack(dict.fromkeys(range(4), 1))]


def test_having_left_a_shard_says_nothing_of_leaving_it_another_time(bench: Bench) -> None:
    bench.tick()
    bench.see("a", "live")
    bench.tick()
    bench.put("a", 2, 3)
    bench.tick()
    del bench.peers["a"]
    bench.tick()
    bench.see("a", "live")
    bench.tick()
    bench.shards.leave(0)

    assert bench.tick() == []
    bench.shards.leave(1)
    assert bench.tick() == [GiveBack({2: 8, 3: 8})]


def test_it_knows_who_owned_a_shard_when_it_last_looked(bench: Bench) -> None:
    assert bench.node.owner_of(0) is None
    bench.see("a", "live")
    bench.put("a", 0)
    bench.tick()

    assert bench.node.owner_of(0) == Peer("a", "a:1", "live", drains=False)
    assert bench.node.owner_of(1) is None


def test_at_its_end_it_drops_everything(bench: Bench) -> None:
    bench.tick()

    bench.node.lose_all()

    assert bench.shards.told[-1] == ("lost", [0, 1, 2, 3])
    assert bench.node.epoch_of(0) is None
