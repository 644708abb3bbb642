"""The node_config form: the fields of the document, their defaults and their bounds."""

import pytest
from harness.facts import plain, queue

from pubqueue.core.decision import (
    Refusal,
    Refused,
)
from pubqueue.core.model import NodeConfig
from pubqueue.core.nodeconfig import FIELDS, FIXED, configure, read_boolean, refit, values

YEAR = 366 * 24 * 3600
# field, type of the form field, default, then what it takes and what it does not
FIELDS_TABLE = {
    "pubsub#title": ("text-single", "", ["", "Jobs", "x" * 1023], ["x" * 1024]),
    "pubsub#description": ("text-single", "", ["what"], ["x" * 1024]),
    "pubsub#type": ("text-single", "", ["urn:x"], ["x" * 1024]),
    "pubsub#access_model": ("list-single", "open", ["open", "whitelist"], ["presence", "roster", ""]),
    "pubsub#publish_model": ("list-single", "publishers", ["publishers", "subscribers", "open"], ["", "all"]),
    "pubsub#max_items": ("text-single", "max", ["1", "max", "1000000000000"], ["0", "-1", "", "1000000000001"]),
    "pubsub#max_payload_size": ("text-single", "65536", ["1", "262144"], ["0", "262145", "max"]),
    "pubsub#item_expire": ("text-single", "max", ["1", "max", str(100 * YEAR)], ["0", str(100 * YEAR + 1)]),
    "pubsub#notify_retract": ("boolean", "1", ["0", "1"], ["2", "yes", ""]),
    "pubsub#notify_delete": ("boolean", "1", ["0", "1"], ["2", "yes", ""]),
    "x-queueing#enabled": ("boolean", "0", ["0", "1"], ["2", "on", ""]),
    "x-queueing#lock_timeout": ("text-single", "300", ["1", str(YEAR)], ["0", str(YEAR + 1), "1.5", "max"]),
    "x-queueing#max_failures": ("text-single", "20", ["1", "1000000"], ["0", "1000001"]),
    "x-queueing#dead_letter_node": ("text-single", "", ["", "dead"], ["x" * 1024]),
    "x-queueing#backoff_min": ("text-single", "1", ["0", "60"], ["-1", "86401"]),
    "x-queueing#backoff_max": ("text-single", "60", ["1", "86400"], ["86401", "0" * 20 + "99999"]),
    "x-queueing#dedup_window": ("text-single", "0", ["0", str(YEAR)], ["-1", str(YEAR + 1)]),
    "x-queueing#max_queue_requests": ("text-single", "1000", ["1", "1000000"], ["0", "1000001"]),
    "x-queueing#unsubscribe_on_unavailable": ("boolean", "1", ["0", "1"], ["", "maybe"]),
    "x-queueing#paused": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "x-queueing#publish_paused": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "x-queueing#event_log": ("boolean", "0", ["0", "1"], ["", "yes"]),
}  # fmt: skip
# Fields of XEP-0060 that have one value here; another would be accepted and then ignored.
FIXED_TABLE = {
    "pubsub#node_type": ("leaf", ["collection", "x"]),
    "pubsub#persist_items": ("1", ["0", "false"]),
    "pubsub#deliver_payloads": ("1", ["0", "false"]),
    "pubsub#publish_node_full": ("reject", ["drop"]),
    "pubsub#send_last_published_item": ("never", ["on_sub", "on_sub_and_presence"]),
}
GOOD = [(var, text) for var, (_, _, good, _) in FIELDS_TABLE.items() for text in good]
BAD = [(var, text) for var, (_, _, _, bad) in FIELDS_TABLE.items() for text in bad]
DEFAULT = NodeConfig()


def refusal(form, config=DEFAULT):
    answer = configure(config, form)
    return answer.refusal if isinstance(answer, Refused) else None


def test_the_form_has_these_fields_of_these_types():
    assert {field.var: field.type for field in FIELDS} == {
        var: kind for var, (kind, *_) in FIELDS_TABLE.items()
    }
    assert {var: value for var, (_, value) in FIXED.items()} == {
        var: value for var, (value, _) in FIXED_TABLE.items()
    }


def test_a_new_node_has_these_settings():
    defaults = {var: default for var, (_, default, *_) in FIELDS_TABLE.items()}
    assert values(DEFAULT) == defaults | {var: value for var, (value, _) in FIXED_TABLE.items()}


def test_every_setting_of_a_node_has_its_field():
    assert {field.attribute for field in FIELDS} == set(NodeConfig.__struct_fields__)


@pytest.mark.parametrize(("var", "text"), GOOD)
def test_a_value_within_its_bounds_is_taken_and_shown_again(var, text):
    config = configure(DEFAULT, {var: [text]})
    assert isinstance(config, NodeConfig)
    assert values(config) == values(DEFAULT) | {var: text}


@pytest.mark.parametrize(("var", "text"), BAD)
def test_a_value_beyond_its_bounds_is_refused_with_the_name_of_its_field(var, text):
    answer = configure(DEFAULT, {var: [text]})
    assert isinstance(answer, Refused)
    assert answer.reason.startswith(f"{var}: ")


@pytest.mark.parametrize(
    ("var", "text"), [(var, text) for var, (_, wrong) in FIXED_TABLE.items() for text in wrong]
)
def test_what_would_be_ignored_is_refused(var, text):
    expected = Refusal.COLLECTIONS_UNSUPPORTED if text == "collection" else Refusal.INVALID_CONFIG
    assert refusal({var: [text]}) is expected


@pytest.mark.parametrize(("var", "text"), [(var, value) for var, (value, _) in FIXED_TABLE.items()])
def test_what_is_so_anyway_may_be_said(var, text):
    assert configure(DEFAULT, {var: [text]}) == DEFAULT


def test_an_access_model_of_others_has_its_own_answer():
    assert refusal({"pubsub#access_model": ["presence"]}) is Refusal.UNSUPPORTED_ACCESS_MODEL


def test_a_form_changes_the_fields_that_it_names():
    before = queue(lock_timeout=7, max_failures=3).config
    after = configure(before, {"x-queueing#max_failures": ["9"]})
    assert after == queue(lock_timeout=7, max_failures=9).config


def test_a_form_with_one_bad_field_changes_none():
    form = {"pubsub#title": ["new"], "x-queueing#max_failures": ["0"]}
    assert refusal(form) is Refusal.INVALID_CONFIG


@pytest.mark.parametrize("form", [{"pubsub#digest": ["1"]}, {"x-queueing#speed": ["1"]}])
def test_an_unknown_field_is_refused(form):
    assert refusal(form) is Refusal.INVALID_CONFIG


def test_a_field_takes_one_value():
    assert refusal({"pubsub#title": ["a", "b"]}) is Refusal.INVALID_CONFIG


def test_the_pauses_have_an_order():
    form = {"x-queueing#backoff_min": ["9"], "x-queueing#backoff_max": ["8"]}
    assert refusal(form) is Refusal.INVALID_CONFIG


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("true", True), ("0", False), (" false ", False)]
)
def test_a_boolean_is_written_in_four_ways(text, expected):
    assert read_boolean(text) is expected


IN_USE = [plain(items=1), queue(subscriptions=0, items=1), queue(subscriptions=1)]


@pytest.mark.parametrize("node", IN_USE)
def test_the_mode_of_a_node_in_use_cannot_flip(node):
    other = NodeConfig(queueing=not node.config.queueing)
    answer = refit(node, other)
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.INVALID_CONFIG


@pytest.mark.parametrize("node", [plain(), queue(subscriptions=0)])
def test_the_mode_of_an_empty_node_can(node):
    assert refit(node, NodeConfig(queueing=not node.config.queueing)) is None


def test_a_node_in_use_takes_other_settings():
    node = queue(items=5)
    assert refit(node, queue(lock_timeout=9).config) is None


def test_a_node_is_not_its_own_dead_letter_node():
    answer = refit(queue(), queue(dead_letter_node="jobs").config)
    assert answer == Refused(Refusal.INVALID_CONFIG, "a node cannot be its own dead-letter node")
