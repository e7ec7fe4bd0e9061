"""The page about last night is a night: its programs and commands run in its order, and print what it says."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.test_readme import SECONDS, surroundings
from tests.started.programs import Programs

PAGE = ROOT / "docs" / "last-night.md"
VARYING = {
    r"\b([a-z]{3})_[0-9a-z]{26}": r"\1_ID",
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?Z?)?": "TIME",
    r'"cwd":"[^"]*","home":"[^"]*"': "PLACES",
    r"\d+ rows|; \d+ of them": "SOME",
}
"""Ids, times and places are different each night, and how what is heard falls into rows."""


def test_the_night_goes_as_the_page_says(programs: Programs, tmp_path: Path) -> None:
    environ = {**surroundings(tmp_path), "TZ": "UTC"}
    found = list(blocks(PAGE))
    commands = 0
    for block, following in pairwise((*found, Block(PAGE, 0, "", "", "the end"))):
        if block.language == "python3":
            name = re.findall(r"`(\w+\.py)`", block.follows)[-1]
            (tmp_path / name).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            said = following.text if following.language == "text" and not following.follows.strip() else ""

            printed = "".join(outcome(line, programs, environ, tmp_path) for line in block.text.splitlines())

            assert settled(printed) == settled(said), block
            commands += 1
    assert commands > 5


def outcome(line: str, programs: Programs, environ: dict[str, str], cwd: Path) -> str:
    """Run the command of a line and return what it prints; one that looks for something may have found it."""
    program, *arguments = shlex.split(line)
    if program == "export":
        for setting in arguments:
            name, _, value = setting.partition("=")
            environ[name] = value
        return ""
    if program == "python":
        ran = programs.run(cwd / arguments[0], environ, cwd, SECONDS)
        assert (ran.returncode, ran.stderr) == (0, "")
    else:
        assert program == "reenact"
        ran = programs.command(arguments, environ, cwd, SECONDS)
        assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


def settled(text: str) -> str:
    for pattern, name in VARYING.items():
        text = re.sub(pattern, name, text)
    return text
