"""The gauges of a scrape: the nodes with their contents, and the state of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pubqueue.app.watch.watching import Phase
from pubqueue.core.reading.inspect import AskService
from pubqueue.core.reading.pages import NodePage
from pubqueue.core.reading.read import ReadNodes
from pubqueue.core.reading.summaries import ServiceState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from pubqueue.app.upkeep import Upkeep
    from pubqueue.app.watch.watching import Traffic, Waiting
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Millis, Principal
    from pubqueue.core.reading.pages import NodeEntry

    Ask = Callable[[ReadNodes | AskService], Awaitable[Reply]]

MAX_SHOWN: Final = 1_000
"""Maximum number of nodes with gauges, the first by name; `pubqueue_nodes` is the number of all."""

QUEUES: Final = (
    ("queue_depth", "Items that wait for delivery."),
    ("queue_in_flight", "Items locked to a worker."),
    ("queue_delayed", "Items that wait for a delay or a retry."),
    ("queue_dead", "Dead items."),
    ("queue_oldest_age_seconds", "Age in seconds of the oldest waiting item; 0 if there is none."),
    ("queue_free_window", "Free slots in the windows of available subscribers."),
    ("node_subscribers", "Subscriptions."),
)


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


async def of_nodes(ask: Ask, by: Principal) -> list[Metric]:
    """Return what is in the nodes.

    Raises:
        RuntimeError: the store does not answer.

    """
    entries, now = await _entries(ask, by)
    state = await ask(AskService(by))
    if not isinstance(state, ServiceState):
        raise RuntimeError("the store does not answer")  # noqa: TRY004  # it is a refusal
    every = families()
    of_each, total = every[: len(QUEUES)], every[len(QUEUES)]
    for entry in entries:
        values = _values(entry, now)
        for (name, _), family in zip(QUEUES, of_each, strict=True):
            if name in values:
                family.add_metric([entry.node.name], values[name])
    total.add_metric([], state.nodes)
    _fill_accounts(every[len(QUEUES) + 1 :], state)
    return list(every)


def families() -> list[GaugeMetricFamily]:
    """Return the families for nodes, for their number and for accounts, in this order; without values yet."""
    of_each = [_gauge(name, words, "node") for name, words in QUEUES]
    of_accounts = [_gauge(name, words) for name, words in ACCOUNTS]
    return [*of_each, _gauge("nodes", "Nodes in the store."), *of_accounts, _gauge(*LIMIT, "what")]


def _fill_accounts(families: Sequence[GaugeMetricFamily], state: ServiceState) -> None:
    """Fill in the storage of accounts and its limits: sums and a maximum, without a label for an account."""
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
            raise RuntimeError("the store does not answer")  # noqa: TRY004  # it is a refusal
        found += page.entries
        if not page.more or len(found) >= MAX_SHOWN:
            return found[:MAX_SHOWN], page.now


def _values(entry: NodeEntry, now: Millis) -> dict[str, float]:
    subscribers = {"node_subscribers": float(entry.node.subscriptions)}
    if not entry.node.config.queueing:
        return subscribers
    age = 0.0 if entry.oldest is None else max(0, now - entry.oldest) / 1000
    return subscribers | {
        "queue_depth": entry.queued,
        "queue_in_flight": entry.locked,
        "queue_delayed": entry.delayed,
        "queue_dead": entry.dead,
        "queue_oldest_age_seconds": age,
        "queue_free_window": entry.window_free,
    }


def of_process(waiting: Waiting, traffic: Sequence[Traffic]) -> Iterator[Metric]:
    """Yield what waits in this process, and what has come and gone on its streams."""
    waits = _gauge(
        "waiting",
        "Waiting in this process: requests for a batch, reads, bytes of notifications to many.",
        "what",
    )
    for what in waiting.__struct_fields__:
        waits.add_metric([what], getattr(waiting, what))
    yield waits
    byte_count = CounterMetricFamily(
        "pubqueue_server_bytes",
        "Bytes received from and sent to the XMPP server.",
        labels=["direction"],
    )
    byte_count.add_metric(["in"], sum(one.bytes_in for one in traffic))
    byte_count.add_metric(["out"], sum(one.bytes_out for one in traffic))
    yield byte_count
    sessions = CounterMetricFamily(
        "pubqueue_server_sessions", "Times that the XMPP server has accepted the component."
    )
    sessions.add_metric([], sum(one.sessions for one in traffic))
    yield sessions


def of_upkeep(upkeep: Upkeep) -> Iterator[Metric]:
    """Yield the last rounds of the tasks beside the broker, and how many rows they could not end."""
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


def _gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"pubqueue_{name}", words, labels=labels)


def store_answers(*, yes: bool) -> Metric:
    """Return whether the store could be read for this answer."""
    answers = _gauge("store_answers", "1 if the store could be read for this scrape, otherwise 0.")
    answers.add_metric([], int(yes))
    return answers


def of_build(version: str, phase: Phase) -> Iterator[Metric]:
    """Yield which version this is, and how far this process is."""
    build = _gauge("build_info", "The version of pubqueue.", "version")
    build.add_metric([version], 1)
    yield build
    phases = _gauge("phase", "1 for the current phase of this process, 0 for the others.", "phase")
    for one in Phase:
        phases.add_metric([one], int(one is phase))
    yield phases
