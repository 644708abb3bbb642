"""Environment variables that look like settings of pubqueue but are not: most likely mistyped."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from pubqueue.model.entities import suggestion
from pubqueue_xeps.client.connection import PASSWORD, PASSWORD_FILE, SERVICES, URL
from pubqueue_xeps.sentences import QUIET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PREFIX: Final = "PUBQUEUE_"

CLIENTS: Final = frozenset({URL, SERVICES, PASSWORD, PASSWORD_FILE, QUIET})
"""The variables of workers, publishers and the commands that manage queues."""

OF_CONTAINERS: Final = re.compile(
    r"PUBQUEUE_(?:\w+_)?(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP)(?:_\w+)?)?)"
)
"""Variables that container managers set for a service whose name begins like this."""


def unread(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a sentence about each of these variables.

    If the service is not installed, its own variables are not known: then only those are reported that are similar to a
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
        from pubqueue.config.loading import ENVIRONMENT  # noqa: PLC0415  # its libraries are an extra
    except ImportError:
        of_service = frozenset[str]()
    else:
        of_service = frozenset(ENVIRONMENT)
    for name in odd:
        meant = _meant(name, sorted(CLIENTS | of_service))
        if name not in of_service and (meant or of_service):
            yield f"{name} in the environment is not a setting of pubqueue{meant}"


def _meant(name: str, known: Iterable[str]) -> str:
    """Compare the parts after the prefix, which all of them have."""
    found = suggestion(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known])
    return found.replace("mean ", f"mean {PREFIX}")
