"""Every module is reached by a test; and the points where it is easy to be wrong about what imports what."""

from harness import imports
from harness.imports import TESTS, by_tests, file, imported, importing, modules, parsed, reached


def names(paths):
    return {imports.dotted(path) for path in paths}


def test_a_test_reaches_each_module():
    found = reached(*imports.tests())
    assert sorted(name for name, path in modules().items() if path not in found) == []


def test_what_is_imported_for_types_alone_is_no_import():
    source = parsed(
        "from typing import TYPE_CHECKING\n"
        "from pubqueue.model import entities\n"
        "if TYPE_CHECKING:\n    import pubqueue.wiring\nelse:\n    import pubqueue.engine\n"
        "def it():\n    import pubqueue.cli\n"
    )
    assert {"pubqueue.model.entities", "pubqueue.engine", "pubqueue.cli"} < set(source.names)
    assert source.for_types == ["pubqueue.wiring"]


def test_what_is_imported_for_nothing_but_types_is_reached_by_them():
    request, client = file("pubqueue_spark.client.request"), file("pubqueue_spark.client.ask")
    assert request not in imported(client)
    assert request in imports.used(client)


def test_what_is_imported_by_its_name_in_a_string_is_an_import():
    assert "pubqueue.testing.items" in names(imported(file("pubqueue.testing")))
    assert "pubqueue.stores.postgres.read_only" in names(imported(file("pubqueue.stores")))
    assert "pubqueue.wiring.faces" in names(imported(TESTS / "faces" / "test_toy_face.py"))


def test_the_name_of_a_package_alone_is_a_word_like_others():
    """Else each test with a table of the name would come to the whole library."""
    assert "pubqueue" not in names(imported(TESTS / "harness" / "imports.py"))


def test_a_test_reaches_what_its_helpers_and_its_conftest_import():
    assert "pubqueue.testing.pytest_plugin" in names(by_tests(TESTS / "testing/test_items.py"))
    assert "pubqueue.engine.facts.transactions" in names(by_tests(TESTS / "engine/test_pauses.py"))


def test_a_fixture_imports_for_those_who_ask_for_it():
    postgres = file("harness.databases.postgres")
    assert postgres in by_tests(TESTS / "stores" / "test_postgres_hanging.py")
    assert postgres not in reached(TESTS / "model" / "test_entities.py")
    source = parsed("def server():\n    import it\n\ndef store(server): ...\n", fixtures=True)
    assert (source.names, source.in_fixtures) == ([], {"server": ["it"], "store": ["server"]})


def test_a_change_is_found_by_who_imports_it_and_by_who_comes_to_it():
    here, test, of_it = (
        TESTS / "test_reached.py",
        TESTS / "rules" / "test_publish.py",
        "pubqueue.rules.publish",
    )
    assert here in importing([file("harness.imports")])
    assert here in importing([here])
    assert test in importing([file(of_it)])
    assert test not in importing([file("pubqueue.rules.publish_keys")])
    assert test in imports.reaching([file("pubqueue.rules.publish_keys")])


def test_what_was_read_before_is_read_again_after_a_change(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(imports, "remembered", imports.remembered.__wrapped__)
    read = imports.read.__wrapped__
    sample = tmp_path / "sample.py"
    sample.write_text("import one\n")
    assert read(sample) == read(sample)
    assert len(imports.CACHE.read_text().splitlines()) == 1
    sample.write_text("import another\n")
    assert read(sample).names == ["another"]
    sample.rename(sample.with_name("conftest.py"))
    assert len(imports.CACHE.read_text().splitlines()) == 2
