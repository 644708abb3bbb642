"""What docs/how-to/emulator.md says, done: its files, in a folder, under pytest."""

import os
import re
import subprocess
import sys
from pathlib import Path

from harness.documents.documented import ROOT

PAGE = ROOT / "docs/how-to/emulator.md"
BLOCK = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_passes_its_own_tests(tmp_path):  # G46, G50
    text = PAGE.read_text()
    found = BLOCK.findall(text)
    assert len(found) == text.count("```python")
    for name, code in found:
        (tmp_path / name).write_text(code)
    ran = subprocess.run(
        [sys.executable, "-Im", "pytest", "-q", "-W", "error", str(tmp_path)],
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^4 passed", ran.stdout, re.MULTILINE), ran.stdout
