"""The page about several machines: its programs run on a real database, and its numbers are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from reenact.actors.nodes.protocol import Timing
from reenact.actors.sharding.node import DRAIN
from reenact.domain.shards import SHARDS
from tests.deploy.deployed import FOLDER, nodes
from tests.docs.pages import DATABASE, ROOT, Example, blocks, examples, needs_database
from tests.docs.test_readme import run
from tests.journal.server import Server
from tests.started.programs import Programs

PAGE = ROOT / "docs" / "several-machines.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("example", [each for each in examples(PAGE) if needs_database(each)], ids=str)
def test_every_program_prints_what_the_page_says(
    example: Example, programs: Programs, server: Server, tmp_path: Path
) -> None:
    ran = run(programs, example.program.text.replace(DATABASE, server.new_log()), tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == example.output


def test_the_command_of_a_node_is_one(server: Server, tmp_path: Path) -> None:
    (command,) = [block.text for block in blocks(PAGE) if block.text.startswith("reenact serve ")]

    with nodes([shlex.split(command)], server.new_log(), tmp_path) as (node,):
        assert node.is_ready()
        assert node.end()[0] == 0


def test_its_numbers_are_those_of_the_code() -> None:
    timing = Timing()

    assert f"{SHARDS} shards" in TEXT
    assert f"about {timing.lease + timing.patience + 2 * timing.tick:g} s: a lease of {timing.lease:g} s" in TEXT
    assert set(re.findall(r"(\d+) s at most", TEXT)) == {f"{DRAIN:g}"}


def test_it_names_each_file_for_a_deployment() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(re.findall(r"\(deploy/([^)]+)\)", TEXT))
