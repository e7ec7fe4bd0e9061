"""Tools of a server that is a program: whatever it does, calls have outcomes, and in the end nothing is left of it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from functools import reduce
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from reenact.actors.environment.tools.mcp import session, stdio
from reenact.actors.environment.tools.mcp.connection import MCPConnection
from reenact.actors.environment.tools.mcp.errors import ErrorReporter
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.running import in_thread
from reenact.actors.environment.tools.tool import tool
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.domain.errors import ConfigurationError, MissingExtraError
from reenact.domain.plain import JsonObject
from reenact.domain.policy.reading import policies_of
from reenact.domain.tools import MCPServer, MCPServerError, ToolSpec
from reenact.testing import wait_until
from tests.environment.tools.support import Invocation, call_all, find_added, fits, problems_of, run

SERVERS = Path(__file__).parent / "servers"
SOON = 0.2
"""Seconds that a server is given which answers never."""
HIDDEN = "mellon-mellon"

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that does not want to end be ended soon; the others end at once."""
    monkeypatch.setattr(stdio, "_GRACE", SOON)


def listed(name: str, schema: Json | None = None, **more: object) -> Json:
    return {"name": name, "inputSchema": schema or {"type": "object"}, **more}


NOTHING: Json = {"type": "object"}
ALONE = ["echo", "pid", "hang", "die", "garbage", "large", "half", "nan", "change"]
MORE = ["nonsense", "cancelled", "spawn", "close", "deaf", "unread", "refuse", "misfit", "floating"]
TOOLS = [listed(name) for name in (*ALONE, *MORE)]


def rough(*, server: Json | None = None, **settings: object) -> MCPServer:
    """Return the rough server with these settings; `server` are those of how it is reached."""
    program = ["-I", "-S", str(SERVERS / "rough.py"), json.dumps({"tools": TOOLS, **settings})]
    return MCPServer.stdio("rough", sys.executable, program, **(server or {}))


def outcomes_of(
    *calls: str | tuple[str, Json], server: MCPServer | None = None, timeout: float | None = None
) -> list[ToolOutcome]:
    """Call these tools of the rough server, one after the other; a name alone is a call without arguments."""

    async def make(box: Toolbox) -> list[ToolOutcome]:
        named: list[tuple[str, Json]] = [(call, {}) if isinstance(call, str) else call for call in calls]
        return [await box.call(f"mcp__rough__{name}", arguments, timeout=timeout) for name, arguments in named]

    return run(make, server or rough())


def contents(outcomes: list[ToolOutcome]) -> list[object]:
    return [outcome.content for outcome in outcomes]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path(f"/proc/{pid}").exists() else True


ASKED: dict[str, tuple[str, Json]] = {
    "add": ("mcp__proper__add", {"a": 1, "b": 2}),
    "added wrongly": ("mcp__proper__add", {"a": "x"}),
    "weather": ("mcp__proper__weather", {"city": "Oslo"}),
    "everything": ("mcp__proper__everything", {}),
    "fail": ("mcp__proper__fail", {}),
    "refuse": ("mcp__proper__refuse", {}),
    "nothing": ("mcp__proper__nothing", {}),
    **{f"ask the {what}": ("mcp__proper__ask_back", {"what": what}) for what in ("model", "person", "folders")},
    **{name: ("mcp__proper__variable", {"name": name}) for name in ("TOKEN", "OURS", "PATH")},
}


@pytest.fixture(scope="module")
def answers() -> tuple[tuple[ToolSpec, ...], dict[str, ToolOutcome]]:
    """What a proper server offers, after a tool of our own, and what it answers to all that it is asked."""

    @tool
    def zero() -> int:
        return 0

    server = MCPServer.stdio(
        "proper", sys.executable, [str(SERVERS / "proper.py")], {"TOKEN": "it is ${NEEDED}"}, timeout=7
    )

    async def ask() -> tuple[tuple[ToolSpec, ...], dict[str, ToolOutcome]]:
        async with Toolbox([server, zero]) as box:
            return box.specs(), {name: await box.call(*call) for name, call in ASKED.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEEDED", HIDDEN)
        patch.setenv("OURS", HIDDEN)
        return asyncio.run(ask())


Answers = tuple[tuple[ToolSpec, ...], dict[str, ToolOutcome]]


def test_the_tools_of_a_server_stand_beside_the_local_ones_by_name(answers: Answers) -> None:
    specs, _ = answers

    assert [spec.name for spec in specs] == [
        "zero",
        "mcp__proper__add",
        "mcp__proper__ask_back",
        "mcp__proper__die",
        "mcp__proper__everything",
        "mcp__proper__fail",
        "mcp__proper__grow",
        "mcp__proper__refuse",
        "mcp__proper__sleep",
        "mcp__proper__variable",
        "mcp__proper__weather",
    ]
    assert [spec.name for spec in specs if spec.idempotent] == ["mcp__proper__add", "mcp__proper__weather"]


def test_of_a_server_s_tools_those_are_used_that_are_named(caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer.stdio("proper", sys.executable, [str(SERVERS / "proper.py")], tools=["add", "lost"])
    policies = policies_of({"deny": ["mcp__proper__weather"]})

    async def ask() -> tuple[list[str], list[ToolOutcome]]:
        async with Toolbox([server], policies=policies) as box:
            await box.connect()
            added = await box.call("mcp__proper__add", {"a": 1, "b": 2})
            weather = await box.call("mcp__proper__weather", {"city": "Oslo"})
            return [spec.name for spec in box.specs()], [added, weather]

    names, (added, weather) = asyncio.run(ask())

    assert names == ["mcp__proper__add"]
    assert (added.content, weather.content) == (
        "3",
        "Tool not found: mcp__proper__weather; there are: mcp__proper__add",
    )
    assert [record.getMessage() for record in caplog.records if record.name == "reenact.tools"] == [
        "MCP server 'proper' has no tools named lost"
    ]


def test_a_tool_of_a_server_is_known_as_the_server_describes_it(answers: Answers) -> None:
    _, add, *_ = answers[0]

    assert (add.description, add.timeout, add.cost) == ("Add two numbers.", 7, None)
    assert fits(add.input_schema, {"a": 1, "b": 2})
    assert not fits(add.input_schema, {"a": 1})


def test_what_a_server_returns_is_what_the_model_is_given(answers: Answers) -> None:
    _, answered = answers

    assert (answered["add"].content, answered["add"].is_error) == ("3", False)
    assert json.loads(str(answered["weather"].content)) == {"city": "Oslo", "degrees": 1.5}
    assert (answered["refuse"].content, answered["refuse"].is_error) == ("not today", True)


def test_content_of_every_kind_is_shown_or_named(answers: Answers) -> None:
    _, answered = answers

    def source(kind: str) -> Json:
        return {"type": "base64", "media_type": kind, "data": "aGVsbG8="}

    assert list(answered["everything"].content) == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": source("image/png")},
        {"type": "text", "text": "[image/tiff of 8 characters in base64: it cannot be shown]"},
        {"type": "text", "text": "[image/png of 10 characters in base64: it cannot be shown]"},
        {"type": "text", "text": "[audio/wav of 8 characters in base64: it cannot be shown]"},
        {"type": "text", "text": "file:///a.txt:"},
        {"type": "text", "text": "a text"},
        {"type": "text", "text": "file:///a.pdf:"},
        {"type": "document", "source": source("application/pdf")},
        {"type": "text", "text": "file:///a:"},
        {"type": "text", "text": "[binary data of 8 characters in base64: it cannot be shown]"},
        {"type": "text", "text": "[resource b: file:///b (more)]"},
    ]


def test_what_goes_wrong_in_a_server_is_an_error_for_the_model(answers: Answers) -> None:
    _, answered = answers

    assert [answered[name].is_error for name in ("fail", "added wrongly", "nothing")] == [True, True, True]
    assert "fail" in str(answered["fail"].content)
    assert "a\n" in str(answered["added wrongly"].content)
    assert str(answered["nothing"].content).startswith("Tool not found: mcp__proper__nothing; there are: zero, mcp__p")


def test_a_server_asks_in_vain_for_our_model_our_user_or_our_folders(answers: Answers) -> None:
    _, answered = answers

    asked = [answered[f"ask the {what}"] for what in ("model", "person", "folders")]
    assert [outcome.is_error for outcome in asked] == [True, True, True]


def test_a_server_is_given_its_variables_and_few_of_ours(answers: Answers) -> None:
    _, answered = answers

    assert answered["TOKEN"].content == f"it is {HIDDEN}"
    assert answered["OURS"].content == "(not set)"
    assert answered["PATH"].content == os.environ["PATH"]


def test_a_call_before_the_server_was_asked_connects_first() -> None:
    async def go() -> tuple[int, ToolOutcome]:
        box = Toolbox([rough()])
        try:
            return len(box.specs()), await box.call("mcp__rough__echo", {"a": 1})
        finally:
            await box.aclose()

    before, outcome = asyncio.run(go())

    assert (before, outcome.content) == (0, '{"a": 1}')


def test_a_server_of_the_older_protocol_will_do() -> None:
    assert contents(outcomes_of(("echo", {"a": [1, None]}))) == ['{"a": [1, null]}']


def test_a_package_without_metadata_has_the_tools_of_its_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", not_found)

    assert contents(outcomes_of("echo")) == ["{}"]


def test_many_calls_at_once_go_over_one_connection() -> None:
    async def go(box: Toolbox) -> list[ToolOutcome]:
        echoes = [Invocation("mcp__rough__echo", {"n": n}) for n in range(20)]
        return await call_all(box, [*echoes, Invocation("mcp__rough__pid", {}), Invocation("mcp__rough__pid", {})])

    *echoes, one, other = run(go, rough())

    assert contents(echoes) == [f'{{"n": {n}}}' for n in range(20)]
    assert one.content == other.content


def test_arguments_that_are_no_json_are_refused_before_they_are_sent() -> None:
    bad, good = outcomes_of(("echo", {"a": "\ud800"}), "echo")

    assert (bad.is_error, bad.content) == (True, "mcp__rough__echo: its arguments must be a JSON object")
    assert good.content == "{}"


def test_a_call_that_takes_too_long_is_given_up_and_the_server_is_told() -> None:
    async def go(box: Toolbox) -> list[ToolOutcome]:
        return [
            await box.call("mcp__rough__hang", {}, timeout=SOON),
            await box.call("mcp__rough__cancelled", {}),
            await box.call("mcp__rough__echo", {}),
        ]

    hung, cancelled, echo = run(go, rough())

    assert (hung.content, echo.content) == ("mcp__rough__hang did not finish within 0.2 s", "{}")
    assert len(json.loads(str(cancelled.content))) == 1


def test_each_call_has_the_time_that_the_server_s_settings_give() -> None:
    outcomes = outcomes_of("hang", server=rough(server={"timeout": SOON}))

    assert contents(outcomes) == ["mcp__rough__hang did not finish within 0.2 s"]


def test_an_interrupted_call_is_given_up() -> None:
    async def go(box: Toolbox) -> tuple[bool, object]:
        call = asyncio.create_task(box.call("mcp__rough__hang", {}))
        await box.call("mcp__rough__echo", {})  # the one before was sent
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled(), (await box.call("mcp__rough__echo", {})).content

    assert run(go, rough()) == (True, "{}")


def test_garbage_between_messages_is_passed_over() -> None:
    server = rough(first="garbage")

    assert contents(outcomes_of("garbage", "echo", server=server)) == [
        "after the garbage",
        "{}",
    ]


def test_the_loop_goes_on_while_a_server_sends_garbage_without_end() -> None:
    async def turns_of_another(lines: int) -> int:
        transport = stdio.StdioTransport(ErrorReporter(rough()), lambda: None)
        reading = asyncio.create_task(transport._read(read_from(b"garbage\n" * lines)))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        transport._release()
        return turns

    assert asyncio.run(turns_of_another(100)) > 100


def test_a_line_without_end_on_its_standard_error_does_not_stop_a_server() -> None:
    async def last_output() -> str:
        transport = stdio.StdioTransport(ErrorReporter(rough()), lambda: None)
        await transport._read_stderr(read_from(b"50 %\r" * 100, b"\nlast words\n"))
        transport._release()
        return transport.last_output()

    assert asyncio.run(last_output()) == "last words"


def read_from(*parts: bytes) -> asyncio.StreamReader:
    """Return a reader of these bytes for which a line may have 100."""
    reader = asyncio.StreamReader(limit=100)
    for part in parts:
        reader.feed_data(part)
    reader.feed_eof()
    return reader


def test_neither_half_of_a_surrogate_pair_nor_a_nan_costs_an_answer() -> None:
    half, nan = outcomes_of("half", "nan", timeout=10)

    assert (half.content, half.is_error) == ("half of a character: \ufffd", False)
    assert (nan.content, nan.is_error) == ("no number", False)


def test_a_message_may_be_large() -> None:
    (outcome,) = outcomes_of(("large", {"size": 900_000}))

    assert outcome.content == "x" * 900_000


def test_a_server_that_sends_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 100_000)

    large, after = outcomes_of(("large", {"size": 900_000}), "echo")

    assert "was lost in the middle of it" in str(large.content)
    assert after.content == "{}"


def test_an_answer_that_breaks_the_protocol_is_an_error() -> None:
    nonsense, after = outcomes_of("nonsense", "echo")

    assert nonsense.is_error
    assert str(nonsense.content).startswith("mcp__rough__nonsense: ValidationError: ")
    assert after.content == "{}"


def test_a_refusal_of_the_server_is_told_without_secrets() -> None:
    server = rough(server={"env": {"TOKEN": HIDDEN}})

    assert contents(outcomes_of(("refuse", {"whom": HIDDEN}), server=server)) == ["mcp__rough__refuse: refused to …"]


@pytest.mark.parametrize("name", ["die", "close"])
def test_a_server_that_dies_in_the_middle_of_a_call_is_started_again_for_the_next(name: str) -> None:
    first, died, second = outcomes_of("pid", name, "pid")

    assert died.is_error
    assert str(died.content).startswith("MCP server 'rough' was lost in the middle of it (")
    assert str(died.content).endswith("; whether it took effect is not known")
    assert not second.is_error
    assert second.content != first.content
    assert not is_alive(int(str(first.content)))


def test_how_a_server_ended_is_told() -> None:
    (died,) = outcomes_of("die")

    assert "(it ended with status 3)" in str(died.content)


def test_a_server_whose_child_holds_its_output_open_is_lost_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "_WATCH_INTERVAL", 0.01)

    child, died, after = outcomes_of("spawn", "die", "echo")

    assert "was lost in the middle of it (it ended with status 3)" in str(died.content)
    assert after.content == "{}"
    wait_until(lambda: not is_alive(int(str(child.content))), what="the end of the child")


def test_all_who_wait_for_a_server_are_told_that_it_died() -> None:
    async def go(box: Toolbox) -> list[ToolOutcome]:
        return await call_all(box, [Invocation("mcp__rough__hang", {}), Invocation("mcp__rough__die", {})])

    assert all("was lost in the middle of it" in str(outcome.content) for outcome in run(go, rough()))


def test_a_server_that_has_died_between_two_calls_is_started_again() -> None:
    async def go(box: Toolbox) -> tuple[str, str]:
        first = await box.call("mcp__rough__pid", {})
        os.kill(int(str(first.content)), 9)
        link = next(iter(box._connections.values()))._link
        assert link is not None
        await asyncio.wait([link._task])
        return str(first.content), str((await box.call("mcp__rough__pid", {})).content)

    first, second = run(go, rough())

    assert first != second
    assert second.isdigit()


def test_a_server_that_hears_nothing_more_is_left() -> None:
    deaf, after = outcomes_of("deaf", "echo")

    assert "was lost in the middle of it" in str(deaf.content)
    assert after.content == "{}"


def test_a_server_that_reads_nothing_more_holds_up_nobody() -> None:
    large = {"text": "x" * 300_000}

    outcomes = outcomes_of("unread", *[("echo", large)] * 3, timeout=SOON)

    assert [outcome.is_error for outcome in outcomes] == [True, True, True, True] or [
        outcome.is_error for outcome in outcomes
    ] == [False, True, True, True]
    assert outcomes[-1].content == "mcp__rough__echo did not finish within 0.2 s"


def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    problems = problems_of(rough(first="hang", pid=str(pid), server={"connect_timeout": 1.0}))

    assert problems == {"rough": "MCP server 'rough' could not be connected: no answer within 1 s; it said: I am up"}
    assert not is_alive(int(pid.read_text()))


def test_a_server_that_could_not_be_reached_is_left_alone_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pid = tmp_path / "pid"
    server = rough(first="exit", pid=str(pid))

    async def connect(box: Toolbox) -> tuple[list[str], str]:
        first = pid.read_text()
        problems = [str((await box.connect())["rough"]) for _ in range(3)]
        assert pid.read_text() == first
        return problems, str((await box.call("mcp__rough__echo", {})).content)

    problems, told = run(connect, server)

    assert len(set(problems)) == 1
    assert told == "Tool not found: mcp__rough__echo; there are: none"
    assert len([record for record in caplog.records if "not all there" in record.getMessage()]) == 1


def test_a_server_that_does_not_say_which_tools_it_has_is_given_up() -> None:
    problems = problems_of(rough(lists=False, server={"connect_timeout": 1.0}))

    assert problems == {
        "rough": "MCP server 'rough' could not be connected: its tools did not come within 1 s; it said: I am up"
    }


def test_a_server_that_ends_at_once_is_told_with_what_it_said_but_no_secret() -> None:
    server = rough(first="exit", says=f"no file {HIDDEN}\n\n", server={"env": {"TOKEN": HIDDEN}})

    problems = problems_of(server)

    assert problems == {
        "rough": "MCP server 'rough' could not be connected: MCPError: Connection closed; it ended with status 4; "
        "it said: no file …"
    }


def test_a_variable_in_the_arguments_is_a_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", HIDDEN)

    problems = problems_of(rough(first="exit", says="not an option: --key=${KEY}"))

    assert problems["rough"].endswith("it said: not an option: --key=…")


def test_a_program_that_is_not_there_is_named() -> None:
    problems = problems_of(MCPServer.stdio("nothing", "a-program-that-is-not-there"))

    assert "MCP server 'nothing' could not be connected: FileNotFoundError" in problems["nothing"]
    assert "a-program-that-is-not-there" in problems["nothing"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    problems = problems_of(MCPServer.stdio("nothing", sys.executable, cwd=str(tmp_path / "nowhere")))

    assert "nowhere" in problems["nothing"]


def test_a_variable_that_is_not_set_is_named() -> None:
    problems = problems_of(rough(server={"env": {"TOKEN": "${A_VARIABLE_THAT_IS_NOT_SET}"}}))

    assert problems == {
        "rough": "MCP server 'rough' needs the environment variable A_VARIABLE_THAT_IS_NOT_SET, which is not set"
    }


def test_a_server_that_cannot_be_reached_keeps_nobody_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> tuple[list[str], list[str], ToolOutcome]:
        async with Toolbox([MCPServer.stdio("nothing", "a-program-that-is-not-there"), rough()]) as box:
            problems = await box.connect()
            return list(problems), [spec.name for spec in box.specs()], await box.call("mcp__rough__echo", {})

    problems, names, echo = asyncio.run(go())

    assert problems == ["nothing"]
    assert "mcp__rough__echo" in names
    assert echo.content == "{}"
    assert any(
        "the tools of MCP server 'nothing' are not all there" in record.getMessage() for record in caplog.records
    )


def test_a_call_of_a_server_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text((SERVERS / "rough.py").read_text())
    server = MCPServer.stdio("rough", sys.executable, [str(program), json.dumps({"tools": TOOLS})])

    async def go(box: Toolbox) -> tuple[list[ToolOutcome], int]:
        program.unlink()
        outcomes = [await box.call(f"mcp__rough__{name}", {}) for name in ("die", "echo")]
        await box.connect()
        return outcomes, len(box.specs())

    (died, echo), known = run(go, server)

    assert died.is_error
    assert str(echo.content).startswith("MCP server 'rough' could not be connected: ")
    assert known == len(TOOLS)


def test_a_server_may_list_its_tools_in_pages() -> None:
    async def count(box: Toolbox) -> int:
        return len(box.specs())

    assert run(count, rough(page=3)) == len(TOOLS)


def test_a_server_whose_pages_never_end_is_asked_no_more_than_a_hundred_times() -> None:
    async def count(box: Toolbox) -> int:
        return len(box.specs())

    assert run(count, rough(page=1, endless=True)) == len(TOOLS)


def test_a_server_need_not_have_tools() -> None:
    server = MCPServer.stdio("rough", sys.executable, [str(SERVERS / "rough.py"), "{}"])

    assert problems_of(server) == {}


def test_tools_that_a_server_adds_are_found_when_it_is_asked_again() -> None:
    async def go(box: Toolbox) -> list[int]:
        counts = [len(box.specs())]
        await box.call("mcp__rough__change", {})
        await box.connect()
        counts.append(len(box.specs()))
        await box.connect()
        return [*counts, len(box.specs())]

    assert run(go, rough()) == [len(TOOLS), len(TOOLS) + 1, len(TOOLS) + 1]


def test_tools_that_a_server_of_the_newest_protocol_adds_are_found() -> None:
    async def go(box: Toolbox) -> list[str]:
        return [await find_added(box, name) for name in ("first", "second")]

    server = MCPServer.stdio("proper", sys.executable, [str(SERVERS / "proper.py")])

    assert run(go, server) == ["first", "second"]


def test_two_tools_of_a_server_that_cannot_be_told_apart_are_refused() -> None:
    problems = problems_of(rough(tools=[listed("a.b"), listed("a_b"), listed("c")]))

    assert problems == {"rough": "MCP server 'rough': 'a.b' and 'a_b' would both be named mcp__rough__a_b"}


def test_a_tool_of_a_server_does_not_take_the_name_of_another() -> None:
    @tool(name="mcp__rough__echo")
    def mine() -> str:
        return "mine"

    async def go() -> tuple[dict[str, str], list[str], object]:
        async with Toolbox([mine, rough(tools=[listed("echo")])]) as box:
            problems = await box.connect()
            content = (await box.call("mcp__rough__echo", {})).content
            return {name: str(of) for name, of in problems.items()}, [spec.name for spec in box.specs()], content

    problems, names, content = asyncio.run(go())

    assert problems == {"rough": "MCP server 'rough' has tools whose names are taken: ['mcp__rough__echo']"}
    assert (names, content) == (["mcp__rough__echo"], "mine")


def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two MCP servers are named 'rough'; give one of them another name"):
        Toolbox([rough(), rough()])


def test_what_the_api_would_refuse_of_a_tool_is_mended_and_the_server_sees_its_own_names() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"$top": {"type": "integer"}, "filter[id]": {"type": "string"}, "filter_id_": {}, "ok": {}},
        "required": ["$top", "ok"],
        "anyOf": [{"required": ["filter[id]"]}],
    }

    async def go(box: Toolbox) -> tuple[JsonObject, object]:
        (spec,) = box.specs()
        given = {"_top": 1, "filter_id__2": "a", "filter_id_": "b", "ok": None}
        return spec.input_schema, (await box.call("mcp__rough__echo", given)).content

    fitted, echoed = run(go, rough(tools=[listed("echo", schema)]))

    assert fitted == {
        "type": "object",
        "properties": {"_top": {"type": "integer"}, "filter_id__2": {"type": "string"}, "filter_id_": {}, "ok": {}},
        "required": ["_top", "ok"],
    }
    assert json.loads(str(echoed)) == {"$top": 1, "filter[id]": "a", "filter_id_": "b", "ok": None}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "nothing"}}},
        {"type": "object", "properties": {"a": {"exclusiveMinimum": True}}},
    ],
    ids=str,
)
def test_a_tool_that_the_api_would_refuse_is_left_out_for_it_would_refuse_them_all(
    schema: Json, caplog: pytest.LogCaptureFixture
) -> None:
    async def names(box: Toolbox) -> list[str]:
        return [spec.name for spec in box.specs()]

    assert run(names, rough(tools=[listed("broken", schema), listed("echo")])) == ["mcp__rough__echo"]
    assert any("a tool is left out: tool 'mcp__rough__broken': " in record.getMessage() for record in caplog.records)


DEEP = reduce(lambda schema, _: {"type": "object", "properties": {"in": schema}}, range(300), NOTHING)


@pytest.mark.parametrize(
    ("malformed", "mistake"),
    [
        (listed("broken", {"properties": {}}), "'broken': tools.0.inputSchema.type: Field required"),
        (listed("broken", {"type": "object", "properties": []}), "'broken': tools.0.inputSchema.properties: "),
        (listed("broken", outputSchema={"type": "string"}), "'broken': tools.0.outputSchema.type: "),
        (listed("broken", description=7), "'broken': tools.0.description: "),
        ({"name": "broken"}, "'broken': tools.0.inputSchema: Field required"),
        ({"inputSchema": {"type": "object"}}, "None: tools.0.name: Field required"),
        (listed("broken", DEEP), "'broken': Maximum serialization depth exceeded"),
        ("broken", "'broken': tools.0: "),
        (None, "None: tools.0: "),
    ],
    ids=range(9),
)
def test_a_malformed_tool_is_left_out_of_a_list(
    malformed: object, mistake: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def names(box: Toolbox) -> list[str]:
        return [spec.name for spec in box.specs()]

    server = rough(tools=[listed("echo"), malformed, listed("pid")])

    assert run(names, server) == ["mcp__rough__echo", "mcp__rough__pid"]
    assert [f"MCP server 'rough': a tool is left out: {mistake}" in text for text in caplog.messages].count(True) == 1


@pytest.mark.parametrize("depth", [100, 120, 180, 250])
def test_a_tool_whose_schema_is_nested_too_deeply_costs_only_itself(
    depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def names(box: Toolbox) -> list[str]:
        return [spec.name for spec in box.specs()]

    deep = reduce(lambda schema, _: {"type": "array", "items": schema}, range(depth), NOTHING)
    server = rough(
        tools=[listed("echo"), listed("deep", {"type": "object", "properties": {"in": deep}}), listed("pid")]
    )

    assert {"mcp__rough__echo", "mcp__rough__pid"} <= set(run(names, server))
    assert not [text for text in caplog.messages if "could not be connected" in text]


def test_a_result_is_not_checked_against_a_schema_of_the_server_which_could_take_for_ever() -> None:
    tools = [listed("echo", outputSchema={"type": "object", "required": ["degrees"]})]

    (echoed,) = outcomes_of(("echo", {"a": 1}), server=rough(tools=tools))

    assert (echoed.content, echoed.is_error) == ('{"a": 1}', False)


def test_the_loop_goes_on_while_the_tools_of_a_server_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check, went_on, on_time = session.listed, threading.Event(), list[bool]()

    async def connect() -> int:
        loop = asyncio.get_running_loop()

        def check_once_the_loop_went_on(server: MCPServer, tools: Sequence[types.Tool]) -> list[session.ListedTool]:
            loop.call_soon_threadsafe(went_on.set)
            on_time.append(went_on.wait(10))
            return check(server, tools)

        monkeypatch.setattr(session, "listed", check_once_the_loop_went_on)
        async with Toolbox([rough()]) as box:
            return len(box.specs())

    assert (asyncio.run(connect()), on_time) == (len(TOOLS), [True])


def test_a_list_with_only_malformed_tools_is_an_error() -> None:
    problems = problems_of(rough(tools=[listed("broken", {"type": "object", "properties": []})]))

    assert "MCP server 'rough' could not be connected: ValidationError: " in problems["rough"]
    assert "tools.0.inputSchema.properties" in problems["rough"]


def test_closing_ends_the_server_and_what_it_has_started() -> None:
    outcomes = outcomes_of("pid", "spawn")

    pids = [int(str(outcome.content)) for outcome in outcomes]
    wait_until(lambda: not any(map(is_alive, pids)), what="the end of the server and of its child")


def test_closing_ends_a_server_that_does_not_want_to() -> None:
    (outcome,) = outcomes_of("pid", server=rough(stubborn=True))

    assert not is_alive(int(str(outcome.content)))


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_loop_that_ends_without_closing_leaves_no_server(stubborn: bool) -> None:  # noqa: FBT001 - two cases
    async def go() -> ToolOutcome:
        return await Toolbox([rough(stubborn=stubborn)]).call("mcp__rough__pid", {})

    outcome = asyncio.run(go())

    assert not is_alive(int(str(outcome.content)))


def test_the_outside_loop_leaves_no_server_when_it_is_closed() -> None:
    outside = EventLoopThread(grace=0.1)
    pids: list[int] = []

    async def go() -> None:
        box = Toolbox([rough(stubborn=True)])
        outcome = await box.call("mcp__rough__pid", {})
        pids.append(int(str(outcome.content)))
        await box.call("mcp__rough__unread", {}, timeout=SOON)
        await box.call("mcp__rough__echo", {"text": "x" * 300_000}, timeout=SOON)

    outside.spawn(go()).result()

    outside.close()

    assert not is_alive(pids[0])


def test_a_connection_can_be_closed_before_it_has_begun() -> None:
    async def go() -> str:
        connection = MCPConnection(rough())
        waiting = asyncio.create_task(connection.tools())
        await asyncio.sleep(0)
        await connection.aclose()
        with pytest.raises(MCPServerError) as closed:
            await waiting
        return str(closed.value)

    assert asyncio.run(go()) == "MCP server 'rough' could not be connected: the connection was closed"


def test_a_tool_of_a_server_shows_its_name() -> None:
    async def shown(box: Toolbox) -> str:
        return repr(box.get("mcp__rough__echo"))

    assert run(shown, rough()) == "<tool mcp__rough__echo>"


def test_what_was_not_told_because_nobody_waited_is_asked_again() -> None:
    async def go() -> bool:
        connection = MCPConnection(rough(lists=False))
        asking = asyncio.create_task(connection.tools())
        await in_thread(lambda: wait_until(lambda: connection._link and not connection._link.outdated), "the test")
        asking.cancel()
        await asyncio.wait([asking])
        link = connection._link
        await connection.aclose()
        return link is not None and link.outdated

    assert asyncio.run(go())


def test_a_connection_that_is_closed_is_not_used_again() -> None:
    async def go() -> tuple[ToolOutcome, list[str]]:
        box = Toolbox([rough()])
        await box.connect()
        await box.aclose()
        await box.aclose()
        return await box.call("mcp__rough__echo", {}), [str(of) for of in (await box.connect()).values()]

    outcome, problems = asyncio.run(go())

    assert outcome.content == "MCP server 'rough' is not used any more: the connection was closed"
    assert problems == [outcome.content]


def test_a_toolbox_that_was_never_used_can_be_closed() -> None:
    asyncio.run(Toolbox([rough()]).aclose())


def test_a_connection_may_be_shared_and_outlives_each_toolbox() -> None:
    async def go() -> list[object]:
        shared = MCPConnection(rough())
        try:
            async with Toolbox([shared]) as one:
                first = await one.call("mcp__rough__pid", {})
            async with Toolbox([shared]) as other:
                second = await other.call("mcp__rough__pid", {})
        finally:
            await shared.aclose()
        return [first.content, second.content]

    first, second = asyncio.run(go())

    assert first == second


def test_a_connection_is_made_anew_on_another_loop_when_the_first_has_ended() -> None:
    box = Toolbox([rough()])

    first, second = [asyncio.run(box.call("mcp__rough__pid", {})) for _ in range(2)]

    assert not first.is_error
    assert not second.is_error
    assert first.content != second.content


def test_a_connection_that_another_loop_uses_is_not_taken_from_it() -> None:
    outside = EventLoopThread()
    connection = MCPConnection(rough())

    async def connect() -> None:
        await connection.tools()

    outside.spawn(connect()).result()

    with pytest.raises(MCPServerError, match="'rough' is connected on another event loop"):
        asyncio.run(connection.tools())
    asyncio.run(connection.aclose())
    outside.close()


def test_who_waits_for_a_connection_may_give_up_without_harm_to_others() -> None:
    async def go() -> object:
        connection = MCPConnection(rough())
        impatient = asyncio.create_task(connection.tools())
        patient = asyncio.create_task(connection.tools())
        await asyncio.sleep(0)
        impatient.cancel()
        try:
            return len(await patient)
        finally:
            await connection.aclose()

    assert asyncio.run(go()) == len(TOOLS)


def test_a_connection_can_be_closed_while_it_is_made(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def go() -> str:
        connection = MCPConnection(rough(first="hang", pid=str(pid)))
        waiting = asyncio.create_task(connection.tools())
        await in_thread(lambda: wait_until(lambda: pid.exists() and pid.read_text()), "the test")
        await connection.aclose()
        with pytest.raises(MCPServerError) as closed:
            await waiting
        return str(closed.value)

    assert asyncio.run(go()).startswith("MCP server 'rough' could not be connected: ")
    assert not is_alive(int(pid.read_text()))


@pytest.mark.parametrize(
    "misfit",
    [
        {"result": None},
        {"result": ["a"]},
        {"error": "no way"},
        {"error": {"message": "no way"}},
        {"error": {"code": -1}},
        {"jsonrpc": "1.0", "result": {"content": []}},
        {},
    ],
)
def test_an_answer_that_does_not_fit_the_protocol_fails_its_call_at_once(misfit: Json) -> None:
    failed, after = outcomes_of(("misfit", misfit), ("echo", {"a": 1}))

    assert failed.is_error
    assert "misfit: the server's answer does not fit the protocol: {" in str(failed.content)
    assert (after.content, after.is_error) == ('{"a": 1}', False)


def test_an_answer_may_have_its_id_as_a_fractional_number_that_is_whole() -> None:
    assert contents(outcomes_of("floating")) == ["7.0 is 7"]


@pytest.mark.parametrize("misfit", [{"id": None, "error": "no way"}, {"id": 3.5}, {"id": True}, {"method": 5}])
def test_a_line_that_is_not_the_answer_to_a_call_fails_none(misfit: Json) -> None:
    failed, after = outcomes_of(("misfit", misfit), ("echo", {"a": 1}), timeout=SOON)

    assert "did not finish within" in str(failed.content)
    assert not after.is_error


def test_what_a_server_says_besides_is_logged_for_those_who_look(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "reenact.tools")

    outcomes_of("garbage", server=rough(says=f"my token is {HIDDEN}", server={"env": {"TOKEN": HIDDEN}}))

    messages = [record.getMessage() for record in caplog.records if record.name == "reenact.tools"]
    assert "MCP server 'rough' says: my token is …" in messages
    assert "MCP server 'rough' sent what is not a message: b'this is not JSON\\n'" in messages
    assert HIDDEN not in caplog.text


def test_a_process_that_cannot_be_ended_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Immortal(subprocess.Popen[bytes]):
        def __init__(self) -> None:
            self.pid = 7
            self.returncode = 0

        def wait(self, timeout: float | None = None) -> int:
            raise subprocess.TimeoutExpired("server", timeout or 0)

    stdio._reap(Immortal())

    assert "process 7 of an MCP server cannot be ended" in caplog.text


def test_without_the_extra_a_server_is_refused_and_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> None:
        assert name == "mcp"

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)

    with pytest.raises(MissingExtraError, match=r"MCP server 'rough' needs .*: pip install 'reenact\[mcp\]'"):
        Toolbox([rough()])


def test_without_the_extra_there_are_local_tools() -> None:
    program = """
        import asyncio, sys
        for name in ("anyio", "httpx2", "jsonschema", "mcp"):
            sys.modules[name] = None

        from reenact.actors.environment.tools.toolbox import Toolbox

        def double(number: int) -> int:
            return 2 * number

        print(asyncio.run(Toolbox([double]).call("double", {"number": 2})).content)
    """

    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (ran.stdout, ran.stderr) == ("4\n", "")


def test_a_policy_for_a_tool_that_the_server_does_not_have_lets_none_run_that_policies_do_not_name() -> None:
    async def content(names: dict[str, Any]) -> list[str]:
        policies = policies_of({"tools": names, "deny": ["mcp__other__x"]})
        async with Toolbox([rough(tools=[listed("echo"), listed("say")])], policies=policies) as box:
            return [str((await box.call(f"mcp__rough__{name}", {})).content) for name in ("echo", "say", "sya")]

    slip = asyncio.run(content({"mcp__rough__sya": "always", "mcp__rough__ec*": "never"}))
    right = asyncio.run(content({"mcp__rough__say": "always", "mcp__*": "never"}))

    why = "a policy is for mcp__rough__sya, which MCP server 'rough' does not have; is 'mcp__rough__say' meant?"
    assert slip[1] == f"mcp__rough__say cannot be run: {why}"
    assert slip[2].startswith("Tool not found: mcp__rough__sya")
    assert slip[0] == right[0] != slip[1] != right[1]
