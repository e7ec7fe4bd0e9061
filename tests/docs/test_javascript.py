"""The page about JavaScript is true: its programs print what it says, its page shows the answer."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from reenact import Image, Runtime
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory
from tests.browsers import Tab
from tests.clients_js.hosts import run_node, serving_pages
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.typescript import CLIENT, SOURCE

PAGE = ROOT / "docs" / "javascript.md"
BLOCKS = list(blocks(PAGE))
PROGRAMS = [(block, BLOCKS[number + 1]) for number, block in enumerate(BLOCKS) if block.language == "js"]
(HTML,) = (block.text for block in BLOCKS if block.language == "html")
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    mock = MockEnvironmentFactory(delays=False)
    with Runtime.in_memory(environment=mock, default_image=Image(id="chat")) as runtime:
        yield runtime


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=[str(block) for block, _ in PROGRAMS])
def test_its_programs_print_what_it_says(runtime: Runtime, tmp_path: Path, program: Block, printed: Block) -> None:
    with Server(runtime) as server:
        done = run_program(program.text, server, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert printed.language == "text"
    assert done.stdout == printed.text


def test_its_page_shows_the_answer(runtime: Runtime, tab: Tab) -> None:
    token = re.findall(r'token: "(.+)"', HTML)
    files: dict[str, str] = {}
    with serving_pages(files, "") as origin, Server(runtime, tokens=token, origins=[origin]) as server:
        files[""] = HTML.replace(ADDRESS, server.url)

        tab(lambda page: page.goto(origin))
        tab(lambda page: expect(page.locator("#answer")).to_have_text("Hello from mock!"))
        tab.close()

    assert tab.requested[-1] == f"{server.url.replace('http', 'ws')}/ws"


def test_its_programs_are_all_there_are() -> None:
    assert [block.language for block in BLOCKS] == ["js", "text"] * len(PROGRAMS) + ["html"]


def test_its_sizes_are_about_those_of_the_file() -> None:
    ((whole, compressed),) = re.findall(r"The file has about (\d+) kB, and (\d+) kB", PAGE.read_text(encoding="utf-8"))
    content = SOURCE.read_bytes()

    assert len(content) / 1000 == pytest.approx(int(whole), abs=1)
    assert len(gzip.compress(content)) / 1000 == pytest.approx(int(compressed), abs=1)


def test_the_program_in_the_readme_of_the_package_prints_the_answer(runtime: Runtime, tmp_path: Path) -> None:
    (program,) = (block.text for block in blocks(CLIENT / "README.md"))
    with Server(runtime) as server:
        done = run_program(program, server, tmp_path)

    assert (done.returncode, done.stdout.split()) == (0, ["Hello", "from", "mock!"])


def run_program(program: str, server: Server, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that imports the package, with the server."""
    file = directory / "program.mjs"
    file.write_text(program.replace(ADDRESS, server.url).replace('"@reenact/client"', json.dumps(str(SOURCE))))
    return run_node(file)
