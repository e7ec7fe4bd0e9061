"""What the tests of programs at a terminal, and of the command line, have to prove, and which test proves it.

A test says so by its name, `test_requirement_2_3_…` or `test_property_09_…`; one of a property names the requirements
behind it in its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PAGE: Final = ROOT / "docs" / "terminal-requirements.md"

GROUPS: Final = {
    "A program at a terminal": (
        "it runs in a pseudo-terminal session of its own",
        "what is typed reaches it",
        "what it writes is captured",
        "escape sequences are understood",
        "it is ended when it takes too long",
        "special keys can be pressed",
    ),
    "A chat": (
        "it begins with a welcome and a prompt",
        "what is typed is answered",
        "`/exit` ends it with 0",
        "`/help` lists the commands",
        "Ctrl+C interrupts what is under way",
        "it has several turns",
    ),
    "One prompt": (
        "`-p` answers and exits",
        "`--output-format json` is valid JSON",
        "`--output-format stream-json` is one valid JSON value a line",
        "`--timeout` bounds it",
        "a success ends with 0",
        "a failure ends with the code of its kind",
    ),
    "Assertions": (
        "exact",
        "by a regular expression",
        "by a JSON Schema",
        "by a part of the text",
        "raw, or without escape sequences",
        "with a detailed difference",
    ),
    "Fixtures": (
        "a directory of the test's own",
        "configuration",
        "extension files",
        "all is cleaned up",
        "environment variables",
        "what the program depends on is mocked",
    ),
    "Sessions": (
        "a session is kept",
        "`--continue` goes on with the newest",
        "`--resume ID` goes on with the one that is named",
        "its history is kept",
        "one that is not there is an error",
    ),
    "Extensions": (
        "a skill is loaded and applied",
        "a command's template runs",
        "`@agent` delegates",
        "a hook fires",
        "one that cannot be loaded is told of and stops nothing",
    ),
    "Exit codes": (
        "bad arguments: 2",
        "the network: 4",
        "authentication: 3",
        "time: 5",
        "the unexpected: 1, and it is logged",
    ),
    "Builds": (
        "a build is recognised",
        "nobody is asked",
        "logs are structured",
        "exit codes are of use in a pipeline",
        "tests run at the same time",
    ),
    "Reports": (
        "a summary of what passed and what failed",
        "times",
        "the output of tests that fail",
        "JUnit XML",
        "HTML",
    ),
}
"""The requirements in their order: the second of the third group is 3.2."""

_NAME: Final = re.compile(r"test_(?:requirement_(\d+)_(\d+)|property_(\d\d))_(\w+)")
_TITLE: Final = re.compile(r"Property (\d+): (.+?) \(requirements? ([\d., ]+)\)")


class Proof(NamedTuple):
    """A test, and what it proves; of a property its number and its title."""

    test: str
    file: Path
    requirements: tuple[str, ...]
    number: str | None
    title: str

    @property
    def link(self) -> str:
        """The test, as a page in docs/ links to it."""
        return f"[{self.title}](../{self.file.relative_to(ROOT).as_posix()})"


def requirements() -> Iterator[tuple[str, str]]:
    """Yield the number and the words of each requirement."""
    for group, lines in enumerate(GROUPS.values(), start=1):
        for number, line in enumerate(lines, start=1):
            yield f"{group}.{number}", line


def proofs() -> list[Proof]:
    """Return all tests that say by their names what they prove, those of properties first."""
    found = [proof for file in sorted((ROOT / "tests").rglob("test_*.py")) for proof in _proofs_in(file)]
    return sorted(found, key=lambda proof: (proof.number is None, proof.number or "", proof.file, proof.test))


def page() -> str:
    """Return the page as it ought to be."""
    proven = proofs()
    lines = [
        "# Which test shows what",
        "",
        "What is required of the [tests of programs at a terminal](terminal.md) and of the command line, and the tests",
        "that prove it. Made from the names of the tests by `python -m tests.docs.generated`.",
        "",
        "## Properties",
        "",
        "Each is a test with Hypothesis.",
        "",
        "| property | requirements | test |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {proof.number} {proof.title} | {', '.join(proof.requirements)} | {_file(proof)} |"
        for proof in proven
        if proof.number is not None
    ]
    for group, (name, texts) in enumerate(GROUPS.items(), start=1):
        lines += ["", f"## {group}. {name}", "", "| requirement | tests |", "| --- | --- |"]
        for number, text in enumerate(texts, start=1):
            wanted = f"{group}.{number}"
            tests = [_shown(proof) for proof in proven if wanted in proof.requirements]
            lines.append(f"| {wanted} {text} | {'; '.join(dict.fromkeys(tests))} |")
    return "\n".join(lines) + "\n"


def _shown(proof: Proof) -> str:
    return f"property {proof.number}" if proof.number is not None else proof.link


def _file(proof: Proof) -> str:
    path = proof.file.relative_to(ROOT).as_posix()
    return f"[{path}](../{path})"


def _proofs_in(file: Path) -> Iterator[Proof]:
    text = file.read_text(encoding="utf-8")
    if "def test_requirement_" not in text and "def test_property_" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not (named := _NAME.match(node.name)):
            continue
        group, number, prop, words = named.groups()
        if prop is None:
            yield Proof(node.name, file, (f"{group}.{number}",), None, words.replace("_", " "))
            continue
        said = _TITLE.match(ast.get_docstring(node) or "")
        assert said is not None, f"{node.name} does not say in its docstring what it proves"
        assert int(said[1]) == int(prop), f"{node.name} says that it is property {said[1]}"
        yield Proof(node.name, file, tuple(re.findall(r"\d+\.\d+", said[3])), prop, said[2][0].upper() + said[2][1:])
