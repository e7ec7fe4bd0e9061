"""The inspector on long logs: its pages, its memory, and its cost to the writer, also while a browser follows."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import httpx2
from playwright.sync_api import Page, sync_playwright

from bench.large_log import SESSIONS, TURNS, write_large_log
from bench.measure import Line, Sample, Workload, at_most, must, ratio_of_at_least, versus
from bench.ours import Ours
from bench.product import Sync, one_session
from reenact import Image, Runtime
from reenact.actors.environment.api import OnEvent
from reenact.domain.messages import Said
from reenact.events import MessageStop, TextDelta

RATE: Final = 200
"""Deltas a second of an answer that a browser follows."""
_CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_WARM: Final = 100
_PAGES: Final = 1_000
_NEARLY: Final = ratio_of_at_least(0.95)
_LINK: Final = re.compile(r'href="(/session\?id=[^"&]+)"')


class Served(NamedTuple):
    """An inspector in a process of its own, and its HTTP client."""

    client: httpx2.Client
    address: str
    pid: int


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of the inspector."""
    turns = 500 if quick else 5_000
    seconds = 2 if quick else 10
    followed = Workload(
        (Line(f"{RATE} deltas a second, followed in a browser", "deltas/s", "none", _NEARLY),),
        versus(partial(_answer, seconds=seconds, is_followed=True), partial(_answer, seconds=seconds)),
    )
    fewer = 10 if quick else 1
    return [
        _of_pages("1,000 sessions, a million events", sessions=SESSIONS // fewer, turns=TURNS),
        _of_pages("one session, 100,000 events", sessions=1, turns=100 * TURNS // fewer),
        Workload(
            (Line(f"{turns} turns beside an inspector", "turns/s", "none", _NEARLY),),
            versus(partial(_turns, _Followed, turns=turns), partial(_turns, Ours, turns=turns)),
        ),
        *([] if _CHROMIUM is None else [followed]),
    ]


def _of_pages(what: str, *, sessions: int, turns: int) -> Workload:
    return Workload(
        (
            Line(f"{what}: the first page of a new inspector", "ms", goal=at_most(200)),
            Line(f"{what}: the slowest of the later pages", "ms", goal=at_most(200)),
            Line(f"{what}: the largest page", "kB", goal=at_most(150)),
            Line(f"{what}: memory that 1,000 pages more have cost", "MB", goal=at_most(10)),
        ),
        partial(_pages, sessions=sessions, turns=turns),
    )


@contextmanager
def served(log: Path) -> Generator[Served]:
    """Serve the pages of the log."""
    command = [sys.executable, "-m", "reenact", "inspect", "--db", str(log), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            base = address.partition("/?")[0]
            with httpx2.Client(base_url=base, follow_redirects=True, trust_env=False, timeout=60) as client:
                yield Served(client, address, process.pid)
        finally:
            process.terminate()


def _pages(directory: Path, _: int, *, sessions: int, turns: int) -> Sequence[Sample]:
    log = directory / "log.db"
    head = write_large_log(str(log), sessions, turns)
    with Runtime.open(log) as runtime:
        while runtime.lag:
            time.sleep(0.1)
    with served(log) as inspector:
        client = inspector.client
        begun = time.perf_counter()
        first = client.get(inspector.address)
        took = time.perf_counter() - begun
        must(first.status_code == 200, "the first page is there")
        addresses = _addresses(first.text, head)
        times: list[float] = []
        sizes = [len(first.content)]
        for address in addresses * 3:
            status = 503  # as long as a page says how far its state is
            while status == 503:
                begun = time.perf_counter()
                page = client.get(address)
                times.append(time.perf_counter() - begun)
                sizes.append(len(page.content))
                status = page.status_code
            must(status == 200, f"the page {address} is there")
        for number in range(_WARM):
            client.get(addresses[number % len(addresses)])
        before = _resident(inspector.pid)
        for number in range(_PAGES):
            client.get(addresses[number % len(addresses)])
        more = _resident(inspector.pid) - before
    return [Sample(took * 1e3), Sample(max(times) * 1e3), Sample(max(sizes) / 1e3), Sample(more / 1e6)]


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _addresses(page: str, head: int) -> list[str]:
    sessions = list(dict.fromkeys(_LINK.findall(page)))[:5]
    found = ["/", "/?text=refund", "/?state=failed", "/waiting", "/costs", "/branches", "/chain"]
    found += [f"/event?at={at}" for at in (2, head // 2, head)]
    for one in sessions:
        found += [one, f"{one}&show=events", f"{one}&show=json", f"{one}&at={head // 2}"]
        found += [f"{one.replace('/session', '/state')}{at}" for at in ("", f"&at={head // 2}")]
    return found


class _Followed(Ours):
    """The runtime, with an inspector that follows its log."""

    def __init__(self, path: Path, sync: Sync) -> None:
        super().__init__(path, sync)
        self._inspector = served(path)
        inspector = self._inspector.__enter__()
        inspector.client.get(inspector.address)

    def close(self) -> None:
        self._inspector.__exit__(None, None, None)
        super().close()


def _turns(side: type[Ours], directory: Path, *, turns: int) -> float:
    return one_session(turns)(side, directory / "bench.db", "NORMAL")


class _Paced:
    """A model that sends deltas at a fixed rate."""

    name = "paced"

    def __init__(self, deltas: int) -> None:
        self._deltas = deltas

    def provide(self) -> _Paced:
        return self

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, object]],
        on_event: OnEvent,
    ) -> None:
        begun = time.perf_counter()
        for number in range(self._deltas):
            await asyncio.sleep(begun + number / RATE - time.perf_counter())
            on_event(TextDelta(text=f"{number:05} "))
        on_event(MessageStop())

    def interrupt(self) -> None:
        """Nothing: the task is cancelled."""


def _answer(directory: Path, *, seconds: int, is_followed: bool = False) -> float:
    """Return the deltas written per second; the model sends them at a rate that can be kept."""
    log = directory / "bench.db"
    with ExitStack() as stack:
        runtime = stack.enter_context(
            Runtime.open(log, llm_provider=_Paced(seconds * RATE), default_image=Image(id="chat"), synchronous="NORMAL")
        )
        runtime.containers.create(container_id="bench")
        agent = runtime.sessions.run(runtime.sessions.create("bench", "chat", session_id="s").id)
        page = stack.enter_context(_browser_at(stack.enter_context(served(log)))) if is_followed else None
        begun = time.perf_counter()
        turn = runtime.turns.wait(runtime.agents.receive(agent, "Count"), timeout=10 * seconds)
        took = time.perf_counter() - begun
        must(turn.outcome == "completed", "the answer was given")
        if page is not None:
            page.wait_for_selector("#rail >> text=Turn ended: completed", timeout=2_000)
    return seconds * RATE / took


@contextmanager
def _browser_at(inspector: Served) -> Generator[Page]:
    """Keep the session open in a browser, which follows it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, chromium_sandbox=os.getuid() != 0)
        page = browser.new_page()
        page.goto(inspector.address)
        page.goto(f"{inspector.address.partition('/?')[0]}/session?id=s")
        page.wait_for_selector("#following >> text=following")
        yield page
        browser.close()
