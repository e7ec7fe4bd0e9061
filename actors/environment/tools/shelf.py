"""The functions behind the tools that images name.

The log holds what a model is told of a tool, and no code. So the functions are handed in each time a runtime opens,
with `Runtime.open(..., tools=[…])`, or with the image that is registered; an agent finds them by their names.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from reenact.actors.environment.tools.tool import Tool, is_tool, tool
from reenact.domain.errors import ConfigurationError
from reenact.domain.image import Definition, Image
from reenact.domain.plain import is_sequence
from reenact.domain.tools import ToolSpec


class ToolShelf:
    """Tools by their names: those of one image, and those for all. Thread-safe."""

    def __init__(self, tools: Sequence[Tool[..., Any] | Callable[..., Any]] = ()) -> None:
        """Take the tools that all images may name.

        Raises:
            ConfigurationError: one is no tool, or two have the same name.
        """
        self._lock = threading.Lock()
        self._of_all: dict[str, Tool[..., Any]] = {}
        self._of_image: dict[tuple[str, str], Tool[..., Any]] = {}
        for one in _listed(tools):
            made = as_tool(one)
            if self._of_all.setdefault(made.spec.name, made) is not made:
                msg = f"two tools are named {made.spec.name!r}; give one of them another name: @tool(name=…)"
                raise ConfigurationError(msg)

    def with_specs(self, image: Image) -> Image:
        """Return the image with plain functions made tools, and names put in place by the tools that bear them.

        Raises:
            ConfigurationError: one cannot be a tool, or the runtime was opened without a tool of that name.
        """
        if not any(isinstance(one, str) or _is_plain(one) for one in _listed(image.tools)):
            return image
        return msgspec.structs.replace(image, tools=tuple(map(self._resolved, image.tools)))

    def _resolved(self, one: object) -> object:
        if not isinstance(one, str):
            return as_tool(one) if _is_plain(one) else one
        found = self._of_all.get(one)
        if found is None:
            known = ", ".join(sorted(self._of_all)) or "none"
            msg = f"there is no tool {one!r}: Runtime.open(tools=[…]) was given {known}"
            raise ConfigurationError(msg)
        return found

    def put(self, image_id: str, image: Image) -> None:
        """Keep the functions of an image's tools; those of a later image of the same id take their place."""
        with self._lock:
            for one in image.tools:
                if isinstance(one, Tool):
                    self._of_image[image_id, one.spec.name] = one

    def find(self, image_id: str, definition: Definition) -> tuple[Tool[..., Any] | ToolSpec, ...]:
        """Return the image's tools; where nobody has handed in the function, what is known of the tool without it."""
        with self._lock:
            return tuple(
                self._of_image.get((image_id, spec.name))
                or self._of_image.get((definition.base or image_id, spec.name))
                or self._of_all.get(spec.name)
                or spec
                for spec in definition.tools
            )


def _is_plain(one: object) -> bool:
    return callable(one) and not hasattr(one, "spec")


def _listed(tools: object) -> Sequence[Any]:
    if is_sequence(tools):
        return tools
    msg = f"tools are a list of tools, not {tools!r}"
    raise ConfigurationError(msg)


def as_tool(one: object) -> Tool[..., Any]:
    """Return what can be run, or raise `ConfigurationError`."""
    if is_tool(one):
        one.check_bound()
        return one
    if not callable(one):
        msg = f"{one!r} is no tool; give a function, or what `@tool` made of one"
        raise ConfigurationError(msg)
    function: Callable[..., Any] = one
    made: Tool[..., Any] = tool(function)
    return made
