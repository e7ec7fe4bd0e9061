"""Nodes of one log, each a process behind a balancer, and what is done to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Literal, Self

from reenact.testing import wait_until
from tests.nodes.balancer import Balancer
from tests.reliability.serving import ServerProcess
from tests.started.programs import shared_programs

PATIENCE = 60.0
"""Seconds after which what was waited for is not going to happen."""


class Node:
    """A place for a process: the next one that runs there listens on the same port."""

    def __init__(self, url: str, recovery: Literal["close", "resume"]) -> None:
        self._url = url
        self._recovery = recovery
        self._process: ServerProcess | None = None
        self.port = 0

    @property
    def process(self) -> ServerProcess:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start a process; return when it listens."""
        self._process = ServerProcess(["tests.nodes.serving_node", self._url, str(self.port), self._recovery])
        self.port = self._process.port

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        """Kill what still runs there."""
        self.process.kill()

    def stop(self) -> None:
        """Let it do nothing until it is to go on."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        """Ask it to end, and return when it has."""
        code = self.process.terminate()
        assert code == 0, f"it has ended with {code}; it said {self.process.errors}"


class Cluster:
    """So many nodes as there are URLs of the log, behind a balancer. Whatever runs is killed when the block ends."""

    def __init__(self, urls: Sequence[str], recovery: Literal["close", "resume"] = "close") -> None:
        self.recovery = recovery
        self.nodes = [Node(url, recovery) for url in urls]
        self.balancer = Balancer()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.balancer)
            shared_programs()  # so that not each thread connects to it
            with ThreadPoolExecutor(len(self.nodes)) as threads:
                for starting in [threads.submit(self._start, node, stack) for node in self.nodes]:
                    starting.result()
            self.wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_until_ready(self) -> None:
        """Return when all nodes are."""
        ports = {node.port for node in self.nodes}
        wait_until(lambda: {*self.balancer.ready} == ports, PATIENCE, "all nodes to be ready")

    def wait_until_not_ready(self, *nodes: Node) -> None:
        """Return when no new connection is taken to the nodes."""
        ports = {node.port for node in nodes}
        wait_until(lambda: not ports & self.balancer.ready, PATIENCE, "the nodes not to be ready")

    def end(self) -> None:
        """Ask all nodes to end, one after the other."""
        for node in self.nodes:
            node.end()

    def _start(self, node: Node, stack: ExitStack) -> None:
        node.start()
        stack.callback(node.close)
        self.balancer.look_at(node.port)
