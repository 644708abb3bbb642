"""The metrics of carried messages (urn:xmpp:qos): those that are held, and steps that were taken and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pubqueue.model.records import KeptMessages
from pubqueue.rules.messages import ListMessages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from pubqueue.engine.observe import Traffic
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Principal


async def of_kept_messages(
    ask: Callable[[ListMessages], Awaitable[Reply]], by: Principal
) -> list[Metric]:
    """Return the messages that are held.

    Raises:
        RuntimeError: the store does not answer.

    """
    reply = await ask(ListMessages(by, max=1))
    if not isinstance(reply, KeptMessages):
        raise RuntimeError("the store does not answer")  # noqa: TRY004  # it is a refusal
    return kept_messages(reply)


def kept_messages(reply: KeptMessages) -> list[Metric]:
    """Return the messages of all accounts as metrics."""
    held = (
        ("messages", "Assured messages that are held.", reply.messages),
        ("bytes", "Bytes of the assured messages that are held.", reply.byte_count),
    )
    return [
        GaugeMetricFamily(f"pubqueue_qos_kept_{name}", words, value) for name, words, value in held
    ]


def of_messages(traffic: Sequence[Traffic]) -> Iterator[Metric]:
    """Yield how many steps were done and refused; the labels are words of the program."""
    taken = CounterMetricFamily(
        "pubqueue_qos_taken",
        "Steps of carried messages (urn:xmpp:qos) that were taken.",
        labels=["step"],
    )
    refused = CounterMetricFamily(
        "pubqueue_qos_refused",
        "Carried messages that were refused, by the kind of the event.",
        labels=["id"],
    )
    for found in (face.messages for face in traffic if face.messages is not None):
        for family, counts in ((taken, found.taken), (refused, found.refused)):
            for word, count in sorted(counts.items()):
                family.add_metric([word], count)
    yield from (taken, refused)
