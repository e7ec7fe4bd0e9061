"""What must not leave with an export: a policy, as a value or as a file of JSON."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from reenact.domain.errors import ConfigurationError, RedactionError


class ToolRedaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is taken out of the calls of tools.

    `name` is that of a tool, or a pattern with `*` and `?`. `arguments` are the paths of those that are taken out, such
    as `headers.authorization`; `*` is any name, and alone everything. With `result`, what the tool answers is, too.
    """

    name: str
    arguments: tuple[str, ...] = ("*",)
    result: bool = False


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is taken out of everything that leaves, wherever it stands.

    `fields` are paths such as `message-accepted.content` or `*.reason`: the stored name of an event, then names of
    fields; `*` is any name, and what is below a field goes with it. What the log copies of a field into other events
    and into feeds goes as well. `patterns` are regular expressions by the names of what they find; `values` are texts
    that are known. `secrets` tells whether what has the form of a secret is taken out, too. With a `hash_key`, of 1 to
    64 bytes, the marks of equal values are equal, and nobody without the key can guess them.
    """

    fields: tuple[str, ...] = ()
    tools: tuple[ToolRedaction, ...] = ()
    patterns: dict[str, str] = {}
    values: tuple[str, ...] = ()
    secrets: bool = True
    hash_key: bytes | None = None

    def __repr__(self) -> str:
        """Return what it is about, without what it keeps secret."""
        return f"Redaction(fields={self.fields!r}, tools={self.tools!r}, patterns={list(self.patterns)!r}, …)"


MOST_KEY_BYTES = 64


def check_redaction(policy: Redaction) -> Redaction:
    """Return the policy.

    Raises:
        RedactionError: its key is too long or empty.
    """
    if policy.hash_key is not None and not 1 <= len(policy.hash_key) <= MOST_KEY_BYTES:
        raise RedactionError(f"the key for hashes has {len(policy.hash_key)} bytes; it has 1 to {MOST_KEY_BYTES}")
    return policy


def read_redaction(path: str | os.PathLike[str], *, hash_key: bytes | None = None) -> Redaction:
    """Return the policy that a file of JSON holds: an object with the fields of `Redaction`, but for the key.

    Raises:
        ConfigurationError: there is no such file, or it holds no policy; the message names the field.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the policy {path} cannot be read: {error.strerror}; name another file") from error
    try:
        policy = msgspec.json.decode(text, type=Redaction)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no policy for exports: {error}") from None
    if policy.hash_key is not None:
        raise RedactionError(f"{path}: the key for hashes stands in a file of its own, and not in the policy")
    return check_redaction(msgspec.structs.replace(policy, hash_key=hash_key))
