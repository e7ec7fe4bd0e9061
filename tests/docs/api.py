"""The public names with their signatures: as lines that are compared, and as pages that are read."""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.docs.names import MODULES, VALUES, public, what_of

SNAPSHOT = Path(__file__).resolve().parent.parent / "public_api.txt"
"""What programs rely on, as it was announced. `python -m tests.docs.api` writes it anew."""
PLAIN = (type(None), bool, int, float, str, bytes)
"""A default of these is shown; of any other it is only said that there is one."""
WIDTH = 100
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
ENTRY = re.compile(r"^ {4}([*\w][\w., *\[\]]*): ", re.MULTILINE)


class AsWritten(str):
    """A part of a signature that is shown as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Member:
    """A public name of a class: how it is written, and what it promises."""

    name: str
    written: str
    promise: str
    called: bool


def exports() -> Iterator[tuple[str, str, object, str]]:
    """Yield the module, the name and the value of each public name, and the full name that the value had before."""
    known: dict[int, str] = {}
    for module in MODULES:
        for name, value in public(importlib.import_module(module)):
            yield module, name, value, known.get(id(value), "")
            known.setdefault(id(value), f"{module}.{name}")


def lines() -> Iterator[str]:
    """Yield what programs rely on: each public name with its signature, and each that a class has, a line for each."""
    for module, name, value, before in exports():
        full = f"{module}.{name}"
        if before:
            yield f"{full} is {before}"
            continue
        head = written(name, value)
        yield f"{module}.{head}"
        if isinstance(value, type):
            yield from (f"{full}.{one.written}" for one in members(value) if not _is_given(one, head))


@functools.cache
def page(module: str) -> str:
    """Return the page of a module, in Markdown."""
    names = [(name, value, before) for where, name, value, before in exports() if where == module]
    errors = [one for one in names if isinstance(one[1], type) and issubclass(one[1], Exception)]
    others = [one for one in names if one not in errors]
    head = [f"# {module}\n", markdown(inspect.cleandoc(importlib.import_module(module).__doc__ or ""))]
    chapters = (("## Names\n", others), ("## Errors\n", errors))
    parts = [part for title, entries in chapters if entries for part in (title, *(_entry(*one) for one in entries))]
    return "\n".join([*head, *parts])


def written(name: str, value: object) -> str:
    """Return the name with what has to be given to what it names, or with what it is."""
    if isinstance(value, type):
        head = f"{name}{_constructor(value)}"
        bases = ", ".join(base.__name__ for base in value.__bases__)
        return f"{head}  # {bases}" if issubclass(value, Exception) else head
    if inspect.isroutine(value):
        return f"{name}{_shown(inspect.signature(value))}"
    kinds = [_text(one) for one in _alternatives(value)]
    return f"{name} = {' | '.join(kinds)}" if typing.get_args(value) else f"{name}: {type(value).__name__}"


def members(kind: type) -> list[Member]:
    """Return the public members of a class and of its bases that are ours; what is called comes last."""
    if enum.Enum in kind.__mro__:
        return [Member(name, name, "", called=False) for name in vars(kind) if name.isupper()]
    found: dict[str, Member] = {}
    for owner in _ours(kind):
        said, annotations = _below_fields(owner), inspect.get_annotations(owner)
        for name, value in vars(owner).items():
            if not name.startswith("_") and name not in found and name not in annotations:
                member = _member(kind, name, value)
                found |= {name: member} if member else {}
        for name, annotation in annotations.items():
            if not name.startswith("_") and name not in found:
                found[name] = Member(name, f"{name}: {_text(annotation)}", said.get(name, ""), called=False)
    return [one for one in found.values() if not one.called] + sorted(
        (one for one in found.values() if one.called), key=lambda one: one.name
    )


def markdown(docstring: str) -> str:
    """Return a docstring with lists in the place of its sections."""
    made: list[str] = []
    for part in re.split(r"\n(?=\S)", docstring):
        head, _, rest = part.partition("\n")
        found = SECTION.match(head)
        listed = textwrap.dedent(ENTRY.sub(r"    - `\1`: ", rest))
        made.append(f"**{found[1]}**\n\n{listed}" if found else part)
    return "\n".join(made).rstrip() + "\n"


def _ours(kind: type) -> Iterator[type]:
    return (one for one in kind.__mro__ if one.__module__.partition(".")[0] == "reenact")


def _member(kind: type, name: str, value: object) -> Member | None:
    read: object = getattr(value, "fget", None) or getattr(value, "func", None)
    if type(value) in (property, functools.cached_property) and inspect.isfunction(read):
        returned = inspect.signature(read).return_annotation
        return Member(name, f"{name}: {_text(returned)}", inspect.getdoc(read) or "", called=False)
    given: object = getattr(value, "__func__", value)
    if not inspect.isfunction(given):
        return None
    signature = inspect.signature(given)
    if not isinstance(value, staticmethod):
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return Member(name, f"{name}{_shown(signature)}", inspect.getdoc(getattr(kind, name)) or "", called=True)


def _entry(name: str, value: object, before: str) -> str:
    if before:
        module, _, there = before.rpartition(".")
        return f"### {name}\n\nThe same as [`{before}`]({module}.md#{there.lower()}).\n"
    word = "class " if isinstance(value, type) else ""
    said = inspect.cleandoc(value.__doc__ or "") if word or inspect.isroutine(value) else what_of(name, value)
    if name in VALUES:
        said = f"{VALUES[name][0].upper()}{VALUES[name][1:]}."
    parts = [f"### {name}\n", f"```py\n{word}{_wrapped(written(name, value))}\n```\n", markdown(said)]
    found = members(value) if isinstance(value, type) else []
    fields = [one for one in found if not one.called and (one.promise or not _is_given(one, written(name, value)))]
    if fields:
        parts.append("".join(f"- `{one.written}`{': ' if one.promise else ''}{_line(one.promise)}\n" for one in fields))
    for one in found:
        if one.called:
            shown = f"```py\n{_wrapped(one.written)}\n```\n"
            parts += [f"#### {name}.{one.name}\n", shown, *([markdown(one.promise)] if one.promise else [])]
    return "\n".join(parts)


def _alternatives(value: object) -> Iterator[object]:
    """Yield what a value may be, if it is a union: the same on every Python."""
    if typing.get_origin(value) in (typing.Union, types.UnionType):
        for one in typing.get_args(value):
            yield from _alternatives(one)
    else:
        yield value


def _is_given(member: Member, head: str) -> bool:
    """Return whether a field is one of the constructor's parameters, which are told already."""
    return not member.called and re.search(rf"[(, ]{member.name}: ", head) is not None


def _constructor(kind: type) -> str:
    if enum.Enum in kind.__mro__:
        return ""
    try:
        signature = inspect.signature(kind)
    except (TypeError, ValueError):  # a protocol, or a class whose `__new__` is in C
        return ""
    parameters = list(signature.parameters.values())
    if not any("__init__" in vars(owner) for owner in _ours(kind)):  # a struct's types, as they are written
        hints = {
            name: text for owner in reversed(kind.__mro__) for name, text in inspect.get_annotations(owner).items()
        }
        parameters = [one.replace(annotation=hints.get(one.name, one.annotation)) for one in parameters]
    return _shown(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def _shown(signature: inspect.Signature) -> str:
    """Return the signature as it is written: types without quotes, and no default that is longer than its parameter."""
    parameters = [
        one.replace(annotation=_annotation(one.annotation), default=_default(one.default))
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=_annotation(signature.return_annotation)))


def _annotation(annotation: object) -> object:
    return annotation if annotation is inspect.Signature.empty else AsWritten(_text(annotation))


def _default(value: object) -> object:
    if value is inspect.Signature.empty or type(value) in PLAIN or value == ():
        return value
    return AsWritten(getattr(value, "__name__", "…"))


def _text(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return "None" if annotation is type(None) else annotation.__name__
    return re.sub(r"\b(?:[a-z_]+\.)+(?=\w)", "", str(annotation))


def _below_fields(kind: type) -> dict[str, str]:
    """Return the sentences that stand below the fields of a class, by the fields' names."""
    said: dict[str, str] = {}
    for statement, following in pairwise(_classes(inspect.getfile(kind))[kind.__qualname__].body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                said[name] = text
            case _:
                pass
    return said


@functools.cache
def _classes(path: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a file by their qualified names, the last one of those with the same name."""
    found: dict[str, ast.ClassDef] = {}

    def find(inside: ast.AST, prefix: str) -> None:
        for node in ast.iter_child_nodes(inside):
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = node
                find(node, f"{prefix}{node.name}.")
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                find(node, prefix)

    find(ast.parse(Path(path).read_text(encoding="utf-8")), "")
    return found


def _line(text: str) -> str:
    return " ".join(text.split())


def _wrapped(text: str) -> str:
    """Return a signature with a line for each parameter, if it is long."""
    if len(text) <= WIDTH:
        return text
    depth, made = 0, ""
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "(" and depth == 1:
            made += "(\n    "
        elif character == ")" and depth == 0:
            made += ",\n" + text[at:]
            break
        elif character == "," and depth == 1:
            made += ",\n   "
        else:
            made += character
    return made


def undocumented() -> Iterator[str]:
    """Yield each public name, and each method of a public class, that promises nothing."""
    for module, name, value, before in exports():
        if before or name in VALUES:
            continue
        if (isinstance(value, type) or inspect.isroutine(value)) and not value.__doc__:
            yield f"{module}.{name}"
        if isinstance(value, type):
            yield from (f"{module}.{name}.{one.name}" for one in members(value) if one.called and not one.promise)


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
