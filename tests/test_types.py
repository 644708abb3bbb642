"""The types that mypy --strict sees behind the front door are exact."""

import subprocess
import sys

PROGRAM = """
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_type

import msgspec

from pubqueue import (
    Admin, BlockingAdmin, BlockingItem, BlockingPublisher, FollowUp, Hold, Item, Items, NewItem, NotAllPublished, Published, Publisher,
    Refused, Release, Reply, Retracted, Then, Worker,
)


class Flight(msgspec.Struct):
    number: str


@dataclass
class Person:
    name: str


def read(item: Item, blocking: BlockingItem, reply: Reply) -> None:
    assert_type(item.decode(Flight), Flight)
    assert_type(item.decode(Person), Person)
    assert_type(item.decode(dict[str, int]), dict[str, int])
    assert_type(item.decode(list[Flight]), list[Flight])
    assert_type(item.decode(str), str)
    number: int | None = item.decode(int | None)
    assert_type(number, int | None)
    assert_type(blocking.decode(Flight), Flight)
    assert_type(reply.decode(bytes), bytes)


async def publish(publisher: Publisher, item: Item) -> None:
    assert_type(await publisher.publish("jobs", {"a": 1}, id="i1"), Published)
    assert_type(await publisher.publish_many("jobs", [1, NewItem(payload=2)]), list[Published])
    assert_type(await publisher.ask("jobs", Flight("LH 400")), Reply)
    gone = await publisher.retract("jobs", "i1", timeout=timedelta(minutes=1))
    assert_type(gone, Retracted)
    assert_type((gone.there, gone.locked), tuple[bool | None, bool | None])
    at = datetime.now(UTC)
    await publisher.publish("jobs", 1, delay=at, ttl=timedelta(days=1), timeout=60)
    assert_type(Release(timedelta(minutes=1)).outcome.delay, float | None)
    assert_type(await item.publish("more", None), Published)
    assert_type((await item.reply([1])).duplicate, bool | None)
    async with Publisher.from_url("xmpp://a@b/c") as mine:
        assert_type(mine, Publisher)


def wait(blocking: BlockingItem, error: Refused, some: NotAllPublished) -> None:
    with BlockingPublisher() as publisher:
        assert_type(publisher, BlockingPublisher)
        assert_type(publisher.publish_many("jobs", (n for n in range(9))), list[Published])
        assert_type(publisher.ask("jobs", 1).id, str)
        assert_type(publisher.retract("jobs", "i1", timeout=timedelta(minutes=1)), Retracted)
        publisher.publish("jobs", 1, priority="high")  # type: ignore[arg-type]
        publisher.publish("jobs", 1, importance=1)  # type: ignore[call-arg]
    BlockingPublisher(timeout=timedelta(minutes=1), url="xmpp://a@b/c")
    BlockingPublisher(tls="none")  # type: ignore[arg-type]
    assert_type(blocking.touch(60), datetime | None)
    assert_type(blocking.publish("more", None), Published)
    assert_type(error.condition, str | None)
    assert_type([type(one) for one in some.results], list[type[Published] | type[Exception]])
    Worker(node="jobs").run_blocking(lambda item: item.reply(item.data))
    Worker(node=["jobs", "more"], grace=timedelta(minutes=1))
    Worker(node="jobs", tls="none")  # type: ignore[arg-type]  # which is no mode


async def follow(item: Item, items: Items[Item]) -> Then:
    items.settle(item, Then(FollowUp("mails", 1, delay=timedelta(minutes=1))))
    items.settle(item, 1)  # type: ignore[arg-type]
    await item.retract(Then(FollowUp("mails", {"to": "ann"}, group="ann")))
    Then({"to": "ann"})  # type: ignore[arg-type]
    FollowUp("mails", 1, "b1")  # type: ignore[call-arg]
    return Then(FollowUp("mails", 1), reply="sent", hold=Hold("seen"))


async def operate(admin: Admin) -> None:
    async for queue in admin.overview(sort="dead", max=10):
        assert_type((queue.node, queue.dead), tuple[str, int | None])
        assert_type((queue.oldest, queue.problems), tuple[datetime | None, tuple[str, ...]])
    assert_type((await admin.redrive("jobs", reason="timed out *")).count, int | None)
    assert_type((await admin.node_create("mail", settings={"max_failures": 5})).note, str)
    await admin.schedule_add("nightly", "@daily", "jobs", {"task": "tidy"}, missed="all")
    await admin.pause()  # type: ignore[call-arg]
    await admin.cancel("jobs", items=["a"])  # type: ignore[call-arg]
    admin.overview(sort="colour")  # type: ignore[arg-type]


def operate_and_wait(url: str) -> None:
    with BlockingAdmin(url, password="secret", timeout=5) as admin:
        assert_type([item.id for item in admin.items("jobs", state="dead")], list[str])
        assert_type(admin.peek("jobs", "i1").headers, tuple[str, ...])
        assert_type(admin.service().version, str | None)
    BlockingAdmin(colour="red")  # type: ignore[call-arg]
"""


def test_a_strict_user_sees_exact_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-Im",
                "mypy",
                "--strict",
                "--config-file",
                "",
                "--warn-unused-ignores",
            ),
            *("--cache-dir", tmp_path / "cache", program),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.splitlines()[-1], done.returncode) == (
        "Success: no issues found in 1 source file",
        0,
    ), done.stdout
