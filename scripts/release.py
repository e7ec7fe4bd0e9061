"""Build what is released into dist/, if the checkout says all that a release needs. `make dist` calls it."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when it is built; otherwise say what is missing and return 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default="", help="the tag that is released, as v1.2.3")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    given = parser.parse_args(arguments)
    missing = list(obstacles(given.root, given.tag))
    for line in missing:
        print(f"release: {line}", file=sys.stderr)
    if missing:
        return 1
    shutil.rmtree(given.root / "dist", ignore_errors=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(given.root / "dist"), str(given.root)]
    return subprocess.run(command, check=False).returncode


def obstacles(root: Path, tag: str) -> Iterator[str]:
    """Yield what stands between the checkout and a release."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    version = settings["project"]["version"]
    if not settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"].startswith("https://"):
        yield (
            "the address of the repository is not set, so that the links of the README lead nowhere on PyPI; set "
            "`repository` of [tool.hatch.metadata.hooks.custom] in pyproject.toml, such as https://github.com/OWNER/reenact"
        )
    if tag and tag != f"v{version}":
        yield f"the tag is {tag}, and the version in pyproject.toml {version}; set the tag v{version}"
    if not re.search(
        rf"^## \[{re.escape(version)}\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    ):
        yield f"CHANGELOG.md has no section [{version}]; give [Unreleased] that name, and begin a new one"


if __name__ == "__main__":
    sys.exit(main())
