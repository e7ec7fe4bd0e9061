"""Reads prices, policies, servers, tools and guards from options and the files and modules that they name."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import math
import os
import pwd
import stat
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple, TypeAlias, TypeGuard, TypeVar

import msgspec

from reenact.actors.environment.api import LLMProvider
from reenact.actors.environment.guards import Guard
from reenact.actors.environment.tools.tool import Tool, as_tool
from reenact.domain.errors import ConfigurationError, ReenactError
from reenact.domain.guards import Guards
from reenact.domain.loop.asking import ask_user
from reenact.domain.loop.ledger import Price, price_of
from reenact.domain.tools import MCPServer, ToolSpec, is_amount, is_array, is_object

Read = TypeVar("Read")
_SERVERS = "mcpServers"


class _Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server as in the file; unknown fields are ignored, as other programs do."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    type: str | None = None


def user_name() -> str | None:
    """Return the system's name of this process's user, to record who decides; None if it has none.

    Environment variables are not used, since anybody can set them.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


def read_servers(path: str) -> tuple[MCPServer, ...]:
    """Return the servers of a file `{"mcpServers": {NAME: {"command": …} | {"url": …}}}`.

    Raises:
        ConfigurationError: the file cannot be read or is invalid; the message names the place in the file.
    """
    who = f"--mcp-config {path}"
    content = _json(path, who)
    servers = content.get(_SERVERS) if is_object(content) else None
    if not is_object(servers):
        raise ConfigurationError(f'{who}: it must be {{"{_SERVERS}": {{NAME: {{"command": …}} or {{"url": …}}}}}}')
    return tuple(_server(f"{who}: {_SERVERS}.{name}", name, server) for name, server in servers.items())


def read_policies(path: str, read: Callable[[object], Read]) -> Read:
    """Return the policies of a file, which `read` converts from plain values.

    Raises:
        ConfigurationError: the file cannot be read, or is not a policy.
    """
    who = f"--policy {path}"
    try:
        return read(_json(path, who))
    except (ReenactError, msgspec.ValidationError) as error:
        msg = str(error)
        raise ConfigurationError(msg if msg.startswith(who) else f"{who}: {msg}") from error


def read_prices(texts: Sequence[str]) -> Mapping[str, Price]:
    """Parse prices given as `MODEL=IN,OUT`, per million tokens.

    Raises:
        ConfigurationError: a price is invalid.
    """
    return dict(map(_price, texts))


def check_price(model: str, prices: Mapping[str, Price], why: str) -> None:
    """Raise `ConfigurationError` if the model has no price; the message begins with `why` one is required."""
    if price_of(prices, model) is not None:
        return
    near = difflib.get_close_matches(model, prices, 1)
    known = f" (there is one for {near[0]})" if near else ""
    raise ConfigurationError(f"{why}, and {model} has no price{known}: --price {model}=IN,OUT, per million tokens")


def _price(text: str) -> tuple[str, Price]:
    model, _, amounts = text.rpartition("=")
    try:
        given, received = (float(amount) for amount in amounts.split(","))
    except ValueError:
        given = received = math.nan
    if not model or not (is_amount(given) and is_amount(received)):
        raise ConfigurationError(f"--price {text}: say MODEL=IN,OUT, what a million tokens cost, as in claude-x=3,15")
    return model, Price(given, received)


def _server(who: str, name: str, content: object) -> MCPServer:
    try:
        return _made(name, msgspec.convert(content, _Server))
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ConfigurationError(f"{who}: {error}") from error


def _made(name: str, server: _Server) -> MCPServer:
    if server.url is None:
        return MCPServer.stdio(name, server.command or "", server.args, server.env, server.cwd)
    if server.command is not None:
        raise ConfigurationError("it has a `command` and a `url`; give it one of them")
    if server.type == "sse":
        raise ConfigurationError("transport `sse` is not supported; most servers support `http` too")
    return MCPServer.http(name, server.url, server.headers)


def _json(path: str, who: str) -> object:
    try:
        return msgspec.json.decode(read_file(path, who))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{who}: it is not valid JSON: {error}") from error


KNOWN_PRICES: Final[Mapping[str, Price]] = {
    "claude-opus-5-5": Price(4, 20, cache_write=5, cache_read=0.2),
    "claude-opus-5": Price(5, 25),
    "claude-opus-4-8": Price(5, 25),
    "claude-opus-4-7": Price(5, 25),
    "claude-opus-4-6": Price(5, 25),
    "claude-opus-4-5": Price(5, 25),
    "claude-sonnet-5-5": Price(2, 10),
    "claude-sonnet-5": Price(2, 10),
    "claude-sonnet-4-6": Price(3, 15),
    "claude-sonnet-4-5": Price(3, 15),
    "claude-haiku-4-5": Price(1, 5),
    "claude-fable-5": Price(10, 50),
    "claude-mythos-5": Price(10, 50),
}
"""Prices by model name without date. If the cache prices are not given, the defaults of `Price` apply."""


LARGEST = 10_000_000
"""Maximum size of such a file in bytes."""
_HANDED_IN = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def check_file(path: str, who: str) -> None:
    """Check that reading the file terminates; a file that is missing is reported when it is read.

    Raises:
        ConfigurationError: it is a device, a pipe other than a descriptor of this process, a folder, or too large. The
            message begins with `who`.
    """
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return
    if path.startswith(_HANDED_IN) and not stat.S_ISDIR(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"{who}: it is not a regular file; what a program writes is read from /dev/stdin")
    if status.st_size > LARGEST:
        raise _too_large(who)


def read_file(path: str, who: str) -> bytes:
    """Return the content of the file.

    Raises:
        ConfigurationError: `check_file` refuses the file, or it cannot be read.
    """
    check_file(path, who)
    content = bytearray()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            while piece := os.read(descriptor, 1 << 16):
                content += piece
                if len(content) > LARGEST:
                    raise _too_large(who)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{who}: it cannot be read ({why})") from error
    return bytes(content)


def _too_large(who: str) -> ConfigurationError:
    return ConfigurationError(f"{who}: it has more than {LARGEST:,} bytes, which are read at most")


_SUFFIX = ".py"


def split_place(place: str) -> tuple[str, str]:
    """Split `WHERE[:NAME]` into a module or file and a name in it, which may be empty."""
    where, _, name = place.rpartition(":")
    if not where or name.endswith(_SUFFIX) or "/" in name:  # no name, but possibly a path with a colon
        return place, ""
    return where, name


def values_at(place: str, option: str) -> tuple[str, list[object]]:
    """Import what an option names; return the name and its value, or an empty name and all values of the module.

    Raises:
        ConfigurationError: it cannot be imported, or has no such name; the message names the place and the line.
    """
    where, name = split_place(place)
    module = _imported(where, option)
    if name and not hasattr(module, name):
        raise ConfigurationError(f"{option} {place}: {where} has no {name!r}")
    return name, [getattr(module, name)] if name else list(vars(module).values())


def _imported(where: str, option: str) -> ModuleType:
    """Import the module or file.

    Raises:
        ConfigurationError: it cannot be imported; the message names the place and the line.
    """
    path = Path(where)
    if path.suffix != _SUFFIX and (where.startswith(".") or "/" in where):
        raise ConfigurationError(f"{option} {where}: it is neither a file that ends with .py nor the name of a module")
    try:
        if path.suffix == _SUFFIX:
            return _run(path)
        if importlib.util.find_spec(where.partition(".")[0]) is None:
            sys.path.append(str(Path.cwd()))  # at the end, so that it never hides an installed module
        return importlib.import_module(where)
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise ConfigurationError(f"{option} {where}: {describe_error(error, path)}") from error


def _run(path: Path) -> ModuleType:
    """Import the file under a unique module name, with its folder in the path, as if it were run."""
    name = f"reenact_given_{path.stem}"  # the file may have the same name as a module that others import
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module  # as `import` does: types of parameters are looked up there
    spec.loader.exec_module(module)
    return module


def describe_error(error: BaseException, path: Path) -> str:
    """Describe the exception, with the line that raised it: the last one in the file if the traceback has one."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {kind}: {error.msg}"
    said = f"{kind}: {error}" if str(error) else kind
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_import_machinery(frame.filename)]
    of_file = [frame for frame in frames if Path(frame.filename).name == path.name]
    where = (of_file or frames)[-1:]
    return f"{where[0].filename}, line {where[0].lineno}: {said}" if where else said


def _is_import_machinery(filename: str) -> bool:
    return filename.startswith(("<frozen", str(Path(__file__).parent))) or filename == importlib.__file__


def own_provider(place: str) -> LLMProvider:
    """Import the provider that `MODULE:NAME` names: an object, or a callable without arguments that creates it.

    Raises:
        ConfigurationError: it cannot be imported or created, or is not a provider; the message names file and line.
    """
    where, _, name = place.partition(":")
    who = f"--provider {place}"
    module = _import_or_explain(who, where, lambda: importlib.import_module(where))
    if not hasattr(module, name):
        raise ConfigurationError(f"{who}: {where} has no {name!r}")
    found: object = getattr(module, name)
    if callable(found) and (isinstance(found, type) or not isinstance(found, LLMProvider)):
        found = _import_or_explain(who, where, found)
    if not isinstance(found, LLMProvider):
        raise ConfigurationError(
            f"{who}: it is not a provider, which has a `name`, and a `provide` that returns a driver"
        )
    return found


def _import_or_explain(who: str, where: str, act: Callable[[], object]) -> object:
    try:
        return act()
    except (Exception, SystemExit) as error:  # the module may raise anything
        why = describe_error(error, Path(f"{where.rpartition('.')[2]}.py"))
        if isinstance(error, ModuleNotFoundError) and f"{where}.".startswith(f"{error.name}."):
            why = (
                f"there is no module {error.name!r}: it must be installed, or in a folder of PYTHONPATH; "
                "the current folder does not count"
            )
        raise ConfigurationError(f"{who}: {why}") from error


Function: TypeAlias = Tool[..., object]
LoadedTool: TypeAlias = Function | ToolSpec
"""A function that a model can call; or `ask_user`, which has no function."""


def functions_of(tools: Iterable[object]) -> list[Function]:
    """Return the tools that have a function."""
    return [tool for tool in tools if _is_function(tool)]


def load_tools(places: Sequence[str]) -> tuple[LoadedTool, ...]:
    """Import the named places and return the tools in them, in order and without duplicates.

    Raises:
        ConfigurationError: a place cannot be imported or has no tool; the message names the place and the line.
    """
    found = [tool for place in places for tool in _load_tools_at(place)]
    return tuple({id(tool): tool for tool in found}.values())


class Guarding(NamedTuple):
    """The guard functions, and the guards that the image of new sessions names."""

    functions: tuple[Guard, ...] = ()
    named: Guards | None = None


def load_guards(place: str | None) -> Guarding:
    """Import the place and return the guard functions in it, and the `Guards` that name them, if it has one.

    Raises:
        ConfigurationError: the place cannot be imported or has no guard; the message names the place and the line.
    """
    if place is None:
        return Guarding()
    _, values = values_at(place, "--guards")
    functions = tuple(value for value in values if isinstance(value, Guard))
    named = [value for value in values if isinstance(value, Guards)]
    if not functions:
        raise ConfigurationError(
            f"--guards {place}: there is no guard in it; write `@guard`, from reenact, above a function"
        )
    if len(named) > 1:
        raise ConfigurationError(f"--guards {place}: there are {len(named)} Guards in it; leave one")
    return Guarding(functions, next(iter(named), None))


def _load_tools_at(place: str) -> Iterator[LoadedTool]:
    name, values = values_at(place, "--tools")
    if name:
        yield from _tools_in(values[0], f"--tools {place}")
        return
    tools = [value for value in values if _is_tool(value)]
    if not tools:
        raise ConfigurationError(
            f"--tools {place}: there is no tool in it; write `@tool`, from reenact, above a function, or name one"
        )
    yield from tools


def _tools_in(value: object, who: str) -> Iterator[LoadedTool]:
    """Yield the tools of a value: a tool, a plain function, or a list of these."""
    if is_array(value):
        for item in value:
            yield from _tools_in(item, who)
    elif value is ask_user:
        yield ask_user
    else:
        try:
            yield as_tool(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{who}: {error}") from error


def _is_function(value: object) -> TypeGuard[Function]:
    return isinstance(value, Tool)


def _is_tool(value: object) -> TypeGuard[LoadedTool]:
    return isinstance(value, Tool) or value is ask_user
