"""The guide of the command line: its commands work, and its tables are what there is."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import typer
from typer.core import TyperGroup

from reenact.cli.app import app
from reenact.cli.chat.commands import TABLE
from reenact.cli.parsing.commands import options_of
from reenact.cli.settings.files import KEYS
from tests.cli.output.test_answers import FIELDS
from tests.docs.pages import ROOT, blocks
from tests.docs.test_readme import SECONDS, surroundings
from tests.started.programs import Programs

PAGE = ROOT / "docs" / "command-line.md"
COMMANDS = [line for block in blocks(PAGE) if block.language == "sh" for line in block.text.splitlines()]
REENACT: TyperGroup = typer.main.get_group(app)


def column(heading: str) -> list[str]:
    """Return the first column of the table under that heading of its own."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition(f"\n| {heading} |")
    return re.findall(r"^\| (.+?) \|", table.partition("\n\n")[0], re.MULTILINE)


def test_every_command_works_one_after_the_other(programs: Programs, tmp_path: Path) -> None:
    environ = surroundings(tmp_path)
    program = tmp_path / "bin" / "reenact"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reenact "$@"\n')
    program.chmod(0o755)
    through_pipes = {**environ, "PATH": f"{program.parent}:{environ['PATH']}"}

    for command in COMMANDS:
        if " | " in command:
            ran = subprocess.run(
                ["/bin/sh", "-c", command],
                env=through_pipes,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        else:
            ran = programs.command(shlex.split(command)[1:], environ, tmp_path, SECONDS)

        assert (command, ran.returncode) == (command, 0), ran.stderr
        assert ran.stdout
        assert "error" not in ran.stderr


def test_the_settings_of_the_page_are_heeded(programs: Programs, tmp_path: Path) -> None:
    (settings,) = (block.text for block in blocks(PAGE) if block.language == "json")
    (tmp_path / ".reenact").mkdir()
    (tmp_path / ".reenact" / "settings.json").write_text(settings)

    ran = programs.command(["settings", "--output-format", "json"], surroundings(tmp_path), tmp_path, SECONDS)

    found = {one["name"]: one["source"] for one in msgspec.json.decode(ran.stdout)["settings"]}
    assert {name for name, source in found.items() if source == "user"} == set(msgspec.json.decode(settings))


def test_the_tables_have_every_command_setting_and_field() -> None:
    fields = {*FIELDS}

    assert [usage.strip("`") for usage in column("command")] == [command.usage for command in TABLE.values()]
    assert [name.strip("`") for name in column("key | option | in a project")] == list(KEYS)
    assert set(re.findall(r"`(\w+)`", " ".join(column("field of the object")))) == fields


def test_a_setting_is_a_project_s_where_the_page_says_so() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| (yes|no|lower than yours|for models without one) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )

    assert {name: said != "no" for name, said in rows} == {name: key.withheld is None for name, key in KEYS.items()}


def test_every_option_and_command_on_the_page_is_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    known = {name for command in REENACT.commands.values() for name in options_of(command)} | {*options_of(REENACT)}

    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known | {"--help"}
    assert set(re.findall(r"`reenact ([a-z][a-z-]+)", text)) <= {*REENACT.commands}
