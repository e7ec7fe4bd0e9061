"""What the README and the pages in docs/ show is what happens: programs run, commands work, no link is dead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from reenact.testing import FakeMessagesAPI
from tests.docs.pages import PAGES, README, ROOT, Example, blocks, examples, needs_database
from tests.started.programs import Programs

EXAMPLES = [example for page in PAGES for example in examples(page) if not needs_database(example)]
COMMANDS = [line for block in blocks(README) if block.language == "sh" for line in block.text.splitlines()]
SETTINGS = ("ANTHROPIC_", "CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "MOCK_", "REENACT_", "XDG_")
SECONDS = 60
LINKING = (*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_every_program_prints_what_the_page_says(example: Example, programs: Programs, tmp_path: Path) -> None:
    ran = run(programs, example.program.text, tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == example.output


def test_the_readme_has_a_program() -> None:
    assert [example for example in EXAMPLES if example.program.page == README]


def test_the_readme_s_program_talks_to_claude_with_the_one_change_that_it_names(
    programs: Programs, tmp_path: Path
) -> None:
    example, *_ = examples(README)
    assert 'llm=LLMConfig(api_key="sk-ant-…")' in README.read_text()

    with FakeMessagesAPI() as api:
        claude = f"llm=LLMConfig(api_key='sk-ant-1', base_url={api.url!r})"
        program = example.program.text.replace("environment=MockEnvironmentFactory()", claude)
        ran = run(programs, program.replace("import Image", "import Image, LLMConfig"), tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("Hello from the fake API!") == 4
    assert [len(request.body["messages"]) for request in api.requests] == [1, 3]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_works(command: str, programs: Programs, tmp_path: Path) -> None:
    environ = surroundings(tmp_path)
    said = programs.command(["-p", "Hi"], environ, tmp_path, SECONDS)
    program = tmp_path / "bin" / "reenact"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reenact "$@"\n')
    program.chmod(0o755)

    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**environ, "PATH": f"{program.parent}:{environ['PATH']}"},
        input="Hello\n",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert said.stdout
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def test_both_commands_of_the_readme_are_in_the_makefile() -> None:
    commands = re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert commands == ["run", "test"]
    assert set(commands) <= set(targets)


def test_the_table_of_the_readme_has_every_workload_and_no_other() -> None:
    measured = re.findall(r'^        "([^"]+)": \(', (ROOT / "bench" / "__main__.py").read_text(), re.MULTILINE)
    table = README.read_text().partition("<!-- bench -->")[2].partition("<!-- /bench -->")[0]

    shown = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)

    assert shown[0] == "workload"
    assert shown[1:] == measured


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_to_a_file_or_a_heading_is_dead(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text)

    dead = [(file, heading) for file, heading in links if not leads_somewhere(page, file, heading)]

    assert dead == []


def leads_somewhere(page: Path, file: str, heading: str) -> bool:
    target = (page.parent / file) if file else page
    if not target.exists():
        return False
    titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE) if heading else []
    return not heading or heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def run(programs: Programs, program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the program as a user does: from a file, in a directory of its own; but a warning is an error."""
    (directory / "example.py").write_text(program, encoding="utf-8")
    return programs.run(Path("example.py"), surroundings(directory), directory, SECONDS)


def surroundings(home: Path) -> Mapping[str, str]:
    """Return the environment variables of somebody who has set none of ours."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    return {**ours, "HOME": str(home), "PYTHONUTF8": "1"}
