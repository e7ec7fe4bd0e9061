"""Faults that chance draws, one on top of the other, while a hundred conversations go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.examples import chance_of, examples
from tests.journal.server import Server
from tests.nodes.cluster import Cluster
from tests.nodes.crowd import Crowd
from tests.nodes.judgement import judge
from tests.nodes.proxy import Proxy

pytestmark = pytest.mark.skipif("SOAK_SEED" not in os.environ, reason="chance is for `make soak`")
ROUNDS = examples(9)
FAULTS = ("kill", "end", "stop", "hold", "cut", "restart")
FELT = 30
"""So many turns end before the next fault, where nodes go on."""


@dataclass
class Faults:
    """What happens to one of the nodes, or to their database."""

    cluster: Cluster
    crowd: Crowd
    proxies: list[Proxy]
    server: Server

    def begin(self, fault: str, number: int) -> Callable[[], None]:
        """Let it begin; return what ends it."""
        node, proxy = self.cluster.nodes[number], self.proxies[number]
        match fault:
            case "kill":
                node.kill()
                return node.start
            case "end":
                node.end()
                return node.start
            case "stop":
                node.stop()
                return node.go_on
            case "hold":
                proxy.hold()
                return proxy.go_on
            case "cut":
                proxy.cut()
                return proxy.cut
            case _:
                self.server.stop()
                return self.server.start

    def wait_until_felt(self, fault: str, number: int) -> None:
        """Return when the fault has had an effect: others go on, or nobody does."""
        if fault == "hold":  # the clients of this node stay with it
            self.cluster.wait_until_not_ready(self.cluster.nodes[number])
        elif fault == "restart":
            self.cluster.wait_until_not_ready(*self.cluster.nodes)
        else:
            self.crowd.answer_in_all(FELT)


def test_nothing_is_lost_whatever_happens(url: str, server: Server) -> None:
    chance = chance_of("faults of nodes")
    with ExitStack() as stack:
        stack.callback(server.start)
        proxies = [stack.enter_context(Proxy(server.url)) for _ in range(3)]
        cluster = stack.enter_context(
            Cluster([proxy.url(url) for proxy in proxies], chance.choice(("close", "resume")))
        )
        crowd = stack.enter_context(Crowd(cluster.balancer.url))
        faults = Faults(cluster, crowd, proxies, server)
        crowd.answer_more()
        for _ in range(ROUNDS):
            (one, other), (first, second) = chance.sample(range(3), 2), chance.sample(FAULTS, 2)
            ends = {first: faults.begin(first, one)}
            faults.wait_until_felt(first, one)
            ends[second] = faults.begin(second, other)
            for fault in sorted(ends, key=lambda fault: fault != "restart"):  # no node starts without its database
                ends[fault]()
            crowd.answer_more()
            cluster.wait_until_ready()
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations, "interrupted", "failed", resumed=cluster.recovery == "resume")
