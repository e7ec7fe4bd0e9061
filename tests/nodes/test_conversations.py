"""A hundred conversations with nodes that are killed, stopped, cut off and restarted: nothing lost, nothing twice."""

from __future__ import annotations

from tests.journal.server import Server
from tests.nodes.cluster import Cluster
from tests.nodes.crowd import Crowd
from tests.nodes.judgement import judge
from tests.nodes.proxy import Proxy


def test_one_node_answers_a_hundred_conversations(url: str) -> None:
    with Cluster([url]) as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more(2)
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations)


def test_connections_to_the_server_are_cut(url: str, server: Server) -> None:
    with Proxy(server.url) as proxy, Cluster([proxy.url(url)]) as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more()
        proxy.cut()
        crowd.answer_more()
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations, "failed")


def test_the_database_restarts(url: str, server: Server) -> None:
    with Cluster([url]) as cluster, Crowd(cluster.balancer.url) as crowd:
        crowd.answer_more()
        server.stop()
        cluster.wait_until_not_ready(cluster.nodes[0])
        server.start()
        crowd.answer_more()
        crowd.finish()
        cluster.end()

    judge(url, crowd.conversations, "failed")
