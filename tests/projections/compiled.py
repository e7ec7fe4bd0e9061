"""The text of the read model's tables and statements. `python -m tests.projections.compiled` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent, wrap
from typing import TypeAlias

from sqlalchemy import ClauseElement, Insert, Select, Update
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.compiler import SQLCompiler

from reenact.projections import questions, writes
from reenact.projections.tables import METADATA, VERSION

FILE = Path(__file__).resolve().parent.parent.parent / "projections" / "compiled.py"
HEAD = '''"""The read model's tables and statements as SQLite's text: made ahead, so that nobody waits for SQLAlchemy.

Made from `tables`, `questions` and `writes`; `python -m tests.projections.compiled` writes it anew.
"""

from __future__ import annotations

from typing import Final

'''
Kinds: TypeAlias = tuple[type[ClauseElement], ...]
ASKING: Kinds = (Select,)
MOVING: Kinds = (Select, Insert, Update)
DIALECT = SQLiteDialect_pysqlite(paramstyle="qmark")
NAMED = SQLiteDialect_pysqlite(paramstyle="named")


def main() -> None:
    """Write the module."""
    FILE.write_text(compiled())


def compiled() -> str:
    """Return the module as it ought to be."""
    tables = "".join(f"{indent(_text(str(part.compile(dialect=DIALECT))), '    ')},\n" for part in parts())
    moving = [
        f"{name}: Final = {_text(str(clause.compile(dialect=DIALECT)))}\n"
        for name, clause in _clauses(vars(writes), MOVING)
    ]
    return "".join([HEAD, f"VERSION: Final = {VERSION}\nTABLES: Final = (\n{tables})\n", *_questions(), *moving])


def parts() -> Iterator[ClauseElement]:
    """Yield what makes the tables and their indices."""
    for table in METADATA.sorted_tables:
        yield CreateTable(table)
        yield from map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name)))


def _questions() -> Iterator[str]:
    for name, value in vars(questions).items():
        if name == "NEWEST_SESSIONS":
            several = questions.NEWEST_SESSIONS.items()
            entries = "".join(f"{indent(f'{key}: {_statement(one)}', '    ')},\n" for key, one in several)
            yield f"{name}: Final[dict[tuple[bool, bool | None], str]] = {{\n{entries}}}\n"
        for _, clause in _clauses({name: value}, ASKING):
            yield f"{name}: Final = {_statement(clause)}\n"


def _clauses(members: Mapping[str, object], kinds: Kinds) -> Iterator[tuple[str, ClauseElement]]:
    """Yield the statements of a module with their names."""
    for name, member in members.items():
        if isinstance(member, kinds) and name.isupper():
            yield name, member


def _statement(question: ClauseElement) -> str:
    """Return the text, with the values that it always has, and names for the others."""
    made = question.compile(dialect=NAMED)
    assert isinstance(made, SQLCompiler)
    fixed = {name: bind.value for name, bind in made.binds.items() if bind.value is not None}
    return _text(re.sub(r":(\w+)", lambda found: str(fixed.get(found[1], found[0])), str(made)))


def _text(sql: str) -> str:
    lines = wrap(" ".join(sql.split()), 100, break_long_words=False, break_on_hyphens=False)
    return (
        f'"{lines[0]}"'
        if len(lines) == 1 and len(lines[0]) <= 88
        else '"""\n' + indent("\n".join(lines), "    ") + '\n"""'
    )


if __name__ == "__main__":
    main()
