"""No module imports itself by way of others, also not inside a function or for type checkers alone.

A contract of import-linter says more, of folders; here each module counts.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("reenact")

    assert circle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) is None


def test_a_circle_is_named() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "b"), ("b", "c"), ("c", "b")):
        graph.add_import(importer=importer, imported=imported)

    found = circle({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})

    assert found in (["b", "c", "b"], ["c", "b", "c"])


def circle(imports: dict[str, set[str]]) -> list[str] | None:
    """Return modules of which each imports the next, from one to the same again, if there are any."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return None
