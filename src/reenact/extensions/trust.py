"""Remembers which projects a person has trusted, by path and by digest of their hooks and commands."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from reenact._files import replacing
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_object
from reenact.extensions.files import MalformedError, read_bytes, text_of

_FILE: Final = "trusted.json"


def digest_of(digests: Mapping[str, str]) -> str:
    """Return the digest of several things with names, by the digest of each: no others have the same."""
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


class Trust:
    """What is trusted, in a file of the directory: a project with what has one digest, and with nothing else."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE

    def covers(self, project: Path, digest: str) -> bool:
        """Return whether what has this digest was trusted in the project. A file that cannot be read trusts nothing."""
        try:
            return self._read().get(str(project)) == digest
        except MalformedError:
            return False

    def add(self, project: Path, digest: str) -> None:
        """Trust what has this digest in this project, in the place of what was trusted there before.

        Raises:
            ConfigurationError: it cannot be remembered.
        """
        with self._alone():
            self._write({**self._kept(), str(project): digest})

    def remove(self, project: Path) -> bool:
        """Trust the project no more; return whether it was trusted.

        Raises:
            ConfigurationError: it cannot be forgotten.
        """
        with self._alone():
            kept = self._kept()
            if kept.pop(str(project), None) is None:
                return False
            self._write(kept)
            return True

    def _kept(self) -> dict[str, str]:
        try:
            return self._read()
        except MalformedError as error:
            raise ConfigurationError(f"{self._path}: {error.message}; mend or remove it") from error

    def _read(self) -> dict[str, str]:
        try:
            content = json.loads(text_of(read_bytes(self._path, None)))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            raise MalformedError("it is not valid JSON") from None
        digests = {name: of for name, of in content.items() if isinstance(of, str)} if is_object(content) else None
        if digests is None or digests != content:
            raise MalformedError("it must be an object with texts in it")
        return digests

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Let nobody else change the file between reading and writing it, who would lose what the other has added."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = os.open(self._path.parent, os.O_RDONLY)
        except OSError as error:
            self._kept()  # which may say more
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # until it is closed
            yield
        finally:
            os.close(folder)

    def _write(self, kept: dict[str, str]) -> None:
        """Put another file in the place of the one that is there, so that nobody ever reads half of one."""
        with replacing(self._path, hint=", so that nothing is remembered") as file:
            file.write(json.dumps(kept, indent=1, sort_keys=True).encode())
