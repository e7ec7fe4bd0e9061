"""What holds for every test: it stops what it started, chance repeats itself, and no disk is waited for."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pykka
import pytest

from tests.examples import SHORT, every_fourth, load_profile, needs
from tests.journal.server import DATABASE, Server, running_server
from tests.started.programs import WHERE, Programs, shared_programs, starting_programs

if TYPE_CHECKING:
    from reenact.testing import CrashTest
    from tests.browsers import Chromium, Tab

LEAVE_TIME = 60.0
"""Seconds that a thread may take to end after it was told to; one that ends takes milliseconds."""

MEMORY = Path("/dev/shm")  # noqa: S108 - a directory in it, for its owner
ROOM = 2 * 1024**3
"""Bytes that have to be free in memory for what the tests write; a run has some hundred millions of them at a time."""


YOUNGEST = 5_000
"""Objects that are made before the garbage collector looks for garbage among them: few of a test's are any."""
GENERATION = 200
"""Tests whose objects stay if they are still there when the last of them is over."""
_FINISHED = count(1)


def _write_to_memory() -> None:
    """Have temporary files lie in memory, where there is room, unless a directory for them is named.

    Thousands of logs are made, and none of them has to outlive a power cut.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize < ROOM or found.f_flag & os.ST_NOEXEC:
        return
    directory = MEMORY / f"reenact-tests-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)


def _compile_once() -> None:
    """Have programs keep what they compile: those that the tests start, and the workers, import the same modules."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _hear_interrupts() -> None:
    """Undo what a shell does to a job in the background: it would ignore SIGINT, and so would all that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _know_no_certificates() -> None:
    """Have clients load none: nobody shows one here, and to load all of the system's takes longer than most tests."""
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)


_write_to_memory()
_compile_once()
_know_no_certificates()
_hear_interrupts()
load_profile()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off what stays for the whole run: the modules of all tests, and their items.

    Half a million objects are made, and none of them is garbage; every full collection of the run would visit them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(YOUNGEST)
        gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Keep it off what tests leave for the rest of the run, too: their reports, what was imported, what caches hold."""
    if next(_FINISHED) % GENERATION == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_addoption(parser: pytest.Parser) -> None:
    """Let logs be on a server."""
    parser.addoption(
        "--log",
        default="sqlite",
        metavar="WHERE",
        help="where the tests have their logs: sqlite, postgresql (a server is started), or postgresql://…, a server's",
    )
    parser.addoption(
        "--cases",
        default="all",
        choices=("all", "most", "some", "many"),
        help="of tests with many cases, try all, every fourth but all of house and docs, every fourth, or these alone",
    )
    parser.addoption("--short", action="store_true", help="leave out what needs a database's server, a browser or Node")


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None]:
    """Start what all workers use before there are workers, which inherit where it is.

    That is the process that programs are forks of, and the server that logs are on.
    """
    running = ExitStack()
    session.config.add_cleanup(running.close)
    if session.config.getoption("short"):
        os.environ[SHORT] = "1"
    if WHERE not in os.environ:
        running.enter_context(starting_programs())
    where = session.config.getoption("log")
    if where == "postgresql" and DATABASE not in os.environ:
        runtime = Path(running.enter_context(tempfile.TemporaryDirectory()))
        where = running.enter_context(running_server(runtime)).url
    if where not in ("sqlite", "postgresql"):
        os.environ[DATABASE] = str(where)
    yield


def pytest_unconfigure() -> None:
    """Leave the process that programs are forks of, if there were any."""
    if shared_programs.cache_info().currsize:
        shared_programs().close()


REPEATING = (
    *("tests/crashes/", "tests/properties/", "tests/reliability/", "tests/cli/failures/test_table.py"),
    *("tests/cli/render/test_hostile.py", "tests/cli/commands/test_hostile.py", "tests/inspector/test_hostile.py"),
    *("tests/inspector/test_sizes.py", "tests/terminal/matching/test_difference.py::test_requirement_4_6"),
)
"""Where tests do at each point of a crash, in any order or to much, what others do once: it is those that cover it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Measure no coverage where it would only take time."""
    if item.nodeid.startswith(REPEATING):
        item.add_marker("no_cover")


LONGEST = ("tests/nodes/test_conversations.py", "tests/deploy/test_rolling.py")
"""Where one test takes a processor for long: begun first, it does not go on alone when all else is done."""


MANY = 8
"""So many cases are many."""

WHOLE = ("tests/domain/", "tests/house/", "tests/docs/")
"""Which tests have all their cases: those that cover the domain to the last branch, and those with a file each."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes the longest; on a server, leave out what is about files."""
    if (which := config.getoption("cases")) != "all":
        cases = [list(same) for _, same in groupby(items, lambda item: item.nodeid.partition("[")[0])]
        whole = WHOLE if which == "most" else ()
        chosen: set[pytest.Item] = set()
        for same in cases:
            if len(same) < MANY or same[0].nodeid.startswith(whole):
                chosen.update(same if which != "many" else ())
            else:
                chosen.update(same if which == "many" else every_fourth(same))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if DATABASE in os.environ:
        for item in items:
            for mark in item.iter_markers("sqlite_only"):
                item.add_marker(pytest.mark.skip(f"only for SQLite: {mark.args[0]}"))


_TIMEOUT = pytest.StashKey[object]()
_IS_TIMED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> None:
    """Remember how long the test may take, and let pytest-timeout set its timer."""
    item.stash[_TIMEOUT] = settings
    item.stash[_IS_TIMED] = True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Remember that there is no timer, and let pytest-timeout cancel it."""
    item.stash[_IS_TIMED] = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Time the teardown, too: pytest-timeout cancels the timer of a test that fails, and a hang may follow."""
    timeout = item.stash.get(_TIMEOUT, None)
    if timeout is not None and not item.stash[_IS_TIMED]:
        item.ihook.pytest_timeout_set_timer(item=item, settings=timeout)
    yield
    if DATABASE in os.environ:
        from tests.logs import drop_logs  # noqa: PLC0415 - once the coverage of what it imports is measured

        drop_logs()


@pytest.fixture(scope="session")
def crashes() -> Iterator[CrashTest]:
    """Runs programs in processes that are killed; the process that they are forked from serves all tests of a run."""
    from reenact.testing import CrashTest  # noqa: PLC0415 - once its coverage is measured

    with CrashTest() as crashes:
        yield crashes


@pytest.fixture(scope="session")
def programs() -> Programs:
    """What starts programs quickly."""
    return shared_programs()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A PostgreSQL server for the tests of this process, which may end it."""
    runtime = tmp_path_factory.getbasetemp().parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with running_server(runtime) as server:
        yield server


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The browser of this process; a test that wants it is skipped where Chromium is not installed."""
    from tests.browsers import CHROMIUM, running_chromium  # noqa: PLC0415 - not imported for tests that use no browser

    needs("a browser")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: Debian and Ubuntu have it in the package `chromium`")
    with running_chromium(CHROMIUM) as chromium:
        yield chromium


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    """A page of the browser for one test, which fails if the page asks anybody but this machine."""
    tab = chromium.tab()
    yield tab
    tab.close()


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Fail the test that leaves an actor registered or a thread alive, and name what it left."""
    threads_before = _ours()
    actors_before = set(pykka.ActorRegistry.get_all())

    yield

    actors = [actor for actor in pykka.ActorRegistry.get_all() if actor not in actors_before]
    for actor in actors:
        actor.stop(block=True, timeout=LEAVE_TIME)
    threads = _still_alive_after(LEAVE_TIME, _ours() - threads_before)
    assert not actors, f"actors left registered: {sorted(str(actor) for actor in actors)}"
    assert not threads, f"threads left alive: {sorted(thread.name for thread in threads)}"


def _ours() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.name.startswith("pytest_timeout")}


def _still_alive_after(seconds: float, threads: set[threading.Thread]) -> list[threading.Thread]:
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in threads if thread.is_alive()]
