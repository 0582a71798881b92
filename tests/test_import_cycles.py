"""No two modules import each other, in however many steps; imports inside functions count."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph("goldless", cache_dir=None)
    order = TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    try:
        order.prepare()
    except CycleError as error:
        raise AssertionError(f"modules import each other: {' > '.join(error.args[1])}") from None
