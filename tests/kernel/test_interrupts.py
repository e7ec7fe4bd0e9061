"""Whoever sends may be interrupted anywhere, or be near the limit of recursion: the actor goes on."""

from __future__ import annotations

import asyncio
import linecache
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

from reenact.actors import kernel
from reenact.actors.kernel import ActorSystem, EventLoopActor, Reference
from tests.kernel.account import Account, Audit, Command, Deposit
from tests.kernel.memory import MemoryJournal
from tests.kernel.nursery import wait_until_idle

KERNEL = str(Path(kernel.__file__).resolve().parent)
PATIENCE = 20.0
SENT: dict[str, Callable[[Reference[Command, int]], object]] = {
    "ask": lambda account: account.ask(Deposit(1)),
    "ask with a timeout": lambda account: account.ask(Deposit(1), PATIENCE),
    "tell": lambda account: account.tell(Deposit(1)),
    "a future": lambda account: account.ask_future(Deposit(1)).get(),
    "stop": lambda account: account.stop(),
}


def _press_ctrl_c() -> None:
    raise KeyboardInterrupt


class Interrupt:
    """Calls a handler before one of the lines that the current thread runs in the kernel, as a signal may."""

    def __init__(self, at: int, handler: Callable[[], object] = _press_ctrl_c) -> None:
        self._left = at
        self._handler = handler
        self.was_raised = False

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - what settrace wants
        if not str(Path(frame.f_code.co_filename).resolve()).startswith(KERNEL):
            return None
        # No signal is handled before a `try:`, nor between the end of a block and the exit of its `with`, nor between a
        # comparison and the assignment after it.
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
        if event == "line" and not line.startswith(("with ", "try:", "self._waiting = []")):
            self._left -= 1
            if self._left < 0 and not self.was_raised:
                self.was_raised = True
                self._handler()
        return self._trace


@pytest.mark.parametrize("send", SENT.values(), ids=SENT)
def test_whoever_sends_from_the_main_thread_may_be_interrupted_at_any_line(
    system: ActorSystem, send: Callable[[Reference[Command, int]], object]
) -> None:
    account = system.actor(Account, "a")
    account.ask(Deposit(1))
    at, was_interrupted = 0, True
    while was_interrupted:
        with suppress(KeyboardInterrupt), Interrupt(at) as interrupt:
            send(account)
        was_interrupted = interrupt.was_raised
        at += 1
        assert account.ask(Audit(), PATIENCE) >= 1

    assert at > 10


@pytest.mark.parametrize("send", SENT.values(), ids=SENT)
def test_the_handler_of_a_signal_may_send_whatever_the_main_thread_is_at(
    journal: MemoryJournal, send: Callable[[Reference[Command, int]], object]
) -> None:
    at, was_interrupted, sent = 0, True, 0
    while was_interrupted:
        with ActorSystem(journal) as system:
            account = system.actor(Account, "a")
            with Interrupt(at, lambda: account.tell(Deposit(1))) as interrupt:  # noqa: B023 - called inside
                send(account)
            was_interrupted = interrupt.was_raised
            sent += was_interrupted + (send is not SENT["stop"])
            assert account.ask(Audit(), PATIENCE) == sent
        at += 1

    assert at > 10


class Waiter(EventLoopActor):
    """Counts what it is told, on the event loop."""

    count = 0

    async def on_receive(self, message: object) -> int:
        await asyncio.sleep(0)
        self.count += 1
        return self.count


def test_the_handler_of_a_signal_may_send_to_an_actor_on_the_event_loop(journal: MemoryJournal) -> None:
    at, was_interrupted = 0, True
    while was_interrupted:
        with ActorSystem(journal) as system:
            waiter = system.start(Waiter)
            assert waiter.ask("begin", timeout=PATIENCE) == 1
            wait_until_idle(waiter.actor_inbox)
            with Interrupt(at, lambda: waiter.tell("b")) as interrupt:  # noqa: B023 - called inside
                waiter.tell("a")
            was_interrupted = interrupt.was_raised
            assert waiter.ask("c", timeout=PATIENCE) == 3 + was_interrupted
        at += 1

    assert at > 10


def test_whoever_asks_may_be_near_the_limit_of_recursion(system: ActorSystem) -> None:
    account = system.actor(Account, "a")
    account.ask(Deposit(1))
    raised: list[int] = []

    def deep(calls: int) -> int:
        return deep(calls - 1) if calls else account.ask(Audit())

    def ask(calls: int) -> None:
        try:
            assert deep(calls) == 1
        except RecursionError:
            raised.append(calls)

    for calls in range(sys.getrecursionlimit() - 400, sys.getrecursionlimit(), 3):
        thread = threading.Thread(target=ask, args=(calls,))
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert account.ask(Audit(), PATIENCE) == 1

    assert raised
