"""Disks of a size of their own, for who may mount them."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mount(*arguments: str) -> None:
    """Mount something, or skip the test."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)  # noqa: S607 - wherever it is
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@contextmanager
def mounted(directory: Path, *options: str) -> Generator[Path]:
    """Yield the directory, in which something is mounted with these options until the end."""
    directory.mkdir(exist_ok=True)
    try:
        mount(*options, str(directory))
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)  # noqa: S607 - wherever it is
