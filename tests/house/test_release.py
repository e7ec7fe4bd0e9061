"""A release says where the project is, and is not made before it can; what is written of the version agrees."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

REPOSITORY = "https://example.org/somebody/reenact"
"""Where the project is not."""


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """As much of the checkout as a release looks at."""
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "scripts", "docs", "examples"):
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        copy(root / name, tmp_path / name)
    return tmp_path


def release(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = checkout / "scripts" / "release.py"
    return subprocess.run(
        [sys.executable, str(script), "--root", str(checkout), *arguments], capture_output=True, text=True, check=False
    )


def test_no_release_is_made_while_the_address_of_the_repository_is_not_set(checkout: Path) -> None:
    said = release(checkout, "--tag", "v9.9.9")

    assert said.returncode == 1
    assert "set `repository` of [tool.hatch.metadata.hooks.custom] in pyproject.toml" in said.stderr
    assert "the tag is v9.9.9" in said.stderr
    assert "CHANGELOG.md has no section [0.1.0]" in said.stderr
    assert not (checkout / "dist").exists()


def test_the_page_of_a_release_has_links_that_hold_everywhere(checkout: Path) -> None:
    settings = checkout / "pyproject.toml"
    settings.write_text(settings.read_text().replace('repository = ""', f'repository = "{REPOSITORY}"'))
    (checkout / "src" / "reenact").mkdir(parents=True)
    (checkout / "src" / "reenact" / "__init__.py").touch()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(build, cwd=checkout, check=True, capture_output=True)

    (wheel,) = (checkout / "dist").iterdir()
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())

    page = str(metadata.get_payload())
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", page) == []
    assert f"({REPOSITORY}/blob/v0.1.0/docs/asking.md)" in page
    assert f"({REPOSITORY}/raw/v0.1.0/docs/chat.svg)" in page
    assert f"({REPOSITORY}/blob/v0.1.0/docs/people.md#in-scripts)" in page
    assert f"Source, {REPOSITORY}" in metadata.get_all("Project-URL", [])


def test_everything_that_names_the_version_names_the_same(root: Path) -> None:
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]

    cited = re.findall(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    listed = json.loads((root / "scripts" / "reenact.cdx.json").read_text())["metadata"]["component"]

    assert cited == [version]
    assert (listed["version"], listed["purl"]) == (version, f"pkg:pypi/reenact@{version}")


def test_the_bill_of_materials_lists_what_the_wheel_holds_of_others(root: Path) -> None:
    components = json.loads((root / "scripts" / "reenact.cdx.json").read_text())["components"]

    listed = {
        occurrence["location"]: component["hashes"][0]["content"]
        for component in components
        for occurrence in component["evidence"]["occurrences"]
    }

    vendored = (root / "src" / "reenact" / "inspector" / "static" / "vendor").glob("*.js")
    assert listed == {
        str(path.relative_to(root / "src")): hashlib.sha256(path.read_bytes()).hexdigest() for path in vendored
    }


def test_the_workflows_pin_what_they_run_and_may_do_nothing_by_default(root: Path) -> None:
    workflows = [path.read_text() for path in (root / ".github" / "workflows").glob("*.yml")]
    if not workflows:
        pytest.skip("an sdist has no workflows")

    used = [line for text in workflows for line in re.findall(r"uses: (.+)$", text, re.MULTILINE)]

    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", line)] == []
    assert [text for text in workflows if "\npermissions: {}\n" not in text] == []
