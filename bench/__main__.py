"""`python -m bench [GROUP …] [--rounds N] [--quick] [--only NAME]`: run the workloads and print a table for each group.

Both sides of a workload run in turns, in this one run; what is printed are the medians over the rounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench import (
    auditing,
    branching,
    cli,
    cores,
    delivery,
    encrypting,
    figures,
    gil,
    guarding,
    handling,
    imports,
    inspecting,
    journal,
    kernel,
    nodes,
    postgresql,
    projecting,
    promises,
    prose,
    rebuilding,
    replay,
    report,
    scale,
    scheduling,
    terminal,
    tooling,
)
from bench.measure import Result, Workload, run
from bench.product import Figure, Sync, at_once, cold_start, creation, one_session, workload
from bench.product import replay as replay_turns

ROUNDS: Final = 3


def workloads(*, quick: bool) -> dict[str, tuple[Sync, str, Figure]]:
    """Return what is measured of the product, by name."""
    scale = 10 if quick else 1
    return {
        "one session, 200 turns, FULL": ("FULL", "turns/s", one_session(200 // scale)),
        "one session, 200 turns, NORMAL": ("NORMAL", "turns/s", one_session(200 // scale)),
        "one session, 2,000 turns, FULL": ("FULL", "turns/s", one_session(2000 // scale)),
        "one session, 2,000 turns, NORMAL": ("NORMAL", "turns/s", one_session(2000 // scale)),
        "100 sessions at once, FULL": ("FULL", "turns/s", at_once(100, 50 // scale)),
        "100 sessions at once, NORMAL": ("NORMAL", "turns/s", at_once(100, 50 // scale)),
        "create 10,000 sessions, FULL": ("FULL", "sessions/s", creation(10_000 // scale)),
        "cold start on 2,000 turns": ("NORMAL", "1/s", cold_start(2000 // scale)),
        "replay of 2,000 turns": ("NORMAL", "rows/s", replay_turns(2000 // scale)),
    }


def product(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of the product."""
    turns = [workload(name, *what) for name, what in workloads(quick=quick).items()]
    return [*turns, *scheduling.workloads(quick=quick)]


def audit(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of the log as evidence."""
    return [*auditing.workloads(quick=quick), *branching.workloads(quick=quick)]


GROUPS: Final[dict[str, Callable[..., Sequence[Workload]]]] = {
    "product": product,
    "promises": promises.workloads,
    "tools": tooling.workloads,
    "guards": guarding.workloads,
    "handlers": handling.workloads,
    "encryption": encrypting.workloads,
    "cores": cores.workloads,
    "kernel": kernel.workloads,
    "journal": journal.workloads,
    "postgresql": postgresql.workloads,
    "replay": replay.workloads,
    "projections": projecting.workloads,
    "rebuilding": rebuilding.workloads,
    "audit": audit,
    "scale": scale.workloads,
    "statistics": figures.workloads,
    "delivery": delivery.workloads,
    "nodes": nodes.workloads,
    "cli": cli.workloads,
    "prose": prose.workloads,
    "imports": imports.workloads,
    "gil": gil.workloads,
    "terminal": terminal.workloads,
    "inspector": inspecting.workloads,
}

ONCE: Final = frozenset({"scale", "statistics"})
"""Groups that run one round unless told otherwise: a round takes minutes."""


def main() -> None:
    """Run the groups."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"some of {', '.join(GROUPS)}; by default all")
    parser.add_argument(
        "--rounds", type=int, default=None, help=f"by default {ROUNDS}, for {' and '.join(sorted(ONCE))} 1"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--dir", default=None, help="where the files go; by default the directory for temporary files")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables between the marks of their groups")
    given = parser.parse_args()
    unknown = sorted(set(given.groups) - GROUPS.keys())
    if unknown:
        parser.error(f"there is no group {unknown[0]!r}; there are {', '.join(GROUPS)}")
    for group in given.groups or GROUPS:
        chosen = [one for one in GROUPS[group](quick=given.quick) if any(given.only in line.name for line in one.lines)]
        if not chosen:
            continue
        rounds = given.rounds or (1 if group in ONCE else ROUNDS)
        results = show(group, chosen, rounds, given.dir, as_markdown=given.markdown)
        if given.write is not None and not report.write_into(given.write, group, report.markdown(results)):
            print(f"{given.write} has no place for the group {group}", file=sys.stderr)


def show(
    group: str, chosen: Sequence[Workload], rounds: int, directory: str | None, *, as_markdown: bool
) -> list[Result]:
    """Run the workloads and print their lines: each when it is known, or all in the end."""
    results: list[Result] = []
    if not as_markdown:
        print(f"\n{group}\n{report.head()}", flush=True)
    for one in chosen:
        for result in run(one, rounds, directory):
            results.append(result)
            if not as_markdown:
                print(report.row(result), flush=True)
    if as_markdown:
        print(f"### {group}\n\n{report.markdown(results)}", flush=True)
    return results


if __name__ == "__main__":
    main()
