"""A Ray cluster on this machine alone, in a process of its own: `python ray_cluster.py DIRECTORY`.

It prints a line when there is a head, and one more after each line that it is told: `add` begins a node, `remove` kills
the one that was added last, with all that runs there. It ends with its input.
"""

from __future__ import annotations

import importlib
import os
import sys

PRIVATE = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # whatever listens does so on the loopback
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
}
MEMORY = 80 * 2**20
"""Bytes for objects on each node: the least that Ray takes is a little less."""


def main(directory: str, port: str) -> None:
    os.environ.update(PRIVATE, RAY_TMPDIR=directory)
    cluster = importlib.import_module("ray.cluster_utils").Cluster()
    node = {"num_cpus": 2, "object_store_memory": MEMORY, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    cluster.add_node(**node, ray_client_server_port=int(port))
    added: list[object] = []
    try:
        _say("head")
        for line in sys.stdin:
            if line.strip() == "add":
                added.append(cluster.add_node(**node))
            else:
                cluster.remove_node(added.pop(), allow_graceful=False)
            _say(line.strip())
    finally:
        cluster.shutdown()


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
