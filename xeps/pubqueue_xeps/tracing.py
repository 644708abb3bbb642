"""One trace from the publisher to the worker, with OpenTelemetry: pip install 'pubqueue[opentelemetry]'.

The context of a trace is in the headers of an item (XEP-0131), as W3C Trace Context defines: `traceparent` and
`tracestate`. The publisher sets it, and the worker continues the trace, over any number of attempts. Spans follow
OpenTelemetry's conventions for messaging; a span never contains payload or the text of an exception.

    async with Publisher(headers=tracing.inject) as publisher:    # continues the current trace
        await publisher.publish("jobs", payload)

    with tracing.publishing("jobs") as headers:                   # a span for the publish itself
        await publisher.publish("jobs", payload, headers=headers)

    app = Handlers(tracing.Tracing())
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.middleware import facts_of
from pubqueue_xeps.wire.refusals import outcome_of

try:
    from opentelemetry.trace import Span, SpanKind, StatusCode, get_tracer
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    raise ImportError("Tracing needs pip install 'pubqueue[opentelemetry]'.") from None

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.trace import TracerProvider

    from pubqueue_xeps.item import Item
    from pubqueue_xeps.middleware import Next

NAME: Final = "pubqueue"
W3C: Final = TraceContextTextMapPropagator()


def inject(headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the headers to publish with, including the context of the current span, if there is one."""
    carried = dict(headers or {})
    W3C.inject(carried)
    return carried


@contextmanager
def publishing(
    node: str,
    headers: Mapping[str, str] | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the name of the attribute
    tracer_provider: TracerProvider | None = None,
) -> Iterator[dict[str, str]]:
    """Make a span for a publish in the block, and yield the headers to publish with.

    An exception of the block marks the span as failed, with the name of its class.
    """
    tracer = get_tracer(NAME, tracer_provider=tracer_provider)
    attributes = _attributes("send", node, id)
    with tracer.start_as_current_span(
        f"send {node}",
        kind=SpanKind.PRODUCER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield inject(headers)
        except Exception as error:
            _fail(span, error)
            raise


class Tracing:
    """A middleware that makes a span for each attempt at an item, the child of the span that published it.

    Follow-ups that the item publishes carry the span that is current then.

    `tracer_provider` is by default the program's own. A failure and a rejection are errors; a release is not.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = get_tracer(NAME, tracer_provider=tracer_provider)

    async def __call__(self, item: Item, call_next: Next) -> object:
        """Continue the publisher's trace while the handler runs."""
        facts = facts_of(item)
        item.carry = inject
        attributes: dict[str, str | int] = {
            "pubqueue.handler": facts.handler,
            "pubqueue.attempt": facts.attempt,
            "pubqueue.failures": facts.failures,
        }
        with self._tracer.start_as_current_span(
            f"process {item.node}",
            context=W3C.extract(item.headers),
            kind=SpanKind.CONSUMER,
            attributes=_attributes("process", item.node, item.id) | attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await call_next(item)
            except BaseException as error:
                span.set_attribute("pubqueue.outcome", outcome_of(error).type)
                if outcome_of(error).type != "release":
                    _fail(span, error)
                raise
            span.set_attribute("pubqueue.outcome", "done")
            return result


def _attributes(operation: str, node: str, id: str | None) -> dict[str, str | int]:  # noqa: A002
    named: dict[str, str | int] = {} if id is None else {"messaging.message.id": id}
    return named | {
        "messaging.system": NAME,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": node,
    }


def _fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed without the text of the exception, which may hold payload."""
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(StatusCode.ERROR)
