"""Publisher and worker of the run that speak STOMP, with stomp.py: to our service, or to another that is judged by the same."""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import threading
from collections.abc import Mapping  # noqa: TC003  # of a named tuple
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import stomp

from proof.faults_run.face_worker import AT_ONCE, USER, Rota, did_work, main
from proof.faults_run.job import digest_of, job
from proof.faults_run.publisher import ANSWER, NODE, Publisher

if TYPE_CHECKING:
    from collections.abc import Callable

    from proof.judge.history import History

DESTINATION: Final = f"/queue/{NODE}"
OVER: Final = object()


class Dialect(NamedTuple):
    """What differs between services: who logs in, and with which headers items are sent and subscribed to.

    One that is not `ours` does not know an item again that is sent again, counts no attempts, and gives the receipt of an ACK before that
    is on disk.
    """

    login: tuple[str, str] = USER
    more: Mapping[str, str] = {}
    is_ours: bool = True
    host: str | None = None
    """The virtual host, where that is not the name of the machine."""


OURS: Final = Dialect()


class Session(stomp.ConnectionListener):  # type: ignore[misc]  # the library has no types
    """A connection, on which any thread waits for receipts.

    Raises:
        OSError, stomp.exception.StompException: there is no connection.

    """

    def __init__(self, place: str, dialect: Dialect = OURS) -> None:
        self.dialect = dialect
        host, _, port = place.rpartition(":")
        self.name = uuid4().hex[:8]
        self.messages: queue.Queue[Any] = queue.Queue()
        self.is_over = False
        self._receipts: dict[str, queue.Queue[Any]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        once = {"reconnect_attempts_max": 1, "reconnect_sleep_initial": 0.01, "vhost": dialect.host}
        self.client = stomp.Connection12([(host, int(port))], heartbeats=(0, 0), **once)
        self.client.set_listener("", self)
        self.client.connect(*dialect.login, wait=True)

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        box = self._receipts.pop(frame.headers["receipt-id"], None)
        if box is not None:
            box.put(frame.headers)

    def on_disconnected(self) -> None:
        with self._lock:
            self.is_over = True
        self.messages.put(OVER)
        for box in list(self._receipts.values()):
            box.put(None)

    def asked(self, send: Callable[[str], None]) -> Mapping[str, str] | None:
        """Send a frame that wants a receipt; return that, or None if there is none in time."""
        number, box = str(next(self._numbers)), queue.Queue[Any](2)
        with self._lock:
            if self.is_over:
                return None
            self._receipts[number] = box
        try:
            send(number)
            return box.get(timeout=ANSWER)
        except (OSError, stomp.exception.StompException, queue.Empty):
            return None

    def close(self) -> None:
        """End it."""
        with suppress(OSError, stomp.exception.StompException):
            self.client.disconnect()


class StompPublisher(Publisher):
    """One connection, with several SENDs on their way."""

    def __init__(self, history: History, places: list[str], dialect: Dialect = OURS) -> None:
        super().__init__(history)
        self._rota, self._dialect = Rota(places), dialect
        self.is_repeatable = dialect.is_ours
        self._session: Session | None = None
        self._door = asyncio.Lock()

    async def published(self, item: str, group: str | None) -> bool:
        """Send it, and wait for the receipt."""
        body = json.dumps(job(item)).encode()
        headers = {"item-id": item, **self._dialect.more} | ({"group": group} if group else {})
        try:
            session = await self._at_work()
        except (OSError, stomp.exception.StompException):
            self._rota.turn()
            return False

        def send(receipt: str) -> None:
            kind = {"content_type": "application/json", "receipt": receipt}
            session.client.send(DESTINATION, body, headers=dict(headers), **kind)

        return await asyncio.to_thread(session.asked, send) is not None

    async def _at_work(self) -> Session:
        async with self._door:
            if self._session is None or self._session.is_over:
                self._session = await asyncio.to_thread(Session, self._rota.place, self._dialect)
            return self._session

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await asyncio.to_thread(self._session.close)


def work(history: History, rota: Rota, is_over: threading.Event, dialect: Dialect = OURS) -> None:
    """Work on one message after the other, on one connection after the other."""
    while not is_over.is_set():
        try:
            session = Session(rota.place, dialect)
            began = history.clock()
            more = {"prefetch-count": AT_ONCE, **dialect.more}
            session.client.subscribe(DESTINATION, "s", "client-individual", headers=more)
            while not is_over.is_set():
                with suppress(queue.Empty):
                    if (frame := session.messages.get(timeout=0.1)) is OVER:
                        break
                    _work(history, session, frame, began)
            session.close()
        except (OSError, stomp.exception.StompException):
            pass
        rota.turn()
        is_over.wait(0.1)


def _work(history: History, session: Session, frame: Any, began: float) -> None:
    value, ack = json.loads(frame.body), frame.headers["ack"]
    lock: dict[str, Any] = {"token": f"{session.name}/{ack}"}
    if session.dialect.is_ours:
        lock["attempt"] = int(frame.headers.get("delivery-attempt", 1))
    item, digested = value["id"], digest_of(value)
    history.deliver(NODE, item, since=began, digest=digested, **lock)
    did_work()
    retract = history.begin("retract", NODE, item, token=lock["token"])
    receipt = session.asked(lambda number: session.client.ack(ack, receipt=number))
    if receipt is None or not session.dialect.is_ours:
        retract.end("unknown")
    else:
        retract.end("fail" if receipt.get("outcome") == "lost" else "ok")


if __name__ == "__main__":
    main(work)
