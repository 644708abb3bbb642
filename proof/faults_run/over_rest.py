"""Publisher and worker of the run that speak HTTP, with httpx."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import httpx
from harness.http.clients import PLAIN

from proof.faults_run.face_worker import PATIENCE, USER, Rota, did_work, main
from proof.faults_run.job import digest_of, job
from proof.faults_run.publisher import ANSWER, NODE, Publisher

if TYPE_CHECKING:
    import threading

    from proof.judge.history import History

GONE: Final = {httpx.codes.PRECONDITION_FAILED, httpx.codes.NOT_FOUND, httpx.codes.GONE}
"""What an acknowledgement is told whose lock is over."""


class RestPublisher(Publisher):
    """A client of httpx, with several POSTs on their way."""

    def __init__(self, history: History, places: list[str]) -> None:
        super().__init__(history)
        self._rota = Rota(places)
        self._client = httpx.AsyncClient(auth=USER, **PLAIN | {"timeout": ANSWER})

    async def published(self, item: str, group: str | None) -> bool:
        """Post it."""
        headers = {"Content-Type": "application/json", "Message-Id": item}
        headers |= {"Message-Group": group} if group else {}
        try:
            to = f"http://{self._rota.place}/rest/queues/{NODE}/messages"
            answer = await self._client.post(to, content=json.dumps(job(item)), headers=headers)
        except httpx.HTTPError:
            self._rota.turn()
            return False
        return answer.is_success

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def work(history: History, rota: Rota, is_over: threading.Event) -> None:
    """Take one message after the other."""
    with httpx.Client(auth=USER, **PLAIN | {"timeout": 2 * ANSWER}) as client:
        while not is_over.is_set():
            try:
                queue = client.get(f"http://{rota.place}/rest/queues/{NODE}").raise_for_status()
                poller = queue.json()["links"]["poller"]
                while not is_over.is_set():
                    _take(history, client, poller, is_over)
            except httpx.HTTPError:
                rota.turn()
                is_over.wait(0.1)


def _take(history: History, client: httpx.Client, poller: str, is_over: threading.Event) -> None:
    asked = history.clock()
    taken = client.post(poller, headers={"Prefer": "wait=1"}).raise_for_status()
    if taken.status_code == httpx.codes.NO_CONTENT:
        return
    value, where = taken.json(), taken.headers["msg-acknowledgement"]
    lock: dict[str, Any] = {"token": where, "attempt": int(taken.headers.get("Message-Attempt", 1))}
    item, digested = value["id"], digest_of(value)
    history.deliver(NODE, item, since=asked, digest=digested, **lock)
    did_work()
    retract = history.begin("retract", NODE, item, token=where)
    is_first, end = True, history.clock() + PATIENCE
    while history.clock() < end and not is_over.is_set():
        try:
            answer = client.post(where, data={"acknowledge": "true"})
        except httpx.HTTPError:
            pass
        else:
            if answer.is_success:
                retract.end("ok")
                return
            if answer.status_code in GONE:
                retract.end("fail" if is_first else "unknown")
                return
        is_first = False
        is_over.wait(0.1)
    retract.end("unknown")


if __name__ == "__main__":
    main(work)
