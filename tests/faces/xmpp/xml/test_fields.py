"""The node_config form and the subscribe_options form: their fields, and what is said of them."""

import pytest
from harness.batches.facts import queue
from msgspec.structs import replace

from pubqueue.faces.xmpp.xml.fields import (
    DECLINED,
    FIELDS,
    FIXED,
    options,
    sentence,
    shown,
    values_of,
    wanted,
)
from pubqueue.faces.xmpp.xml.refusals import words
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NodeConfig
from pubqueue.rules.nodeconfig import SETTINGS, Settings, configure, refit
from pubqueue.rules.subscribe import Options

YEAR = 366 * 24 * 3600
# field, type of the form field, default, then what it takes and what it does not
FIELDS_TABLE = {
    "pubsub#title": ("text-single", "", ["", "Jobs", "x" * 1023], ["x" * 1024]),
    "pubsub#description": ("text-single", "", ["what"], ["x" * 1024]),
    "pubsub#type": ("text-single", "", ["urn:x"], ["x" * 1024]),
    "pubsub#access_model": ("list-single", "open", ["open", "authorize", "presence", "roster", "whitelist"], ["friends", ""]),
    "pubsub#publish_model": ("list-single", "publishers", ["publishers", "subscribers", "open"], ["", "all"]),
    "pubsub#max_items": ("text-single", "max", ["1", "max", "1000000000000"], ["0", "-1", "", "1000000000001"]),
    "pubsub#max_payload_size": ("text-single", "65536", ["1", "14680064"], ["0", "14680065", "max"]),
    "pubsub#item_expire": ("text-single", "max", ["1", "max", str(100 * YEAR)], ["0", str(100 * YEAR + 1)]),
    "pubsub#notify_retract": ("boolean", "1", ["0", "1"], ["2", "yes", ""]),
    "pubsub#notify_delete": ("boolean", "1", ["0", "1"], ["2", "yes", ""]),
    "pubsub#persist_items": ("boolean", "1", ["0", "1"], ["", "yes"]),
    "pubsub#deliver_notifications": ("boolean", "1", ["0", "1"], ["", "yes"]),
    "pubsub#deliver_payloads": ("boolean", "1", ["0", "1"], ["", "yes"]),
    "pubsub#publish_node_full": ("list-single", "retract-oldest", ["discard-oldest", "reject"], ["", "drop"]),
    "pubsub#send_last_published_item": ("list-single", "never", ["on_sub"], ["", "on_sub_and_presence"]),
    "pubsub#notification_type": ("list-single", "headline", ["normal"], ["", "chat"]),
    "pubsub#presence_based_delivery": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "pubsub#notify_config": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "pubsub#itemreply": ("list-single", "publisher", ["none"], ["", "owner"]),
    "pubsub#language": ("text-single", "", ["en"], ["x" * 1024]),
    "pubsub#contact": ("jid-multi", "", ["boss@x"], ["", "boss@x/desk", "@", "x" * 4000]),
    "x-queueing#enabled": ("boolean", "0", ["0", "1"], ["2", "on", ""]),
    "x-queueing#lock_timeout": ("text-single", "300", ["1", str(YEAR)], ["0", str(YEAR + 1), "1.5", "max"]),
    "x-queueing#lock_longest": ("text-single", "", ["", "1", str(YEAR)], ["0", str(YEAR + 1), "1.5"]),
    "x-queueing#unused_expire": ("text-single", "", ["", "1", str(100 * YEAR)], ["0", "1.5"]),
    "x-queueing#keep_done": ("boolean", "0", ["0", "1"], ["2", "yes", ""]),
    "x-queueing#expired": ("list-single", "dead", ["dead", "drop", "truncate"], ["", "gone"]),
    "x-queueing#done_ttl": ("text-single", "", ["", "1", str(100 * YEAR)], ["0", str(100 * YEAR + 1)]),
    "x-queueing#done_max": ("text-single", "", ["", "1", "1000000000"], ["0", "1000000001"]),
    "x-queueing#dead_ttl": ("text-single", "", ["", "1", str(100 * YEAR)], ["0", str(100 * YEAR + 1)]),
    "x-queueing#dead_max": ("text-single", "", ["", "1", "100000"], ["0", "100001"]),
    "x-queueing#max_failures": ("text-single", "20", ["1", "1000000"], ["0", "1000001"]),
    "x-queueing#dead_letter_node": ("text-single", "", ["", "dead"], ["x" * 1024]),
    "x-queueing#source": ("text-single", "", ["", "news"], ["x" * 1024]),
    "x-queueing#filter": ("text-single", "", ["", "headers:kind"], ["kind", "headers:" + "x" * 1024]),
    "x-queueing#backoff_min": ("text-single", "1", ["0", "60"], ["-1", "86401"]),
    "x-queueing#backoff_max": ("text-single", "60", ["1", "86400"], ["86401", "0" * 20 + "99999"]),
    "x-queueing#backoff_jitter": ("text-single", "0.1", ["0", "0.25", "1"], ["", "1.1", "-1"]),
    "x-queueing#dedup_window": ("text-single", "0", ["0", str(YEAR)], ["-1", str(YEAR + 1)]),
    "x-queueing#max_queue_requests": ("text-single", "1000", ["1", "1000000"], ["0", "1000001"]),
    "x-queueing#group_limit": ("text-single", "1", ["1", "1000"], ["0", "1001", "max"]),
    "x-queueing#group_ahead": ("boolean", "0", ["0", "1"], ["", "maybe"]),
    "x-queueing#join_dead": ("list-single", "wait", ["wait", "count", "fail"], ["", "1"]),
    "x-queueing#fair": ("list-single", "off", ["off", "group"], ["", "1"]),
    "x-queueing#weights": ("text-multi", "", ["a=3"], ["a", "a=0"]),
    "x-queueing#max_bytes": ("text-single", "max", ["1", "max", "1000000000000000"], ["0", "-1", "", "1000000000000001"]),
    "x-queueing#rate": ("text-single", "", ["", "5", "0.5", "100000"], ["0", "fast", "100000.1"]),
    "x-queueing#qos": ("list-single", "unacknowledged", ["unacknowledged"], ["", "twice"]),
    "x-queueing#unsubscribe_on_unavailable": ("boolean", "1", ["0", "1"], ["", "maybe"]),
    "x-queueing#paused": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "x-queueing#publish_paused": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "x-queueing#event_log": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "pubsub#subscribe": ("boolean", "1", ["0", "1"], ["", "yes"]),
    "pubsub#tempsub": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "pubsub#notify_sub": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "x-pubsub#multi_subscribe": ("boolean", "0", ["0", "1"], ["", "yes"]),
    "x-pubsub#labels": ("text-multi", "", ["a=1"], ["a"]),
    "pubsub#roster_groups_allowed": ("text-multi", "", ["Friends"], []),
}  # fmt: skip
# Fields of XEP-0060 that have one value here; another would be accepted and then ignored.
FIXED_TABLE = {
    "pubsub#node_type": ("leaf", ["collection", "x"]),
}
OF_A_QUEUE = {
    "pubsub#access_model": "whitelist",
    "pubsub#publish_node_full": "reject",
    "pubsub#notification_type": "normal",
}
GOOD = [(var, text) for var, (_, _, good, _) in FIELDS_TABLE.items() for text in good]
BAD = [(var, text) for var, (_, _, _, bad) in FIELDS_TABLE.items() for text in bad]
DEFAULT = NodeConfig()


def filled(form, config=DEFAULT):
    """Return the settings after the form, or what is said against it."""
    answer = configure(config, wanted(form))
    return sentence(answer) if isinstance(answer, Refused) else answer


def test_the_form_has_these_fields_of_these_types():
    assert {field.var: field.type for field in FIELDS} == {
        var: kind for var, (kind, *_) in FIELDS_TABLE.items()
    }
    assert {var: value for var, (_, value) in FIXED.items()} == {
        var: value for var, (value, _) in FIXED_TABLE.items()
    }


def test_a_new_node_has_these_settings():
    defaults = {var: default for var, (_, default, *_) in FIELDS_TABLE.items()}
    assert shown(DEFAULT) == defaults | {var: value for var, (value, _) in FIXED_TABLE.items()}


@pytest.mark.parametrize("level", ["acknowledged", "assured"])
def test_only_queues_deliver_at_a_level(level):
    queue = filled({"x-queueing#enabled": ["1"], "x-queueing#qos": [level]})
    assert shown(queue)["x-queueing#qos"] == level
    refused = "x-queueing#qos is always unacknowledged in a plain node"
    assert filled({"x-queueing#qos": [level]}) == refused
    assert filled({"x-queueing#enabled": ["0"]}, queue) == replace(
        queue, queueing=False, qos=DEFAULT.qos
    )


def test_every_setting_of_a_node_has_its_field():
    assert {field.setting for field in FIELDS} == set(SETTINGS)


def test_a_value_within_its_bounds_is_taken_and_shown_again():
    closed = {("x-queueing#enabled", "1"): OF_A_QUEUE}
    assert {(var, text): shown(filled({var: [text]})) for var, text in GOOD} == {
        (var, text): shown(DEFAULT) | {var: text} | closed.get((var, text), {})
        for var, text in GOOD
    }


def test_a_value_beyond_its_bounds_is_refused_with_the_name_of_its_field():
    said = {(var, text): filled({var: [text]}) for var, text in BAD}
    assert {
        (var, text): it for (var, text), it in said.items() if not it.startswith(f"{var}: ")
    } == {}


@pytest.mark.parametrize(
    ("var", "text"), [(var, text) for var, (_, wrong) in FIXED_TABLE.items() for text in wrong]
)
def test_what_would_be_ignored_is_refused(var, text):
    expected = Refusal.UNSUPPORTED if text == "collection" else Refusal.INVALID_CONFIG
    assert configure(DEFAULT, wanted({var: [text]})).refusal is expected


@pytest.mark.parametrize(("var", "text"), [(var, value) for var, (value, _) in FIXED_TABLE.items()])
def test_a_setting_that_is_fixed_may_be_given(var, text):
    assert filled({var: [text]}) == DEFAULT


def test_a_collection_is_a_feature_that_is_not_there():
    error = words(wanted({"pubsub#node_type": ["collection"]}).objection)
    assert (error.condition, error.detail) == ("feature-not-implemented", "unsupported")
    assert error.feature == "collections"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"pubsub#digest": ["1"]}, "pubsub#digest is not a setting of this service"),
        (
            {"lock_timeout": ["1"]},
            "lock_timeout is not a setting of this service; did you mean x-queueing#lock_timeout?",
        ),
        ({"pubsub#title": ["a", "b"]}, "pubsub#title must have one value"),
        ({"pubsub#node_type": ["x"]}, "pubsub#node_type is always leaf here"),
        (
            {"x-queueing#enabled": ["1"], "pubsub#persist_items": ["0"]},
            "pubsub#persist_items is always 1 in a queue",
        ),
        (
            {"pubsub#purge_offline": ["0"]},
            f"pubsub#purge_offline is not a setting of this service: {DECLINED['pubsub#purge_offline']}",
        ),
        (
            {"pubsub#contact": ["a@x", "b@x/y"]},
            "pubsub#contact: must be bare JIDs, such as admin@example.org",
        ),
        (
            {"x-queueing#lock_timeout": []},
            f"x-queueing#lock_timeout: a whole number from 1 to {YEAR} is required",
        ),
        (
            {"pubsub#max_payload_size": ["14680065"]},
            "pubsub#max_payload_size: a whole number from 1 to 14680064 is required",
        ),
        (
            {"pubsub#access_model": ["friends"]},
            "pubsub#access_model: open, presence, roster, authorize, whitelist",
        ),
        (
            {"pubsub#publish_model": ["all"]},
            "pubsub#publish_model: one of publishers, subscribers, open",
        ),
        (
            {"x-queueing#backoff_min": ["9"], "x-queueing#backoff_max": ["8"]},
            "x-queueing#backoff_min is above backoff_max",
        ),
    ],
)
def test_a_sentence_names_the_field(form, said):
    assert filled(form) == said


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ({"pubsub#max_items": ["0"], "odd": ["1"]}, "pubsub#max_items: "),
        ({"odd": ["1"], "pubsub#max_items": ["0"]}, "odd is"),
        ({"pubsub#max_items": ["0"], "pubsub#max_payload_size": ["0"]}, "pubsub#max_items: "),
    ],
)
def test_the_first_wrong_field_is_named(form, first):
    assert filled(form).startswith(first)


def test_the_mode_of_a_node_in_use_is_named_as_the_form_names_it():
    said = sentence(refit(queue(items=1), DEFAULT))
    rest = "can change only while the node has no items and no subscribers"
    assert said == f"x-queueing#enabled {rest}"


def test_a_form_without_fields_wants_nothing():
    assert wanted({}) == Settings()


NEEDED = Refused(Refusal.INVALID_OPTIONS, "pubsub#queue_requests is needed, once")


@pytest.mark.parametrize(
    ("form", "read"),
    [
        (None, None),
        ({}, Options()),
        ({"pubsub#queue_requests": ["2"]}, Options("2")),
        ({"queue_requests": [" 2 "]}, Options(" 2 ")),
        ({"pubsub#queue_requests": []}, Options("", NEEDED)),
        ({"pubsub#queue_requests": ["1", "2"]}, Options("", NEEDED)),
        ({"pubsub#queue_requests": ["1"], "queue_requests": ["1"]}, Options("", NEEDED)),
        (
            {"queue_requests": ["1"], "pubsub#digest": ["1"]},
            Options(
                None,
                Refused(Refusal.INVALID_OPTIONS, "pubsub#digest is always 0 here"),
            ),
        ),
    ],
)
def test_a_window_is_asked_for_exactly_once_under_either_name(form, read):
    assert options(form) == read


def test_a_field_for_several_jids_takes_them_all_and_shows_them_again():
    config = filled({"pubsub#contact": ["boss@x", "ann@x"]})
    (field,) = (field for field in FIELDS if field.var == "pubsub#contact")
    assert values_of(field, shown(config)["pubsub#contact"]) == ["boss@x", "ann@x"]
    assert values_of(field, shown(DEFAULT)["pubsub#contact"]) == []
