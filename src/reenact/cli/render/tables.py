"""Draws complete Markdown tables; a table that is too large or too wide is shown as it was written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from rich.console import Console as Screen

from reenact.cli.render.flow import Pens
from reenact.cli.render.incremental_inline import markdown, runs

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.table import Table
    from rich.text import Text


_MOST_ROWS = 500
_MOST_CHARACTERS = 100_000
_NARROWEST = 6
"""Minimum width of a table's column in terminal columns, including its border."""
_FEW = 100
"""Tables with fewer rows than this get lines between the rows if a cell is folded."""
_DELIMITERS = re.compile(r"\|[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_BORDER = re.compile(r"(?<!\\)\|")


class Rows:
    """Collects the rows of what may become a table."""

    _count = 1
    is_table = False
    """Whether the second row is a delimiter row of dashes."""

    def __init__(self, row: str) -> None:
        self._rows = [row]
        self._size = len(row)

    def may_take(self, row: str) -> bool:
        """Return whether the row continues the table, which is held back until it is complete."""
        if self._count == 1:
            self.is_table = _DELIMITERS.fullmatch(row) is not None
        return self.is_table and self._count < _MOST_ROWS and self._size + len(row) < _MOST_CHARACTERS

    def add(self, row: str) -> None:
        """Add another row."""
        self._rows.append(row)
        self._count += 1
        self._size += len(row)

    def pop_all(self) -> list[str]:
        """Remove the rows and return them."""
        rows, self._rows = self._rows, []
        return rows

    def drawn(self, screen: Screen, pens: Pens, width: int) -> list[str] | None:
        """Return the table as lines of at most `width` columns; None if the rows are no table or do not fit."""
        if not self.is_table or not self._rows:
            return None
        cells = [_cells_in(row) for row in self._rows]
        if cells[0] != cells[1] or max(cells) * _NARROWEST >= width:
            return None
        missing = max(cells) - cells[0]  # markdown-it drops columns that have no head
        head, delimiters, *rows = self._rows
        head, delimiters = _closed(head) + " |" * missing, _closed(delimiters) + "-|" * missing
        table = _table(markdown().parse("\n".join((head, delimiters, *rows))))
        if table is None:
            return None
        options = screen.options.update(width=width, height=None)
        lines = screen.render_lines(table, options, pad=False)
        if table.row_count < _FEW and len(lines) > table.row_count + len("┌├└") + 1:
            table.show_lines = True
            lines = screen.render_lines(table, options, pad=False)
        drawn: list[str] = []
        for line in lines:
            parts = [(pens.of(segment.style), segment.text) for segment in line]
            drawn.append("".join(f"{before}{text}{after}" for (before, after), text in parts))
        return drawn


def _cells_in(row: str) -> int:
    return len(_BORDER.findall(_closed(row))) - 1


def _closed(row: str) -> str:
    """Return the row with its final border, which Markdown allows to omit."""
    row = row.strip()
    return row if _BORDER.search(row, max(len(row) - 1, 1)) else f"{row}|"


def _table(tokens: list[Token]) -> Table | None:
    """Return the parsed table, or None if the tokens do not begin with one."""
    from rich.box import ROUNDED  # noqa: PLC0415 - tables are slow to import and rarely needed
    from rich.table import Table  # noqa: PLC0415

    if not tokens or tokens[0].type != "table_open":
        return None
    table = Table(box=ROUNDED, border_style="dim")
    row: list[Text] = []
    for place, token in enumerate(tokens):
        match token.type:
            case "th_open":
                cell = tokens[place + 1]
                table.add_column(_text(cell, "bold"), overflow="fold", justify=_justify(token))
            case "td_open":
                row.append(_text(tokens[place + 1], ""))
            case "tr_close" if row:
                table.add_row(*row)
                row = []
            case _:
                pass
    return table


def _text(cell: Token, style: str) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text.assemble(*((text, shown.strip()) for text, shown in runs(cell.children or (), style)))


def _justify(cell: Token) -> Literal["left", "center", "right"]:
    match cell.attrs.get("style"):
        case "text-align:right":
            return "right"
        case "text-align:center":
            return "center"
        case _:
            return "left"
