"""What judges a run: its exit code, every byte on standard output, and every line on standard error."""

from __future__ import annotations

import re
from typing import Final

from tests.cli.conftest import KEY, Json, Outcome
from tests.cli.failures.rows import ANYTHING, TRACEBACK, Row, Said
from tests.cli.requirements.strictly import lines_of_json

RESULT: Final = frozenset(
    {
        "type",
        "success",
        "result",
        "session_id",
        "agent_id",
        "turn_id",
        "stop_reason",
        "stop_sequence",
        "stop_details",
        "usage",
        "cost",
        "duration",
        "tool_calls",
        "error",
    }
)
ENTRY: Final = frozenset({"time", "level", "logger", "message"})
_TRACEBACK: Final = re.compile(r'Traceback.*:\n +File "')
_ANNOUNCED: Final = re.compile(r"(Claude \(.*\) answers|the mock answers, from .*) \(session ses_\w+\)")


def judge(row: Row, done: Outcome, form: str, *, build: bool) -> None:
    """Fail if the run is not what the row says.

    Raises:
        AssertionError: it is another.
    """
    assert done.code == row.code, f"{done.code}: {done.err}"
    if form == "text":
        assert fits(done.out, row.out), done.out[:300]
    elif not row.told:
        assert done.out == "" or form == "stream-json"
    else:
        judge_objects(row, done.out, form)
    if build:
        assert_same(in_lines(done.err), tuple(map(in_a_build, row.says)))
    else:
        assert_same(in_words(done.err), row.says)
        assert not _TRACEBACK.search(done.err)
    assert KEY not in done.out + done.err
    assert not set(map(ord, done.out + done.err)) & {*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)}


def judge_objects(row: Row, printed: str, form: str) -> None:
    """Fail if standard output is not the object, behind the events if it is a stream."""
    assert printed.endswith("\n")
    *events, result = lines_of_json(printed)
    assert result.keys() == RESULT
    assert result["type"] == "result"
    assert result["success"] == (row.type is None)
    if row.type is None:
        assert result["error"] is None
    else:
        assert result["error"].keys() == {"code", "type", "message"}
        assert (result["error"]["code"], result["error"]["type"]) == (row.code, row.type), result["error"]
        assert any(fits(result["error"]["message"], said.message) for said in row.says if said.level == "error")
    assert fits(result["result"] or "", row.out.removesuffix("\n") if row.asked else "")
    assert (result["session_id"] is not None) == (row.asked or row.begun)
    assert (result["turn_id"] is not None) == row.asked
    assert form == "stream-json" or events == []
    assert all({"type", "context", "data"} <= event.keys() and event["type"] != "result" for event in events)
    assert bool(events) == (form == "stream-json" and (row.asked or bool(events)))


def in_a_build(said: Said) -> Said:
    """Return what is said in a build, where no file has the traceback, for it is in the line."""
    has_traceback = said.hint is not None and said.hint.endswith(TRACEBACK)
    return Said(said.level, said.message, TRACEBACK) if has_traceback else said


def in_words(printed: str) -> list[Said]:
    """Return what standard error says to people; what goes on in an indented line is what may help."""
    found: list[Said] = []
    for line in printed.splitlines():
        if line.startswith("  ") and found:
            last = found[-1]
            hint = line.removeprefix("  ")
            found[-1] = Said(last.level, last.message, hint if last.hint is None else f"{last.hint}\n{hint}")
            continue
        level, colon, message = line.removeprefix("reenact: ").partition(": ")
        if line.startswith("reenact: ") and colon:
            assert level in {"error", "warning"}
            found.append(Said("error" if level == "error" else "warning", message))
        else:
            found.append(Said("info", line))
    return found


def in_lines(printed: str) -> list[Said]:
    """Return what standard error says in a build, but for who answers."""
    entries: list[Json] = lines_of_json(printed)
    for entry in entries:
        assert entry.keys() >= ENTRY
        if entry["level"] == "error":
            assert {"code", "type"} <= entry.keys()
    return [
        Said(entry["level"], entry["message"], TRACEBACK if "traceback" in entry else entry.get("hint"))
        for entry in entries
        if not _ANNOUNCED.fullmatch(entry["message"])
    ]


def assert_same(messages: list[Said], expected: tuple[Said, ...]) -> None:
    """Fail unless each message is the one that is expected in its place."""
    told = [(one.level, one.message, one.hint) for one in messages]
    wanted = [(one.level, one.message, one.hint) for one in expected]
    assert len(told) == len(wanted), told
    for (level, message, hint), (wanted_level, wanted_message, wanted_hint) in zip(told, wanted, strict=True):
        assert level == wanted_level
        assert fits(message, wanted_message), message
        assert fits(hint or "", wanted_hint or ""), hint


def fits(text: str, pattern: str) -> bool:
    """Return whether the text is the pattern, in which `…` stands for anything."""
    parts = map(re.escape, pattern.split(ANYTHING))
    return re.fullmatch("(?s:.*)".join(parts), text) is not None
