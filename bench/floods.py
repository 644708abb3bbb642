"""`.venv/bin/python -m bench.floods`: what one account, or a client without one, makes the service keep, and how long others wait.

Each flood has a service of its own, with all protocols. It begins what it does not finish, or does not read, on as many
connections as it gets. Meanwhile another account publishes messages over REST, one after the other, from a process of its own.
Measured are the growth of the service's memory, and the waits of that account, first without the flood.
"""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import queue
import resource
import socket
import statistics
import struct
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import click
import grpc
import h2.config
import h2.connection
import h2.events
import h2.exceptions
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.alone import HOST, MIB, SECRET, Service, basic
from pubqueue.faces.grpc.wire import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.synchronize import Event

USERS: Final = {"eve": "", "bob": "", "mallory": ""}
"""Eve floods, also as Mallory where it takes two; Bob waits."""
GROWTH: Final = 96
"""MiB by which the memory may grow."""
WAIT: Final = 250
"""Milliseconds for which others may wait."""
QUIET: Final = 2.0
"""Seconds for which Bob is alone."""
LASTING: Final = 4.0
"""Seconds for which a flood goes on, or stays, once all of it has been sent."""
FLOOD_TIMEOUT: Final = 40.0
"""Seconds after which a flood has to have sent what it can."""
LARGEST: Final = 9_000_000
"""Bytes of a message over gRPC."""
NEVER: Final = 99_999_999
DESCRIPTORS: Final = 30_000
LARGE: Final = 11 * MIB
"""Bytes of a message of gRPC that is not complete."""

Ports = dict[str, int]


# What does not come to an end. Each function returns as soon as it has sent all that is taken, and keeps its connections.


class Crowd:
    """Connections that stay open, from several addresses, for some of these are limited by address; of `reads` bytes for what comes."""

    def __init__(self, port: int, reads: int = 0) -> None:
        self._port, self._reads, self.sockets = port, reads, list[socket.socket]()

    def one(self) -> socket.socket | None:
        """Return one more connection; None if there are no more."""
        client = socket.socket()
        client.settimeout(2)
        if self._reads:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._reads)
        with suppress(OSError):
            client.bind((f"127.0.0.{2 + len(self.sockets) // 90}", 0))
            client.connect((HOST, self._port))
            self.sockets.append(client)
            return client
        client.close()
        return None

    def say(self, count: int, data: bytes) -> None:
        """Send this on so many connections, as far as it is taken."""
        for _ in range(count):
            if (client := self.one()) is not None:
                with suppress(OSError):
                    client.sendall(data)


def _stays(crowd: Crowd, over: Event, lasting: float = LASTING) -> None:
    over.wait(lasting)
    for client in crowd.sockets:
        client.close()


def heads(ports: Ports, over: Event) -> None:
    """Heads of 60 fields of 8 KB, without an account."""
    crowd = Crowd(ports["rest"])
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 8000) for number in range(60))
    crowd.say(450, b"POST /rest/queues/mine/messages HTTP/1.1\r\nHost: x\r\n" + fields)
    _stays(crowd, over)


def piped(ports: Ports, over: Event) -> None:
    """Requests without an account, all at once, whose answers are not read."""
    crowd = Crowd(ports["rest"], 4096)
    crowd.say(1_900, b"GET /rest/nothing HTTP/1.1\r\nHost: x\r\n\r\n" * 5_000)
    _stays(crowd, over)


def _posted(ports: Ports, over: Event, line: str, size: int, count: int) -> None:
    crowd = Crowd(ports["rest"])
    head = f"POST {line}\r\nHost: x\r\nAuthorization: {basic('eve')}\r\n"
    crowd.say(count, f"{head}Content-Length: {size}\r\n\r\n".encode() + b"x" * (size - 10))
    _stays(crowd, over)


def bodies(ports: Ports, over: Event) -> None:
    """Messages of 256 KiB over REST, without their last bytes."""
    _posted(ports, over, "/rest/queues/mine/messages HTTP/1.1", 256 << 10, 450)


def batches(ports: Ports, over: Event) -> None:
    """Batches of 4 MiB over REST, without their last bytes."""
    kind = "Content-Type: multipart/mixed; boundary=b"
    _posted(ports, over, f"/rest/queues/mine/batches HTTP/1.1\r\n{kind}", 4 * MIB, 400)


def logins(ports: Ports, over: Event) -> None:
    """CONNECT of STOMP with a wrong passcode, and 250 KB behind it."""
    frame = b"CONNECT\naccept-version:1.2\nhost:x\nlogin:nobody\npasscode:x\n\n\0"
    crowd = Crowd(ports["stomp"])
    crowd.say(480, frame + b"x" * 250_000)
    _stays(crowd, over)


def _stomp(crowd: Crowd) -> socket.socket | None:
    client = crowd.one()
    if client is None:
        return None
    login = f"CONNECT\naccept-version:1.2\nhost:x\nlogin:eve\npasscode:{SECRET}\n\n\0"
    with suppress(OSError):
        client.sendall(login.encode())
        return client if client.recv(4096).startswith(b"CONNECTED") else None
    return None


def transactions(ports: Ports, over: Event) -> None:
    """Transactions of STOMP, whose messages are headers of 55 KB."""
    crowd = Crowd(ports["stomp"])
    headers = "".join(f"h{number}:{'x' * 7900}\n" for number in range(7))
    for _ in range(4):
        client = _stomp(crowd)
        if client is None:
            continue
        client.settimeout(20)
        with suppress(OSError):
            for number in range(16):
                client.sendall(f"BEGIN\ntransaction:{number}\n\n\0".encode())
                frame = f"SEND\ndestination:/queue/mine\ntransaction:{number}\n{headers}\n\0"
                client.sendall(frame.encode() * 300)
    _stays(crowd, over)


def frames(ports: Ports, over: Event) -> None:
    """SENDs of 256 KiB over STOMP, without their last bytes."""
    crowd = Crowd(ports["stomp"])
    frame = b"SEND\ndestination:/queue/mine\ncontent-length:262144\n\n" + b"x" * 262_000
    for _ in range(95):
        if (client := _stomp(crowd)) is not None:
            with suppress(OSError):
                client.sendall(frame)
    _stays(crowd, over)


def slow_readers(ports: Ports, over: Event) -> None:
    """Subscribers of STOMP that do not read messages of 7 MB."""
    crowd = Crowd(ports["stomp"])
    for number in range(95):
        if (client := _stomp(crowd)) is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            where = f"/queue/{SUBSCRIPTION}-{number % 2}"
            words = f"SUBSCRIBE\nid:1\ndestination:{where}\nack:client-individual\n\n\0"
            with suppress(OSError):
                client.sendall(words.encode())
    _stays(crowd, over)


def sends(ports: Ports, over: Event) -> None:
    """SENDs over STOMP on 95 connections, as fast as they are taken."""
    crowd = Crowd(ports["stomp"])
    frame = b"SEND\ndestination:/queue/mine\nreceipt:r\n\n%s\0" % (b"x" * 500)
    clients = [client for _ in range(95) if (client := _stomp(crowd)) is not None]
    for client in clients:
        client.settimeout(0)
    end = time.monotonic() + LASTING
    while time.monotonic() < end and not over.is_set():
        for client in clients:
            with suppress(OSError):
                client.send(frame * 50)
            with suppress(OSError):
                client.recv(1 << 18)
    _stays(crowd, over)


def sockets(ports: Ports, over: Event) -> None:
    """Three WebSockets without an account, and a message of empty fragments that never ends."""
    crowd = Crowd(ports["http"])
    hello = (
        f"GET /stomp HTTP/1.1\r\nHost: {HOST}:{ports['http']}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v12.stomp\r\n\r\n"
    )
    begin, more = bytes([0x01, 0x80, 0, 0, 0, 0]), bytes([0x00, 0x80, 0, 0, 0, 0])

    def flood() -> None:
        end = time.monotonic() + LASTING
        while time.monotonic() < end and not over.is_set():
            with suppress(OSError), closing(socket.create_connection((HOST, ports["http"]))) as one:
                one.settimeout(2)
                one.sendall(hello.encode())
                one.recv(4096)
                one.sendall(begin)
                while time.monotonic() < end:
                    one.sendall(more * 10_000)

    threads = [threading.Thread(target=flood) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _stays(crowd, over)


def consumers(ports: Ports, over: Event) -> None:
    """Consumers of HornetQ's interface, each with a message of 190 KB."""
    headers = {"Authorization": basic("eve")}
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    with closing(http.client.HTTPConnection(HOST, ports["rest"], timeout=20)) as client:
        for _ in range(600):
            client.request("POST", "/hornetq/queues/mine/pull-consumers", b"autoAck=false", form)
            answer = client.getresponse()
            answer.read()
            where = answer.headers["msg-acknowledge-next"].partition(str(ports["rest"]))[2]
            client.request("POST", where, b"", headers)
            client.getresponse().read()
    over.wait(LASTING)


def _reading(ports: Ports, count: int, where: str, *fields: str) -> Crowd:
    """Ask for what a topic has, of so many clients that read nothing."""
    crowd = Crowd(ports["rest"], 4096)
    for number in range(count):
        by = basic("eve" if number % 2 else "mallory")
        if (client := crowd.one()) is not None:
            lines = (f"GET {NEWS}/{where} HTTP/1.1", "Host: x", f"Authorization: {by}", *fields)
            with suppress(OSError):
                client.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
    return crowd


def events(ports: Ports, over: Event) -> None:
    """Event streams of a topic with messages of 7 MB, which are not read."""
    _stays(_reading(ports, 900, "events", "Last-Event-ID: 1"), over, 4 * LASTING)


def polls(ports: Ports, over: Event) -> None:
    """Requests that wait for a message of a topic, of 7 MB, and do not read it."""
    crowd = _reading(ports, 1_800, "next", "Accept-Wait: 50")
    with closing(http.client.HTTPConnection(HOST, ports["rest"], timeout=20)) as client:
        headers = {"Authorization": basic("eve")}
        client.request("POST", f"{NEWS}/messages", b"x" * 7_000_000, headers)
        client.getresponse().read()
    _stays(crowd, over)


class Caller:
    """A connection of gRPC with calls whose messages are not complete."""

    def __init__(self, port: int, path: str, calls: int, by: str) -> None:
        self._socket = socket.create_connection((HOST, port), 5)
        self._socket.settimeout(0)
        self._connection = h2.connection.H2Connection(
            h2.config.H2Configuration(header_encoding="utf-8")
        )
        self._connection.initiate_connection()
        self._out = bytearray()
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")]
        fields += [("te", "trailers"), ("content-type", "application/grpc")]
        fields += [("authorization", basic(by))] if by else []
        self._left: dict[int, int] = {}
        for _ in range(calls):
            stream = self._connection.get_next_available_stream_id()
            self._connection.send_headers(stream, fields)
            self._connection.send_data(stream, b"\0" + struct.pack(">I", LARGE))
            self._left[stream] = LARGE - 10

    def go_on(self) -> bool:
        """Send and receive what is possible now, and return whether anything was."""
        moved = False
        with suppress(BlockingIOError):
            while data := self._socket.recv(1 << 16):
                moved = True
                for event in self._connection.receive_data(data):
                    if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                        self._left.pop(event.stream_id or 0, None)
        for stream, left in tuple(self._left.items()):
            room = self._connection.local_flow_control_window(stream)
            size = min(left, room, self._connection.max_outbound_frame_size)
            if size > 0 and len(self._out) < MIB:
                self._connection.send_data(stream, bytes(size))
                self._left[stream] -= size
                self._out += self._connection.data_to_send()
        self._out += self._connection.data_to_send()
        with suppress(BlockingIOError):
            while self._out:
                del self._out[: self._socket.send(self._out)]
                moved = True
        return moved


def _unfinished(ports: Ports, over: Event, path: str, many: tuple[int, int], by: str = "") -> None:
    """Begin calls: `many` are connections, and calls on each."""
    callers = []
    for _ in range(many[0]):
        with suppress(OSError):
            callers.append(Caller(ports["grpc"], path, many[1], by))
    began = moved = time.monotonic()
    while time.monotonic() < min(began + FLOOD_TIMEOUT, moved + LASTING) and not over.is_set():
        for caller in tuple(callers):
            try:
                if caller.go_on():
                    moved = time.monotonic()
            except (OSError, h2.exceptions.ProtocolError):
                callers.remove(caller)
        time.sleep(0.001)


def reflection(ports: Ports, over: Event) -> None:
    """Reflection of gRPC, without an account."""
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    _unfinished(ports, over, path, (2, 60))


def health(ports: Ports, over: Event) -> None:
    """Checks of health over gRPC, without an account."""
    _unfinished(ports, over, "/grpc.health.v1.Health/Check", (2, 60))


def publishes(ports: Ports, over: Event) -> None:
    """Publishes of 11 MiB over gRPC, on 60 connections, without their last bytes."""
    _unfinished(ports, over, "/google.pubsub.v1.Publisher/Publish", (60, 2), "eve")


def streams(ports: Ports, over: Event) -> None:
    """Streams of gRPC, with requests of 11 MiB without their last bytes."""
    _unfinished(ports, over, "/google.pubsub.v1.Subscriber/StreamingPull", (1, 60), "eve")


def connections(ports: Ports, over: Event) -> None:
    """5,000 connections of gRPC, without a byte."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, DESCRIPTORS), hard))
    crowd = Crowd(ports["grpc"])
    crowd.say(5_000, b"")
    _stays(crowd, over)


def _calling(ports: Ports, over: Event, rpc: str, requests: Sequence[Any]) -> None:
    """Make these calls at once, on 20 channels, each again as soon as it is answered."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    channels = [grpc.insecure_channel(f"{HOST}:{ports['grpc']}", options) for _ in range(20)]
    rpcs = [
        channel.unary_unary(
            f"/google.pubsub.v1.{rpc}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=bytes,
        )
        for channel in channels
    ]
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(requests)):
        ended.put(number)
    end = time.monotonic() + 2 * LASTING
    while time.monotonic() < end and not over.is_set():
        with suppress(queue.Empty):
            number = ended.get(timeout=0.1)
            fields = [("authorization", basic("eve" if number % 2 else "mallory"))]
            call = rpcs[number % 20].future(requests[number], metadata=fields)
            call.add_done_callback(lambda _, number=number: ended.put(number))
    for channel in channels:
        channel.close()


def pulls(ports: Ports, over: Event) -> None:
    """10,000 pulls of two accounts over gRPC, which wait for a message."""
    request = v1.PullRequest(subscription=SUBSCRIPTION + "-0", max_messages=1)
    _calling(ports, over, "Subscriber/Pull", [request] * 10_000)


def calls(ports: Ports, over: Event) -> None:
    """2,000 publishes of two accounts under way over gRPC."""
    request = v1.PublishRequest(topic=TOPIC, messages=[v1.PubsubMessage(data=b"x" * 500)])
    _calling(ports, over, "Publisher/Publish", [request] * 2_000)


def large_publishes(ports: Ports, over: Event) -> None:
    """20 publishes of 9 MB of two accounts under way over gRPC, each again as soon as it is answered."""
    message = v1.PubsubMessage(data=os.urandom(LARGEST))
    request = v1.PublishRequest(topic=TOPIC, messages=[message])
    _calling(ports, over, "Publisher/Publish", [request] * 20)


def large_pulls(ports: Ports, over: Event) -> None:
    """20 pulls of messages of 9 MB of two accounts under way over gRPC, each again as soon as it is answered."""
    request = v1.PullRequest(subscription=SUBSCRIPTION + "-0", max_messages=1)
    _calling(ports, over, "Subscriber/Pull", [request] * 20)


# The measurement.

NEWS: Final = "/rest/topics/news"
TOPIC: Final = "projects/shop/topics/orders"
SUBSCRIPTION: Final = "projects/shop/subscriptions/work"


def of_eve(service: Service) -> None:
    """Make a queue of Eve's."""
    body = b'{"pubsub#max_items": "1000000", "pubsub#max_payload_size": "262144"}'
    kind = "application/json"
    assert service.ask("rest", "PUT", "/rest/queues/mine", body, Content_Type=kind) == "201"


def of_messages(service: Service) -> None:
    """Publish messages to it, in addition."""
    of_eve(service)
    for _ in range(600):
        where = "/rest/queues/mine/messages"
        assert service.ask("rest", "POST", where, os.urandom(190_000)) == "201"


def of_topics(service: Service) -> None:
    """Make a topic with two subscriptions."""
    service.call("Publisher/CreateTopic", v1.Topic(name=TOPIC), v1.Topic)
    for number in range(2):
        made = v1.Subscription(name=f"{SUBSCRIPTION}-{number}", topic=TOPIC)
        assert service.call("Subscriber/CreateSubscription", made, v1.Subscription) == "OK"


def of_news(service: Service) -> None:
    """Make a topic for all with large messages."""
    body = b'{"pubsub#access_model": "open", "pubsub#max_items": "9", "pubsub#max_payload_size": "10000000"}'
    assert service.ask("rest", "PUT", NEWS, body, Content_Type="application/json") == "201"
    for _ in range(9):
        assert service.ask("rest", "POST", f"{NEWS}/messages", b"x" * 7_000_000) == "201"
    assert service.ask("rest", "GET", NEWS, by="mallory") == "200", "her password is compared"


def of_large(service: Service) -> None:
    """Publish large messages, in addition."""
    of_topics(service)
    for _ in range(48):
        message = v1.PubsubMessage(data=os.urandom(LARGEST))
        request = v1.PublishRequest(topic=TOPIC, messages=[message])
        assert service.call("Publisher/Publish", request, v1.PublishResponse) == "OK"


class Flood(Struct, frozen=True):
    """A flood, and what there has to be before it."""

    run: Callable[[Ports, Event], None]
    prepare: Callable[[Service], None] = lambda _: None

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return self.run.__name__.replace("_", "-")


FLOODS: Final = {
    flood.name: flood
    for flood in (
        *(Flood(heads), Flood(piped), Flood(logins), Flood(sockets)),
        *(Flood(reflection), Flood(health), Flood(connections)),
        *(Flood(bodies, of_eve), Flood(batches, of_eve), Flood(consumers, of_messages)),
        *(Flood(frames, of_eve), Flood(transactions, of_eve), Flood(sends, of_eve)),
        *(Flood(slow_readers, of_large), Flood(publishes, of_topics), Flood(streams, of_topics)),
        *(Flood(pulls, of_topics), Flood(calls, of_topics)),
        *(Flood(large_publishes, of_topics), Flood(large_pulls, of_large)),
        *(Flood(events, of_news), Flood(polls, of_news)),
    )
}


class Waits(Struct):
    """How long Bob waits for his answers, in milliseconds."""

    found: list[float]
    refused: int = 0

    @property
    def worst(self) -> float:
        """The longest one."""
        return max(self.found, default=float(NEVER))

    def __str__(self) -> str:
        """Show the median and the longest, and how many were refused."""
        median = statistics.median(self.found) if self.found else NEVER
        return f"{median:.0f}, {self.worst:.0f}" + f" ({self.refused} refused)" * bool(self.refused)


def ask_on(service: Service, is_over: Callable[[], bool]) -> Waits:
    """Publish one message after the other as Bob."""
    waits = Waits([])
    while not is_over():
        began = time.monotonic()
        try:
            status = service.ask("rest", "POST", "/rest/queues/bobs/messages", b"x", by="bob")
        except OSError:
            status = ""
        waits.found.append((time.monotonic() - began) * 1000)
        waits.refused += status != "201"
        time.sleep(0.01)
    return waits


class Top:
    """The most memory of a service, as it was seen every tenth of a second."""

    def __init__(self, service: Service) -> None:
        self.before = self.most = service.resident
        self._service, self._is_over = service, threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._looking.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.1):
            self.most = max(self.most, self._service.resident)


@contextlib.contextmanager
def flooding(flood: Flood, ports: Ports) -> Iterator[Callable[[], bool]]:
    """Run a flood in a process of its own; the value returns whether it has ended."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    process = context.Process(target=flood.run, args=(ports, over))
    process.start()
    try:
        yield lambda: not process.is_alive()
    finally:
        over.set()
        process.join(FLOOD_TIMEOUT)
        process.kill()


def measure(flood: Flood, folder: Path) -> tuple[float, Waits, Waits]:
    """Return the growth in MiB, Bob's waits alone, and his waits beside the flood."""
    service = Service(folder, USERS)
    try:
        assert service.ask("rest", "PUT", "/rest/queues/bobs", by="bob") == "201"
        flood.prepare(service)
        end = time.monotonic() + QUIET
        alone = ask_on(service, lambda: time.monotonic() >= end)
        with Top(service) as top, flooding(flood, service.ports) as has_ended:
            beside = ask_on(service, has_ended)
        return top.most - top.before, alone, beside
    finally:
        service.stop()


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(FLOODS)))
def main(*, names: Sequence[str]) -> None:
    """Measure these floods, or all."""
    grid = Table("flood", "what it is", "grows by MiB", "waits alone ms", "waits beside it ms")
    for name in names or FLOODS:
        flood = FLOODS[name]
        with tempfile.TemporaryDirectory(prefix="pq-") as folder:
            growth, alone, beside = measure(flood, Path(folder))
        is_bad = growth > GROWTH or beside.worst > WAIT
        cells = f"{growth:.0f}", f"{alone}", f"{beside}"
        grid.add_row(name, flood.run.__doc__, *cells, style="red" if is_bad else "")
    console = Console()
    (console if console.is_terminal else Console(width=140)).print(grid)
    console.print("Waits are the median and the longest, of publishes over REST.", highlight=False)


if __name__ == "__main__":
    main()
