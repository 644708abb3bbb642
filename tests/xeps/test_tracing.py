"""A trace goes on from the publisher's span to the worker's, in the headers that the W3C names."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pubqueue_xeps import tracing
from pubqueue_xeps.middleware import handler_name, wrapped
from pubqueue_xeps.wire.refusals import Reject, Release


@pytest.fixture
def spans():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def finished():
        return exporter.get_finished_spans()

    return SimpleNamespace(provider=provider, finished=finished)


def item(headers):
    return SimpleNamespace(
        node="jobs", id="i1", attempt=3, failures=2, publisher=None, headers=headers
    )


def parent(span):
    """Return what the W3C's Trace Context writes for it."""
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def test_outside_a_span_the_headers_stay_as_they_are():
    assert tracing.inject() == {}
    assert tracing.inject({"kind": "mail"}) == {"kind": "mail"}


async def test_the_workers_span_is_a_child_of_the_publishers(spans):
    handler_name.set("rebook")
    inside = {}

    async def handler(one):
        inside.update(tracing.inject())

    with tracing.publishing(
        "jobs", {"kind": "mail"}, id="i1", tracer_provider=spans.provider
    ) as headers:
        pass
    await wrapped([tracing.Tracing(spans.provider)], handler)(item(headers))
    sent, processed = spans.finished()
    assert headers == {"kind": "mail", "traceparent": parent(sent)}
    assert inside == {"traceparent": parent(processed)}
    assert processed.parent.span_id == sent.context.span_id
    assert (sent.name, sent.kind) == ("send jobs", SpanKind.PRODUCER)
    assert (processed.name, processed.kind) == ("process jobs", SpanKind.CONSUMER)
    assert dict(sent.attributes) == {
        "messaging.system": "pubqueue",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "jobs",
        "messaging.message.id": "i1",
    }
    assert dict(processed.attributes) == {
        "messaging.system": "pubqueue",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "jobs",
        "messaging.message.id": "i1",
        "pubqueue.handler": "rebook",
        "pubqueue.attempt": 3,
        "pubqueue.failures": 2,
        "pubqueue.outcome": "done",
    }


async def test_the_state_of_a_trace_comes_along(spans):
    parent = {"traceparent": f"00-{7:032x}-{8:016x}-01", "tracestate": "vendor=1"}
    inside = {}

    async def handler(one):
        inside.update(tracing.inject())

    await wrapped([tracing.Tracing(spans.provider)], handler)(item(parent))
    assert inside["tracestate"] == "vendor=1"
    assert spans.finished()[0].context.trace_id == 7


@pytest.mark.parametrize("headers", [{}, {"traceparent": "nonsense"}])
async def test_without_a_trace_before_it_one_begins(spans, headers):
    async def handler(one):
        pass

    await wrapped([tracing.Tracing(spans.provider)], handler)(item(headers))
    assert spans.finished()[0].parent is None


@pytest.mark.parametrize(
    ("error", "status", "kind", "outcome"),
    [
        (ValueError("a name"), StatusCode.ERROR, "ValueError", "failed"),
        (Reject("no"), StatusCode.ERROR, "Reject", "reject"),
        (Release(), StatusCode.UNSET, None, "release"),
    ],
)
async def test_a_failure_is_logged_by_its_class_only(spans, error, status, kind, outcome):
    async def handler(one):
        raise error

    with pytest.raises(type(error)):
        await wrapped([tracing.Tracing(spans.provider)], handler)(item({}))
    (span,) = spans.finished()
    assert (span.status.status_code, span.status.description) == (status, None)
    assert (span.attributes.get("error.type"), span.events) == (kind, ())
    assert span.attributes["pubqueue.outcome"] == outcome


def test_a_failed_publish_is_logged_by_its_class_only(spans):
    failing = tracing.publishing("jobs", tracer_provider=spans.provider)
    with pytest.raises(ValueError, match="a name"), failing:
        raise ValueError("a name")
    (span,) = spans.finished()
    assert (span.attributes["error.type"], span.events) == ("ValueError", ())


def test_without_the_extra_it_names_what_to_install():
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try:\n    import pubqueue_xeps.tracing\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Tracing needs pip install 'pubqueue[opentelemetry]'.\n"
