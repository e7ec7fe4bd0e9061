"""The text of the read model's tables and statements. `python -m tests.projections.compiled` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent, wrap

from sqlalchemy import ClauseElement, Insert, Select, Update
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.compiler import SQLCompiler

from reenact.projections.read_model import tables as statements
from reenact.projections.read_model.tables import METADATA, OWN, VERSION

FILE = Path(__file__).resolve().parent.parent.parent / "projections" / "read_model" / "compiled.py"
HEAD = '''"""The read model's tables and statements as SQLite's text: made ahead, so that nobody waits for SQLAlchemy.

Made from `tables`; `python -m tests.projections.compiled` writes it anew.
"""

from __future__ import annotations

'''
TABLES = sorted((*METADATA.sorted_tables, *OWN.sorted_tables), key=lambda table: table.name)
STATEMENTS = (Select, Insert, Update)
DIALECT = SQLiteDialect_pysqlite(paramstyle="qmark")
NAMED = SQLiteDialect_pysqlite(paramstyle="named")


def main() -> None:
    """Write the module."""
    FILE.write_text(compiled())


def compiled() -> str:
    """Return the module as it ought to be."""
    tables = "".join(f"{indent(_text(str(part.compile(dialect=DIALECT))), '    ')},\n" for part in parts())
    return "".join([HEAD, f"VERSION = {VERSION}\nTABLES = (\n{tables})\n", *_statements()])


def parts() -> Iterator[ClauseElement]:
    """Yield what makes the tables and their indices."""
    for table in TABLES:
        yield CreateTable(table)
        yield from map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name)))


def _statements() -> Iterator[str]:
    for name, value in vars(statements).items():
        if name == "NEWEST_SESSIONS":
            several = statements.NEWEST_SESSIONS.items()
            entries = "".join(f"{indent(f'{_key(key)}: {_statement(one)}', '    ')},\n" for key, one in several)
            yield f"{name}: dict[tuple[str, bool | None], str] = {{\n{entries}}}\n"
        elif name == "FORGET":
            entries = "".join(f"{indent(_statement(one), '    ')},\n" for one in statements.FORGET)
            yield f"{name} = (\n{entries})\n"
        elif isinstance(value, STATEMENTS) and name.isupper():
            yield f"{name} = {_statement(value)}\n"  # pyright: ignore[reportUnknownArgumentType]  # of any kind


def _key(key: tuple[str, bool | None]) -> str:
    return f'("{key[0]}", {key[1]})'


def _statement(statement: ClauseElement) -> str:
    """Return the text, with the values that it always has; the others have names, or places if they have no own one."""
    made = statement.compile(dialect=NAMED)
    assert isinstance(made, SQLCompiler)
    given = [bind for bind in made.binds.values() if bind.value is None]
    if not isinstance(statement, Select) or any(bind.unique for bind in given):
        return _text(str(statement.compile(dialect=DIALECT)))
    fixed = {name: bind.value for name, bind in made.binds.items() if bind.value is not None}
    return _text(re.sub(r":(\w+)", lambda found: str(fixed.get(found[1], found[0])), str(made)))


def _text(sql: str) -> str:
    # SQLite begins a CROSS JOIN with what stands first; since 3.53 it would begin with all calls and sort none.
    sql = sql.replace("\nFROM lineage JOIN", "\nFROM lineage CROSS JOIN")
    lines = wrap(" ".join(sql.split()), 100, break_long_words=False, break_on_hyphens=False)
    return (
        f'"{lines[0]}"'
        if len(lines) == 1 and len(lines[0]) <= 88
        else '"""\n' + indent("\n".join(lines), "    ") + '\n"""'
    )


if __name__ == "__main__":
    main()
