"""What ends a turn otherwise: limits, hooks, absent people, tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tests.cli.failures.command_line import HELLO
from tests.cli.failures.rows import TRACEBACK, Call, Row, Said, Section, error
from tests.cli.failures.stage import Stage

TOOLS: Final = '''
import os
import signal
import sys
import time
from pathlib import Path

from reenact import tool


@tool
def fail() -> str:
    """Fail."""
    raise ConnectionError("401 Unauthorized: timed out")


@tool
def leave() -> str:
    """Leave."""
    sys.exit(0)


@tool
def die() -> str:
    """Die."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return ""


@tool
def wait() -> str:
    """Wait."""
    Path("waiting").touch()
    time.sleep(1)
    return "waited"


@tool(intervention="required")
def send_mail(to: str) -> str:
    """Send a mail."""
    return "sent"
'''
PRICE: Final = ("--price", "claude-fake=1000000,1000000", "--model", "claude-fake")
WAITS: Final = '{"PreToolUse": [], "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "%s"}]}]}'


def with_tools(
    *names: str, options: tuple[str, ...] = (), rounds: int = 1, apart: bool = False
) -> Callable[[Stage], Call]:
    """Return what asks a model that calls these tools, so many times."""

    def happens(stage: Stage) -> Call:
        for number in range(rounds):
            stage.api.reply(content=[_call(name, number) for name in names], stop_reason="tool_use")
        arguments = ("-p", "Hello", "--tools", stage.file("tools.py", TOOLS), *options)
        return Call(arguments=arguments, apart=apart)

    return happens


def refused(stage: Stage) -> Call:
    """Ask a model that refuses without a word."""
    details = {"type": "refusal", "category": "bio", "explanation": "This could help to make a weapon."}
    stage.api.reply(content=[], stop_reason="refusal", stop_details=details)
    return Call()


def _call(name: str, number: int) -> dict[str, Any]:
    arguments = {"to": f"ann{number}"} if name == "send_mail" else {}
    return {"type": "tool_use", "id": f"toolu_{name}_{number}", "name": name, "input": arguments}


def hooked(command: str) -> Callable[[Stage], Call]:
    """Return what asks where a hook of the user looks at each prompt."""

    def happens(stage: Stage) -> Call:
        hooks = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}
        stage.file("home/.reenact/hooks.json", json.dumps(hooks))
        return Call()

    return happens


def waiting(stage: Stage) -> Call:
    """Ask in a session in which a call waits for a person, who has left."""
    stage.wait_for_person(TOOLS)
    return Call(arguments=("-p", "Hello", "--continue", "--tools", "tools.py"))


UNAPPROVED: Final = tuple(
    Said("warning", "send_mail was not run: no person is there to approve it; run with --allowed-tools send_mail")
    for _ in range(10)
)

FAILED: Final = (Said("warning", "tool fail has failed", TRACEBACK),)

LIMITS = Section(
    "Limits, hooks, and absent people",
    (
        Row(
            what="the model refuses: that is its answer",
            happens=refused,
            code=0,
            says=(Said("warning", "The model refused to answer (bio): This could help to make a weapon."),),
            asked=True,
        ),
        Row(
            what="`--max-turns` is reached: what there is, is the answer",
            happens=with_tools("fail", options=("--max-turns", "1")),
            code=0,
            out="…",
            says=(
                Said(
                    "warning",
                    "The model was asked as often as it may be for one prompt (--max-turns), so the agent has stopped.",
                ),
            ),
            asked=True,
        ),
        Row(
            what="`--max-cost` is reached: likewise",
            happens=with_tools("fail", options=("--max-cost", "0.01", *PRICE)),
            code=0,
            out="…",
            says=(Said("warning", "The session has spent what it may spend (--max-cost), so its agent has stopped."),),
            asked=True,
        ),
        Row(
            what="a hook that refuses the prompt",
            happens=hooked("echo 'exit code 0, success' >&2; exit 2"),
            code=2,
            type="refused_by_hook",
            says=error("a hook refuses the prompt: exit code 0, success"),
            requests=0,
        ),
        Row(
            what="a call that nobody can approve: the model is told, and answers",
            happens=with_tools("send_mail"),
            code=0,
            out=HELLO,
            says=UNAPPROVED[:1],
            asked=True,
        ),
        Row(
            what="calls that nobody can approve, again and again",
            happens=with_tools("send_mail", rounds=11),
            code=2,
            type="unapproved_tool_calls",
            says=(
                *UNAPPROVED,
                *error(
                    "the model went on to ask for calls that no person is there to approve; "
                    "--allowed-tools NAMES allows them"
                ),
            ),
            asked=True,
        ),
        Row(
            what="a session in which a call waits for a person",
            happens=waiting,
            code=2,
            type="waiting_for_human_input",
            says=error("a call waits for a person in session ses_…, which takes up nothing else before; …"),
            begun=True,
        ),
    ),
)

TOOLS_ROWS = Section(
    "Tools",
    (
        Row(
            what="a tool that raises: the model is told, and answers",
            happens=with_tools("fail"),
            code=0,
            out=HELLO,
            says=FAILED,
            asked=True,
        ),
        Row(
            what="a tool that calls `sys.exit`: likewise",
            happens=with_tools("leave"),
            code=0,
            out=HELLO,
            says=(Said("warning", "tool leave has failed", TRACEBACK),),
            asked=True,
        ),
    ),
)
SECTIONS = (LIMITS, TOOLS_ROWS)
