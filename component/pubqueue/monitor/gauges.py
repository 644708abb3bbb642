"""The gauges of a scrape."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pubqueue.engine.connections import REFUSED, SECONDS
from pubqueue.engine.observe import Phase
from pubqueue.model.entities import AccessModel
from pubqueue.model.records import KeptMessages
from pubqueue.model.replies import NodePage, ServiceState
from pubqueue.rules.inspect import AskService
from pubqueue.rules.messages import ListMessages
from pubqueue.rules.read import ReadNodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from pubqueue.engine.observe import Traffic, Waiting
    from pubqueue.engine.task import Upkeep
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Millis, Principal
    from pubqueue.model.replies import NodeEntry

    Ask = Callable[[ReadNodes | AskService], Awaitable[Reply]]


class SilentStoreError(Exception):
    """The store does not answer."""


MAX_SHOWN: Final = 1_000
"""Maximum number of nodes with gauges, the first by name; `pubqueue_nodes` is the number of all."""

QUEUES: Final[tuple[tuple[str, str, Callable[[NodeEntry, Millis], float]], ...]] = (
    ("queue_depth", "Items that wait for delivery.", lambda one, _: one.queued),
    ("queue_in_flight", "Items locked to a worker.", lambda one, _: one.locked),
    ("queue_delayed", "Items that wait for a delay or a retry.", lambda one, _: one.delayed),
    (
        "queue_held",
        "Items that are held for a signal, a time, or other items.",
        lambda one, _: one.held,
    ),
    ("queue_dead", "Dead items.", lambda one, _: one.dead),
    ("queue_done", "Done items that the queue keeps.", lambda one, _: one.node.done),
    (
        "queue_oldest_age_seconds",
        "Age in seconds of the oldest waiting item; 0 if there is none.",
        lambda one, now: 0.0 if one.oldest is None else max(0, now - one.oldest) / 1000,
    ),
    (
        "queue_oldest_held_age_seconds",
        "Seconds since the oldest held item was published; 0 if there is none.",
        lambda one, now: 0.0 if one.oldest_held is None else max(0, now - one.oldest_held) / 1000,
    ),
    (
        "queue_free_window",
        "Free slots in the windows of available subscribers.",
        lambda one, _: one.window_free,
    ),
    ("node_subscribers", "Subscriptions.", lambda one, _: one.node.subscriptions),
)
"""The gauges of each node, those of queues before the one of every node."""


ACCOUNTS: Final = (
    ("accounts", "Accounts that have created nodes."),
    ("items", "Items in all nodes."),
    ("item_bytes", "Bytes of payloads and headers in all nodes."),
    ("accounts_near_limit", "Accounts that use 90 % or more of a limit."),
    (
        "account_fullest_ratio",
        "Share of its limit used by the account that is closest to it; 1 is all.",
    ),
)


LIMIT: Final = (
    "account_limit",
    "Default limit of an account; 0: no limit.",
)


async def of_nodes(ask: Ask, by: Principal) -> tuple[list[Metric], frozenset[str]]:
    """Return the contents of the nodes, and the names of those that are open.

    Raises:
        SilentStoreError: the store does not respond.

    """
    entries, now = await _entries(ask, by)
    state = await ask(AskService(by))
    if not isinstance(state, ServiceState):
        raise SilentStoreError
    every = families()
    of_each, total = every[: len(QUEUES)], every[len(QUEUES)]
    for entry in entries:
        for (name, _, value), family in zip(QUEUES, of_each, strict=True):
            if entry.node.config.queueing or name.startswith("node"):
                family.add_metric([entry.node.name], value(entry, now))
    total.add_metric([], state.nodes)
    _fill_accounts(every[len(QUEUES) + 1 :], state)
    is_open = (one.node for one in entries if one.node.config.access_model is AccessModel.OPEN)
    return list(every), frozenset(node.name for node in is_open)


def families() -> list[GaugeMetricFamily]:
    """Return the families for nodes, for their number and for accounts, in this order; without values yet."""
    of_each = [_gauge(name, words, "node") for name, words, _ in QUEUES]
    of_accounts = [_gauge(name, words) for name, words in ACCOUNTS]
    return [*of_each, _gauge("nodes", "Nodes in the store."), *of_accounts, _gauge(*LIMIT, "what")]


def _fill_accounts(families: Sequence[GaugeMetricFamily], state: ServiceState) -> None:
    """Set the storage of accounts and its limits: sums and a maximum, without a label for an account."""
    *sums, limit = families
    kept = state.kept
    fullest = max((one.share for one in kept.nearest), default=0.0)
    values = kept.accounts, kept.items, kept.bytes, kept.near, fullest
    for family, value in zip(sums, values, strict=True):
        family.add_metric([], value)
    for what in state.quota.__struct_fields__:
        limit.add_metric([what], getattr(state.quota, what))


async def _entries(ask: Ask, by: Principal) -> tuple[list[NodeEntry], Millis]:
    found: list[NodeEntry] = []
    while True:
        page = await ask(ReadNodes(by, found[-1].node.name if found else None))
        if not isinstance(page, NodePage):
            raise SilentStoreError
        found += page.entries
        if not page.more or len(found) >= MAX_SHOWN:
            return found[:MAX_SHOWN], page.now


def of_process(waiting: Waiting, traffic: Sequence[Traffic]) -> Iterator[Metric]:
    """Yield what waits in this process, and the traffic of its streams."""
    waits = _gauge(
        "waiting",
        "Waiting in this process: requests for a batch, reads, bytes of notifications to many.",
        "what",
    )
    for what in waiting.__struct_fields__:
        waits.add_metric([what], getattr(waiting, what))
    byte_count = _counter(
        "server_bytes", "Bytes received from and sent to the XMPP server.", "direction"
    )
    byte_count.add_metric(["in"], sum(one.bytes_in for one in traffic))
    byte_count.add_metric(["out"], sum(one.bytes_out for one in traffic))
    yield from (waits, byte_count)
    for name, words, counts in (
        (
            "server_sessions",
            "Times that the XMPP server has accepted the component.",
            (one.sessions for one in traffic),
        ),
        (
            "qos_repeated",
            "Deliveries sent again because they were not answered.",
            (one.repeated for one in traffic),
        ),
        (
            "qos_given_up",
            "Items freed because their worker did not answer the delivery.",
            (one.given_up for one in traffic),
        ),
    ):
        family = _counter(name, words)
        family.add_metric([], sum(counts))
        yield family


def of_connections(traffic: Sequence[Traffic]) -> Iterator[Metric]:
    """Yield how many connections are open, and how many were refused or closed; the names of faces come from the program."""
    is_open = _gauge("connections", "Open connections of clients, by protocol.", "face")
    expiry = _gauge(
        "certificate_expiry_timestamp_seconds",
        "When the certificate for clients expires, in seconds since 1970, by protocol.",
        "face",
    )
    refused, cut = (
        _counter(f"connections_{name}", words, "face", "reason")
        for name, words in (
            ("refused", "Connections refused, by protocol and reason."),
            ("cut", "Connections ended by the service before the client did, by reason."),
        )
    )
    for one in (face.connections for face in traffic if face.connections is not None):
        is_open.add_metric([one.face], one.open)
        if one.certificate_ends is not None:
            expiry.add_metric([one.face], one.certificate_ends)
        for reason, count in one.ended.items():
            family = refused if reason in REFUSED else cut
            family.add_metric([one.face, reason.value], count)
    yield from (is_open, refused, cut, expiry)


def of_requests(traffic: Sequence[Traffic]) -> Iterator[Metric]:
    """Yield how many HTTP requests were answered, and how many wait for a message; the labels come from the program."""
    answered = _counter(
        "http_requests",
        "Requests of REST, and of Pub/Sub in JSON, that were answered, by profile, route and status.",
        *("profile", "route", "status"),
    )
    waiting = _gauge("http_requests_waiting", "Requests of REST that wait for a message.")
    found = [face.requests for face in traffic if face.requests is not None]
    for one in found:
        for (profile, route, status), count in sorted(one.answered.items()):
            answered.add_metric([profile, route, f"{status}"], count)
    if found:
        waiting.add_metric([], sum(one.waiting for one in found))
    yield from (answered, waiting)


def of_pushes(traffic: Sequence[Traffic]) -> Iterator[Metric]:
    """Yield how many pushes of REST ended with each result; the names of results come from the program."""
    pushed = _counter("rest_pushes", "Pushes of REST that have ended, by outcome.", "outcome")
    for pushes in (face.pushes for face in traffic if face.pushes is not None):
        for outcome, count in sorted(pushes.items()):
            pushed.add_metric([outcome], count)
    yield pushed


def of_calls(traffic: Sequence[Traffic]) -> Iterator[Metric]:
    """Yield how many calls of gRPC ended, how long they took, and how many are open; the labels come from the program."""
    by_method = ["service", "method"]
    ended = _counter(
        "grpc_calls", "Calls of gRPC that have ended, by method and code.", *by_method, "code"
    )
    took = HistogramMetricFamily(
        "pubqueue_grpc_call_seconds",
        "Seconds until a call of gRPC was answered, with the time that a pull waits; streams are left out.",
        labels=by_method,
    )
    is_open = _gauge("grpc_calls_open", "Calls of gRPC that are open, streams too.", *by_method)
    held = _gauge(
        "grpc_messages_outstanding", "Messages that streams have delivered and not got back yet."
    )
    for one in (face.calls for face in traffic if face.calls is not None):
        for (method, code), count in sorted(one.ended.items()):
            ended.add_metric([*method, code], count)
        for method, durations in sorted(one.durations.items()):
            took.add_metric([*method], _cumulated(durations.counts), durations.total)
        for method, count in sorted(one.open.items()):
            is_open.add_metric([*method], count)
        held.add_metric([], one.outstanding())
    yield from (ended, took, is_open, held)


def _cumulated(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the buckets of a histogram as Prometheus has them: each bucket also counts all smaller values."""
    bounds = [*map(str, SECONDS), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))


def of_upkeep(upkeep: Upkeep) -> Iterator[Metric]:
    """Yield when the tasks beside the broker last completed a round, and how many rows they could not end."""
    ago = _gauge("task_round_age_seconds", "Seconds since a background task last ran.", "task")
    late = _gauge("task_late", "1 if the task is overdue, otherwise 0.", "task")
    for one in upkeep.rounds():
        ago.add_metric([one.task], one.ago)
        late.add_metric([one.task], int(one.late))
    yield ago
    yield late
    aside = _gauge(
        "rows_set_aside", "Expired rows that cannot be ended or read; the log names them."
    )
    aside.add_metric([], upkeep.aside())
    yield aside
    damaged = _counter(
        "damaged_items",
        "Items, and other rows, whose stored content is not what was written; the log names them.",
    )
    damaged.add_metric([], upkeep.damaged())
    yield damaged


def _gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"pubqueue_{name}", words, labels=labels)


def _counter(name: str, words: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"pubqueue_{name}", words, labels=labels)


def store_answers(*, yes: bool) -> Metric:
    """Return whether the store could be read for this response."""
    answers = _gauge("store_answers", "1 if the store could be read for this scrape, otherwise 0.")
    answers.add_metric([], int(yes))
    return answers


def of_build(version: str, phase: Phase) -> Iterator[Metric]:
    """Yield the version, and the state of this process."""
    build = _gauge("build_info", "The version of pubqueue.", "version")
    build.add_metric([version], 1)
    yield build
    phases = _gauge("phase", "1 for the current phase of this process, 0 for the others.", "phase")
    for one in Phase:
        phases.add_metric([one], int(one is phase))
    yield phases


# The metrics of carried messages (urn:xmpp:qos): those that are held, and steps that were taken and refused.


async def of_kept_messages(
    ask: Callable[[ListMessages], Awaitable[Reply]], by: Principal
) -> list[Metric]:
    """Return the messages that are held.

    Raises:
        SilentStoreError: the store does not answer.

    """
    reply = await ask(ListMessages(by, max=1))
    if not isinstance(reply, KeptMessages):
        raise SilentStoreError
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
    taken = _counter(
        "qos_taken", "Steps of carried messages (urn:xmpp:qos) that were taken.", "step"
    )
    refused = _counter(
        "qos_refused", "Carried messages that were refused, by the kind of the event.", "id"
    )
    for found in (face.messages for face in traffic if face.messages is not None):
        for family, counts in ((taken, found.taken), (refused, found.refused)):
            for word, count in sorted(counts.items()):
                family.add_metric([word], count)
    yield from (taken, refused)
