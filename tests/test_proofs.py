"""Each module has a test that proves it, and `PROOFS.md` says which: nothing in that table is out of date."""

import pytest
from harness.documents import proofs
from harness.documents.proofs import ROOT, Proof, holds, modules, named, reached, read, table

ROWS = {row.module: row for row in table()}
BATCH = "core/test_model.py"


def test_each_module_has_a_row_and_no_row_is_of_a_module_that_is_gone():
    assert len(ROWS) == len(table())
    assert sorted(modules().keys() ^ ROWS.keys()) == [], "run .venv/bin/python -I tools/proofs"


def test_each_row_holds():
    wrong = [str(row) for row in ROWS.values() if not holds(row, ROWS)]
    assert wrong == [], "run .venv/bin/python -I tools/proofs"


def test_no_row_is_hidden_from_the_test_by_how_it_is_written():
    lines = proofs.TABLE.read_text().splitlines()
    assert len([line for line in lines if line.startswith("| `")]) == len(ROWS)


@pytest.mark.parametrize(
    "row",
    [
        Proof("pubqueue.core.gone", BATCH),
        Proof("pubqueue.core.model", "core/test_gone.py"),
        Proof("pubqueue.wiring.serving", BATCH),
        Proof("pubqueue.wiring.serving", BATCH, "pubqueue.core.model"),
        Proof("pubqueue.stores.sqlite.session", BATCH, "pubqueue.stores.sqlite.transaction"),
        Proof("pubqueue.core.model", BATCH, "pubqueue.gone"),
    ],
)
def test_a_row_that_does_not_hold_is_found(row):
    assert not holds(row, ROWS | {row.module: row})


def test_a_row_cannot_prove_itself_by_a_circle():
    one = Proof("pubqueue.stores.sqlite.session", BATCH, "pubqueue.stores.sqlite.transaction")
    other = Proof("pubqueue.stores.sqlite.transaction", BATCH, "pubqueue.stores.sqlite.store")
    assert not holds(one, {one.module: one, other.module: other})


def test_what_is_imported_for_types_alone_is_no_import(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "from pubqueue.core import model\n"
        "if TYPE_CHECKING:\n    import pubqueue.wiring\nelse:\n    import pubqueue.app\n"
        "def it():\n    import pubqueue.cli\n"
    )
    assert {"pubqueue.core.model", "pubqueue.app", "pubqueue.cli"} < read(file).names
    assert "pubqueue.wiring" not in read(file).names
    assert "pubqueue.wiring" in read(file).names_for_types


def test_what_is_imported_by_its_name_in_a_string_is_an_import():
    assert "pubqueue.testing.items" in named(ROOT / "component/pubqueue/testing/__init__.py")
    assert "pubqueue.stores.postgres.looking" in named(
        ROOT / "component/pubqueue/stores/looking.py"
    )
    assert named(ROOT / "tests" / "test_proofs.py") == set()


def test_a_test_reaches_what_its_helpers_and_its_conftest_import():
    assert "pubqueue.testing.pytest_plugin" in reached("testing/test_items.py")
    assert "pubqueue.app.facts.transactions.moving" in reached("app/test_pauses.py")
