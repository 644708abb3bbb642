"""Variables of the environment that look like ours and that nobody reads: mistyped, most likely."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from pubqueue.core.suggestion import suggestion
from pubqueue_xeps.client.connection import PASSWORD, PASSWORD_FILE, URL
from pubqueue_xeps.worker.status import QUIET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PREFIX: Final = "PUBQUEUE_"

CLIENTS: Final = frozenset({URL, PASSWORD, PASSWORD_FILE, QUIET})
"""What workers, publishers and the commands that run queues read."""

OF_CONTAINERS: Final = re.compile(
    r"PUBQUEUE_(?:\w+_)?(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP)(?:_\w+)?)?)"
)
"""What container managers set on their own account for a service whose name begins so."""


def unread(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a sentence about each of these variables.

    Where the service is not installed, nobody knows what it reads: then those alone are reported that are like a
    variable of clients.
    """
    odd = sorted(
        name
        for name in environment
        if name.startswith(PREFIX) and name not in CLIENTS and not OF_CONTAINERS.fullmatch(name)
    )
    if not odd:
        return
    try:
        from pubqueue.config.settings import ENVIRONMENT  # noqa: PLC0415  # its libraries are an extra
    except ImportError:
        of_service = frozenset[str]()
    else:
        of_service = frozenset(ENVIRONMENT)
    for name in odd:
        meant = _meant(name, sorted(CLIENTS | of_service))
        if name not in of_service and (meant or of_service):
            yield f"{name} in the environment is no setting of pubqueue{meant}"


def _meant(name: str, known: Iterable[str]) -> str:
    """Compare what is behind the prefix, which all of them have."""
    found = suggestion(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known])
    return found.replace("mean ", f"mean {PREFIX}")
