"""Everything that can be wrong with extensions, all of it at once, at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reenact.terminal import SpecialKey
from tests.cli.conftest import Chat, Run, ask
from tests.extensions.malformed import FILES, FORBIDDEN, HOOKS, PLACES, TEXTS
from tests.extensions.written import Written

Told = set[tuple[str, int | None]]

WRONG_HOOKS = b"""{"Stop": [3,
null,
{"hooks": [
{"command": 3},
{"command": "touch ran"}]}],
"SubagentStop": []}"""


def everything_that_is_wrong(project: Written, home: Written) -> Told:
    """Write it, each thing in one of the places where it can be, and return the paths and lines that are told of."""
    told: Told = set()
    for number, wrong in enumerate(FORBIDDEN + TEXTS):
        write = (project.skill, project.command, project.agent)[number % 3]
        told.add((str(write(f"bad{number}", wrong.content)), wrong.line))
    for number, (make, _) in enumerate(FILES):
        for place in PLACES:
            if place != "hooks.json":
                path = project.folder / place.replace("bad", f"no-file{number}")
                path.parent.mkdir(exist_ok=True)
                make(path)
                told.add((str(path), None))
    hooks = str(project.hooks(WRONG_HOOKS))
    told |= {(hooks, 1), (hooks, 2), (hooks, 4), (hooks, 6)}
    broken = next(wrong for wrong in HOOKS if wrong.kind == "a comma at the end of an object")
    told.add((str(home.hooks(broken.content)), broken.line))
    return told


def test_requirement_7_5_all_that_is_wrong_is_told_of_with_file_and_line_and_the_chat_goes_on(
    chat: Chat, run: Run, environ: Mapping[str, str], tmp_path: Path
) -> None:
    project, home = Written(tmp_path), Written(Path(environ["HOME"]))
    told = everything_that_is_wrong(project, home)
    home.command("good", "Say hello")

    listing = chat("extensions", until="Skipped")
    listed = listing.wait_for_exit()
    terminal = chat(until="Do you trust them?")
    ask(terminal, "n", "Ctrl+D leaves")
    ask(terminal, "/good")
    terminal.send_key(SpecialKey.CTRL_D)

    page = listing.get_stripped_output()
    problems = run("extensions", "--output-format", "json").result["problems"]
    assert {(one["path"], one["line"]) for one in problems} == told
    assert len(problems) == len(told)
    assert [place for place in told if f"\n  {':'.join(map(str, filter(None, place)))}: " not in page] == []
    assert (listed.code, terminal.wait_for_exit().code) == (1, 0)
    assert f"{len(told) - 5} more are skipped" in terminal.get_stripped_output()
    assert not (tmp_path / "ran").exists()
