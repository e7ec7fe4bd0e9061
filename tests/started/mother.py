"""The process that programs are forks of: it makes the slow imports, and waits for orders until nobody can send any.

Each order comes with four descriptors: the three that the program talks through, and one to say what becomes of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import termios
import warnings
from pathlib import Path
from typing import Any

LARGEST = 1_000_000
ROOT = str(Path(__file__).resolve().parent.parent.parent)
STANDARD = 3


def main() -> None:
    """Make the imports that the arguments name; every program leaves this function and goes on as itself."""
    link = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    warm_up()
    gc.freeze()  # a program that ends would visit all of that, and copy it in order to do so
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the guards
    while True:
        message, descriptors, _, _ = socket.recv_fds(link, LARGEST, STANDARD + 1)
        if not message:
            return
        if os.fork() == 0:
            link.close()
            guard(descriptors)
            become(json.loads(message), descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def warm_up() -> None:
    """Run the command once: whatever is compiled when it is first needed is there for every program."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stderr(io.StringIO()):
        os.environ.update(HOME=directory, MOCK_LLM="1")
        importlib.import_module("reenact.cli").main(["-p", "Hello"])


def guard(descriptors: list[int]) -> None:
    """Fork the program, which returns; wait for its end, and say how it was."""
    *standard, telling = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    program = os.fork()
    if program == 0:
        return
    for descriptor in standard:
        os.close(descriptor)
    _, status = os.waitpid(program, 0)
    os.write(telling, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


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
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv[:] = order["argv"]
    prepare(order["before"])
    if order["is_file"]:
        sys.warnoptions[:] = ["error"]
        warnings.simplefilter("error")
        sys.path.insert(0, order["cwd"])
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


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
