"""The names of closed nodes are in metrics only for programs on this machine and for users with a role."""

import base64

import aiohttp
import pytest
from harness.batches.queue_requests import a_queue, publishes
from harness.operators.api_caller import LOOK, OWN, PASSWORD, USERS
from harness.operators.page_service import shown
from harness.patience import TIMEOUT
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from pubqueue.model.entities import NodeName
from pubqueue.monitor import gauges
from pubqueue.monitor.server import CLOSED, with_names_of

DEPTH = "pubqueue_queue_depth"
ALL = {("bell",): 1, ("payroll",): 2, ("reserve",): 1}
OPEN_ALONE = {("bell",): 1, (CLOSED,): 3}
BASIC = "Basic " + base64.b64encode(f"anna:{PASSWORD}".encode()).decode()
ELSEWHERE = {"X-Forwarded-For": "192.0.2.7"}


@pytest.fixture
async def service():
    async with shown(users=USERS) as made:
        for name, model, items in (
            ("bell", "open", ("a",)),
            ("payroll", "whitelist", ("b", "c")),
            ("reserve", "authorize", ("d",)),
        ):
            node = NodeName(name)
            await made.do(a_queue(node, access_model=model), publishes(*items, node=node))
        yield made


async def read(service, headers):
    """Return the status, and the values of each metric by their labels."""
    timeout = aiohttp.ClientTimeout(TIMEOUT)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{service.place}/metrics", headers=headers) as answer,
    ):
        text = await answer.text()
    found = {}
    if answer.status == 200:
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                found.setdefault(one.name, {})[*one.labels.values()] = one.value
    return answer.status, found


async def test_a_program_on_this_machine_sees_all(service):
    assert (await read(service, {}))[1][DEPTH] == ALL


@pytest.mark.parametrize(
    "headers",
    [ELSEWHERE, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=_a"}, {"Via": "1.1 a"}],
)
async def test_whoever_comes_by_a_proxy_sees_open_nodes_alone(service, headers):
    status, found = await read(service, headers)
    assert (status, found[DEPTH]) == (200, OPEN_ALONE)
    named = {labels for values in found.values() for labels in values}
    assert not {"payroll", "reserve"} & {label for labels in named for label in labels}
    assert found["pubqueue_nodes"] == {(): 3}


@pytest.mark.parametrize("proof", [f"Bearer {LOOK}", BASIC])
async def test_a_user_with_a_role_sees_all_from_anywhere(service, proof):
    assert (await read(service, ELSEWHERE | {"Authorization": proof}))[1][DEPTH] == ALL


async def test_a_user_without_a_role_sees_open_nodes_alone(service):
    headers = {"Authorization": f"Bearer {OWN}"}
    assert (await read(service, headers))[1][DEPTH] == OPEN_ALONE


@pytest.mark.parametrize("proof", ["Bearer wrong", "Basic ====", "nothing"])
async def test_wrong_credentials_are_refused_here_too(service, proof):
    assert (await read(service, {"Authorization": proof}))[0] == 401


async def test_no_name_is_shown_that_the_store_has_not_reported_as_open(service, monkeypatch):
    async def fail(*_args):
        raise gauges.SilentStoreError

    count = Counter("worked", "Work.", ["node"], registry=service.monitor.tally.registry)
    for name in ("bell", "payroll", "gone"):
        count.labels(name).inc()
    assert (await read(service, ELSEWHERE))[1]["worked_total"] == {("bell",): 1, (CLOSED,): 2}
    monkeypatch.setattr(gauges, "of_nodes", fail)
    status, found = await read(service, ELSEWHERE)
    assert (status, found["pubqueue_store_answers"]) == (200, {(): 0})
    assert found["worked_total"] == {(CLOSED,): 3}


def test_counts_are_added_up_and_ages_are_the_oldest():
    registry = CollectorRegistry()
    died = Counter("items_died", "Dead.", ["node", "reason"], registry=registry)
    for node, reason, count in (("a", "x", 1), ("b", "x", 2), ("b", "y", 4), ("bell", "x", 8)):
        died.labels(node, reason).inc(count)
    age = GaugeMetricFamily("queue_oldest_age_seconds", "Age.", labels=["node"])
    for node, seconds in (("a", 5), ("b", 7), ("bell", 1)):
        age.add_metric([node], seconds)
    phases = GaugeMetricFamily("phase", "Phase.", labels=["phase"])
    phases.add_metric(["at work"], 1)
    families = [*registry.collect(), age, phases]
    created = min(
        one.value
        for one in families[0].samples
        if one.name.endswith("_created") and one.labels == {"node": "a", "reason": "x"}
    )
    shown = {
        (one.name, *one.labels.values()): one.value
        for family in with_names_of(families, {"bell"})
        for one in family.samples
    }
    assert {key: value for key, value in shown.items() if not key[0].endswith("_created")} == {
        ("items_died_total", CLOSED, "x"): 3,
        ("items_died_total", CLOSED, "y"): 4,
        ("items_died_total", "bell", "x"): 8,
        ("queue_oldest_age_seconds", CLOSED): 7,
        ("queue_oldest_age_seconds", "bell"): 1,
        ("phase", "at work"): 1,
    }
    assert shown["items_died_created", CLOSED, "x"] == created
