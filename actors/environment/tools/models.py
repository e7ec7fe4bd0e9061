"""Models of pydantic as types of arguments; known by what they can do, so that nothing is imported for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import msgspec


@runtime_checkable
class Model(Protocol):
    """What we use of the class of a model."""

    def model_json_schema(self, *, ref_template: str) -> dict[str, Any]: ...
    def model_validate_json(self, json_data: bytes, *, strict: bool) -> Any: ...  # noqa: ANN401 - a model


@runtime_checkable
class Invalid(Protocol):
    """What we use of a model's `ValidationError`, which is a `ValueError`."""

    def errors(self) -> Iterable[dict[str, Any]]: ...


def model_schema(kind: type) -> dict[str, Any]:
    """Return the JSON Schema of the model; what it defines stands in its `$defs`.

    Raises:
        NotImplementedError: the type is no model.
    """
    if isinstance(kind, Model):
        return kind.model_json_schema(ref_template="#/$defs/{model}")
    raise NotImplementedError


def model_argument(kind: Any, value: Any) -> Any:  # noqa: ANN401 - JSON becomes a model
    """Return the model of this type that the JSON value describes; types without a schema were refused before.

    Raises:
        ValueError: it does not describe one; the message says for each place why.
    """
    model: Model = kind
    try:
        return model.model_validate_json(msgspec.json.encode(value), strict=True)
    except ValueError as error:
        if not isinstance(error, Invalid):
            raise
        raise ValueError("; ".join(map(_told, error.errors()))) from None


def _told(error: dict[str, Any]) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg']}" if where else str(error["msg"])
