"""An image: the definition of an agent, in revisions that never change."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import check_text

MAX_PROMPT_BYTES = 10 * 1024 * 1024
MAX_TOKENS = 2**31 - 1


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of an agent.

    `model` is a model's name, or None for the runtime's own choice; `max_tokens` bounds one answer. `tools` must be
    empty: this version runs none.
    """

    id: str | None = None
    name: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    max_tokens: int | None = None
    tools: tuple[Any, ...] = ()


class ImageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An image as callers see it, in its newest revision, which counts from 1."""

    id: str
    name: str
    model: str | None
    system_prompt: str | None
    max_tokens: int | None
    revision: int
    created_at: datetime


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """The content of one revision."""

    name: str
    model: str | None = None
    system_prompt: str | None = None
    max_tokens: int | None = None


class ImageRegistered(msgspec.Struct, frozen=True, array_like=True):
    """The image has a new revision."""

    image_id: str
    revision: int
    definition: Definition


ImageEvent: TypeAlias = ImageRegistered


class RegisterImage(msgspec.Struct, frozen=True):
    """Make this the newest content of the image."""

    image_id: str
    definition: Definition


class Images(msgspec.Struct, frozen=True):
    """All revisions of one image, the first first."""

    id: str | None = None
    revisions: tuple[Definition, ...] = ()


def decide(image: Images, command: RegisterImage) -> tuple[ImageEvent, ...]:
    """Return a new revision, or nothing when the newest has this content already."""
    if image.revisions and image.revisions[-1] == command.definition:
        return ()
    return (ImageRegistered(command.image_id, len(image.revisions) + 1, command.definition),)


def evolve(image: Images, event: ImageEvent) -> Images:
    """Return the image as it is once the event has happened."""
    return Images(event.image_id, (*image.revisions, event.definition))


def define(image: Image, image_id: str) -> Definition:
    """Return the image's content, or raise `ConfigurationError` or `InvalidInputError` saying what is wrong with it."""
    if image.tools:
        msg = f"image {image_id!r} has tools, but this version runs none; register it without"
        raise ConfigurationError(msg)
    if image.max_tokens is not None and not (type(image.max_tokens) is int and 1 <= image.max_tokens <= MAX_TOKENS):
        msg = f"max_tokens of image {image_id!r} is {image.max_tokens!r}; it is a number from 1 to {MAX_TOKENS}"
        raise ConfigurationError(msg)
    if image.system_prompt is not None and image.system_prompt != "":
        check_text("the system prompt", image.system_prompt, limit=MAX_PROMPT_BYTES)
    return Definition(
        name=check_text("the image's name", image.name if image.name is not None else image_id),
        model=None if image.model is None else check_text("the model", image.model),
        system_prompt=image.system_prompt,
        max_tokens=image.max_tokens,
    )
