"""The inspector on a log of a million events: its pages, its memory, and what it costs whoever writes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import httpx2

from bench.large_log import SESSIONS, TURNS, write_large_log
from bench.measure import Line, Sample, Workload, at_most, must, ratio_of_at_least, versus
from bench.ours import Ours
from bench.product import Sync, one_session
from reenact import Runtime

_WARM: Final = 100
_PAGES: Final = 1_000
_LINK: Final = re.compile(r'href="(/session\?id=[^"&]+)"')


class Served(NamedTuple):
    """An inspector in a process of its own, and what asks it."""

    client: httpx2.Client
    address: str
    pid: int


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of the inspector."""
    turns = 500 if quick else 5_000
    return [
        Workload(
            (
                Line("the first page of a new inspector, of 1,000,000 events", "ms", goal=at_most(200)),
                Line("the slowest of the later pages", "ms", goal=at_most(200)),
                Line("the largest page", "kB", goal=at_most(150)),
                Line("memory that 1,000 pages more have cost", "MB", goal=at_most(10)),
            ),
            partial(_pages, sessions=SESSIONS // 10 if quick else SESSIONS),
        ),
        Workload(
            (Line(f"{turns} turns beside an inspector", "turns/s", "none", ratio_of_at_least(0.95)),),
            versus(partial(_turns, _Followed, turns=turns), partial(_turns, Ours, turns=turns)),
        ),
    ]


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


def _pages(directory: Path, _: int, *, sessions: int) -> Sequence[Sample]:
    log = directory / "log.db"
    head = write_large_log(str(log), sessions, TURNS)
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
            begun = time.perf_counter()
            page = client.get(address)
            times.append(time.perf_counter() - begun)
            sizes.append(len(page.content))
            must(page.status_code == 200, f"the page {address} is there")
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
        found += [one, f"{one}&show=events", f"{one}&show=json", one.replace("/session", "/state")]
    return found


class _Followed(Ours):
    """The runtime, with an inspector beside it that looks at what is written."""

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
