"""The page about testing a command line: its program is tested as it says, and all that it shows comes out."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import msgspec

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.test_readme import SECONDS, surroundings
from tests.started.programs import Programs

PAGE = ROOT / "docs" / "terminal.md"
FILES = ("python3", "ini", "yaml")
FAILING = {"wrong.yaml": 1}
TIME = re.compile(r"\b\d+(\.\d+)? ?m?s\b")


def test_the_program_of_the_page_is_tested_as_the_page_says(programs: Programs, tmp_path: Path) -> None:
    environ = with_python(tmp_path)
    commands = 0
    for block, following in pairwise((*blocks(PAGE), Block(PAGE, 0, "", "", "the end"))):
        if block.language in FILES:
            name = re.findall(r"`(\w+\.(?:py|ini|yaml))`", block.follows)[-1]
            (tmp_path / name).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            printed = outcome(block.text.strip(), programs, environ, tmp_path)

            assert settled(printed) == settled(following.text), block
            commands += 1
    assert commands == 4
    assert {path.name for path in tmp_path.iterdir()} >= {"plants.cast", "junit.xml", "report.html", "kept"}


def test_the_recording_of_the_page_plays_what_was_typed_and_shown(programs: Programs, tmp_path: Path) -> None:
    environ = with_python(tmp_path)
    program, by_hand = (block.text for block in list(blocks(PAGE))[:2])
    (tmp_path / "plants.py").write_text(program, encoding="utf-8")
    (tmp_path / "by_hand.py").write_text(by_hand, encoding="utf-8")

    programs.run(Path("by_hand.py"), environ, tmp_path, SECONDS)

    header, *events = map(msgspec.json.decode, (tmp_path / "plants.cast").read_text().splitlines())
    assert header["version"] == 3
    assert "".join(text for _, kind, text in events if kind == "i") == "water fern\r\x04"
    assert "\x1b[32mwatered\x1b[0m fern" in "".join(text for _, kind, text in events if kind == "o")


def with_python(directory: Path) -> Mapping[str, str]:
    """Return an environment in which `python` is the one that runs this."""
    program = directory / "bin" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    environ = surroundings(directory)
    return {**environ, "PATH": f"{program.parent}{os.pathsep}{environ['PATH']}"}


def outcome(line: str, programs: Programs, environ: Mapping[str, str], cwd: Path) -> str:
    """Run the command of a line and return what it prints."""
    program, *arguments = shlex.split(line)
    match program:
        case "python":
            ran = programs.run(Path(arguments[0]), environ, cwd, SECONDS)
        case "reenact":
            ran = programs.command(arguments, environ, cwd, SECONDS)
        case "pytest":
            # Whoever has installed the package has the plugin; here it may not be the one that is tested.
            plugin = ["-p", "reenact.terminal.plugin", "-p", "no:cacheprovider"]
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", *plugin, *arguments],
                env={**environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                cwd=cwd,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        case _:
            raise AssertionError(f"the page runs {program}")
    expected = next((code for name, code in FAILING.items() if name in arguments), 0)
    assert (ran.returncode, ran.stderr) == (expected, ""), ran.stdout
    return ran.stdout


def settled(text: str) -> str:
    """Return the text without times."""
    return "\n".join(line.rstrip() for line in TIME.sub("TIME", text).splitlines())
