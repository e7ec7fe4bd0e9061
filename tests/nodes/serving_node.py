"""A node in a process of its own that serves clients until it is told to end: `serving_node URL PORT RECOVERY`.

With `close`, it is the command `reenact serve`; with `resume`, a program of a user's own that does the same.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from reenact import Image, Runtime
from reenact.actors.environment import mock
from reenact.cli import main as reenact
from reenact.domain.messages import Said
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.nodes.crowd import chunks_of

PAUSE = 200.0
"""Milliseconds before each part of an answer: long enough for many conversations to be in the middle of one."""


def echo(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Answer with the question, in parts."""
    question = [message.text for message in conversation if message.role == "user"][-1]
    yield MockEvent("message_start")
    for chunk in chunks_of(question):
        yield MockEvent("text_delta", PAUSE, {"text": chunk})
    yield MockEvent("message_stop")


def main(url: str, port: str, recovery: str) -> int:
    if recovery == "close":
        setattr(mock, "PREDEFINED_SCENARIOS", {"echo": echo})  # noqa: B010 - it is final
        sys.argv = ["reenact", "serve", "--scenario", "echo", "--db", url, "--host", "127.0.0.1", "--port", port]
        return reenact()
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: ends.set())
    with (
        Runtime.open(
            url,
            environment=MockEnvironmentFactory("echo", {"echo": echo}),
            recovery="resume",
            default_image=Image(id="i"),
        ) as runtime,
        Server(runtime, port=int(port)) as server,
    ):
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        ends.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
