"""The tables of failures on the page about exit codes, made from the rows that tests show."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from reenact.cli.output import failures
from reenact.cli.output.failures import ExitCode, code_of_kind
from reenact.domain import errors
from reenact.domain.errors import ReenactError
from reenact.projections import errors as errors_of_projections
from tests.cli.failures.rows import Row, Said
from tests.cli.failures.table import SECTIONS

BEGIN: Final = "<!-- failures -->\n"
END: Final = "<!-- /failures -->\n"
_MODULES: Final = (errors, errors_of_projections, failures)


def with_failures(page: str) -> str:
    """Return the page with the tables as they ought to be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}{END}{after}"


def tables() -> str:
    """Return the table of all failures, by sections, and that of all types."""
    return "".join(
        (
            "\n## What happens, and how it ends\n\n",
            "`…` stands for text that varies; alone, for the text of the API. `type` is that of `error` in JSON; ",
            "standard output is that of `text`. A hint is on the line below the error.\n",
            *(f"\n### {section.heading}\n\n{_table(_HEAD, map(_row, section.rows))}" for section in SECTIONS),
            "\n## All types\n\n",
            "Of the API, or of the way to it:\n\n",
            _table(("code", "types"), _of_turns()),
            "\nOf Reenact:\n\n",
            _table(("type", "code", ""), _of_errors()),
            "\n",
        )
    )


OF_THE_COMMAND: Final = {
    failures.UNEXPECTED: (ExitCode.UNEXPECTED, "Nobody has thought of this: a mistake in the program."),
    "interrupted": (ExitCode.INTERRUPTED, "It was Ctrl+C."),
    "invalid_arguments": (ExitCode.USAGE, "The command line is not valid; see `--help`."),
    "refused_by_hook": (ExitCode.USAGE, "A hook refuses the prompt."),
    "terminated": (ExitCode.TERMINATED, "The process was asked to end."),
    "timeout": (ExitCode.TIMEOUT, "There was no whole answer within `--timeout`."),
    failures.AGENT_FAILED: (
        ExitCode.UNEXPECTED,
        "An agent that was asked by name has no whole answer. If it failed, `type` and code are those of its failure.",
    ),
    "untrusted_command": (ExitCode.USAGE, "A command of a project that nobody has trusted."),
    "unapproved_tool_calls": (ExitCode.USAGE, "The model asked on and on for calls that nobody is there to approve."),
}
"""Types that are those of no exception of ours."""
_HEAD: Final = ("what happens", "code", "`type`", "standard output", "standard error")


def _row(row: Row) -> tuple[str, ...]:
    code = f"{row.code}" if row.code >= 0 else f"{128 - row.code}"
    return (
        row.what,
        code,
        f"`{row.type}`" if row.type else "",
        _code(row.out.strip()),
        "<br>".join(_told(row.says)),
    )


def _told(says: Iterable[Said]) -> Iterator[str]:
    """Yield what is said; what is said several times in a row, once."""
    for said, times in groupby(says):
        yield _said(said) + (f" ({count} times)" if (count := len(list(times))) > 1 else "")


def _said(said: Said) -> str:
    return _code(said.message) + ("" if said.hint is None else f"<br>_{_cell(said.hint)}_")


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{fence}{space}{_cell(text)}{space}{fence}" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _of_turns() -> Iterator[tuple[str, ...]]:
    for code in (ExitCode.USAGE, ExitCode.AUTHENTICATION, ExitCode.NETWORK):
        names = sorted(name for name, of_name in failures.OF_TURNS.items() if of_name is code)
        yield str(int(code)), ", ".join(f"`{name}`" for name in names)
    yield "1", "`driver_error`: a mistake in what talks to the API"
    yield "1", "any other, in the middle of an answer: what an API says that nobody knows"


def _of_errors() -> Iterator[tuple[str, ...]]:
    kinds = {kind.code: kind for kind in reversed(list(_kinds(ReenactError)))}
    named = {name: (code_of_kind(kind), _promise(kind)) for name, kind in kinds.items()}
    for name, (code, promise) in sorted((named | OF_THE_COMMAND).items()):
        yield f"`{name}`", str(int(code)), _cell(promise)


def types() -> frozenset[str]:
    """Return all types that the page names."""
    return frozenset(kind.code for kind in _kinds(ReenactError)) | OF_THE_COMMAND.keys() | failures.OF_TURNS.keys()


def _kinds(kind: type[ReenactError]) -> Iterator[type[ReenactError]]:
    yield kind
    for special in kind.__subclasses__():
        if any(special.__module__ == module.__name__ for module in _MODULES):
            yield from _kinds(special)


def _promise(kind: type[ReenactError]) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
