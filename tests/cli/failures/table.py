"""The table of all failures."""

from __future__ import annotations

from typing import Final

from tests.cli.failures import command_line, of_agents, of_the_api, of_the_log, of_the_network, of_the_process
from tests.cli.failures.rows import Row

SECTIONS: Final = (
    *command_line.SECTIONS,
    *of_the_api.SECTIONS,
    *of_the_network.SECTIONS,
    *of_agents.SECTIONS,
    *of_the_log.SECTIONS,
    *of_the_process.SECTIONS,
)
ROWS: Final[tuple[Row, ...]] = tuple(row for section in SECTIONS for row in section.rows)
