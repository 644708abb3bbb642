"""The table `[alerts]`: whom it may name, and what is refused in one sentence."""

import pytest
from config.files import of_service

from pubqueue.config.alerts import shown_target
from pubqueue.faces.checks import ConfigError
from pubqueue.model.entities import Millis
from pubqueue.rules.alerts import AlertTerms, QueueRule

FULL = """
[alerts]
to = ["anna@example.org", "bob@example.org/phone"]
rooms = ["ops@rooms.example.org"]
webhooks = ["https://hooks.example.org/secret?x=1"]
webhook_networks = ["10.1.0.0/16"]
over_after = 5

[[alerts.rule]]
nodes = ["mail-*"]
dead = 0
oldest = 60

[[alerts.rule]]
"""


def test_a_whole_table(tmp_path):
    found = of_service(tmp_path, FULL).alerts
    mail = QueueRule(("mail-*",), 0, Millis(60_000), Millis(60_000))
    assert found.terms() == AlertTerms(rules=(mail, QueueRule()), over_after=Millis(5_000))
    assert found.push_terms.target("https://hooks.example.org/secret?x=1") is not None
    assert found.push_terms.target("https://hooks.example.org/other") is None
    assert "secret" not in repr(found)
    assert "https://hooks.example.org" in repr(found)


def test_without_it_there_is_no_target_and_without_rules_the_bounds_of_one_apply(tmp_path):
    assert of_service(tmp_path, "").alerts.targets == ()
    assert of_service(tmp_path, "").alerts.terms() == AlertTerms()


@pytest.mark.parametrize(
    ("table", "key", "says"),
    [
        ("to = ['example.org']", "alerts.to", "must be a JID, such as anna@example.org"),
        ("to = ['@']", "alerts.to", "must be a JID"),
        ("rooms = ['a@rooms.x/nick']", "alerts.rooms", "must be the JID of a room"),
        ("to = ['a@queue.example.org']", "alerts.to", "logs in to the service itself"),
        ("webhooks = ['ftp://x.example/']", "alerts.webhooks", "begins with http:// or https://"),
        ("webhooks = ['https://a:b@x.example/']", "alerts.webhooks", "neither a user"),
        ("webhook_networks = ['10.0.0.1/8']", "alerts.webhook_networks", "must be networks"),
        ("[[alerts.rule]]\ndead = 1", "alerts.rule", "there is no target"),
        ("to = ['a@x']\nevery = 0", "alerts.every", ">= 0.1"),
        ("to = ['a@x']\nquota = 1.1", "alerts.quota", "<= 1"),
        ("to = ['a@x']\n[[alerts.rule]]\nnodes = []", "alerts.rule[0].nodes", "length >= 1"),
        ("rooom = ['a@x']", "alerts.rooom", "did you mean rooms?"),
    ],
)
def test_what_is_refused(tmp_path, table, key, says):
    with pytest.raises(ConfigError, match=says.replace("?", "[?]")) as refused:
        of_service(tmp_path, f"[alerts]\n{table}")
    assert refused.value.key == key


@pytest.mark.parametrize("key", ["to", "rooms"])
def test_jids_need_a_server(tmp_path, key):
    more = "server = ''\nstore = 'memory:'\n[stomp]\nlisten = '61613'\n"
    of_service(tmp_path, f"{more}[alerts]\nwebhooks = ['https://hooks.example.org/']")
    with pytest.raises(ConfigError, match=f"alerts.{key} needs an XMPP server") as refused:
        of_service(tmp_path, f"{more}[alerts]\n{key} = ['a@rooms.example.org']")
    assert refused.value.key == f"alerts.{key}"


def test_of_a_webhook_only_the_host_is_shown():
    assert (
        shown_target("https://hooks.example.org:8443/secret?a") == "https://hooks.example.org:8443"
    )
    assert shown_target("a@x") == "a@x"
