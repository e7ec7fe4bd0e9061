"""Images that travel: what of an image can be sent, how it is read again, and what a server does not take from afar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.domain.commands import ImageContent, ImageRegisterRequest
from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.image import Image, define
from reenact.domain.loop.policy import Policies
from reenact.domain.messages import check_text
from reenact.domain.plain import is_mapping, is_sequence
from reenact.domain.tools import ToolSpec, is_json

_SPEC: Final = frozenset(ToolSpec.__struct_fields__)


def content_of(image: object) -> ImageContent:
    """Return the image as it travels.

    Raises:
        ConfigurationError: the definition asks for something that cannot work, or has a function among its tools.
        InvalidInputError: it is no image, or a text in it is empty, too long or not valid Unicode.
    """
    if not isinstance(image, Image):
        msg = f"an image is an Image, not {type(image).__name__}"
        raise InvalidInputError(msg)
    who = f"image {image.id!r}" if image.id is not None else "the image"
    given: object = image.tools
    tools = tuple(_told(who, tool) for tool in given) if is_sequence(given) else ()
    # Which functions stand behind names, only the runtime knows.
    known = tuple(_heard(tool) for tool in tools if not isinstance(tool, str)) if is_sequence(given) else image.tools
    definition = define(msgspec.structs.replace(image, tools=known), "img" if image.id is None else image.id)
    if image.id is not None:
        check_text("the image's id", image.id)
    return ImageContent(
        id=image.id,
        name=image.name,
        model=image.model,
        system_prompt=image.system_prompt,
        max_tokens=image.max_tokens,
        tools=tools,
        mcp_servers=definition.mcp_servers,
        policies=None if definition.policies is None else _plain(who, definition.policies),
        max_steps=image.max_steps,
        max_repeats=image.max_repeats,
        cost_limit=image.cost_limit,
        compress_at=image.compress_at,
    )


def image_of(content: ImageContent) -> Image:
    """Return the image that has travelled; nothing is checked that registering it does not check.

    Raises:
        ConfigurationError: a tool's spec cannot be read.
    """
    fields: dict[str, Any] = {name: getattr(content, name) for name in ImageContent.__struct_fields__}
    fields["tools"] = tuple(map(_heard, content.tools))
    return Image(**fields)


def check_from_afar(type: str, data: Mapping[str, Any], *, allow_programs: bool) -> None:  # noqa: A002 - the word users know it by
    """Refuse a request that comes over a network and would have this machine start a program of the sender's choice.

    Such are images with MCP servers that have a `command`, and those whose address or headers name environment
    variables of this machine, which would be told to whoever is there.

    Raises:
        ConfigurationError: it is one, and programs are not allowed.
    """
    image = data.get("image") if type == ImageRegisterRequest.event_type else None
    servers = image.get("mcp_servers") if is_mapping(image) else None
    if allow_programs or not is_sequence(servers):
        return
    for server in servers:
        if not is_mapping(server):
            continue
        if server.get("command") is not None:
            msg = (
                f"MCP server {server.get('name')!r:.80} is a program, and this server starts none for its clients; "
                "register the image where the server runs, or allow programs there"
            )
            raise ConfigurationError(msg)
        if "${" in repr((server.get("url"), server.get("headers"))):
            msg = (
                f"MCP server {server.get('name')!r:.80} names environment variables of the server, which are not told "
                "to its clients; register the image where the server runs, or allow programs there"
            )
            raise ConfigurationError(msg)


def _plain(who: str, policies: Policies) -> object:
    try:
        plain: object = msgspec.to_builtins(policies)
        if is_json(msgspec.json.decode(msgspec.json.encode(plain))):
            return plain
    except (TypeError, ValueError, RecursionError):
        pass
    msg = f"policies of {who} hold what is no JSON value"
    raise ConfigurationError(msg)


def _told(who: str, tool: object) -> Any:  # noqa: ANN401 - a JSON value
    if is_mapping(tool):
        return dict(tool)
    if isinstance(tool, ToolSpec):
        return msgspec.to_builtins(tool)
    if callable(tool) or hasattr(tool, "spec"):
        msg = (
            f"{who}: {_name_of(tool)} is a function, and tools run where the runtime is; give it to "
            "`Runtime.open(tools=[…])` there, and name it here by its name"
        )
        raise ConfigurationError(msg)
    return tool


def _heard(tool: object) -> object:
    """Return a tool's spec, if that is what the mapping is; everything else as it is."""
    if not is_mapping(tool) or "type" in tool or "name" not in tool:
        return tool
    unknown = sorted(repr(name) for name in tool if name not in _SPEC)
    try:
        spec = msgspec.convert(dict(tool), ToolSpec)
    except msgspec.ValidationError as wrong:
        msg = f"tool {tool['name']!r:.80}: {wrong}"
        raise ConfigurationError(msg) from None
    if unknown:
        msg = f"tool {spec.name!r} has {unknown[0]}, which means nothing here; it takes {', '.join(sorted(_SPEC))}"
        raise ConfigurationError(msg)
    return spec


def _name_of(tool: object) -> str:
    spec = getattr(tool, "spec", None)
    return repr(spec.name if isinstance(spec, ToolSpec) else getattr(tool, "__name__", tool))
