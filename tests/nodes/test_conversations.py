"""Conversations, a hundred in `make soak`, with nodes that are killed, stopped, cut off and restarted.

Nothing is lost, and nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack

import pytest

from tests.examples import takes_long
from tests.journal.server import Server
from tests.nodes.cluster import Cluster, Node
from tests.nodes.crowd import Crowd
from tests.nodes.judgement import judge
from tests.nodes.proxy import Proxy


@pytest.fixture
def proxies(server: Server) -> Generator[list[Proxy]]:
    """A proxy before the server for each of three nodes."""
    with ExitStack() as stack:
        yield [stack.enter_context(Proxy(server.url)) for _ in range(3)]


def test_a_node_is_killed_and_comes_back_and_another_is_stopped_until_its_sessions_have_gone(url: str) -> None:
    with Cluster([url] * 3) as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more()
        cluster.nodes[0].kill()
        crowd.answer_more()
        _come_back(cluster, cluster.nodes[0])
        crowd.answer_more()
        cluster.nodes[1].stop()
        crowd.answer_more()
        cluster.nodes[1].go_on()
        cluster.wait_until_ready()
        crowd.answer_more()
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations, "interrupted")
    assert crowd.refusals == []


def test_turns_of_a_node_that_is_killed_are_answered_by_another(url: str) -> None:
    with Cluster([url] * 3, recovery="resume") as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more()
        cluster.nodes[0].kill()
        crowd.answer_more()
        crowd.finish()
        for node in cluster.nodes[1:]:
            node.end()

    judge(url, crowd.conversations, resumed=True)
    assert crowd.refusals == []


def test_the_connections_of_nodes_to_the_database_are_cut_and_held_and_it_restarts(
    url: str, server: Server, proxies: list[Proxy]
) -> None:
    with Cluster([proxy.url(url) for proxy in proxies]) as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more()
        proxies[0].cut()
        crowd.answer_more()
        proxies[1].hold()
        cluster.wait_until_not_ready(cluster.nodes[1])
        proxies[1].go_on()
        crowd.answer_more()
        cluster.wait_until_ready()
        _restart(server, cluster)
        crowd.answer_more()
        cluster.wait_until_ready()
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations, "interrupted", "failed")


def test_the_database_of_a_node_that_is_alone_restarts(url: str, server: Server) -> None:
    with Cluster([url]) as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more()
        _restart(server, cluster)
        crowd.answer_more()
        cluster.wait_until_ready()
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations, "interrupted", "failed")


@takes_long()
def test_all_nodes_are_restarted_one_after_the_other_and_no_request_fails(url: str) -> None:
    with Cluster([url] * 3) as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more()
        for node in cluster.nodes:
            node.end()
            _come_back(cluster, node)
        crowd.answer_more()
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations)
    assert crowd.refusals == []


def _restart(server: Server, cluster: Cluster) -> None:
    """Have the server away until all nodes have noticed."""
    server.stop()
    try:
        cluster.wait_until_not_ready(*cluster.nodes)
    finally:
        server.start()


def _come_back(cluster: Cluster, node: Node) -> None:
    node.start()
    cluster.wait_until_ready()
