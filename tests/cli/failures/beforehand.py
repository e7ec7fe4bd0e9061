"""What is done to a process before the command runs in it; nothing is imported here that the command might not need."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import itertools
import os
import pwd
import resource
import socket
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

HERE: Final = __name__
IDLE_SECONDS: Final = 0.2
AGES: Final = 1e9
SMALL: Final = 600_000
_CAPABILITIES_VERSION: Final = 0x20080522
"""Of the header that the system call takes, the third and last."""


def replace(module: ModuleType, name: str, value: object) -> None:
    """Put something in the place of what a module has under this name, as it must have."""
    assert hasattr(module, name)
    setattr(module, name, value)


def at_once() -> None:
    """Ask again without a pause."""
    driver = importlib.import_module("reenact.actors.environment.wire.driver")

    def none(*_: object) -> float:
        return 0.0

    replace(driver, "backoff", none)


def impatient() -> None:
    """Take a short silence of the API for its end; the limit is ten minutes otherwise."""
    answering = importlib.import_module("reenact.cli.chat.answering")
    replace(answering, "LLMConfig", partial(answering.LLMConfig, timeout=IDLE_SECONDS, max_retries=0))


def patient() -> None:
    """Let the time be over as soon as the log has the beginning of an answer, and not before."""
    conversation = importlib.import_module("reenact.cli.chat.conversation")
    log = Path(os.environ["HOME"], ".local/share/reenact/reenact.db-wal")

    looks = itertools.count()  # the first is when the time begins, which may be after the beginning of the answer

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return AGES if next(looks) and log.exists() and b"This much" in log.read_bytes() else 0.0

    replace(conversation, "time", Clock)
    replace(conversation, "LOOK_AROUND", 0.01)


def unresolved() -> None:
    """Let no name be known."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    replace(socket, "getaddrinfo", unknown)


def calm() -> None:
    """Give the runtime the time to find out by itself how things stand, also on a machine that is busy."""
    replace(importlib.import_module("reenact.cli.chat.conversation"), "LOOK_AROUND", 15.0)


def powerless() -> None:
    """Be a user for whom modes of files count: root without its capabilities is one."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        raise OSError(ctypes.get_errno(), "the capabilities cannot be given up")


def cramped() -> None:
    """Let no file grow beyond a size that a log soon has, until the command is over: what is measured may then."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, most))
    atexit.register(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))


def homeless() -> None:
    """Let the system know no home in which anything can be made."""
    user = pwd.getpwuid(os.getuid())
    nowhere = pwd.struct_passwd((*user[:5], "/dev/null/home", user[6]))

    def of_nobody(_: int) -> pwd.struct_passwd:
        return nowhere

    replace(pwd, "getpwuid", of_nobody)


def nowhere() -> None:
    """Be in a directory that is gone."""
    here = Path("gone")
    here.mkdir()
    os.chdir(here)
    Path("../gone").rmdir()


def broken() -> None:
    """Have a mistake in the program, which says the key."""
    conversation: Any = importlib.import_module("reenact.cli.chat.conversation")

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError(f"with {os.environ['ANTHROPIC_API_KEY']}")

    conversation.Conversation.ask = fail


def astray() -> None:
    """Have a mistake in the code that talks to the API."""
    client: Any = importlib.import_module("reenact.actors.environment.claude.environment")

    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no such luck")

    client.ClaudeClient.stream = fail
