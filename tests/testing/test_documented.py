"""What docs/how-to/test-your-handlers.md says, done: its files, in a folder, under pytest."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/how-to/test-your-handlers.md"
BLOCK = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_passes_its_own_tests(tmp_path):
    text = PAGE.read_text()
    found = BLOCK.findall(text)
    assert len(found) == text.count("```python")
    for name, code in found:
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    ran = subprocess.run(
        [sys.executable, "-Im", "pytest", "-q", str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^9 passed", ran.stdout, re.MULTILINE), ran.stdout
