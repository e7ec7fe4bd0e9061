"""Run the programs of docs/coming-from.md, each on its own system, and measure them. It needs a package index.

    python scripts/compare.py [--rounds 5] [--python python3.13] [--write] [SYSTEM ...]

Each system has a virtual environment below ~/.cache/reenact-compare, or $COMPARE_VENVS. What a program prints must be
what the page says. `--write` puts the table into docs/comparisons.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coming-from.md"
TABLE = ROOT / "docs" / "comparisons.md"
BEGIN, END = "<!-- compare -->\n", "<!-- /compare -->\n"
EXPECTED = "waits: refund 40\npaid back 40\n"
VENVS = Path(os.environ.get("COMPARE_VENVS") or Path.home() / ".cache" / "reenact-compare")
PACKAGES = {
    "Reenact": (str(ROOT),),
    "LangGraph": ("langgraph", "langgraph-checkpoint-sqlite"),
    "DBOS": ("dbos",),
    "Temporal": ("temporalio",),
    "pydantic-ai": ("pydantic-ai-slim",),
    "OpenHands": ("openhands-sdk",),
}
NEEDS = {"Temporal": "TEMPORAL_ADDRESS"}
"""Systems that need a server, and the variable that says where it is."""
QUIET = {"OPENHANDS_SUPPRESS_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LOG_LEVEL": "ERROR"}


class DiffersError(Exception):
    """A program did not print what the page says."""


@dataclass(frozen=True)
class Measured:
    """What a system takes."""

    system: str
    version: str
    lines: int
    distributions: int
    megabytes: float
    cpu: float
    wall: float

    def row(self) -> str:
        """Return a row of the table."""
        return (
            f"| {self.system} {self.version} | {self.lines} | {self.distributions} | {self.megabytes:.0f} MB "
            f"| {self.cpu:.2f} s | {self.wall:.1f} s |"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if each program that could be run has printed what the page says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"some of {', '.join(PACKAGES)}")
    parser.add_argument("--rounds", type=int, default=5, help="how often each program is run")
    parser.add_argument("--python", default=sys.executable, help="what virtual environments are made of")
    parser.add_argument("--write", action="store_true", help="put the table into docs/comparisons.md")
    given = parser.parse_args(arguments)
    chosen: list[str] = []
    for system in given.systems or PACKAGES:
        if NEEDS.get(system, "PATH") in os.environ:
            chosen.append(system)
        else:
            print(f"{system} needs a server, and {NEEDS[system]} does not say where it is", file=sys.stderr)
    try:
        measured = measure(chosen, given.rounds, given.python)
    except (DiffersError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(measured, given.python))
    if given.write:
        before, _, rest = TABLE.read_text(encoding="utf-8").partition(BEGIN)
        TABLE.write_text(
            f"{before}{BEGIN}{table(measured, given.python)}{END}{rest.partition(END)[2]}", encoding="utf-8"
        )
    return 0


def table(measured: Sequence[Measured], interpreter: str) -> str:
    """Return the table, and where it was measured."""
    python = subprocess.run([interpreter, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    head = "| system | lines | packages | installed | processor | start to end |\n|---|---:|---:|---:|---:|---:|\n"
    rows = "".join(f"{one.row()}\n" for one in measured)
    where = f"{python}, {platform.system()}, {os.cpu_count()} cores"
    return f"\n{head}{rows}\n{where}; medians of runs that take turns.\n\n"


def programs() -> dict[str, str]:
    """Return the first program of each chapter of the page."""
    chapters = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: dict[str, str] = {}
    for title, text in zip(chapters[1::2], chapters[2::2], strict=True):
        if block := re.search(r"^```python3?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            found[title] = block[1]
    return found


def measure(systems: Sequence[str], rounds: int, interpreter: str) -> list[Measured]:
    """Install the systems, run their programs in turns, and return what that took.

    Raises:
        DiffersError: one printed something else than the page says.
        subprocess.SubprocessError: one could not be installed, or does not end.
    """
    pythons = {system: installed(system, interpreter) for system in systems}
    text = programs()
    took: dict[str, list[tuple[float, float]]] = {system: [] for system in systems}
    for number in range(rounds + 1):
        for system, python in pythons.items():
            used = run(system, python, text[system])
            if number:  # the first one compiles what it imports
                took[system].append(used)
    return [described(system, pythons[system], text[system], took[system]) for system in systems]


def described(system: str, python: Path, program: str, took: Sequence[tuple[float, float]]) -> Measured:
    """Return what there is to say of a system."""
    packages = python.parent.parent / "lib"
    distributions = list(packages.glob("python*/site-packages/*.dist-info"))
    size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc")
    name = "reenact" if system == "Reenact" else PACKAGES[system][0]
    version = next(version for path in distributions if (version := _version(path, name)))
    lines = sum(1 for line in program.splitlines() if line.strip())
    cpu, wall = (statistics.median(one) for one in zip(*took, strict=True))
    return Measured(system, version, lines, len(distributions) - 1, size / 1e6, cpu, wall)


def installed(system: str, interpreter: str) -> Path:
    """Return the Python of the system's virtual environment, which is made if there is none."""
    venv = VENVS / system.lower()
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([interpreter, "-m", "venv", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *PACKAGES[system]], check=True)
        (venv / "complete").touch()
    return python


def run(system: str, python: Path, program: str) -> tuple[float, float]:
    """Run the program in a directory of its own; return how long processors worked on it, and how long it took."""
    with tempfile.TemporaryDirectory(prefix="reenact-compare-") as directory:
        (Path(directory) / "program.py").write_text(program, encoding="utf-8")
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        ran = subprocess.run(
            [str(python), "program.py"],
            cwd=directory,
            env=os.environ | QUIET,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    if ran.stdout != EXPECTED:
        raise DiffersError(f"the program of {system} printed {ran.stdout!r}\n{ran.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def _version(path: Path, name: str) -> str:
    """Return the version of a distribution, if it is the one of this name."""
    found, _, version = path.name.removesuffix(".dist-info").partition("-")
    return version if found.lower().replace("_", "-") == name else ""


if __name__ == "__main__":
    sys.exit(main())
