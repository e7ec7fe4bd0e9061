"""The classes of commands: help that teaches, unknown words named with the nearest known, and a quick start."""

from __future__ import annotations

import atexit
import difflib
import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import SimpleNamespace
from typing import ParamSpec, Protocol, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from reenact.cli.parsing.help_page import Section, manual, spellings

_MOST = 3
"""So many names are offered that begin as one does that is not known."""
ALWAYS = ("-h", "--help")
"""The options that every command has."""
_CUT = 40
_ASKED = "get_runtime_param"
"""The method of a parameter that returns what makes its values."""
P = ParamSpec("P")
T = TypeVar("T")


def _light(parameters_of: Callable[P, list[T]]) -> Callable[P, list[T]]:
    """Let the parameters of a command take what is typed as it is, where that is what it is to be.

    Typer asks pydantic about each value, also about those that were not given. To load that takes as long as all else
    that `reenact --version` does, so it is asked only about what is not plain to see.
    """

    def get_params(*args: P.args, **kwargs: P.kwargs) -> list[T]:
        parameters = parameters_of(*args, **kwargs)
        for one in parameters:
            if isinstance(one, TyperOption | TyperArgument) and _ASKED not in vars(one):
                _lighten(one)
        return parameters

    return get_params


def _lighten(parameter: TyperOption | TyperArgument) -> None:
    as_typer_does, annotation = parameter.get_runtime_param, parameter.type_descriptor.annotation

    def coerce(value: object, ctx: typer.Context, **_: object) -> object:
        if value is None:
            return () if parameter.multiple or parameter.nargs == -1 else None
        if annotation == list[str] and value.__class__ in (list, tuple):
            return value
        if isinstance(annotation, type):
            if isinstance(value, annotation):
                return value
            if issubclass(annotation, Enum) and value in {one.value for one in annotation}:
                return annotation(value)
        return as_typer_does().coerce(value, param=parameter, ctx=ctx)

    vars(parameter)[_ASKED] = lambda: SimpleNamespace(coerce=coerce)


_PLAINER = (
    ("Input should be a valid integer, unable to parse string as an integer", "it must be a whole number"),
    ("Value error, ", ""),
)
"""What the parser says, and what we say."""
_OF_PEOPLE = "; calls are decided in the chat (`reenact --resume ID`) or in `reenact inspect --allow-actions`."
_ELSEWHERE = {
    "why": "; `reenact log --why POSITION` says what an event follows from.",
    **dict.fromkeys(("approve", "reject", "respond", "pending"), _OF_PEOPLE),
}
"""Where people look for what is no command, though it is there."""


class Asked(Protocol):
    """What of a context matters here: the words that lead to a command, and what was given before them."""

    params: dict[str, object]

    @property
    def command_path(self) -> str: ...


class Command(TyperCommand):
    """A command whose help teaches."""

    get_params = _light(TyperCommand.get_params)

    def get_help(self, ctx: Asked) -> str:
        """Return the help."""
        return manual(self, ctx.command_path)


class Group(TyperGroup):
    """Commands under one name, whose help teaches."""

    appendix: Sequence[Section] = ()
    get_params = _light(TyperGroup.get_params)

    def get_help(self, ctx: Asked) -> str:
        """Return the help."""
        return manual(self, ctx.command_path, self.appendix)

    def get_command(self, ctx: Asked, cmd_name: str) -> TyperCommand | TyperGroup:
        """Return the command of this name.

        Raises:
            TyperException: there is none; the message says what was probably meant.
        """
        if "prompt" not in ctx.params:
            return self.named(cmd_name)
        said = ctx.params["prompt"]
        prompt = _cut(cmd_name) if said is None else f"{_cut(str(said))} {_cut(cmd_name)}"
        return self.named(cmd_name, f' If it belongs to a prompt, quote all of that: {ctx.command_path} -p "{prompt}"')

    def named(self, name: str, hint: str = "") -> TyperCommand | TyperGroup:
        """Return the command of this name.

        Raises:
            TyperException: there is none; the message says what was probably meant, and the hint.
        """
        command = self.commands.get(name)
        if isinstance(command, TyperCommand | TyperGroup):
            return command
        meant = _ELSEWHERE.get(name) or _did_you_mean(nearest(name, self.commands)) or "."
        raise typer.TyperException(f"there is no command {_cut(name)!r}{meant}{hint}")


def explained(error: typer.TyperException, root: TyperGroup, arguments: Sequence[str]) -> typer.TyperException:
    """Return the failure to read the arguments in words that say what was probably meant."""
    for theirs, ours in _PLAINER:
        error.message = error.message.replace(theirs, ours)
    option = getattr(error, "option_name", None)
    if not hasattr(error, "possibilities") or not isinstance(option, str):
        return error
    command = getattr(getattr(error, "ctx", None), "command", root)
    option = next((word for word in arguments if _is_of_one_dash(word, option)), option)
    known = options_of(command)
    path = "" if command is root else f" {command.name}"
    meant = nearest(f"-{option}" if len(option) > 2 and option[1] != "-" else option, [*known, *ALWAYS])  # noqa: PLR2004
    elsewhere = [name for name, one in root.commands.items() if option in options_of(one)]
    if command is not root and option in options_of(root):
        what = f"{option} is for a conversation, and not for `{command.name}`"
    elif command is root and elsewhere:
        what = f"{option} stands behind the command that it is for, as in `reenact {elsewhere[0]} {option}`"
    else:
        what = f"`reenact{path}` has no option {_cut(option)}{_did_you_mean(meant)}"
    return typer.TyperException(what)


def help_for(error: typer.TyperException) -> str:
    """Return where to read on for whoever got the arguments wrong."""
    path = getattr(getattr(error, "ctx", None), "command_path", "reenact")
    return f"{path} --help lists what may be asked for"


def options_of(command: object) -> Mapping[str, TyperOption]:
    """Return the options of the command by the names under which people know them."""
    if not isinstance(command, TyperCommand | TyperGroup):
        return {}
    options = [param for param in command.params if isinstance(param, TyperOption) and not param.hidden]
    return {name: option for option in options for name in spellings(option)}


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return what a word may stand for: what it begins, or else what is written nearly as it is."""
    names = list(known)
    begun = [name for name in names if len(word) > 2 and name.startswith(word)]  # noqa: PLR2004 - more than its dashes
    return begun[:_MOST] or difflib.get_close_matches(word, names, 1)


def given(context: typer.Context) -> frozenset[str]:
    """Return the names of the parameters that the command line has given itself."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def refuse_options_as_values(arguments: Sequence[str], root: TyperGroup, takers: Iterable[str]) -> None:
    """Refuse an option that stands where one of the `takers` has its value, which was probably forgotten.

    Raises:
        TyperException: there is one; the message says how to mean it.
    """
    known = {*options_of(root), *ALWAYS}
    wanting = {name for name, one in options_of(root).items() if one.name in set(takers)}
    place = 0
    while place < len(arguments):
        name = arguments[place]
        if name in root.commands or name == "--":
            return
        option = options_of(root).get(name)
        value = arguments[place + 1] if place + 1 < len(arguments) else ""
        if name in wanting and value in known:
            long = max(spellings(options_of(root)[name]), key=len)
            raise typer.TyperException(f"{name} has no value, for {value} is an option; {long}={value} would mean it")
        place += 1 if option is None or option.is_flag else 2


def _is_of_one_dash(word: str, option: str) -> bool:
    """Return whether a word with one dash was taken for several options of one letter, of which this is the first."""
    return len(option) == 2 and option[1] != "-" and word.startswith(option) and len(word) > 2  # noqa: PLR2004


def _did_you_mean(names: Sequence[str]) -> str:
    return f". Did you mean {' or '.join(names)}?" if names else ""


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 1]}…"


_SELDOM = 50_000
"""So many objects that may have parts are made more than given up, before anybody looks for garbage among them."""


def look_for_garbage_seldom() -> None:
    """Let this process, which is the command's alone, look for garbage seldom, and not when it ends.

    Most of what it makes are modules and classes, which stay. To look for garbage in them while there are more and more
    of them, and again at the end, took a third of the time of `reenact -p`.
    """
    gc.set_threshold(_SELDOM, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
