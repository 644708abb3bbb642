"""`tools/imports` finds names that are not there; `make check` runs it over everything."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def read(*files):
    """Return the exit code of the tool and what it prints."""
    command = [sys.executable, "-I", ROOT / "tools" / "imports", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


# FROM, so that no sample is a program in a string of this file
HEAD = """FROM enum import StrEnum
FROM harness import patience
FROM pubqueue.engine import batch, broker
FROM pubqueue.engine.batch import Committer
FROM pubqueue.model.entities import AccessModel, Principal
FROM pubqueue.stores.sql.transaction import SqlTransaction
FROM harness.imports import Source
import pytest, sqlite3
"""
FOUND = {
    "FROM harness.patience import until, LOOK": "",
    "FROM harness.patience import until, GONE": "harness.patience has no GONE",
    "FROM harness.GONE import until": "there is no module harness.GONE",
    "patience.until": "",
    "patience.GONE": "harness.patience has no GONE",
    "def f(patience):\n    patience.GONE": "",
    "FROM pubqueue import Worker": "",
    "FROM pubqueue.model.entities import Jid, GONE": "pubqueue.model.entities has no GONE",
    "import pubqueue.GONE": "there is no module pubqueue.GONE",
    "FROM packaging.requirements import Requirement": "",
    "FROM sqlite3 import GONE": "",
    '"""\nFROM harness import patience, GONE\n"""': "harness has no GONE",
    # a module, a class, what a class inherits and what it is given in a method
    "setattr(batch, 'hand_out', 1)": "",
    "setattr(batch, 'GONE', 1)": "pubqueue.engine.batch has no GONE",
    "def f(m): m.setattr(Committer, 'work_in', 1)": "",
    "def f(m): m.setattr(Committer, 'GONE', 1)": "pubqueue.engine.batch.Committer has no GONE",
    "Committer.GONE = 1": "pubqueue.engine.batch.Committer has no GONE",
    "setattr(batch.Committer, 'GONE', 1)": "pubqueue.engine.batch.Committer has no GONE",
    "with patch.object(SqlTransaction, 'GONE'): ...": "pubqueue.stores.sql.transaction.SqlTransaction has no GONE",
    "getattr(Principal, 'jid')": "",
    "getattr(Principal, 'GONE')": "pubqueue.model.entities.Principal has no GONE",
    "getattr(Principal, 'GONE', None)": "",
    "class Mine(SqlTransaction): ...\ngetattr(Mine, 'write')": "",
    "class Mine(SqlTransaction): ...\ngetattr(Mine, 'GONE')": "Mine has no GONE",
    "class Mine(StrEnum):\n    A = 'a'\nMine.A.value, Mine.GONE": "Mine has no GONE",
    "class Mine(sqlite3.Row): ...\nMine.keys, Mine.GONE": "Mine has no GONE",
    "class Mine(pytest.Item): ...\nMine.GONE": "",
    "AccessModel.OPEN": "",
    "AccessModel.GONE": "pubqueue.model.entities.AccessModel has no GONE",
    "def f():\n    source = Source()\n    source.names, source.GONE": "harness.imports.Source has no GONE",
    "def f():\n    source = Source()\n    source.GONE = 1\n    source.GONE": "",
    "def f():\n    source = Source()\n    source = other()\n    source.GONE": "",
    # what has the same name in a function is another thing
    "def f(batch): setattr(batch, 'GONE', 1)": "",
    "def f():\n    for batch in g(): batch.GONE": "",
    "def f(): return lambda batch: batch.GONE": "",
    # tables, loops, and functions that give a name on
    """
@pytest.mark.parametrize(('of', 'name'), [(Committer, 'work_in'), (batch, 'GONE')])
def f(of, name): setattr(of, name, 1)
""": "pubqueue.engine.batch has no GONE",
    """
for of in (batch, broker): setattr(of, 'hand_out', 1)
""": "pubqueue.engine.broker has no hand_out",
    """
for of, names in ((batch, ('hand_out', 'FAILED')), (Committer, ('work_in', 'GONE'))):
    for name in names: setattr(of, name, 1)
""": "pubqueue.engine.batch.Committer has no GONE",
    """
def watch(place, name, after): original = getattr(place, name)
POINTS = {'x': lambda doom: watch(batch.Batch, 'GONE', doom)}
""": "pubqueue.engine.batch.Batch has no GONE",
    "def watch(place, name): print(place)\nwatch(batch.Batch, 'x')": "",
    # names in full
    "setattr('pubqueue.engine.batch.FAILED', 1)": "",
    "setattr('pubqueue.engine.batch.GONE', 1)": "pubqueue.engine.batch has no GONE",
    "setattr('pubqueue.engine.GONE.FAILED', 1)": "pubqueue.engine has no GONE",
    "setattr('shutil.which', 1)": "",
    "'pubqueue.engine.batch:Committer.work_in'": "",
    "'pubqueue.engine.batch:Committer.GONE'": "pubqueue.engine.batch.Committer has no GONE",
    "'pubqueue.engine.GONE:Committer'": "there is no module pubqueue.engine.GONE",
    "import_module('pubqueue.engine.batch')": "",
    "f'pubqueue.engine.GONE.{1}'": "",
}
"""What is wrong in each sample; nothing but that is found."""


def test_it_finds_what_is_wrong(tmp_path):
    samples = {tmp_path / f"{n}.py": line for n, line in enumerate(FOUND)}
    for path, line in samples.items():
        path.write_text((HEAD + line).replace("FROM", "from").replace("GONE", "gone"))
    code, said = read(*samples)
    found = dict.fromkeys(FOUND, "")
    for one in said.splitlines():
        path, _, words = one.split(":", 2)
        line = samples[Path(path)]
        found[line] += words.strip().removeprefix(f"{path}.").replace("gone", "GONE")
    assert (code, found) == (1, FOUND)


def test_it_reads_scripts_of_the_shell(tmp_path):
    sample = tmp_path / "sample"
    sample.write_text(
        "#!/bin/sh\npython -c '\nFROM harness import gone\n'\n".replace("FROM", "from")
    )
    assert read(sample) == (1, f"{sample}:3: harness has no gone\n")
