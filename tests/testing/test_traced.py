"""Every publish of a publisher that is told so once carries the span in which it is called."""

import asyncio
import threading

import pytest
from opentelemetry.sdk.trace import TracerProvider

from pubqueue import BlockingPublisher, Handlers, NewItem, Publisher, Worker
from pubqueue_xeps import tracing

TRACER = TracerProvider().get_tracer("test")


def reported(span):
    """Return what the W3C's Trace Context writes for it."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


@pytest.fixture
def service(pubqueue_service):
    pubqueue_service.create("jobs")
    pubqueue_service.create("mail")
    return pubqueue_service


def carried(service, node="jobs"):
    return {item.id: dict(item.headers) for item in service.items(node)}


async def test_every_publish_inside_a_span_carries_it(service):
    async with Publisher(**service.account("shop"), headers=tracing.inject) as publisher:
        with TRACER.start_as_current_span("outer") as outer:
            await publisher.publish("jobs", 1, id="a", headers={"kind": "mail"})
            with TRACER.start_as_current_span("inner") as inner:
                many = [2, NewItem(payload=3, id="c", headers={"kind": "own"})]
                first, _ = await publisher.publish_many("jobs", many)
        await publisher.publish("jobs", 4, id="d", headers={"kind": "alone"})
    assert carried(service) == {
        "a": {"kind": "mail", "traceparent": reported(outer)},
        first.id: {"traceparent": reported(inner)},
        "c": {"kind": "own", "traceparent": reported(inner)},
        "d": {"kind": "alone"},
    }


async def test_what_is_asked_carries_it_too(service):
    app, seen = Handlers(), []

    @app.handler()
    async def handle(item):
        seen.append(item.headers["traceparent"])
        await item.reply("done")

    worker = Worker(**service.account("bot"), node="jobs", signals=())
    async with Publisher(**service.account("shop"), headers=tracing.inject) as publisher:
        with TRACER.start_as_current_span("asks") as span:
            running = asyncio.create_task(worker.run(app))
            reply = await publisher.ask("jobs", 1)
            worker.stop()
            await running
    assert (reply.data, seen) == ("done", [reported(span)])


def test_a_publisher_that_blocks_carries_the_span_of_each_thread(service):
    spans = {}
    with BlockingPublisher(**service.account("shop"), headers=tracing.inject) as publisher:

        def publish(name):
            with TRACER.start_as_current_span(name) as spans[name]:
                publisher.publish("jobs", name, id=name)

        threads = [threading.Thread(target=publish, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert carried(service) == {
        name: {"traceparent": reported(span)} for name, span in spans.items()
    }


@pytest.mark.parametrize("blocking", [False, True])
async def test_follow_ups_carry_the_span_in_which_they_are_published(service, blocking):
    spans, app = {}, Handlers(tracing.Tracing(TracerProvider()))

    async def follow(item):
        with TRACER.start_as_current_span("inside") as spans["inside"]:
            await item.publish("mail", 1, id="m", headers={"kind": "mail"})

    def follow_blocking(item):
        with TRACER.start_as_current_span("inside") as spans["inside"]:
            item.publish("mail", 1, id="m", headers={"kind": "mail"})

    app.handler()(follow_blocking if blocking else follow)
    service.publish("jobs", 1, id="a")
    await service.work(app, node="jobs")
    said = {"parent": "jobs/a", "kind": "mail", "traceparent": reported(spans["inside"])}
    assert carried(service, "mail") == {"m": said}


async def test_any_function_may_set_what_is_carried(service):
    def tenant(headers):
        return {"tenant": "north", **(headers or {})}

    async with Publisher(**service.account("shop"), headers=tenant) as publisher:
        await publisher.publish("jobs", 1, id="a")
        await publisher.publish("jobs", 1, id="b", headers={"tenant": "south"})
    assert carried(service) == {"a": {"tenant": "north"}, "b": {"tenant": "south"}}
