"""Images in requests: conversion to and from the form that is sent, and the check of images sent over a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

import msgspec

from reenact.domain.children import AgentTool
from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.image import Image, define
from reenact.domain.messages import check_text
from reenact.domain.operations.table import ImageContent, ImageRegisterRequest
from reenact.domain.plain import is_mapping, is_sequence
from reenact.domain.tools import ToolSpec


def requested(image: object) -> ImageContent:
    """Return the image in the form of a request of this process, or raise `InvalidInputError` if it is none."""
    if _is_image(image):
        return ImageContent(**{name: getattr(image, name) for name in ImageContent.__struct_fields__})
    given = f"the class {image.__name__}" if isinstance(image, type) else type(image).__name__
    raise InvalidInputError(f"an image must be an Image, not {given}")


def travelling(image: ImageContent) -> ImageContent:
    """Return the image in the form in which it is sent.

    Raises:
        ConfigurationError: the definition is not valid, or has a function among its tools.
        InvalidInputError: a text in it is empty, too long or not valid Unicode.
    """
    if image.id is not None:
        check_text("the image's id", image.id)
    given: object = image.tools
    if not is_sequence(given):
        raise ConfigurationError(f"tools must be a list of tools, not {given!r}")
    who = "the image" if image.id is None else f"image {image.id!r}"
    tools = tuple(_sendable_tool(who, tool) for tool in given)
    # Only the runtime can check tools that are given by their names.
    known = tuple(tool for tool in given if not isinstance(tool, str))
    content = image_of(msgspec.structs.replace(image, tools=known))
    definition = define(content, "img" if image.id is None else image.id)
    return msgspec.structs.replace(
        image,
        tools=tools,
        mcp_servers=definition.mcp_servers,
        policies=None if definition.policies is None else msgspec.to_builtins(definition.policies),
        guards=None if definition.guards is None else msgspec.to_builtins(definition.guards),
    )


def image_of(content: ImageContent) -> Image:
    """Return the image from the form in which it was sent, without checking it."""
    return Image(**{name: getattr(content, name) for name in ImageContent.__struct_fields__})


def check_from_afar(type: str, data: Mapping[str, object], *, allow_programs: bool) -> None:  # noqa: A002 - the word users know it by
    """Refuse a request from the network that would make this machine start a program of the sender's choice.

    Those are images with MCP servers that have a `command`, and those whose address or headers name environment
    variables of this machine, whose values would be sent to that address.

    Raises:
        ConfigurationError: the request is of this kind, and programs are not allowed.
    """
    image = data.get("image") if type == ImageRegisterRequest.event_type else None
    servers = image.get("mcp_servers") if is_mapping(image) else None
    if allow_programs or not is_sequence(servers):
        return
    for server in servers:
        if not is_mapping(server):
            continue
        if server.get("command") is not None:
            raise ConfigurationError(
                f"MCP server {server.get('name')!r:.80} is a program, and this server starts none for its clients; "
                "register the image where the server runs, or allow programs there"
            )
        if "${" in repr((server.get("url"), server.get("headers"))):
            raise ConfigurationError(
                f"MCP server {server.get('name')!r:.80} names environment variables of the server, which are not told "
                "to its clients; register the image where the server runs, or allow programs there"
            )


def _sendable_tool(who: str, tool: object) -> object:
    if is_mapping(tool):
        return dict(tool)
    if isinstance(tool, ToolSpec | AgentTool):
        return msgspec.to_builtins(tool)
    if callable(tool) or hasattr(tool, "spec"):
        raise ConfigurationError(
            f"{who}: {_name_of(tool)} is a function, and tools run where the runtime is; give it to "
            "`Runtime.open(tools=[…])` there, and name it here by its name"
        )
    return tool


def _name_of(tool: object) -> str:
    spec = getattr(tool, "spec", None)
    return repr(spec.name if isinstance(spec, ToolSpec) else getattr(tool, "__name__", tool))


def _is_image(value: object) -> TypeGuard[Image[object]]:
    return isinstance(value, Image)
