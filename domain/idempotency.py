"""Idempotency keys of requests: a request that is sent again under the same key is carried out once."""

from __future__ import annotations

import hashlib
import json

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.structs import Frozen, FrozenByName


class IdempotencyKey(Frozen):
    """The key of a request that is carried out once: its id, and the digest of what is asked for."""

    id: str
    digest: bytes


class IdempotentCommand(FrozenByName, kw_only=True):
    """A command that a request may lead to; `once` is the request's key, if it is to be carried out once."""

    once: IdempotencyKey | None = None


def digest_of(kind: str, request: msgspec.Struct) -> bytes:
    """Return what two requests have in common if, and only if, they ask for the same.

    Their ids, `request_id`, do not count. A field that has its default does not count either, so that one which is
    added in a later version changes no digest. What is not plain data, such as a function, counts by its name.

    Raises:
        InvalidInputError: what is asked for can be compared with nothing.
    """
    given = given_fields(request)
    given.pop("request_id", None)
    try:
        plain = msgspec.to_builtins([kind, given], str_keys=True, enc_hook=_by_name)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the data of {kind} cannot be compared with that of another request: {error}; give plain data"
        ) from None


def given_fields(struct: msgspec.Struct) -> dict[str, object]:
    """Return the fields that do not have their defaults, structs among them likewise."""
    given: dict[str, object] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if isinstance(value, msgspec.Struct):
            given[field.name] = given_fields(value)
        elif type(value) is not type(field.default) or value != field.default:
            given[field.name] = value
    return given


def _by_name(given: object) -> object:
    spec = getattr(given, "spec", None)
    return spec if isinstance(spec, msgspec.Struct) else getattr(given, "__qualname__", type(given).__qualname__)
