"""`.venv/bin/python -m bench.loop_thread`: how long one request of an ordinary account occupies the thread of the event loop.

A service runs with all protocols. Each load is one request, of the most that its protocol takes. Measured is the processor time
of that thread, which serves all clients, so the load of the machine does not matter. Idle time is deducted.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import tempfile
import time
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table

from bench.alone import HOST, MIB, QUIET, Service, basic
from pubqueue.faces.grpc.wire import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALLOWED: Final = 50.0
"""Milliseconds."""
MULTIPART: Final = {"Content-Type": "multipart/mixed; boundary=b"}


def _multipart(head: str) -> bytes:
    part = f"--b\r\n{head}\r\n\r\nz\r\n".encode()
    return part * (4 * MIB // len(part) - 1) + b"--b--\r\n"


def _message(size: int, **attributes: str) -> Any:
    return v1.PubsubMessage(data=b"\xff" * size, attributes=attributes)


QUEUE: Final = "/rest/queues/mine"
TOPIC: Final = "projects/shop/topics/orders"
SUBSCRIPTION: Final = "projects/shop/subscriptions/work"

BODIES: Final = {
    "text of &": (b"&" * 7_000_000, "text/plain"),
    "JSON": (b"[" + b"1," * 3_500_000 + b"1]", "application/json"),
    "XML": (b"<a xmlns='u'>" + b"<b/>" * 1_700_000 + b"</a>", "application/xml"),
    "bytes": (bytes(range(256)) * 28_000, "image/png"),
}

HEADS: Final = {
    "links, no such node": ("nowhere", "Link: " + ",".join(["<a>"] * 4000)),
    "links": ("mine", "Link: " + ",".join(["<a>"] * 4000)),
    "fields": ("mine", "\r\n".join(f"Message-Header-{n}: {'%41' * 30}" for n in range(60))),
    "spaces": ("mine", "Message-Header-A: x" + " " * 16_000 + "y"),
    "lines": ("mine", "\r\n".join(["a: b"] * 3000)),
}

Loads = "Iterator[tuple[str, Callable[[], str]]]"


def prepare(service: Service) -> None:
    """Make the nodes that the loads use."""
    settings = {"pubsub#max_items": "1000000", "pubsub#max_payload_size": "10485760"}
    body = json.dumps(settings).encode()
    assert service.ask("rest", "PUT", QUEUE, body, Content_Type="application/json") == "201"
    service.call("Publisher/CreateTopic", v1.Topic(name=TOPIC), v1.Topic)
    subscribed = v1.Subscription(name=SUBSCRIPTION, topic=TOPIC)
    assert service.call("Subscriber/CreateSubscription", subscribed, v1.Subscription) == "OK"
    for number in range(500):
        service.ask("rest", "PUT", f"/rest/queues/n{number}")


def of_rest(service: Service) -> Loads:
    """Yield requests of REST."""
    post = partial(service.ask, "rest", "POST")
    for name, (node, head) in HEADS.items():
        batch = f"/rest/queues/{node}/batches"
        yield (
            f"REST batch, 4 MiB, heads of {name}",
            partial(post, batch, _multipart(head), **MULTIPART),
        )
    small = b"--b\r\nContent-Type: text/plain\r\n\r\nz\r\n" * 1000 + b"--b--\r\n"
    yield "REST batch, 1,000 messages", partial(post, f"{QUEUE}/batches", small, **MULTIPART)
    entry = b"<entry><content type='application/xml'><a xmlns='u'>%s</a></content></entry>"
    feed = b"<feed xmlns='http://www.w3.org/2005/Atom'>%s</feed>" % ((entry % (b"<b/>" * 90)) * 999)
    atom = {"Content_Type": "application/atom+xml"}
    yield "REST batch, Atom", partial(post, f"{QUEUE}/batches", feed, **atom)
    for name, (body, kind) in BODIES.items():
        headers = {"Content_Type": kind, "Message_Id": name.partition(" ")[0]}
        where = f"{QUEUE}/messages"
        yield f"REST message, 7 MB of {name}", partial(post, where, body, **headers)
        shown = f"{where}/{headers['Message_Id']}"
        yield "its GET", partial(service.ask, "rest", "GET", shown)
    yield "REST message, 100 fields of links", partial(_of_links, service)
    form = b"acknowledge=false&" + b"&".join(b"a%d=%%41" % n for n in range(1500))
    typed = {"Content_Type": "application/x-www-form-urlencoded"}
    verdict = f"{QUEUE}/messages/a/acknowledgement;etag=1"
    yield "REST, a form of 16 KB", partial(post, verdict, form[:16_000], **typed)


def of_grpc(service: Service) -> Loads:
    """Yield calls of gRPC, and of its gateway for JSON."""
    batches = {
        f"1,000 messages with {count} attributes": [
            _message(1, **{f"k{number}": "v" * 50 for number in range(count)})
        ]
        * 1000
        for count in (90, 40)
    }
    batches["1,000 messages of 9 KB"] = [_message(9_000)] * 1000
    batches["one message of 7.5 MB"] = [_message(7_500_000)]
    batches["700,000 empty messages"] = [v1.PubsubMessage()] * 700_000
    for name, messages in batches.items():
        published = v1.PublishRequest(topic=TOPIC, messages=messages)
        yield (
            f"gRPC publish, {name}",
            partial(service.call, "Publisher/Publish", published, v1.PublishResponse),
        )
    ids = {"19 MB": ["x" * 5] * 2_000_000, "7 MB": ["x" * 5] * 900_000}
    ids["2,500 of 3,000 characters"] = [
        base64.urlsafe_b64encode(os.urandom(2200)).decode() for _ in range(2500)
    ]
    for name, given in ids.items():
        done = v1.AcknowledgeRequest(subscription=SUBSCRIPTION, ack_ids=given)
        yield (
            f"gRPC acknowledge, {name} of ack ids",
            partial(service.call, "Subscriber/Acknowledge", done, v1.PullResponse),
        )
    pull = v1.PullRequest(subscription=SUBSCRIPTION, max_messages=1000)
    yield (
        "gRPC pull, 1,000 messages",
        partial(service.call, "Subscriber/Pull", pull, v1.PullResponse),
    )
    topics = v1.ListTopicsRequest(project="projects/shop", page_size=1000)
    yield (
        "gRPC, ListTopics",
        partial(service.call, "Publisher/ListTopics", topics, v1.ListTopicsResponse),
    )
    data = base64.b64encode(b"\xff" * 9_900).decode()
    batch = json.dumps({"topic": "/topics/shop/orders", "messages": [{"data": data}] * 900})
    yield (
        "JSON gateway, publishBatch, 12 MB",
        partial(service.ask, "json", "POST", "/v1beta1a/topics/publishBatch", batch.encode()),
    )


def of_stomp(service: Service) -> Loads:
    """Yield frames of STOMP."""
    escaped = b"".join(b"h%d:" % n + b"\\c" * 240 + b"\n" for n in range(120))
    frame = b"SEND\ndestination:/queue/none\nreceipt:r\n" + escaped + b"\n\0"
    yield "STOMP, SEND with 120 headers of escapes", partial(service.frame, frame)
    head = b"SEND\ndestination:/queue/mine\nreceipt:r\ncontent-type:%s\ncontent-length:%d\n\n"
    for name, (body, kind) in BODIES.items():
        part = body[:190_000]
        frame = head % (kind.encode(), len(part)) + part + b"\0"
        yield f"STOMP, SEND, 190 kB of {name}", partial(service.frame, frame)


def of_http(service: Service) -> Loads:
    """Yield what operators ask for; there are 500 queues."""
    paths = "/metrics", "/api/openapi.json", "/api/operations", "/readyz"
    for path in paths:
        yield f"HTTP, {path}", partial(service.ask, "http", "GET", path)
    yield "REST, openapi.json", partial(service.ask, "rest", "GET", "/rest/openapi.json")


def _of_links(service: Service) -> str:
    """Post a message whose head is as many links as the host takes."""
    field = ("Link: " + ",".join(["<a>"] * 1900) + "\r\n") * 100
    with closing(socket.create_connection((HOST, service.ports["rest"]), 300)) as client:
        head = f"POST /rest/queues/mine/messages HTTP/1.1\r\nHost: x\r\nAuthorization: {basic('one')}\r\n"
        client.sendall(f"{head}Content-Length: 1\r\n{field}\r\nz".encode())
        return client.recv(65_536).split(b" ")[1].decode()


LOADS: Final = of_rest, of_grpc, of_stomp, of_http


@contextmanager
def _served() -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        service = Service(Path(folder), {"one": 'roles = ["admin"]'})
        try:
            yield service
        finally:
            service.stop()


def cost(service: Service, load: Callable[[], str]) -> tuple[float, str]:
    """Return the milliseconds in the thread of the loop, and what was answered."""
    time.sleep(QUIET)
    before = service.used()
    time.sleep(QUIET)
    idle = (service.used() - before) / QUIET
    before, began = service.used(), time.monotonic()
    try:
        answer = load()
    except OSError as problem:  # the service has closed the connection before it had all
        answer = type(problem).__name__
    return max(0.0, service.used() - before - idle * (time.monotonic() - began)), answer


@click.command()
def main() -> None:
    """Measure each load."""
    grid = Table("one request", "answer", "ms in the loop's thread")
    with _served() as service:
        prepare(service)
        for name, load in chain.from_iterable(of(service) for of in LOADS):
            took, answer = cost(service, load)
            grid.add_row(name, answer, f"{took:.0f}", style="red" if took > ALLOWED else "")
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(grid)


if __name__ == "__main__":
    main()
