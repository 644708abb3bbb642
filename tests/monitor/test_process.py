"""Without an address of HTTP nothing is monitored."""

import subprocess
import sys

from harness.patience import TIMEOUT


def test_a_service_without_http_imports_no_library_of_http():
    look = "import sys, pubqueue.cli.service; print(*({'aiohttp', 'prometheus_client', 'multidict'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-Ic", look], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert done.stdout.split() == []
