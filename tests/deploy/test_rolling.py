"""Nodes that run the commands of docs/deploy are restarted one after the other, and a client goes on."""

from __future__ import annotations

from pathlib import Path

from reenact import Runtime
from tests.deploy.asking import Asking
from tests.deploy.deployed import PATIENCE, TOKEN, container_command, nodes, unit_command
from tests.journal.server import Server


def test_a_client_goes_on_while_a_container_and_a_unit_are_restarted_one_after_the_other(
    server: Server, tmp_path: Path
) -> None:
    with nodes([container_command(), unit_command()], server.new_log(), tmp_path) as both:
        urls = [node.url for node in both]
        with Asking(lambda: Runtime.connect(urls, token=TOKEN, timeout=PATIENCE)) as client:
            client.go_on()
            for node in both:
                assert node.end()[0] == 0
                client.go_on()
                node.start()
                client.go_on()

        ends = [node.end()[0] for node in both]

    client.check()
    assert ends == [0, 0]
