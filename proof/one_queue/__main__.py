"""`.venv/bin/python -m proof.one_queue`: bring 10,000 items through, in groups, some of them refused once."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import queue
import re
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import stomp
from faces.rest.clients import follow, links
from faces.rest.served.service import client_at
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.types import FlowControl, PublisherOptions
from harness.patience import TIMEOUT
from harness.servers.live import component
from harness.servers.users import RIGHT, table

from proof.faults_run.job import digest_of
from proof.faults_run.publisher import XmppPublisher
from proof.judge.history import History, Operation, judged
from pubqueue import Failed, Publisher, Worker
from pubqueue_demo.prosody import Prosody

WORDS: Final = ("xmpp", "stomp", "http", "grpc")
GROUP_SIZE: Final = 10
"""Items of one group, which one publisher publishes in their order."""

REFUSED: Final = 13
"""Of each group, one item in so many is refused once."""

AT_ONCE: Final = 8
"""Groups that one protocol publishes side by side, and items that its worker has in hand."""

PLACES: Final = re.compile(r"event=(rest|stomp|grpc)\.listening.*?host=(\S+) port=(\d+)")
CONFIG: Final = f"""
[stomp]
listen = "127.0.0.1:0"
heart_beat = 600

[rest]
listen = "127.0.0.1:0"

[grpc]
listen = "127.0.0.1:0"
anonymous = "dev"

{table("etl")}{table("dev")}
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost", "bot@localhost", "etl@queue.localhost", "dev@queue.localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#max_failures" = 100
"""
TOPIC: Final = "projects/xmpp/topics/jobs"
SUBSCRIPTION: Final = "projects/xmpp/subscriptions/jobs"


class Job(NamedTuple):
    """An item: who has published it, its group, and its place there."""

    by: str
    group: str
    place: int

    @property
    def body(self) -> bytes:
        """What is published."""
        return json.dumps(self._asdict()).encode()

    @property
    def name(self) -> str:
        """What the histories call it."""
        return f"{self.group}/{self.place}"

    @property
    def digest(self) -> str:
        """The digest of what is published."""
        return digest_of(self._asdict())


class Notes:
    """What the workers have done, from several threads. Something is noted before it is acknowledged. The histories are for the judge."""

    def __init__(self, items: int, folder: Path) -> None:
        self.items = items
        names = [f"{who}-{word}" for who in ("publisher", "worker") for word in WORDS]
        self.paths = {name: folder / f"{name}.jsonl" for name in (*names, "reader")}
        self._histories = {name: History(path, name) for name, path in self.paths.items()}
        self.done: list[tuple[str, Job]] = []
        self.attempts: Counter[Job] = Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    def history(self, who: str, word: str = "") -> History:
        """Return the history of a publisher or a worker."""
        return self._histories[f"{who}-{word}" if word else who]

    def published(self, word: str, job: Job) -> Operation:
        """Write that a publish begins."""
        more = {"digest": job.digest, "group": job.group}
        return self.history("publisher", word).begin("publish", "jobs", job.name, **more)

    def given(self, word: str, job: Job, token: object, **more: int) -> None:
        """Write that an item has come."""
        lock = {"digest": job.digest, "token": token, **more}
        self.history("worker", word).deliver("jobs", job.name, **lock)

    def ends(self, word: str, job: Job, token: object, *, done: bool) -> Operation:
        """Write that a worker gives an item back, or is done with it."""
        op = "retract" if done else "release"
        return self.history("worker", word).begin(op, "jobs", job.name, token=token)

    def is_refused(self, job: Job) -> bool:
        """Return whether the worker has to refuse the item, this time."""
        with self._lock:
            self.attempts[job] += 1
            is_chosen = hash_of(job) % REFUSED == 0
            return is_chosen and self.attempts[job] == 1

    def note(self, by: str, job: Job, failures: int | None) -> None:
        """Note an item that is done; `failures` is what its protocol says of how often it has failed, None if it says nothing."""
        with self._lock:
            self.done.append((by, job))
            expected = self.attempts[job] - 1
            if failures is not None and failures != expected:
                self.wrong.append(f"{job} came over {by} with {failures} failures, not {expected}")
            if len(self.done) >= self.items:
                self.over.set()

    def check(self, published: set[Job]) -> list[str]:
        """Return what is wrong, in sentences."""
        wrong = list(self.wrong)
        counts = Counter(job for _, job in self.done)
        wrong += [f"{job} was done {n} times" for job, n in counts.items() if n != 1]
        wrong += [f"{job} was never done" for job in published - counts.keys()]
        wrong += [f"{job} was never published" for job in counts.keys() - published]
        places: dict[str, list[int]] = defaultdict(list)
        for _, job in self.done:
            places[job.group].append(job.place)
        wrong += [
            f"group {group} came as {found}"
            for group, found in places.items()
            if found != sorted(found)
        ]
        wrong += [f"{word} has done nothing" for word in WORDS if word not in self.shares()]
        wrong += judged(list(self.paths.values())).lines[:-1]
        return wrong

    def shares(self) -> Counter[str]:
        """Return how many items each protocol has done."""
        return Counter(by for by, _ in self.done)


def hash_of(job: Job) -> int:
    """Return a number that is the same in every run."""
    return sum(job.body) * 31 + job.place


def job_of(body: bytes | str) -> Job:
    """Return what was published."""
    return Job(**json.loads(body))


def jobs(word: str, items: int) -> list[list[Job]]:
    """Return the items that a protocol publishes, by their groups."""
    all_ = [Job(word, f"{word}-{n // GROUP_SIZE}", n % GROUP_SIZE) for n in range(items)]
    return [list(found) for _, found in itertools.groupby(all_, key=lambda job: job.group)]


async def _in_groups(groups: list[list[Job]], publish: Any) -> None:
    """Publish each group in its order, several of them side by side."""
    waiting = iter(groups)

    async def go_on() -> None:
        for group in waiting:
            for job in group:
                await publish(job)

    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))


# --- XMPP -----------------------------------------------------------------------------------------


async def publish_by_xmpp(notes: Notes, groups: list[list[Job]]) -> None:
    """Publish with our library, which is made of slixmpp."""
    async with Publisher() as publisher:

        async def publish(job: Job) -> None:
            begun = notes.published("xmpp", job)
            await publisher.publish("jobs", job._asdict(), group=job.group)
            begun.end("ok")

        await _in_groups(groups, publish)


async def work_by_xmpp(notes: Notes, worker: Worker) -> None:
    """Work until it is stopped."""

    async def work(item: Any) -> None:
        job = Job(**item.data)
        notes.given("xmpp", job, item.token, attempt=item.attempt)
        if notes.is_refused(job):
            notes.ends("xmpp", job, item.token, done=False)
            raise Failed("refused once")
        notes.note("xmpp", job, item.failures)
        retract = notes.ends("xmpp", job, item.token, done=True)
        await item.retract()
        retract.end("ok")

    async with worker:
        await worker.run(work)


# --- STOMP ----------------------------------------------------------------------------------------


class _Frames(stomp.ConnectionListener):
    """What a client of stomp.py hears, in its own thread."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])


def _stomp(address: tuple[str, int]) -> tuple[Any, _Frames]:
    connection, heard = stomp.Connection12([address], heartbeats=(0, 0)), _Frames()
    connection.set_listener("", heard)
    connection.connect("etl", RIGHT, wait=True)
    return connection, heard


def publish_by_stomp(address: tuple[str, int], notes: Notes, groups: list[list[Job]]) -> None:
    """Publish with stomp.py, and wait for all receipts."""
    connection, heard = _stomp(address)
    begun: dict[str, Operation] = {}
    for number, job in enumerate(itertools.chain(*groups)):
        begun[str(number)] = notes.published("stomp", job)
        connection.send(
            "/queue/jobs",
            job.body,
            content_type="application/json",
            headers={"group": job.group},
            receipt=str(number),
        )
        if number >= AT_ONCE:
            begun[heard.receipts.get(timeout=TIMEOUT)].end("ok")
    for _ in range(min(AT_ONCE, sum(map(len, groups)))):
        begun[heard.receipts.get(timeout=TIMEOUT)].end("ok")
    connection.disconnect()


def work_by_stomp(address: tuple[str, int], notes: Notes) -> None:
    """Work with stomp.py until all is done."""
    connection, heard = _stomp(address)
    more = {"prefetch-count": AT_ONCE}
    connection.subscribe("/queue/jobs", "s", "client-individual", headers=more)
    while not notes.over.is_set():
        try:
            frame = heard.messages.get(timeout=0.1)
        except queue.Empty:
            continue
        job, ack = job_of(frame.body), frame.headers["ack"]
        notes.given("stomp", job, ack, attempt=int(frame.headers.get("delivery-attempt", 1)))
        if notes.is_refused(job):
            notes.ends("stomp", job, ack, done=False)
            connection.nack(ack)
            continue
        notes.note("stomp", job, int(frame.headers.get("failed", 0)))
        retract = notes.ends("stomp", job, ack, done=True)
        connection.ack(ack, receipt=ack)
        assert heard.receipts.get(timeout=TIMEOUT) == ack
        retract.end("ok")
    connection.disconnect()


# --- HTTP -----------------------------------------------------------------------------------------


async def publish_by_http(root: str, notes: Notes, groups: list[list[Job]]) -> None:
    """Publish with httpx."""
    async with client_at(root) as client:
        to = await follow(client, "/queues/jobs", "post-message")

        async def publish(job: Job) -> None:
            more = {"Content-Type": "application/json", "Message-Group": job.group}
            begun = notes.published("http", job)
            answer = await client.post(to, content=job.body, headers=more)
            assert answer.status_code == 201, answer.text
            begun.end("ok")

        await _in_groups(groups, publish)


async def work_by_http(root: str, notes: Notes) -> None:
    """Work with httpx until all is done."""
    async with client_at(root) as client:
        poller = await follow(client, "/queues/jobs", "poller")

        async def work() -> None:
            while not notes.over.is_set():
                message = await client.post(poller, headers={"Prefer": "wait=1"})
                if message.status_code == 204:
                    continue
                assert message.status_code == 200, message.text
                where, job = links(message)["acknowledgement"], job_of(message.content)
                notes.given("http", job, where, attempt=int(message.headers["Message-Attempt"]))
                form, is_refused = {"acknowledge": "true"}, notes.is_refused(job)
                if is_refused:
                    form = {"acknowledge": "false", "outcome": "failed"}
                else:
                    notes.note("http", job, int(message.headers.get("Message-Failed", 0)))
                end = notes.ends("http", job, where, done=not is_refused)
                answer = await client.post(where, data=form)
                assert answer.status_code == 204, answer.text
                end.end("ok")

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


# --- gRPC -----------------------------------------------------------------------------------------


def publish_by_grpc(notes: Notes, groups: list[list[Job]]) -> None:
    """Publish with Google's client; groups are ordering keys."""
    ordered = PublisherOptions(enable_message_ordering=True)
    publisher = pubsub_v1.PublisherClient(publisher_options=ordered)
    futures = [
        (
            notes.published("grpc", job),
            publisher.publish(
                TOPIC, job.body, ordering_key=job.group, **{"content-type": "application/json"}
            ),
        )
        for group in groups
        for job in group
    ]
    for begun, future in futures:
        future.result(TIMEOUT)
        begun.end("ok")
    publisher.stop()
    publisher.transport.close()


def work_by_grpc(notes: Notes) -> None:
    """Work with Google's client, whose streaming pull calls back in threads, until all is done."""
    with pubsub_v1.SubscriberClient() as subscriber:

        def on_message(message: Any) -> None:
            job = job_of(message.data)
            notes.given("grpc", job, message.ack_id)
            is_refused = notes.is_refused(job)
            notes.ends("grpc", job, message.ack_id, done=not is_refused)  # has no answer
            if is_refused:
                message.nack()
                return
            notes.note("grpc", job, None)
            message.ack()

        limits = FlowControl(max_messages=AT_ONCE)
        pulling = subscriber.subscribe(SUBSCRIPTION, on_message, flow_control=limits)
        notes.over.wait()
        pulling.cancel()
        with suppress(Exception):
            pulling.result(TIMEOUT)


# --- all of it --------------------------------------------------------------------------------------


async def bring_through(folder: Path, items: int, patience: float) -> Notes:
    """Publish so many items and have them worked off, over all four protocols at once.

    Raises:
        TimeoutError: it is not over in so many seconds.

    """
    notes = Notes(items, folder)
    each = items // len(WORDS)
    groups = {word: jobs(word, each) for word in WORDS}
    published = {job for of in groups.values() for group in of for job in group}
    async with Prosody() as server, AsyncExitStack() as ends:
        for name in ("etl", "bot"):
            await server.account(name, "secret")
        at = f"?host={server.host}&port={server.c2s_port}&tls=off"
        os.environ["PUBQUEUE_URL"] = f"xmpp://etl@localhost/queue.localhost{at}"
        os.environ["PUBQUEUE_PASSWORD"] = "secret"
        program = await ends.enter_async_context(component(server, folder, CONFIG))
        at_ = {word: (host, int(port)) for word, host, port in PLACES.findall(program.log)}
        os.environ["PUBSUB_EMULATOR_HOST"] = "{}:{}".format(*at_["grpc"])
        root = "http://{}:{}/rest".format(*at_["rest"])
        bot = Worker("bot@localhost", node="jobs", requests=AT_ONCE, signals=())
        thread = asyncio.to_thread
        async with asyncio.timeout(patience), asyncio.TaskGroup() as people:
            for work in (
                work_by_xmpp(notes, bot),
                thread(work_by_stomp, at_["stomp"], notes),
                work_by_http(root, notes),
                thread(work_by_grpc, notes),
                publish_by_xmpp(notes, groups["xmpp"]),
                thread(publish_by_stomp, at_["stomp"], notes, groups["stomp"]),
                publish_by_http(root, notes, groups["http"]),
                thread(publish_by_grpc, notes, groups["grpc"]),
            ):
                people.create_task(work)
            people.create_task(_stopped(notes, bot))
        where = {"host": server.host, "port": server.c2s_port, "service": server.component}
        etl = ("etl@localhost/reader", "secret")
        async with asyncio.timeout(patience):
            await XmppPublisher(notes.history("reader"), *etl, **where).read_left()
    notes.wrong = notes.check(published)
    return notes


async def _stopped(notes: Notes, bot: Worker) -> None:
    try:
        await asyncio.to_thread(notes.over.wait)
    finally:
        notes.over.set()  # for the threads, if something has failed
    bot.stop()


@click.command(context_settings={"show_default": True})
@click.option("--items", default=10_000, type=click.IntRange(40), help="Items to bring through.")
def main(items: int) -> None:
    """Bring items through one queue over XMPP, STOMP, HTTP and gRPC at once."""
    items -= items % (len(WORDS) * GROUP_SIZE)
    with tempfile.TemporaryDirectory(prefix="pubqueue-together-") as folder:
        notes = asyncio.run(bring_through(Path(folder), items, 300 + items / 10))
    shares = ", ".join(f"{word} {n}" for word, n in sorted(notes.shares().items()))
    refused = sum(notes.attempts.values()) - items
    click.echo(
        f"together: {items} items, {refused} refused once; {shares}; {len(notes.wrong)} wrong"
    )
    for one in notes.wrong:
        click.echo(one)
    sys.exit(1 if notes.wrong else 0)


if __name__ == "__main__":
    main()
