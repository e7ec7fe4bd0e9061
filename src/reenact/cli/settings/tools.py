"""Imports the code that an option names, `MODULE`, `FILE.py` or `MODULE:NAME`, and finds the tools in it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias, TypeGuard

from reenact.actors.environment.tools.tool import Tool, as_tool
from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.asking import ask_user
from reenact.domain.tools import ToolSpec, is_array

_SUFFIX: Final = ".py"


def taken_apart(place: str) -> tuple[str, str]:
    """Return the module or file that a place names, and what in it, which may be nothing."""
    where, _, name = place.rpartition(":")
    if not where or name.endswith(_SUFFIX) or "/" in name:  # no name was given, but perhaps a path with a colon
        return place, ""
    return where, name


def values_at(place: str, option: str) -> tuple[str, list[object]]:
    """Import what an option names; return the name in it and its value, or no name and all that is there.

    Raises:
        ConfigurationError: it cannot be imported, or has no such name; the message names the place and the line.
    """
    where, name = taken_apart(place)
    module = _imported(where, option)
    if name and not hasattr(module, name):
        raise ConfigurationError(f"{option} {place}: {where} has no {name!r}")
    return name, [getattr(module, name)] if name else list(vars(module).values())


def _imported(where: str, option: str) -> ModuleType:
    """Import what the option names.

    Raises:
        ConfigurationError: it cannot be imported; the message names the place and the line.
    """
    path = Path(where)
    try:
        if path.suffix == _SUFFIX:
            return _run(path)
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(where)
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise ConfigurationError(f"{option} {where}: {_what_happened(error, path)}") from error


def _run(path: Path) -> ModuleType:
    """Import the file as a module of its own, beside which others can be imported, as if it were run."""
    name = f"reenact_given_{path.stem}"  # a file may have the name of a module that others need
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module  # as `import` does: functions look up the types of their parameters there
    spec.loader.exec_module(module)
    return module


def _what_happened(error: BaseException, path: Path) -> str:
    """Return the exception in words, with the line at which it happened: that of the file, if it was there."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {kind}: {error.msg}"
    said = f"{kind}: {error}" if str(error) else kind
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    of_file = [frame for frame in frames if Path(frame.filename).name == path.name]
    where = (of_file or frames)[-1:]
    return f"{where[0].filename}, line {where[0].lineno}: {said}" if where else said


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen") or filename in (__file__, importlib.__file__)


Function: TypeAlias = Tool[..., object]
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
    name, values = values_at(place, "--tools")
    if name:
        yield from _offered(values[0], f"--tools {place}")
        return
    tools = [one for one in values if _is_tool(one)]
    if not tools:
        raise ConfigurationError(
            f"--tools {place}: there is no tool in it; write `@tool`, from reenact, above a function, or name one"
        )
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
            raise ConfigurationError(f"{who}: {error}") from error


def _is_function(value: object) -> TypeGuard[Function]:
    return isinstance(value, Tool)


def _is_tool(value: object) -> TypeGuard[Offered]:
    return isinstance(value, Tool) or value is ask_user
