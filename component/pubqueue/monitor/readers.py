"""Who reads metrics, and the names of which nodes it sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import Metric

from pubqueue.accounts.accounts import Proven
from pubqueue.faces.checks import is_trusted
from pubqueue.faces.http.host import client

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from aiohttp import web

    from pubqueue.monitor.api.service import Callers

CLOSED: Final = "(closed)"
"""The label of all nodes together whose names a reader does not see."""

BY_PROXIES: Final = ("Forwarded", "X-Forwarded-For", "Via")
"""Fields of a request that a proxy has passed on."""


class Readers:
    """Decides who sees the names of all nodes: programs on this machine, and users with a role. Others see those of open nodes."""

    def __init__(self, callers: Callers | None) -> None:
        self._callers = callers

    async def see_all(self, request: web.Request) -> bool | web.Response:
        """Return whether the sender sees all names; or the response, if it has credentials that are not those of a user."""
        if self._callers is None or "Authorization" not in request.headers:
            return is_here(request)
        proven = await self._callers.prove(request)
        return self._callers.has_role(proven) if isinstance(proven, Proven) else proven


def is_here(request: web.Request) -> bool:
    """Return whether a program on this machine has sent the request, and no proxy has passed it on."""
    return is_trusted(client()) and not any(name in request.headers for name in BY_PROXIES)


def with_names_of(families: Iterable[Metric], names: Container[str]) -> Iterator[Metric]:
    """Yield the families with these names of nodes alone. The others have one label: their counts are added up, and their ages are the oldest."""
    for family in families:
        found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.get("node", "") not in names and "node" in labels:
                labels["node"] = CLOSED
            key = sample.name, tuple(labels.items())
            found[key] = (
                _both(sample.name, found[key], sample.value) if key in found else sample.value
            )
        shown = Metric(family.name, family.documentation, family.type, family.unit)
        for (name, pairs), value in found.items():
            shown.add_sample(name, dict(pairs), value)
        yield shown


def _both(name: str, one: float, other: float) -> float:
    """Return the value of a metric for two nodes together."""
    if name.endswith("_created"):  # since when it is counted
        return min(one, other)
    return max(one, other) if "_age_" in name else one + other
