"""`.venv/bin/python -m proof.fuzz.calls`: 20,000 calls of every rpc, with values that parsers, rules and stores may fail at.

A field that a request cannot do without has a useful value in most calls, so that many get as far as the store. No call may end as a fault, and none may be
logged.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final

import click
import grpc
from faces.grpc.clients import IAM, PUBLISHER, SUBSCRIBER, TECH_PUBLISHER, TECH_SUBSCRIBER, Stub
from faces.grpc.service import GrpcService
from google.protobuf.descriptor import FieldDescriptor
from harness.patience import TIMEOUT

from proof.fuzz.outcome import FaultError, faults, print_outcome
from pubqueue.faces.grpc import wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

SERVICES: Final = (PUBLISHER, SUBSCRIBER, TECH_PUBLISHER, TECH_SUBSCRIBER, IAM)
FAULTS: Final = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
OWN_FAULT: Final = "Internal error from Core"
"""How a client reports that it has written to a stream which has ended already."""
LOG_EVERY: Final = 20
"""Calls between two reads of the log."""
WAITING: Final = {"Pull": 0.3, "PullBatch": 0.3, "StreamingPull": 0.3}
"""Seconds for calls that may wait for a message, or have no end."""
DEPTH: Final = 5

TOPICS: Final = ("projects/p/topics/orders", "projects/p/topics/news", "projects/xmpp/topics/jobs")
SUBSCRIPTIONS: Final = tuple(topic.replace("topics", "subscriptions") for topic in TOPICS)
USEFUL: Final[dict[str, Sequence[Any]]] = {
    "topic": TOPICS,
    "subscription": SUBSCRIPTIONS,
    "resource": TOPICS + SUBSCRIPTIONS,
    "project": ("projects/p",),
    "data": (b"", b"a", b"{}", b"\xff\0", b"<a/>"),
    "max_messages": (1, 10),
    "max_events": (1, 10),
    "ack_deadline_seconds": (0, 10, 600),
    "stream_ack_deadline_seconds": (10, 60),
    "role": ("roles/pubsub.editor", "roles/pubsub.subscriber"),
    "members": ("user:etl", "user:bee@example.org"),
    "paths": ("labels", "push_config", "topic", "ack_deadline_seconds"),
    "query": ("cloud.googleapis.com/project in (/projects/p)",),
    "key": ("a", "pubsub.googleapis.com/subscription"),
    "messages": (),
    "message": (),
    "update_mask": (),
    "policy": (),
    "bindings": (),
}
"""Values of fields that requests cannot do without, by the fields' names; those of messages are filled in."""
TECH: Final = {"topic": "/topics/p/orders", "subscription": "/subscriptions/p/orders"}
ODD: Final[dict[int, Sequence[Any]]] = {
    FieldDescriptor.CPPTYPE_STRING: (
        *("", "\0", "a\0b", "é", "\U0010ffff", "\ufffe", "\x7f", "a" * 3_000, "9" * 50, "-1", "1e400", "true", "%", "*", "x.y.z"),
        *("projects/-/topics/x", "projects/xmpp/topics/%FF%00", "projects/xmpp/subscriptions/a", "_deleted-topic_", "/topics/", "p"),
        *("attributes:x", 'attributes.a = "\0"', "NOT " * 30 + "attributes:a", "(" * 300, "AA==", "AAAAAAAAAAAAAAAA", "!"),
        *("http://[", "https://example.org/x", "127.0.0.1:80", "allUsers", "user:\0", "user:a@b@c", "etag", "fields", "labels"),
        *("2026-01-01T00:00:00Z", "filter", "message_retention_duration", "retry_policy.minimum_backoff"),
    ),
    FieldDescriptor.CPPTYPE_INT32: (0, 1, -1, 5, 601, 2**31 - 1, -(2**31)),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, -1, 2**63 - 1, -(2**63), 253_402_300_799, 253_402_300_800, -62_135_596_801),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**64 - 1),
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.0, 1.5, -1.0, float("inf"), float("nan"), 1e308),
    FieldDescriptor.CPPTYPE_FLOAT: (0.0, 1.5, float("inf"), float("nan")),
}  # fmt: skip
BYTES: Final = (b"", b"a", b"\xff\0", b"x" * 1_000)


class _Partial:
    """A message that is sent although required fields of it may be missing."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def SerializeToString(self) -> bytes:  # noqa: N802  # a name of protobuf's
        return self._message.SerializePartialToString()


class Caller:
    """Calls rpcs at random. `locks` are ids of the messages delivered last."""

    def __init__(self, channel: Any, random: Random) -> None:
        self._random = random
        stubs = [(Stub(channel, name), wire.service(name)) for name in SERVICES]
        self._rpcs = [(stub, rpc) for stub, service in stubs for rpc in service.methods]
        self._locks: deque[str] = deque(maxlen=20)

    async def call(self) -> tuple[str, grpc.StatusCode]:
        """Make a call; return its rpc with the request as text, and the status."""
        stub, rpc = self._choose()
        request = self.request(rpc)
        try:
            await self._finish(getattr(stub, rpc.name), rpc, request)
        except grpc.aio.AioRpcError as problem:
            if (problem.details() or "").startswith(OWN_FAULT):
                return "", grpc.StatusCode.CANCELLED
            return f"{rpc.full_name}: {request}", problem.code()
        return f"{rpc.full_name}: {request}", grpc.StatusCode.OK

    def _choose(self) -> tuple[Stub, MethodDescriptor]:
        while True:
            stub, rpc = self._random.choice(self._rpcs)
            if not rpc.name.startswith("Delete") or self._random.random() < 0.1:
                return stub, rpc  # else nothing would be there

    def rpc(self) -> MethodDescriptor:
        """Return an rpc to call next."""
        return self._choose()[1]

    async def _finish(self, do: Any, rpc: MethodDescriptor, request: Message) -> None:
        timeout = WAITING.get(rpc.name, TIMEOUT)
        if not rpc.server_streaming:
            self._remember(await do(_Partial(request), timeout=timeout))
            return

        async def said() -> AsyncIterator[_Partial]:
            yield _Partial(request)
            yield _Partial(self.request(rpc))

        async for answer in do(said(), timeout=timeout):
            self._remember(answer)

    def _remember(self, answer: Any) -> None:
        pulled = getattr(answer, "received_messages", ()) or getattr(answer, "pull_responses", ())
        self._locks += [one.ack_id for one in (*pulled, answer) if getattr(one, "ack_id", "")]

    def remember_raw(self, rpc: MethodDescriptor, answer: bytes) -> None:
        """Note the locks in the bytes of an answer."""
        self._remember(wire.class_for(rpc.output_type).FromString(answer))

    def remember_lock(self, ack_id: str) -> None:
        """Note a lock."""
        self._locks.append(ack_id)

    def request(self, rpc: MethodDescriptor) -> Message:
        """Return a request."""
        return self.message(wire.class_for(rpc.input_type))

    def message(self, kind: type[Message]) -> Message:
        """Return a message of this class."""
        made = kind()
        self._fill(made, self._random.choice((0.02, 0.1, 0.3)), 0)
        return made

    def _fill(self, message: Any, chance: float, depth: int) -> None:
        """Fill in fields: those that are needed nearly always, the others by this chance."""
        for field in message.DESCRIPTOR.fields:
            needed = field.name in USEFUL or field.name in {"name", "ack_ids", "ack_id"}
            if depth > DEPTH or self._random.random() > (0.97 if needed else chance):
                continue
            if field.is_repeated:
                self._extend(getattr(message, field.name), field, chance, depth)
            elif field.message_type:
                getattr(message, field.name).SetInParent()
                self._fill(getattr(message, field.name), chance, depth + 1)
            else:
                setattr(message, field.name, self._value(field, chance))

    def _extend(self, values: Any, field: FieldDescriptor, chance: float, depth: int) -> None:
        pairs = field.message_type and field.message_type.GetOptions().map_entry
        for _ in range(self._random.choice((1, 1, 2, 5))):
            if pairs:
                entry = field.message_type.fields_by_name
                key = self._value(entry["key"], chance)
                if entry["value"].message_type:
                    self._fill(values[key], chance, depth + 1)
                else:
                    values[key] = self._value(entry["value"], chance)
            elif field.message_type:
                self._fill(values.add(), chance, depth + 1)
            else:
                values.append(self._value(field, chance))

    def _value(self, field: FieldDescriptor, chance: float) -> Any:
        if self._random.random() > chance and (useful := self._useful(field)):
            return self._random.choice(useful)
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return self._random.choice([one.number for one in field.enum_type.values])
        odd = BYTES if field.type == FieldDescriptor.TYPE_BYTES else ODD[field.cpp_type]
        return self._random.choice(odd)

    def _useful(self, field: FieldDescriptor) -> Sequence[Any]:
        if field.name in {"ack_id", "ack_ids"}:
            return tuple(self._locks)
        kind = field.containing_type.full_name
        name = field.name
        if name == "name":
            name = "topic" if "Topic" in kind else "subscription"
        if kind.startswith("tech.") and name in TECH:
            return (TECH[name],)
        return USEFUL.get(name, ())


@asynccontextmanager
async def calling(
    folder: Path, random: Random, store: str = ""
) -> AsyncIterator[tuple[GrpcService, Caller]]:
    """Run a service, by default with a store in the folder, and return what calls it."""
    service = GrpcService(folder, store=store)
    async with service, grpc.aio.insecure_channel(service.address) as channel:
        publisher, subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)
        for topic, subscription in list(zip(TOPICS, SUBSCRIPTIONS, strict=True))[:2]:
            await publisher.CreateTopic(name=topic)
            await subscriber.CreateSubscription(name=subscription, topic=topic)
        yield service, Caller(channel, random)


async def run(service: GrpcService, caller: Caller, count: int) -> Counter[str]:
    """Make so many calls; return how often each status came.

    Raises:
        FaultError: one has met a fault.

    """
    codes: Counter[str] = Counter()
    last: deque[str] = deque(maxlen=LOG_EVERY)
    for at in range(count):
        called, code = await caller.call()
        codes[code.name] += 1
        last.append(called)
        logged = [] if at % LOG_EVERY and at + 1 < count else faults(service)
        if code in FAULTS or logged:
            raise FaultError("\n".join((code.name, *logged[:1], "after:", *last)))
    return codes


@click.command(context_settings={"show_default": True})
@click.option("--calls", "count", default=20_000, type=click.IntRange(1))
@click.option("--seed", default=1, help="The calls follow from it.")
def main(*, count: int, seed: int) -> None:
    """Make random calls; stop at the first that meets a fault."""

    async def fuzz(folder: Path) -> Counter[str]:
        async with calling(folder, Random(seed)) as (service, caller):
            return await run(service, caller, count)

    print_outcome(fuzz, f"{count:,} calls", seed)


if __name__ == "__main__":
    main()
