"""Idempotency keys: a request that is sent again under the same key is carried out only once."""

from __future__ import annotations

import hashlib
import json

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.structs import Frozen, FrozenByName


class IdempotencyKey(Frozen):
    """The key of a request that is carried out only once: its id, and the digest of its content."""

    id: str
    digest: bytes


class IdempotentCommand(FrozenByName, kw_only=True):
    """A command that a request may cause; `once` is the request's key, if the request is idempotent."""

    once: IdempotencyKey | None = None


def digest_of(kind: str, request: msgspec.Struct) -> bytes:
    """Return a digest that is equal for two requests if, and only if, they ask for the same.

    Their ids, `request_id`, are left out, and so are fields with default values, so that a field added in a later
    version does not change the digest. A value that is not plain data, such as a function, is represented by its name.

    Raises:
        InvalidInputError: the request holds values that cannot be compared.
    """
    given = given_fields(request)
    given.pop("request_id", None)
    try:
        plain = msgspec.to_builtins([kind, given], str_keys=True, enc_hook=_spec_or_name)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the data of {kind} cannot be compared with that of another request: {error}; give plain data"
        ) from None


def given_fields(struct: msgspec.Struct) -> dict[str, object]:
    """Return the fields whose values are not the defaults; nested structs likewise."""
    given: dict[str, object] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if isinstance(value, msgspec.Struct):
            given[field.name] = given_fields(value)
        elif type(value) is not type(field.default) or value != field.default:
            given[field.name] = value
    return given


def _spec_or_name(given: object) -> object:
    spec = getattr(given, "spec", None)
    return spec if isinstance(spec, msgspec.Struct) else getattr(given, "__qualname__", type(given).__qualname__)
