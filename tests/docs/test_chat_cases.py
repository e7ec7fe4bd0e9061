"""The test cases of the chat that examples/ has for others to copy: they pass, and fail if the chat is another."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import reenact
from reenact.terminal.cases.loading import load_cases
from reenact.terminal.cases.runner import run_cases
from reenact.terminal.session.spawning import Process, spawn
from tests.docs.pages import ROOT
from tests.docs.requirements import requirements
from tests.started.programs import Programs

CASES = ROOT / "examples" / "chat.yaml"
GROUPS = ("2", "3", "6", "8")
FROM_INSIDE = {"8.5"}
"""What nobody expected cannot be brought about from outside."""


@pytest.fixture
def quickly(programs: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start the command as a fork; where a shell starts it, it is the one that is tested."""

    def start(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Process:
        return (programs.at_terminal if argv[0] == "reenact" else spawn)(argv, env, cwd, terminal)

    monkeypatch.setattr("reenact.terminal.session.emulator.spawn", start)
    program = tmp_path / "reenact"
    source = Path(reenact.__file__).parent.parent
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{source}" exec "{sys.executable}" -P -m reenact "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_requirement_9_5_the_cases_of_the_chat_pass_four_at_a_time(quickly: None) -> None:
    file = load_cases(CASES)

    (suite,) = run_cases([file])

    assert [(test.name, test.error) for test in suite.tests if test.status != "passed"] == []
    assert len(suite.tests) == len(file.cases)
    assert file.config.parallel.max_workers == 4


def test_the_cases_of_the_chat_go_through_every_requirement_of_it() -> None:
    wanted = {number for number, _ in requirements() if number.partition(".")[0] in GROUPS} - FROM_INSIDE

    named = {number for case in load_cases(CASES).cases for number in re.findall(r"\d\.\d", case.name)}

    assert named == wanted
