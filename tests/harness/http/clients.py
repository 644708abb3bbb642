"""What clients of HTTP have in common in tests."""

from __future__ import annotations

import ssl
from typing import Any, Final

from harness.patience import TIMEOUT

PLAIN: Final[dict[str, Any]] = {
    "timeout": TIMEOUT,
    "trust_env": False,
    "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
}
"""Settings of an httpx client that trusts no authority: to read those of the system takes 50 ms of each client."""
