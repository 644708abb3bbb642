"""The settings of a node: their defaults and their bounds."""

import pytest
from harness.batches.facts import plain, queue
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import AccessModel, NodeConfig
from pubqueue.rules.access import REFERENCES
from pubqueue.rules.nodeconfig import (
    OF_QUEUES,
    SETTINGS,
    LabelError,
    Settings,
    agrees,
    configure,
    read,
    read_boolean,
    refit,
    written,
    written_labels,
)

YEAR = 366 * 24 * 3600
# setting, default, then what it takes and what it does not
TABLE = {
    "title": ("", ["", "Jobs", "x" * 1023], ["x" * 1024]),
    "description": ("", ["what"], ["x" * 1024]),
    "type": ("", ["urn:x"], ["x" * 1024]),
    "access_model": ("open", ["open", "authorize", "presence", "roster", "whitelist"], ["friends", ""]),
    "publish_model": ("publishers", ["publishers", "subscribers", "open"], ["", "all"]),
    "max_items": ("max", ["1", "max", "1000000000000"], ["0", "-1", "", "1000000000001"]),
    "max_bytes": ("max", ["1", "max", "1000000000000000"], ["0", "-1", "", "1000000000000001"]),
    "max_payload_size": ("65536", ["1", "14680064"], ["0", "14680065", "max"]),
    "item_expire": ("max", ["1", "max", str(100 * YEAR)], ["0", str(100 * YEAR + 1)]),
    "qos": ("unacknowledged", ["unacknowledged"], ["", "twice"]),
    "expired": ("dead", ["dead", "drop", "truncate"], ["", "gone"]),
    "keep_done": ("0", ["0", "1"], ["2", "yes", ""]),
    "unused_expire": ("", ["", "1", str(100 * YEAR)], ["0", "-1", "1.5", str(100 * YEAR + 1)]),
    "notify_retract": ("1", ["0", "1"], ["2", "yes", ""]),
    "notify_delete": ("1", ["0", "1"], ["2", "yes", ""]),
    "queueing": ("0", ["0", "1"], ["2", "on", ""]),
    "lock_timeout": ("300", ["1", str(YEAR)], ["0", str(YEAR + 1), "1.5", "max"]),
    "lock_longest": ("", ["", "1", "600"], ["0", "-1", "1.5"]),
    "done_ttl": ("", ["", "1", str(100 * YEAR)], ["0", str(100 * YEAR + 1)]),
    "done_max": ("", ["", "1", "1000000000"], ["0", "1000000001"]),
    "dead_ttl": ("", ["", "1", str(100 * YEAR)], ["0", str(100 * YEAR + 1)]),
    "dead_max": ("", ["", "1", "100000"], ["0", "100001"]),
    "max_failures": ("20", ["1", "1000000"], ["0", "1000001"]),
    "dead_letter_node": ("", ["", "dead"], ["x" * 1024]),
    "source": ("", ["", "news"], ["x" * 1024]),
    "filter": ("", ["", "headers:kind"], ["kind", "headers:" + "x" * 1024]),
    "backoff_min": ("1", ["0", "60"], ["-1", "86401"]),
    "backoff_max": ("60", ["1", "86400"], ["86401", "0" * 20 + "99999"]),
    "backoff_jitter": ("0.1", ["0", "1", "0.25"], ["", "1.01", "-0.1", "nan", "1e-1", "max"]),
    "dedup_window": ("0", ["0", str(YEAR)], ["-1", str(YEAR + 1)]),
    "max_queue_requests": ("1000", ["1", "1000000"], ["0", "1000001"]),
    "join_dead": ("wait", ["wait", "count", "fail"], ["", "1"]),
    "group_limit": ("1", ["1", "1000"], ["0", "1001", "", "max"]),
    "group_ahead": ("0", ["0", "1"], ["", "yes"]),
    "fair": ("off", ["off", "group"], ["", "1"]),
    "weights": ("", ["", "a=3", "=2\na=1000"], ["a", "a=0", "a=1001", "a=1\na=2", "a\x01=1"]),
    "rate": ("", ["", "5", "0.5", "0.001", "100000"], ["0", "-1", "1e3", "100000.1", "0.0001", ".5", "1,5"]),
    "unsubscribe_on_unavailable": ("1", ["0", "1"], ["", "maybe"]),
    "paused": ("0", ["0", "1"], ["", "yes"]),
    "publish_paused": ("0", ["0", "1"], ["", "yes"]),
    "event_log": ("0", ["0", "1"], ["", "yes"]),
    "persist_items": ("1", ["0", "1"], ["", "yes"]),
    "deliver_notifications": ("1", ["0", "1"], ["", "yes"]),
    "deliver_payloads": ("1", ["0", "1"], ["", "yes"]),
    "publish_node_full": ("retract-oldest", ["discard-oldest", "reject"], ["", "drop"]),
    "send_last_published_item": ("never", ["on_sub"], ["", "on_sub_and_presence"]),
    "notification_type": ("headline", ["normal"], ["", "chat"]),
    "presence_based_delivery": ("0", ["0", "1"], ["", "yes"]),
    "notify_config": ("0", ["0", "1"], ["", "yes"]),
    "itemreply": ("publisher", ["none"], ["", "owner"]),
    "language": ("", ["en"], ["x" * 1024]),
    "contact": ("", ["boss@x", "boss@x\nann@x"], ["x" * 1024]),
    "subscribe": ("1", ["0", "1"], ["", "yes"]),
    "tempsub": ("0", ["0", "1"], ["", "yes"]),
    "notify_sub": ("0", ["0", "1"], ["", "yes"]),
    "multi_subscribe": ("0", ["0", "1"], ["", "yes"]),
    "labels": ("", ["", "a=1", "a=1\nb=", "a=b=c"], ["a", "=1", "a=1\na=2", "a=\x01", "a=" + "x" * 32_768]),
    "roster_groups_allowed": ("", ["Friends"], []),
}  # fmt: skip
GOOD = [(name, text) for name, (_, good, _) in TABLE.items() for text in good]
BAD = [(name, text) for name, (_, _, bad) in TABLE.items() for text in bad]
DEFAULT = NodeConfig()
OF_A_QUEUE = {
    "access_model": "whitelist",
    "publish_node_full": "reject",
    "notification_type": "normal",
}
UNREAD = Refused(Refusal.INVALID_CONFIG, "what the face could not read")


def configured(objection=None, **values):
    return configure(DEFAULT, Settings(values, objection))


def test_a_new_node_has_these_settings():
    assert written(DEFAULT) == {name: default for name, (default, *_) in TABLE.items()}


def test_every_setting_of_a_node_is_in_the_table():
    kept = {reference.meant for reference in REFERENCES.values()} | {
        "feeds",
        "left_out",
        "policy",
        "used",
    }
    assert tuple(SETTINGS) == tuple(
        name for name in NodeConfig.__struct_fields__ if name not in kept
    )


def test_a_value_within_its_bounds_is_taken_and_written_again():
    configs = {cell: configured(**dict([cell])) for cell in GOOD}
    assert {cell: written(config) for cell, config in configs.items()} == {
        (name, text): written(DEFAULT)
        | {name: text}
        | (OF_A_QUEUE if (name, text) == ("queueing", "1") else {})
        for name, text in GOOD
    }
    again = {cell: configured(**{cell[0]: getattr(it, cell[0])}) for cell, it in configs.items()}
    assert again == configs


def test_a_value_beyond_its_bounds_is_refused_with_its_name():
    answers = {(name, text): configured(**{name: text}) for name, text in BAD}
    assert {
        cell: (type(no), no.setting, no.reason.partition(": ")[0]) for cell, no in answers.items()
    } == {(name, text): (Refused, name, name) for name, text in BAD}


@pytest.mark.parametrize("name", ["title", "filter", "dead_letter_node", "labels", "language"])
def test_no_setting_has_a_nul(name):
    text = 'headers.a = "\0"' if name == "filter" else "a=\0"
    reason = f"{name}: a NUL character is not allowed"
    assert configured(**{name: text}) == Refused(Refusal.INVALID_CONFIG, reason, setting=name)


@pytest.mark.parametrize("value", [0, -1, None, True + 10**6, 1.5])
def test_typed_values_have_the_same_bounds(value):
    reason = "max_failures: a whole number from 1 to 1000000 is required"
    assert configured(max_failures=value) == Refused(
        Refusal.INVALID_CONFIG, reason, setting="max_failures"
    )


def test_an_access_model_of_others_has_its_own_answer():
    words = "access_model: open, presence, roster, authorize, whitelist"
    assert configured(access_model="friends") == Refused(
        Refusal.UNSUPPORTED_ACCESS_MODEL, words, setting="access_model"
    )
    assert configured(access_model=AccessModel.WHITELIST).access_model is AccessModel.WHITELIST


def test_only_named_settings_change():
    before = queue(lock_timeout=7, max_failures=3).config
    after = configure(before, Settings({"max_failures": 9}))
    assert after == queue(lock_timeout=7, max_failures=9).config


def test_with_one_bad_setting_none_changes():
    assert configured(title="new", max_failures=0).refusal is Refusal.INVALID_CONFIG


def test_an_unknown_setting_is_refused():
    no = Refused(Refusal.INVALID_CONFIG, "speed is not a setting of this service")
    assert configured(speed=1) == no


def test_unreadable_settings_are_refused_after_the_readable_ones():
    assert configured(UNREAD, title="new") == UNREAD
    assert configured(UNREAD, max_failures=0).setting == "max_failures"


def test_the_pauses_have_an_order():
    reason = "backoff_min is above backoff_max"
    no = Refused(Refusal.INVALID_CONFIG, reason, setting="backoff_min")
    assert configured(backoff_min=9, backoff_max=8) == no


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


@pytest.mark.parametrize("name", OF_QUEUES)
def test_a_setting_that_a_queue_cannot_have_is_refused_by_name(name):
    """XEP-0254 row 10a: work that must not be lost allows only one value."""
    held = written(queue().config)[name]
    for text in {*SETTINGS[name].options, *(("0", "1") if held in {"0", "1"} else ())}:
        answer = configure(queue().config, Settings({name: text}))
        if text == held:
            assert isinstance(answer, NodeConfig)
        else:
            assert answer == Refused(
                Refusal.INVALID_CONFIG, f"{name} is always {held} in a queue", setting=name
            )


def test_settings_of_a_plain_node_return_when_it_is_no_longer_a_queue():
    before = plain(persist_items=False).config
    work = configure(before, Settings({"queueing": "1"}))
    assert isinstance(work, NodeConfig)
    assert written(work)["persist_items"] == "1"
    after = configure(work, Settings({"queueing": "0", "access_model": "open"}))
    assert after == before


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({}, None),
        ({"max_items": None, "access_model": "open", "persist_items": "true"}, None),
        ({"access_model": "whitelist"}, "access_model is 'open' here"),
        ({"max_items": "3"}, "max_items is 'max' here"),
        ({"max_items": "many"}, "max_items is 'max' here"),
        ({"strange": "1"}, "strange is not a setting of this service"),
    ],
)
def test_settings_are_preconditions_of_a_publish(wanted, reason):
    """XEP-0060 7.1.5."""
    answer = agrees(plain().config, Settings(wanted))
    assert (None if answer is None else (answer.refusal, answer.reason)) == (
        None if reason is None else (Refusal.PRECONDITION_NOT_MET, reason)
    )


def test_an_unreadable_precondition_is_not_met():
    answer = agrees(plain().config, Settings({}, UNREAD))
    assert answer == Refused(Refusal.PRECONDITION_NOT_MET, UNREAD.reason)


# Labels of a node: text with one label on each line, and invalid labels.

WORDS = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="="), max_size=20)


@given(st.dictionaries(WORDS.filter(bool), WORDS, max_size=5))
def test_labels_are_read_as_they_are_written(labels):
    assert read(written_labels(labels)) == labels


def test_labels_are_written_in_the_order_of_their_names():
    assert (
        written_labels({"b": "2", "a": "1=x"})
        == written_labels(read("b=2\n\n  a=1=x"))
        == "a=1=x\nb=2"
    )


@pytest.mark.parametrize(
    "text", ["a", "=1", "a=1\na=2", "a=\0", "a" * 256 + "=1", "a=" + "x" * 32_768]
)
def test_an_invalid_label_is_refused(text):
    with pytest.raises(LabelError):
        read(text)
