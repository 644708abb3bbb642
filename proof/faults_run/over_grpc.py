"""Publisher and worker of the run that speak gRPC, with Google's client."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from google.api_core.exceptions import DeadlineExceeded, GoogleAPICallError
from google.cloud import pubsub_v1

from proof.faults_run.face_worker import AT_ONCE, PATIENCE, Rota, did_work, main
from proof.faults_run.job import digest_of, job
from proof.faults_run.publisher import ANSWER, NODE, Publisher

if TYPE_CHECKING:
    import threading

    from proof.judge.history import History

TOPIC: Final = f"projects/xmpp/topics/{NODE}"
SUBSCRIPTION: Final = f"projects/xmpp/subscriptions/{NODE}"
WAIT: Final = 3.0
"""Seconds that a pull may take."""
PERMANENT: Final = re.compile("PERMANENT_FAILURE").match
"""Whether a reason says that the lock of an acknowledgement is over."""
ONCE: Final = {"retry": None}
"""A call is made once: who repeats it writes so."""


def client_at(place: str, kind: Any) -> Any:
    """Return a client of this kind for a service that is reached as an emulator is."""
    os.environ["PUBSUB_EMULATOR_HOST"] = place
    return kind()


def deliver_exactly_once(place: str) -> None:
    """Have the service say what has become of each acknowledgement."""
    with client_at(place, pubsub_v1.SubscriberClient) as client:
        wanted = {"name": SUBSCRIPTION, "enable_exactly_once_delivery": True}
        mask = {"paths": ["enable_exactly_once_delivery"]}
        client.update_subscription(request={"subscription": wanted, "update_mask": mask})


class GrpcPublisher(Publisher):
    """Publishes messages that have no ids of the publisher: one that is repeated is another."""

    is_repeatable = False

    def __init__(self, history: History, places: list[str]) -> None:
        super().__init__(history)
        self._clients = [client_at(place, pubsub_v1.PublisherClient) for place in places]
        self._turns = 0

    async def published(self, item: str, group: str | None) -> bool:
        """Publish it, perhaps in one call with others."""
        client = self._clients[self._turns % len(self._clients)]
        data = json.dumps(job(item)).encode()
        more = {"ordering_key": group or "", "timeout": ANSWER, "content-type": "application/json"}
        sent = client.publish(TOPIC, data, **more, **ONCE)
        try:
            await asyncio.to_thread(sent.result, 2 * ANSWER)
        except (GoogleAPICallError, TimeoutError):
            self._turns += 1
            return False
        return True

    async def close(self) -> None:
        """Close the channels."""
        for client in self._clients:
            client.stop()
            client.transport.close()


def work(history: History, rota: Rota, is_over: threading.Event) -> None:
    """Pull some messages, and work on one after the other."""
    while not is_over.is_set():
        with client_at(rota.place, pubsub_v1.SubscriberClient) as client:
            try:
                while not is_over.is_set():
                    _pull(history, client, is_over)
            except GoogleAPICallError:
                rota.turn()
                is_over.wait(0.1)


def _pull(history: History, client: Any, is_over: threading.Event) -> None:
    asked = history.clock()
    wanted = {"subscription": SUBSCRIPTION, "max_messages": AT_ONCE}
    try:
        found = client.pull(request=wanted, timeout=WAIT, **ONCE).received_messages
    except DeadlineExceeded:
        return  # what was given to it in this moment comes again
    got = []
    for one in found:
        value = json.loads(one.message.data)
        got.append((value["id"], one.ack_id))
        digested = digest_of(value)
        history.deliver(NODE, value["id"], since=asked, digest=digested, token=one.ack_id)
    for item, ack in got:
        did_work()
        # an acknowledgement of what another worker has done meanwhile is confirmed as well
        retract = history.begin("retract", NODE, item, token=None)
        retract.end(_acknowledged(client, ack, is_over))


def _acknowledged(client: Any, ack: str, is_over: threading.Event) -> Any:
    """Acknowledge, and repeat that until there is an answer."""
    for attempt in range(round(PATIENCE / ANSWER)):
        try:
            asked = {"subscription": SUBSCRIPTION, "ack_ids": [ack]}
            client.acknowledge(request=asked, timeout=ANSWER, **ONCE)
        except GoogleAPICallError as error:
            if any(map(PERMANENT, (error.metadata or {}).values())):
                return "unknown" if attempt else "fail"
            is_over.wait(0.1)
        else:
            return "ok"
    return "unknown"


if __name__ == "__main__":
    main(work)
