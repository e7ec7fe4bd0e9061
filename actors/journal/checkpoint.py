"""Checkpoints: the end of every stream of a log, in a file kept elsewhere, as JSON Lines with a digest."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

import msgspec

from reenact.actors.journal.ends import End
from reenact.actors.journal.evidence import Evidence
from reenact.actors.journal.examination import Examination, Report
from reenact.domain.chain import DIGEST_SIZE
from reenact.domain.errors import CheckpointError, LogUnusableError

FORMAT = 1


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a checkpoint: the log's last position, the time, the number of streams and feeds, and the digest.

    `made_at` is microseconds since 1970-01-01 UTC; `digest` is in hexadecimal digits.
    """

    position: int
    made_at: int
    streams: int
    feeds: int
    digest: str


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="checkpoint"):
    format: int
    position: int
    made_at: int


class _Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="digest"):
    streams: int
    feeds: int
    digest: str


_Line: TypeAlias = _Header | End | _Footer

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Header | End | _Footer).decode


def write_checkpoint(
    evidence: Evidence, write: Callable[[bytes], object], *, made_at: int, report: Report | None = None
) -> Checkpoint:
    """Write the ends of all streams line by line, while the whole log is examined.

    Raises:
        LogUnusableError: the log is damaged, so that no later state could be compared with it.
        StorageError: the log cannot be read to its end.
    """
    lines = _LineDigest()

    def write_line(line: _Line) -> None:
        write(lines.take(line))

    position = evidence.counts().last
    write_line(_Header(FORMAT, position, made_at))
    for found in Examination(evidence, passed=write_line, report=report).findings():
        where = f"{found.kind} {found.name!r} at {found.at}" if found.name else f"{found.kind} at {found.at}"
        raise LogUnusableError(f"a damaged log cannot have a checkpoint ({where}: {found.problem}); verify it")
    foot = lines.foot()
    write(_encode_line(foot))
    return Checkpoint(position=position, made_at=made_at, streams=foot.streams, feeds=foot.feeds, digest=foot.digest)


class CheckpointFile:
    """A checkpoint in a file, which can be read repeatedly and is never in memory as a whole."""

    def __init__(self, path: Path) -> None:
        """Read the file once to check it.

        Raises:
            CheckpointError: the file cannot be read, is not a checkpoint, or is damaged.
        """
        if path.exists() and not path.is_file():  # a pipe would be empty when it is read again
            raise CheckpointError(f"{path} is not a file, and a checkpoint is read twice; save it in a file first")
        self._path = path
        self.summary = self._check()

    def ends(self) -> Iterator[End]:
        """Yield the ends of the streams, in the order of their names."""
        with closing(self._read()) as lines:
            for _, line in lines:
                if isinstance(line, End):
                    yield line

    def must_be_of(self, evidence: Evidence) -> None:
        """Check that the checkpoint belongs to this log.

        One unchanged stream proves that; if there is none, all streams of the checkpoint must exist, or the log must
        have no events at all.

        Raises:
            CheckpointError: the checkpoint belongs to another log.
        """
        is_lost = False
        for end in self.ends():
            if evidence.holds(end.name, end.digest):
                return
            is_lost = is_lost or (end.version >= 0 and not evidence.has(end.name))
        if is_lost and evidence.counts().events:
            raise CheckpointError(f"{self._path} is a checkpoint of another log; name one that was made of this")

    def _check(self) -> Checkpoint:
        lines = _LineDigest()
        with closing(self._read()) as read:
            _, head = next(read, (b"", None))
            if not isinstance(head, _Header):
                raise CheckpointError(f"{self._path} is not a checkpoint; name a file that `checkpoint` has written")
            if head.format != FORMAT:
                raise CheckpointError(f"{self._path} has format {head.format}, not {FORMAT}; upgrade to read it")
            lines.take(head)
            previous = b""
            for encoded, line in read:
                match line:
                    case End() if line.name.encode() >= previous and encoded == lines.take(line):
                        previous = line.name.encode()
                    case _Footer() if encoded == _encode_line(lines.foot()) and next(read, None) is None:
                        return Checkpoint(
                            position=head.position,
                            made_at=head.made_at,
                            streams=line.streams,
                            feeds=line.feeds,
                            digest=line.digest,
                        )
                    case _:
                        break
        raise self._damaged_error()

    def _read(self) -> Generator[tuple[bytes, _Line]]:
        try:
            with self._path.open("rb") as file:
                for encoded in file:
                    yield encoded, _decode(encoded)
        except OSError as error:
            raise CheckpointError(f"{self._path} cannot be read: {error.strerror or error}") from error
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise self._damaged_error() from error

    def _damaged_error(self) -> CheckpointError:
        return CheckpointError(f"{self._path} is not a checkpoint, or was changed since it was made; take a copy of it")


class _LineDigest:
    """Counts and digests the lines of a checkpoint."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._streams = self._feeds = 0

    def take(self, line: _Line) -> bytes:
        """Add the next line and return it encoded."""
        encoded = _encode_line(line)
        self._digest.update(encoded)
        if isinstance(line, End):
            self._streams += line.version >= 0
            self._feeds += line.cursor > 0
        return encoded

    def foot(self) -> _Footer:
        """Return the last line, with the counts and the digest over all lines."""
        return _Footer(self._streams, self._feeds, self._digest.hexdigest())


def _encode_line(line: _Line) -> bytes:
    return _encode(line) + b"\n"
