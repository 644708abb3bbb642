"""The form fields of nodes and subscriptions, their labels, and the settings that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.xmpp.xml.stanza import is_bare, moment_of
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import NodeConfig, suggestion
from pubqueue.rules.nodeconfig import SETTINGS, BadValueError, Settings, read_boolean, written
from pubqueue.rules.subscribe import DELIVER, EXPIRE, WINDOW, Lease, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# Maps form fields to settings of nodes and subscriptions, and makes the checks that are specific to forms.
#
# The fields are those of XEP-0060 16.4.4; our own fields begin with `x-` (XEP-0068 3.4). Unknown fields and second values are refused. The
# core decides which values are valid; it names settings differently, so `sentence` puts the field's name into its texts.

MULTIPLE: Final = frozenset({"jid-multi", "text-multi"})
"""Types of fields that have any number of values."""


class Field(Struct, frozen=True, gc=False):
    """A form field: its name, type and label, and the core's setting.

    `narrower` checks the value if a stanza allows less than the core.
    """

    var: str
    type: str
    label: str
    setting: str
    narrower: Callable[[str], object] | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The values to choose from, or none if any value is possible."""
        return SETTINGS[self.setting].options


# fmt: off
FIELDS: Final[tuple[Field, ...]] = (
    Field("pubsub#title", "text-single", "A short name for the node", "title"),
    Field("pubsub#description", "text-single", "What the node is for", "description"),
    Field("pubsub#type", "text-single", "The namespace of the payloads", "type"),
    Field("pubsub#access_model", "list-single", "Who may subscribe", "access_model"),
    Field("pubsub#publish_model", "list-single", "Who may publish", "publish_model"),
    Field("pubsub#max_items", "text-single", "Maximum number of items, or max", "max_items"),
    Field("pubsub#max_payload_size", "text-single", "Maximum size of a payload in bytes", "max_payload_size"),
    Field("pubsub#item_expire", "text-single", "Seconds until an unlocked item expires, or max", "item_expire"),
    Field("pubsub#notify_retract", "boolean", "Notify subscribers of retracted items", "notify_retract"),
    Field("pubsub#notify_delete", "boolean", "Notify subscribers when the node is deleted", "notify_delete"),
    Field("pubsub#persist_items", "boolean", "Keep published items", "persist_items"),
    Field("pubsub#deliver_notifications", "boolean", "Deliver notifications", "deliver_notifications"),
    Field("pubsub#deliver_payloads", "boolean", "Include payloads in notifications", "deliver_payloads"),
    Field("pubsub#publish_node_full", "list-single", "What to do when the node is full", "publish_node_full"),
    Field("pubsub#send_last_published_item", "list-single", "When to send the last published item", "send_last_published_item"),
    Field("pubsub#notification_type", "list-single", "The kind of message for notifications", "notification_type"),
    Field("pubsub#presence_based_delivery", "boolean", "Notify only subscribers that are known to be online", "presence_based_delivery"),
    Field("pubsub#notify_config", "boolean", "Notify subscribers when these settings change", "notify_config"),
    Field("pubsub#itemreply", "list-single", "Who receives replies to an item: its publisher, or no one", "itemreply"),
    Field("pubsub#language", "text-single", "The language of the items, such as en", "language"),
    Field("pubsub#contact", "jid-multi", "Contacts for questions about the node", "contact"),
    Field("x-queueing#enabled", "boolean", "The node is a work queue", "queueing"),
    Field("x-queueing#lock_timeout", "text-single", "Seconds until a lock expires", "lock_timeout"),
    Field("x-queueing#lock_longest", "text-single", "Maximum seconds of an extended lock; empty: as lock_timeout", "lock_longest"),
    Field("x-queueing#unused_expire", "text-single", "Seconds until a queue that is not used is deleted; empty: never", "unused_expire"),
    Field("x-queueing#expired", "list-single", "What becomes of items whose lifetime is over", "expired"),
    Field("x-queueing#keep_done", "boolean", "Items that were retracted by their workers are kept and can be brought back", "keep_done"),
    Field("x-queueing#done_ttl", "text-single", "Seconds for which a done item is kept; empty: any time", "done_ttl"),
    Field("x-queueing#done_max", "text-single", "Number of done items that are kept; empty: any", "done_max"),
    Field("x-queueing#max_failures", "text-single", "Number of failures after which an item is dead", "max_failures"),
    Field("x-queueing#join_dead", "list-single", "What a dead item means for a join that waits for it", "join_dead"),
    Field("x-queueing#dead_letter_node", "text-single", "Node that receives dead items; empty: they stay in this node", "dead_letter_node"),
    Field("x-queueing#dead_ttl", "text-single", "Seconds until a dead item is deleted; empty: never", "dead_ttl"),
    Field("x-queueing#dead_max", "text-single", "Number of dead items that are kept; empty: any", "dead_max"),
    Field("x-queueing#source", "text-single", "Plain node whose items also enter this queue; empty: none", "source"),
    Field("x-queueing#filter", "text-single", "Which items of the source enter this queue, by their headers; empty: all", "filter"),
    Field("x-queueing#backoff_min", "text-single", "Seconds of delay after the first failure", "backoff_min"),
    Field("x-queueing#backoff_max", "text-single", "Maximum seconds of delay after a failure", "backoff_max"),
    Field("x-queueing#backoff_jitter", "text-single", "Share by which delays are made longer at random, from 0 to 1", "backoff_jitter"),
    Field("x-queueing#dedup_window", "text-single", "Seconds for which the id of a finished item absorbs another publish", "dedup_window"),
    Field("x-queueing#max_queue_requests", "text-single", "Maximum number of parallel requests of a subscriber", "max_queue_requests"),
    Field("x-queueing#group_limit", "text-single", "Maximum number of items of a group in flight", "group_limit"),
    Field("x-queueing#group_ahead", "boolean", "Send items of a group ahead of the end of earlier ones, in order, to one worker", "group_ahead"),
    Field("x-queueing#fair", "list-single", "Whose item is next: shares of the workers' time", "fair"),
    Field("x-queueing#weights", "text-multi", "Weights of groups with fair shares, group=weight, one per line", "weights"),
    Field("x-queueing#rate", "text-single", "Maximum deliveries per second, such as 5 or 0.5; empty: no limit", "rate"),
    Field("x-queueing#qos", "list-single", "How items are delivered to workers that offer urn:xmpp:qos", "qos"),
    Field("x-queueing#unsubscribe_on_unavailable", "boolean", "End the subscription of a worker that goes offline", "unsubscribe_on_unavailable"),
    Field("x-queueing#max_bytes", "text-single", "Maximum bytes of all items together, or max", "max_bytes"),
    Field("x-queueing#paused", "boolean", "Pause deliveries", "paused"),
    Field("x-queueing#publish_paused", "boolean", "Pause publishing", "publish_paused"),
    Field("x-queueing#event_log", "boolean", "Keep an event log of the items", "event_log"),
    Field("pubsub#subscribe", "boolean", "Accept subscriptions", "subscribe"),
    Field("pubsub#tempsub", "boolean", "End subscriptions when their subscribers go offline", "tempsub"),
    Field("pubsub#notify_sub", "boolean", "Notify owners of new and ended subscriptions", "notify_sub"),
    Field("x-pubsub#multi_subscribe", "boolean", "Allow several subscriptions for each JID, each with its own options", "multi_subscribe"),
    Field("x-pubsub#labels", "text-multi", "Labels of the node, name=value, one per line", "labels"),
    Field("pubsub#roster_groups_allowed", "text-multi", "Roster groups of the owner whose members may subscribe", "roster_groups_allowed"),
)

# XEP-0060 has other values for these; the service supports only this one.
FIXED: Final[dict[str, tuple[str, str]]] = {
    "pubsub#node_type": ("list-single", "leaf"),
}

# Fields and values of XEP-0060 16.4.4 that the service does not support; they are refused with the reason.
DECLINED: Final[dict[str, str]] = {
    "pubsub#purge_offline":    "the service does not track whether publishers are online",
    "pubsub#body_xslt":        "the service does not create message bodies from payloads",
    "pubsub#dataform_xslt":    "the service does not create forms from payloads",
}
DECLINED_VALUES: Final[dict[tuple[str, str], str]] = {
    ("pubsub#send_last_published_item", "on_sub_and_presence"):
        "never or on_sub: the service does not see the presence of every subscriber",
    ("pubsub#itemreply", "owner"): "publisher or none: a node may have several owners",
}
# fmt: on

WINDOW_FIELDS: Final = ("pubsub#queue_requests", "queue_requests")
"""XEP-0254 has the first in its examples and the second in its text; both are read (row 7)."""

DELIVER_FIELD: Final = "pubsub#deliver"
EXPIRE_FIELD: Final = "pubsub#expire"
TEMPORARY: Final = "presence"
"""The value for a subscription that ends when the subscriber goes offline (XEP-0060 12.5)."""

LOCK_FIELD: Final = "x-queueing#lock_timeout"
"""The same name as for the queue's setting: seconds until a lock of this subscriber expires."""

LEVEL_FIELD: Final = "x-queueing#qos"
"""The same name as for the queue's setting: the level of the deliveries to this subscriber."""

OPTION_FIELDS: Final = (*WINDOW_FIELDS, DELIVER_FIELD, EXPIRE_FIELD, LOCK_FIELD, LEVEL_FIELD)

# XEP-0060 has other values for these options; the service supports only this one.
FIXED_OPTIONS: Final = {
    "pubsub#digest": ("0", "false"),
    "pubsub#include_body": ("0", "false"),
    "pubsub#subscription_type": ("items",),
    "pubsub#subscription_depth": ("1",),
}

_BY_VAR: Final = {field.var: field for field in FIELDS}

_NAMES: Final = {
    **{field.setting: field.var for field in FIELDS},
    WINDOW: WINDOW_FIELDS[0],
    DELIVER: DELIVER_FIELD,
    EXPIRE: EXPIRE_FIELD,
    **dict.fromkeys(("priority", "delay", "ttl", "group"), "meta"),
}
"""The form's names for values that a refusal may be about."""


def field_name(setting: str) -> str:
    """Return the field's name for a setting of the core, and any other name unchanged."""
    return _NAMES.get(setting, setting)


def sentence(refused: Refused) -> str:
    """Return the text of a refusal, with the field's name for the refused value."""
    reason, setting = refused.reason, refused.setting
    if not setting or not reason.startswith(setting):
        return reason
    return field_name(setting) + reason[len(setting) :]


def shown(config: NodeConfig) -> dict[str, str]:
    """Return every field with its value."""
    texts = written(config)
    fields = {field.var: texts[field.setting] for field in FIELDS}
    return fields | {var: value for var, (_, value) in FIXED.items()}


def shown_new() -> dict[str, str]:
    """Return every field with its default for a new node."""
    return shown(NodeConfig())


def values_of(field: Field, text: str) -> list[str]:
    """Return the values of a field; only some types have several."""
    if field.type not in MULTIPLE:
        return [text]
    return text.split("\n") if text else []


def field_values(var: str, text: str) -> list[str]:
    """Return the values of the field with this name; those of an unknown one, which is refused, are the text."""
    field = _BY_VAR.get(var)
    return [text] if field is None else values_of(field, text)


def wanted(form: Mapping[str, Sequence[str]]) -> Settings:
    """Return the settings in a form, up to the first field that is refused, and the refusal."""
    values: dict[str, str | int | None] = {}
    for var, given in form.items():
        if (no := _check_field(var, given)) is not None:
            return Settings(values, no)
        if var not in FIXED:
            values[_BY_VAR[var].setting] = "\n".join(given)
    return Settings(values)


def _check_field(var: str, given: Sequence[str]) -> Refused | None:
    """Return a refusal for an unknown field, several values, or an unsupported value."""
    field = _BY_VAR.get(var)
    if field is None and var not in FIXED:
        why = DECLINED.get(var)
        instead = f": {why}" if why else suggestion(var, _BY_VAR)
        return _invalid(f"{var} is not a setting of this service{instead}")
    if field is not None and field.type == "jid-multi":
        return _check_jids(var, given)
    if len(given) > 1 and (field is None or field.type not in MULTIPLE):
        return _invalid(f"{var} must have one value")
    text = given[0] if given else ""
    if (why := DECLINED_VALUES.get((var, text.strip()))) is not None:
        return _invalid(f"{var}: {why}")
    return _check_fixed(var, text) if field is None else _check_narrower(field, text)


def _check_jids(var: str, given: Sequence[str]) -> Refused | None:
    """Return a refusal for values that are not bare JIDs."""
    if all(is_bare(text) for text in given):
        return None
    return _invalid(f"{var}: must be bare JIDs, such as admin@example.org")


def _check_fixed(var: str, text: str) -> Refused | None:
    if var == "pubsub#node_type" and text == "collection":
        return Refused(Refusal.UNSUPPORTED, setting="collections")
    kind, only = FIXED[var]
    given = text.strip()
    if kind == "boolean" and given in {"true", "false"}:
        given = "1" if given == "true" else "0"
    return None if given == only else _invalid(f"{var} is always {only} here")


def _check_narrower(field: Field, text: str) -> Refused | None:
    if field.narrower is None:
        return None
    try:
        field.narrower(text)
    except BadValueError as problem:
        return _invalid(f"{field.var}: {problem}")
    return None


def _invalid(reason: str) -> Refused:
    return Refused(Refusal.INVALID_CONFIG, reason)


def options(form: Mapping[str, Sequence[str]] | None) -> Options | None:
    """Return the subscription options in a form."""
    if form is None:
        return None
    if (unknown := _unknown_option(form)) is not None:
        return Options(objection=_no_option(unknown))
    for var in (DELIVER_FIELD, EXPIRE_FIELD, LOCK_FIELD, LEVEL_FIELD):
        if len(form.get(var, ())) > 1:
            return Options(objection=_no_option(f"{var} must have one value"))
    try:
        deliver = read_boolean(form[DELIVER_FIELD][0]) if form.get(DELIVER_FIELD) else None
        lease = lease_of(form[EXPIRE_FIELD][0]) if form.get(EXPIRE_FIELD) else None
    except BadValueError as problem:
        return Options(objection=_no_option(str(problem)))
    lock = form[LOCK_FIELD][0] if form.get(LOCK_FIELD) else None
    level = form[LEVEL_FIELD][0] if form.get(LEVEL_FIELD) else None
    given = [value for var in WINDOW_FIELDS for value in form.get(var, ())]
    if len(given) == 1 or not any(var in form for var in WINDOW_FIELDS):
        window = given[0] if given else None
        return Options(window, deliver=deliver, lease=lease, lock_timeout=lock, qos=level)
    return Options("", _no_option(f"{WINDOW_FIELDS[0]} is needed, once"))


def _unknown_option(form: Mapping[str, Sequence[str]]) -> str | None:
    """Return the error for the first option that the service does not support."""
    for var, given in form.items():
        only = FIXED_OPTIONS.get(var)
        if only is not None and [value.strip() not in only for value in given] != [False]:
            return f"{var} is always {only[0]} here"
        if only is None and var not in OPTION_FIELDS:
            return f"{var} is not an option of this service"
    return None


def lease_of(text: str) -> Lease:
    """Read when a subscription ends: a time in XEP-0082 format, `presence`, or empty for never.

    Raises:
        BadValueError: the value is none of these.

    """
    given = text.strip()
    if not given:
        return Lease()
    if given == TEMPORARY:
        return Lease(temporary=True)
    if (until := moment_of(given)) is None:
        raise BadValueError(
            f"{EXPIRE_FIELD}: must be a time such as 2030-12-31T12:00:00Z, or presence"
        )
    return Lease(until)


def _no_option(reason: str) -> Refused:
    return Refused(Refusal.INVALID_OPTIONS, reason)


# Labels in forms, for values and for fields with a fixed value.

# fmt: off
VALUES: Final[dict[str, str]] = {
    "open":        "anyone",
    "whitelist":   "members, publishers and owners",
    "authorize":   "accounts that an owner approves",
    "presence":    "contacts of the owner",
    "roster":      "contacts of the owner in certain groups",
    "publishers":  "publishers and owners",
    "subscribers": "subscribers, publishers and owners",
    "leaf":        "a node with items",
    "reject":         "refuse the new item",
    "retract-oldest": "drop the oldest item and notify subscribers",
    "discard-oldest": "drop the oldest item without a notification",
    "dead":        "they are dead",
    "drop":        "they are deleted",
    "truncate":    "they are deleted, and the oldest items when the queue is full",
    "wait":        "the join goes on waiting",
    "count":       "as if the item were done",
    "fail":        "the join is dead too",
    "never":       "never",
    "on_sub":      "when an account subscribes",
    "normal":      "a message that servers keep for offline subscribers",
    "headline":    "a message for online subscribers only",
    "publisher":   "its publisher",
    "none":        "nobody",
    "off":         "the highest priority, then the oldest",
    "group":       "of the group that has used the least",
    "":               "as the queue is set",
    "unacknowledged": "as messages, which are not answered",
    "acknowledged":   "in requests that the client answers",
    "assured":        "in requests that the client answers, before it may use them",
}
"""Labels of the values of a choice; a value without a label is its own label."""

LABELS: Final[dict[str, str]] = {
    "pubsub#node_type":                "Type of the node",
}
"""Labels of fields with a fixed value."""
# fmt: on
