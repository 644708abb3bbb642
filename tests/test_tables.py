import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_shows_the_tables_of_the_rules():
    done = subprocess.run([sys.executable, "-I", ROOT / "tools" / "tables", "--check"], check=False)
    assert done.returncode == 0, "run .venv/bin/python -I tools/tables"


def test_the_reference_is_written_from_the_code():
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "tools" / "reference", "--check"], check=False
    )
    assert done.returncode == 0, "run .venv/bin/python -I tools/reference"


def test_the_index_names_every_decision():
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "tools" / "decisions", "--check"], check=False
    )
    assert done.returncode == 0, "run .venv/bin/python -I tools/decisions"
