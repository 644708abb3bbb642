"""No module needs itself, over however many others; imports for types alone count, for a reader has to follow them too."""

import grimp
import pytest

PACKAGES = ("pubqueue", "pubqueue_xeps", "pubqueue_spark", "pyspark_pubqueue", "pubqueue_demo")


def circles(imports):
    """Return the sets of modules that need each other, of a mapping from each module to those that it imports."""
    found, numbers, lows, path = set(), {}, {}, []

    def visit(module):
        numbers[module] = lows[module] = len(numbers)
        path.append(module)
        for needed in imports.get(module, ()):
            if needed not in numbers:
                visit(needed)
            if needed in path:
                lows[module] = min(lows[module], lows[needed])
        if lows[module] == numbers[module]:
            members = frozenset(path[path.index(module) :])
            del path[path.index(module) :]
            if len(members) > 1:
                found.add(members)

    for module in imports:
        if module not in numbers:
            visit(module)
    return found


@pytest.mark.parametrize(
    ("imports", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, set()),
        ({"a": {"b"}, "b": {"a"}}, {frozenset("ab")}),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}, {frozenset("abc")}),
        ({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}, {frozenset("ab"), frozenset("cd")}),
        ({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}, set()),
    ],
)
def test_circles_are_found(imports, found):
    assert circles(imports) == found


def test_no_module_needs_itself():
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 400
    assert "pubqueue_xeps.item" in imports["pubqueue_xeps.worker.held_items"]  # a type
    assert sorted(map(sorted, circles(imports))) == []
