"""The process that programs are forks of: with the first order it makes the slow imports.

It listens to who has started it, and to whoever connects. Each order comes with four descriptors: the three that the
program talks through, and one to say what becomes of it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import multiprocessing.process
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import termios
import threading
import warnings
from pathlib import Path
from typing import Any

LARGEST = 1_000_000
ROOT = str(Path(__file__).resolve().parent.parent.parent)
STANDARD = 3


def main() -> None:
    """Wait for orders until who has started this hangs up; every program leaves this and goes on as itself."""
    first, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    links = {first.fileno(): first}
    running: dict[int, int] = {}  # which descriptor the end of a program is told through
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    is_prepared = False
    while True:
        ready, _, _ = select.select([*links, listener.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, LARGEST)
            tell_who_has_ended(running)
        if listener.fileno() in ready:
            link, _ = listener.accept()
            links[link.fileno()] = link
        for number in [number for number in ready if number in links]:
            message, descriptors, _, _ = socket.recv_fds(links[number], LARGEST, STANDARD + 1)
            if not message:
                links.pop(number).close()
                if first.fileno() not in links:
                    return
                continue
            if not is_prepared:
                import_and_warm_up(sys.argv[3:])
                is_prepared = True
            program = os.fork()
            if program == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under `nohup`
                for connection in (listener, *links.values()):
                    connection.close()
                for descriptor in (woken, waking, *running.values()):
                    os.close(descriptor)
                become(json.loads(message), descriptors)
                return
            *standard, running[program] = descriptors
            for descriptor in standard:
                os.close(descriptor)


def tell_who_has_ended(running: dict[int, int]) -> None:
    """Say of each program that has ended how it was."""
    for program, telling in [*running.items()]:
        ended, status = os.waitpid(program, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):  # nobody wants to know
                os.write(telling, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(telling)
            del running[program]


def import_and_warm_up(names: list[str]) -> None:
    """Import the modules and run the command once: whatever is made when it is first needed is there for all."""
    for name in names:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stderr(io.StringIO()):
        os.environ.update(HOME=directory, MOCK_LLM="1")
        importlib.import_module("reenact.cli").main(["-p", "Hello"])
    gc.freeze()  # a program that ends would visit all of that, and copy it in order to do so


def become(order: dict[str, Any], descriptors: list[int]) -> None:
    """Turn this process into what the interpreter would have made of it, and run the program."""
    *standard, telling = descriptors
    os.setsid()
    os.write(telling, b"%d\n" % os.getpid())
    os.close(telling)
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    terminal = next(filter(os.isatty, range(STANDARD)), None)
    if terminal is not None:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    talk_through_the_standard_descriptors()
    close(order["closed"])
    os.chdir(order["cwd"])
    # As if it were imported now: programs that it starts find their file by this.
    multiprocessing.process.__dict__["ORIGINAL_DIR"] = order["cwd"]
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv[:] = order["argv"]
    sys.path[:0] = [
        path for path in order["env"].get("PYTHONPATH", "").split(os.pathsep) if path not in ("", *sys.path)
    ]
    sys.path[:0] = [order["cwd"]] * order["finds_beside"]
    prepare(order["before"])
    code = run(is_file=order["is_file"])
    gc.collect()  # what it has left open is told of
    end(code)


def run(*, is_file: bool) -> int:
    """Run the program; return its exit code, or raise what the interpreter is to tell of."""
    try:
        if is_file:
            sys.warnoptions[:] = ["error"]
            warnings.simplefilter("error")
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        return ended.code
    return 0


def end(code: int) -> None:
    """End the program, unless there is more to do than to take apart what it was forked with.

    That would take longer than most programs do; what is more is left to the interpreter.
    """
    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            for stream in (sys.stdout, sys.stderr):
                if stream is not None and not stream.closed:
                    stream.flush()
            os._exit(code)
    sys.exit(code)


def prepare(functions: list[str]) -> None:
    """Call functions of the tests, `MODULE:NAME`, before the program runs."""
    sys.path.insert(0, ROOT)
    for function in functions:
        module, _, name = function.partition(":")
        getattr(importlib.import_module(module), name)()
    sys.path.remove(ROOT)


def close(numbers: list[int]) -> None:
    """Close standard streams, as `>&-` does; the interpreter has none of them then."""
    for number in numbers:
        os.close(number)
        name = ("stdin", "stdout", "stderr")[number]
        setattr(sys, name, None)
        setattr(sys, f"__{name}__", None)


def talk_through_the_standard_descriptors() -> None:
    """Open the standard streams anew: the old ones have found no terminal."""
    told = os.fdopen(0, encoding="utf-8", closefd=False)
    said = os.fdopen(1, "w", encoding="utf-8", closefd=False, buffering=1 if os.isatty(1) else -1)
    complained = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1, errors="backslashreplace")
    sys.stdin, sys.stdout, sys.stderr = told, said, complained
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = told, said, complained  # type: ignore[misc]


if __name__ == "__main__":
    main()
