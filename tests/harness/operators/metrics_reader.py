"""Reads metrics and health of a service over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    import aiohttp


class Watcher:
    """Sends requests to a service at a port of this machine."""

    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.place, self._session = f"http://127.0.0.1:{port}", session

    async def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text of the answer."""
        async with self._session.get(self.place + path) as answer:
            return answer.status, await answer.text()

    async def ready(self) -> tuple[int, Any]:
        """Return the status of `/readyz` and its text."""
        async with self._session.get(self.place + "/readyz") as answer:
            return answer.status, await answer.json()

    async def metrics(self) -> dict[tuple[str, ...], float]:
        """Return every sample as (name, labels): value."""
        status, text = await self.get("/metrics")
        assert status == 200
        return {
            (one.name, *sorted(one.labels.values())): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
        }
