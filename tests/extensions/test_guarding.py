"""Tools under the eyes of hooks."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.tool import tool
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.extensions.firing import GuardedToolbox, Hooks
from reenact.extensions.hooks import Hook
from reenact.testing import wait_until


class Desk:
    """A toolbox with two tools, and what they did."""

    def __init__(self, cwd: Path, *hooks: tuple[str, str]) -> None:
        self.sent: list[str] = []
        made = [
            Hook(event=event, matcher="", command=command, timeout=60.0, path="", source="user")
            for event, command in hooks
        ]
        firing = Hooks(made, environ={"PATH": "/usr/bin:/bin"}, cwd=cwd, warn=lambda _: None)

        def send(to: str) -> str:
            self.sent.append(to)
            return f"sent to {to}"

        def look() -> list[dict[str, Any]]:
            return [{"type": "text", "text": "seen"}]

        def fail() -> str:
            raise ValueError("broken")

        inner = Toolbox([tool(send), tool(look), tool(fail)])
        self.tools = GuardedToolbox(inner, firing, "ses_1")

    def call(self, name: str, **arguments: str) -> ToolOutcome:
        return asyncio.run(self.tools.call(name, arguments, ToolContext(call_id="toolu_1")))


def test_a_call_that_a_hook_refuses_is_not_run_and_the_model_reads_why(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ("PreToolUse", "echo not to her >&2; exit 2"))

    outcome = desk.call("send", to="ann")

    assert desk.sent == []
    assert outcome.is_error
    assert outcome.result == outcome.content == "send was not run, for a hook refuses it: not to her"


def test_a_call_that_no_hook_refuses_is_run_as_it_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ("PreToolUse", "cat > told.json"))

    outcome = desk.call("send", to="ann")

    told = json.loads((tmp_path / "told.json").read_text())
    assert (outcome.content, outcome.is_error) == ("sent to ann", False)
    assert (told["tool_name"], told["tool_input"], told["tool_use_id"]) == ("send", {"to": "ann"}, "toolu_1")


def test_a_hook_behind_a_call_is_told_of_its_result_and_heard_by_the_model(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ("PostToolUse", "cat > told.json; echo check it >&2; exit 2"))

    outcome = desk.call("send", to="ann")

    assert json.loads((tmp_path / "told.json").read_text())["tool_response"] == "sent to ann"
    assert outcome.content == outcome.result == "sent to ann\n\nA hook says: check it"
    assert not outcome.is_error


def test_what_a_hook_says_of_blocks_is_another_block(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ("PostToolUse", "echo check it >&2; exit 2"))

    outcome = desk.call("look")

    assert [{"type": "text", "text": text} for text in ("seen", "A hook says: check it")] == outcome.result
    assert list(outcome.content) == outcome.result


def test_a_call_that_failed_is_no_business_of_hooks_behind_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ("PostToolUse", "touch told"))

    assert desk.call("fail").is_error
    assert not (tmp_path / "told").exists()


def test_the_tools_are_told_of_as_they_are(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    assert [spec.name for spec in desk.tools.specs()] == ["send", "look", "fail"]
    assert desk.tools.get("send") is not None
    assert asyncio.run(desk.tools.connect()) == {}
    asyncio.run(desk.tools.aclose())


def test_a_call_that_is_cancelled_ends_its_hook(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ("PreToolUse", "echo $$ > pid; sleep 60"))

    async def cancelled() -> None:
        call = asyncio.create_task(desk.tools.call("send", {"to": "ann"}))
        await asyncio.to_thread(wait_until, (tmp_path / "pid").exists)
        call.cancel()
        await asyncio.wait([call])

    began = time.monotonic()
    asyncio.run(cancelled())

    pid = (tmp_path / "pid").read_text().strip()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert time.monotonic() - began < 30
    assert desk.sent == []
