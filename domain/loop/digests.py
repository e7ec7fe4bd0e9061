"""Digests of JSON values: the same for the same value, whatever the order of its keys, in every process and version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from reenact.domain.errors import InvalidInputError


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value in hexadecimal. `1`, `1.0` and `true` differ, as their JSON does.

    Raises:
        InvalidInputError: it is no JSON value, or is nested too deeply.
    """
    try:
        told = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{type(value).__name__} has no digest, for it is no JSON value: {error}") from None
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def call_digest(name: str, arguments: Mapping[str, object], revision: str = "") -> str:
    """Return what is the same for the same call, under the same revision of the policies if one is given.

    Raises:
        InvalidInputError: the arguments are no JSON object, or are nested too deeply.
    """
    return digest([name, dict(arguments), revision])
