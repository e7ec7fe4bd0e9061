"""The scripts and styles of others that ship with the inspector are those that their authors published."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path("src/reenact/inspector/static/vendor")
DIGESTS = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "htmx-LICENSE.txt": "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
}
"""SHA-256 of each file, as it is in the package htmx.org 4.0.1 of npm's registry."""


def test_the_folder_holds_exactly_the_published_files() -> None:
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in (ROOT / FOLDER).iterdir()}

    assert found == DIGESTS


@pytest.mark.parametrize("name", [name for name in DIGESTS if not name.endswith(".txt")])
def test_each_file_has_the_licence_of_its_package_beside_it(name: str) -> None:
    package = name.partition("-")[0]

    licence = (ROOT / FOLDER / f"{package}-LICENSE.txt").read_text("utf-8")

    assert "Permission" in licence
    assert "WARRANT" in licence


def test_the_wheel_has_these_files_unchanged(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    folder = f"{FOLDER.relative_to('src')}/"

    with zipfile.ZipFile(wheel) as archive:
        shipped = {
            name.removeprefix(folder): sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name.startswith(folder)
        }

    assert shipped == DIGESTS
