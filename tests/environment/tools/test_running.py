"""Plain functions run on threads that are used again: each has its thread for itself for as long as it takes."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from reenact.actors.environment.tools import running
from reenact.actors.environment.tools.running import in_thread
from reenact.testing import wait_until

T = TypeVar("T")
PATIENCE = 60.0

said: contextvars.ContextVar[str] = contextvars.ContextVar("said")


def whose() -> tuple[threading.Thread, str]:
    """Return the thread on which this is called, and its name."""
    thread = threading.current_thread()
    return thread, thread.name


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())


@pytest.fixture
def rests_long(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let threads rest for as long as the test takes."""
    monkeypatch.setattr(running, "IDLE_SECONDS", PATIENCE)
    yield
    monkeypatch.setattr(running, "IDLE_SECONDS", 0.0)
    while running._idle_callers:
        running._idle_callers.pop().make(lambda: None, "over")


@pytest.mark.usefixtures("rests_long")
def test_a_call_that_follows_another_soon_is_made_on_the_same_thread_under_its_own_name() -> None:
    async def go() -> list[tuple[threading.Thread, str]]:
        made: list[tuple[threading.Thread, str]] = []
        for name in ("first", "second"):
            made.append(await in_thread(whose, name))
            wait_until(lambda: running._idle_callers)
        return made

    (first, was), (second, became) = run(go)

    assert (was, became) == ("first", "second")
    assert first is second
    assert first.daemon


def test_calls_that_do_not_end_keep_no_other_waiting() -> None:
    gate = threading.Event()

    async def go() -> tuple[str, list[bool]]:
        held = [asyncio.ensure_future(in_thread(lambda: gate.wait(PATIENCE), f"held {number}")) for number in range(20)]
        await asyncio.sleep(0)
        _, name = await in_thread(whose, "free")
        gate.set()
        return name, await asyncio.gather(*held)

    assert run(go) == ("free", 20 * [True])


def test_a_thread_ends_when_nothing_is_to_be_called_for_a_while() -> None:
    async def go() -> threading.Thread:
        thread, _ = await in_thread(whose, "one")
        return thread

    thread = run(go)
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert running._idle_callers == []


@pytest.mark.usefixtures("rests_long")
def test_a_call_sees_its_callers_context_and_nothing_of_the_call_before() -> None:
    async def go() -> list[str | None]:
        seen: list[str | None] = []
        for word in ("a", None):
            context = contextvars.copy_context()
            if word is not None:
                context.run(said.set, word)
            task = asyncio.get_running_loop().create_task(in_thread(lambda: said.get(None), "look"), context=context)
            seen.append(await task)
            wait_until(lambda: running._idle_callers)
        return seen

    assert run(go) == ["a", None]


def test_a_call_that_comes_just_when_a_thread_is_about_to_end_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[tuple[threading.Thread, str]] = []
    made = threading.Event()

    def take() -> None:
        late.append(whose())
        made.set()

    class Taken(list[Any]):
        """The resting threads, of which one is taken by a call when it looks whether it may end."""

        def remove(self, caller: Any) -> None:  # noqa: ANN401 - one of a class that is private
            if not made.is_set():
                self.clear()
                caller.make(take, "late")
            super().remove(caller)

    monkeypatch.setattr(running, "_idle_callers", Taken())

    async def go() -> threading.Thread:
        thread, _ = await in_thread(whose, "early")
        return thread

    thread = run(go)
    thread.join(PATIENCE)

    assert late == [(thread, "late")]


FORKS = """
import asyncio, os, threading, warnings
from reenact.actors.environment.tools import running
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 says of each fork beside threads that it may hang
running.IDLE_SECONDS = 60
asyncio.run(running.in_thread(lambda: print("in the parent", flush=True), "a"))
if os.fork() == 0:
    asyncio.run(running.in_thread(lambda: print("in the child", flush=True), "b"))
    os._exit(0)
os.wait()
"""


def test_a_child_process_hands_nothing_to_threads_that_only_its_parent_has() -> None:
    said = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert said.stdout.splitlines() == ["in the parent", "in the child"]
