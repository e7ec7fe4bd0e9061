"""Attaches the files that a message names as `@path`: text, images and PDF."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.errors import InvalidInputError
from reenact.domain.legible import display_safe
from reenact.domain.messages import Block, TextBlock

MOST_OF_TEXT = 256 * 1024
"""Maximum size of an attached text, in bytes."""
MOST = 5 * 1024 * 1024
"""Maximum size of an attached image or PDF, in bytes."""
_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))')
_TRAILING = ".,;:!?)]}>'"
_LIKE_A_PATH = re.compile(r"/|\.\w+$")
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)


def attached(text: str, agents: Container[str], say: Callable[[str], object]) -> list[Block]:
    """Return a block for each file that the text names as `@path`, and report each through `say`.

    A name without a file remains plain text. If the text begins with `@name` and an agent has that name, it addresses
    the agent and names no file.

    Raises:
        InvalidInputError: a file cannot be attached: it cannot be read, is too large, or is of another kind.
    """
    blocks: list[Block] = []
    for name in _names(text, agents):
        path = _file(name)
        if path is None:
            if _LIKE_A_PATH.search(name):
                say(f"There is no file {display_safe(name)}: nothing is attached for it.")
        elif path.is_dir():
            say(f"{display_safe(name)} is a folder: nothing is attached for it.")
        else:
            content = _content(path)
            blocks.append(_block(str(path), content))
            say(f"Attached: {display_safe(str(path))} ({len(content):,} bytes)")
    return blocks


def paths(begun: str) -> Iterator[str]:
    """Yield the paths that begin with the given text, folders with a trailing slash; hidden ones only if asked for."""
    folder, slash, name = begun.rpartition("/")
    before = f"{folder}{slash}"
    try:
        with os.scandir(Path(before or ".").expanduser()) as found:
            entries = sorted((entry.name, entry.is_dir()) for entry in found)
    except (OSError, ValueError, RuntimeError):  # no such folder, or no valid path
        return
    for entry, is_folder in entries:
        if entry.startswith(name) and (not entry.startswith(".") or name.startswith(".")):
            yield f"{before}{entry}{'/' if is_folder else ''}"


def _names(text: str, agents: Container[str]) -> Iterator[str]:
    for found in _NAMED.finditer(text):
        is_agent = not text[: found.start()].strip() and f"@{found[2]}" in agents
        if not is_agent:
            yield found[1] or found[2]


def _file(name: str) -> Path | None:
    """Return the file or folder of this name; if there is none, try the name without the punctuation at its end."""
    for candidate in dict.fromkeys((name, name.rstrip(_TRAILING))):
        path = Path(candidate)
        try:
            path = path.expanduser()
            if candidate and path.exists():
                return path
        except (OSError, ValueError, RuntimeError):  # not a valid file name
            continue
    return None


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise InvalidInputError(f"{path} cannot be attached: it is not a regular file")
    try:
        # Some files in /proc, such as kmsg, are read as pipes are: `read` returns None if there is nothing yet.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            content = file.read(MOST + 1) or b""
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be attached: {error.strerror}") from error
    if len(content) > MOST:
        raise InvalidInputError(f"{path} cannot be attached: it has more than {MOST:,} bytes")
    return content


def _block(name: str, content: bytes) -> Block:
    for magic, media_type in _IMAGES:
        if magic.match(content):
            return ImageBlock.from_bytes(content, media_type)
    if content.startswith(b"%PDF-"):
        return DocumentBlock.from_bytes(content, title=name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidInputError(f"{name} cannot be attached: it is neither UTF-8 text nor an image nor a PDF")
    if len(content) > MOST_OF_TEXT:
        raise InvalidInputError(f"{name} cannot be attached: it has more than {MOST_OF_TEXT:,} bytes of text")
    return TextBlock(f"\n\nThe file {name}:\n\n{text}")
