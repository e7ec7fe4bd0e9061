"""The tools that the command line names: `MODULE`, `FILE.py`, or one thing in them, `MODULE:NAME`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeGuard

from reenact.actors.environment.tools.tool import Tool, as_tool
from reenact.cli.settings.code_import import imported, taken_apart
from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.asking import ask_user
from reenact.domain.tools import ToolSpec, is_array

Function: TypeAlias = Tool[..., Any]
Offered: TypeAlias = Function | ToolSpec
"""A function that a model can call; or `ask_user`, which needs none."""


def functions_of(tools: Sequence[Offered]) -> list[Function]:
    """Return the tools behind which there is a function."""
    return [tool for tool in tools if _is_function(tool)]


def load_tools(places: Sequence[str]) -> tuple[Offered, ...]:
    """Import what is named and return the tools in it, each once, in their order.

    Raises:
        ConfigurationError: it cannot be imported, or no tool is there; the message names the place and the line.
    """
    found = [one for place in places for one in _tools_at(place)]
    return tuple({id(one): one for one in found}.values())


def _tools_at(place: str) -> Iterator[Offered]:
    where, name = taken_apart(place)
    module = imported(where, "--tools")
    if name:
        if not hasattr(module, name):
            msg = f"--tools {place}: {where} has no {name!r}"
            raise ConfigurationError(msg)
        yield from _offered(getattr(module, name), f"--tools {place}")
        return
    tools = [one for one in vars(module).values() if _is_tool(one)]
    if not tools:
        msg = f"--tools {place}: there is no tool in it; write `@tool`, from reenact, above a function, or name one"
        raise ConfigurationError(msg)
    yield from tools


def _offered(value: object, who: str) -> Iterator[Offered]:
    """Yield the tools that a name stands for: a tool, a plain function, or several of them."""
    if is_array(value):
        for one in value:
            yield from _offered(one, who)
    elif value is ask_user:
        yield ask_user
    else:
        try:
            yield as_tool(value)
        except ConfigurationError as error:
            msg = f"{who}: {error}"
            raise ConfigurationError(msg) from error


def _is_function(value: object) -> TypeGuard[Function]:
    return isinstance(value, Tool)


def _is_tool(value: object) -> TypeGuard[Offered]:
    return isinstance(value, Tool) or value is ask_user
