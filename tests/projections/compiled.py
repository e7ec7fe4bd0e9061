"""The text of the read model's tables and statements. `python -m tests.projections.compiled` writes it anew."""

from __future__ import annotations

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

from reenact.projections.statements import Statement

'''
Kinds: TypeAlias = tuple[type[ClauseElement], ...]
ASKING: Kinds = (Select,)
MOVING: Kinds = (Select, Insert, Update)
DIALECT = SQLiteDialect_pysqlite(paramstyle="qmark")


def main() -> None:
    """Write the module."""
    FILE.write_text(compiled())


def compiled() -> str:
    """Return the module as it ought to be."""
    tables = "".join(f"{indent(_text(str(part.compile(dialect=DIALECT))), '    ')},\n" for part in parts())
    moving = [f"{name}: Final = {_text(_sql(clause)[0])}\n" for name, clause in _clauses(vars(writes), MOVING)]
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
            yield f"{name}: Final[dict[tuple[bool, bool | None], Statement]] = {{\n{entries}}}\n"
        for _, clause in _clauses({name: value}, ASKING):
            yield f"{name}: Final = {_statement(clause)}\n"


def _clauses(members: Mapping[str, object], kinds: Kinds) -> Iterator[tuple[str, ClauseElement]]:
    """Yield the statements of a module with their names."""
    for name, member in members.items():
        if isinstance(member, kinds) and name.isupper():
            yield name, member


def _statement(question: ClauseElement) -> str:
    sql, names = _sql(question)
    listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
    more = f",\n    ({listed})," if names else ""
    return f"Statement(\n{indent(_text(sql), '    ')}{more}\n)"


def _sql(clause: ClauseElement) -> tuple[str, tuple[str, ...]]:
    """Return the text, with the values that it always has, and the names of its parameters in order."""
    made = clause.compile(dialect=DIALECT)
    assert isinstance(made, SQLCompiler)
    first, *rest = str(made).split("?")
    names = made.positiontup or []
    fixed = [made.params[name] if made.binds[name].value is not None else None for name in names]
    text = first + "".join(
        f"{'?' if value is None else value}{piece}" for value, piece in zip(fixed, rest, strict=True)
    )
    return text, tuple(name for name, value in zip(names, fixed, strict=True) if value is None)


def _text(sql: str) -> str:
    lines = wrap(" ".join(sql.split()), 100, break_long_words=False, break_on_hyphens=False)
    return f'"{lines[0]}"' if len(lines) == 1 else '"""\n' + indent("\n".join(lines), "    ") + '\n"""'


if __name__ == "__main__":
    main()
