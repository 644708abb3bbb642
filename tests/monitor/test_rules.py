"""The alert rules and the dashboard: well made, and about metrics that there are."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml
from harness.machines.packaged import needs
from prometheus_client import generate_latest

from pubqueue.engine.observe import Phase, Traffic, Waiting
from pubqueue.engine.task import Upkeep
from pubqueue.monitor import gauges
from pubqueue.monitor.counters import Tally
from pubqueue.monitor.server import Lag, given

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "packaging" / "grafana" / "pubqueue.json"
NAME = re.compile(r"\bpubqueue_\w+")


def exposed():
    """Return the names of all samples that a service can expose."""
    watch = Tally()
    Lag(watch.registry)
    families = [
        *gauges.of_process(Waiting(0, 0, 0), [Traffic()]),
        *gauges.of_connections([]),
        *gauges.of_requests([]),
        *gauges.of_calls([]),
        *gauges.of_build("1", Phase.AT_WORK),
        *gauges.of_upkeep(Upkeep()),
        gauges.store_answers(yes=True),
        *gauges.families(),
    ]
    text = (generate_latest(watch.registry) + generate_latest(given(families))).decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    names = {name for name, kind in kinds.items() if kind != "histogram"}
    for name, kind in kinds.items():
        if kind == "histogram":
            names |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    return names


def rules():
    return yaml.safe_load(RULES.read_text())["groups"][0]["rules"]


def expressions():
    yield from (rule["expr"] for rule in rules())
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_what_is_asked_for_is_there():
    known = exposed() | {"pubqueue"}
    names = {expression: {*NAME.findall(expression)} for expression in expressions()}
    assert {asked: found - known for asked, found in names.items() if not found <= known} == {}
    assert [
        asked for asked, found in names.items() if not found and not asked.startswith("up{")
    ] == []


def test_what_every_instance_reports_of_the_store_is_not_added_up():
    summed = re.compile(r"sum\b[^(]*(\([a-z, ]+\) )?\(pubqueue_(queue|node)_")
    assert [expression for expression in expressions() if summed.search(expression)] == []


def test_each_alert_reports_what_is_wrong_and_for_whom():
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"]


def test_the_dashboard_is_as_it_is_written():
    subprocess.run([sys.executable, ROOT / "tools" / "dashboard", "--check"], check=True)


@needs("promtool")
def test_prometheus_takes_the_rules():
    found = subprocess.run(
        ["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"SUCCESS: {len(rules())} rules found" in found.stdout


@needs("promtool")
def test_the_alerts_fire_when_they_should():
    found = subprocess.run(
        ["promtool", "test", "rules", RULES.with_name("alerts_test.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
