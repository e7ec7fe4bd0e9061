"""Build the package in every way that it can be built, and prove that each gives the same bytes, and all of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = ("actors", "domain", "projections")
IN_THE_SOURCE = ("bench", "clients", "docs", "examples", "features", "scripts", "tests")
CLIENT = Path("clients/js/reenact.js")
LINKS = (*(Path("src/reenact") / name for name in CORE), Path("src/reenact/inspector/static/reenact.js"))


class PackagingError(Exception):
    """The package is not what it should be."""


def main() -> int:
    """Return 0 when the package is right; otherwise say what is wrong and return 1."""
    with tempfile.TemporaryDirectory(prefix="reenact-packaging-") as directory:
        try:
            wheel = _same_wheel_from_everywhere(Path(directory))
            _complete_and_nothing_else(wheel)
        except PackagingError as error:
            print(f"packaging: {error}", file=sys.stderr)
            return 1
    print(f"packaging: {wheel.name} is the same from the checkout, the sdist and a copy without links")
    return 0


def _same_wheel_from_everywhere(work: Path) -> Path:
    direct = _build(ROOT, work / "direct", "--wheel")

    sdist = _build(ROOT, work / "sdist", "--sdist")
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter  # not known before 3.11.4
        archive.extractall(work / "unpacked")  # noqa: S202 - an archive of our own making
    (unpacked,) = (work / "unpacked").iterdir()
    _nothing_through_a_link(unpacked)
    through_sdist = _build(unpacked, work / "through-sdist", "--wheel")
    _with_tests_and_documents(unpacked)
    _same_bytes("the sdist", sdist, _build(ROOT, work / "sdist-again", "--sdist"))
    _same_bytes("the wheel", direct, _build(ROOT, work / "direct-again", "--wheel"))

    unlinked = _copy_without_links(work / "unlinked")
    without_links = _build(unlinked, work / "without-links", "--wheel")

    digests = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (direct, through_sdist, without_links)}
    if len(set(digests.values())) != 1:
        listed = "\n".join(f"  {digest}  {path.parent.name}" for path, digest in digests.items())
        raise PackagingError(f"the wheel depends on where it is built:\n{listed}")
    return direct


def _same_bytes(what: str, first: Path, again: Path) -> None:
    if first.read_bytes() != again.read_bytes():
        raise PackagingError(f"{what} that is built again has other bytes")


def _with_tests_and_documents(unpacked: Path) -> None:
    """See that whoever has the source can test it and read about it."""
    wanted = {path.relative_to(ROOT) for name in IN_THE_SOURCE for path in (ROOT / name).rglob("*") if _is_source(path)}
    if missing := sorted(str(path) for path in wanted if not (unpacked / path).is_file()):
        raise PackagingError(f"the sdist lacks {len(missing)} files of the checkout: {', '.join(missing[:10])}")


def _build(source: Path, target: Path, kind: str) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(target), str(source)]
    _run(f"building in {source}", command, SOURCE_DATE_EPOCH="1577836800")
    (built,) = target.iterdir()
    return built


def _copy_without_links(target: Path) -> Path:
    target.mkdir()
    for name in (*CORE, "src"):
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (target / CLIENT).parent.mkdir(parents=True)
    shutil.copy2(ROOT / CLIENT, target / CLIENT)
    (target / "scripts").mkdir()
    for path in (*ROOT.iterdir(), *(ROOT / "scripts").iterdir()):
        if path.is_file():
            shutil.copy2(path, target / path.relative_to(ROOT))
    for link in LINKS:
        (target / link).unlink()
    return target


def _nothing_through_a_link(unpacked: Path) -> None:
    doubled = [str(link) for link in LINKS if os.path.lexists(unpacked / link)]
    if doubled:
        raise PackagingError(f"the sdist holds the core twice: {', '.join(doubled)}")


def _complete_and_nothing_else(wheel: Path) -> None:
    """See that the wheel holds the files of the checkout, and no others."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if len(names) != len(set(names)):
        raise PackagingError("the wheel names a file twice")

    outside = [name for name in names if not name.startswith(("reenact/", "reenact-"))]
    if outside:
        raise PackagingError(f"the wheel would install outside of its package: {outside}")
    shipped = {name for name in names if name.startswith("reenact/")}
    expected = {f"reenact/{path}" for path in _source_files()}
    if shipped != expected:
        missing, unexpected = sorted(expected - shipped), sorted(shipped - expected)
        raise PackagingError(f"the wheel is not the source: missing {missing}, unexpected {unexpected}")
    if "reenact/py.typed" not in shipped:
        raise PackagingError("py.typed is missing: type checkers would not see our types")
    for part in ("licenses/LICENSE", "sboms/reenact.cdx.json"):
        if not any(name.endswith(f".dist-info/{part}") for name in names):
            raise PackagingError(f"{part} is missing in the metadata")


def _source_files() -> set[str]:
    """Return the path of every file of the package, relative to it, as the checkout has them."""
    files: set[str] = set()
    for name in CORE:
        files |= {str(path.relative_to(ROOT)) for path in (ROOT / name).rglob("*") if _is_source(path)}
    shell = ROOT / "src" / "reenact"
    for path in shell.rglob("*"):
        relative = path.relative_to(shell)
        if _is_source(path) and relative.parts[0] not in CORE:
            files.add(str(relative))
    return files


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _run(what: str, command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command, cwd=tempfile.gettempdir(), env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PackagingError(f"{what} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
