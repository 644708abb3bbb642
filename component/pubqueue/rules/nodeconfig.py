"""The settings and labels of a node: one table of their texts, values and bounds."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import (
    MAX_ID_LENGTH,
    AccessModel,
    AtExpiry,
    Fair,
    ItemReply,
    Level,
    Millis,
    NodeConfig,
    NodeFull,
    NotificationType,
    PublishModel,
    SendLast,
    suggestion,
)
from pubqueue.model.joins import JoinDead
from pubqueue.rules import filters, shares
from pubqueue_xeps.wire.names import CHANGED, is_clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

    from pubqueue.model.entities import Node


# The settings of a node: one table of their bounds, by their names in `NodeConfig`.
#
# A value is text, or has its own type already. A value that the service would not act on is refused:
# nothing is accepted and then ignored. A face decides how its protocol names a setting, and how it is
# displayed.

Value = str | int | float | None

DAY: Final = 86_400
YEAR: Final = 366 * DAY

MAX_PAYLOAD_BYTES: Final = 14 << 20
"""The maximum that an owner can allow: 10,000,000 bytes, as large as a message of Pub/Sub, with room for their base64.
A payload that a protocol cannot carry is not delivered over it (`engine/face.py`)."""


LOWEST_RATE: Final = 0.001
HIGHEST_RATE: Final = 100_000
MAX_RATE_LENGTH: Final = 13
"""Characters: six decimal places, as it is displayed."""


class Labels(Struct, frozen=True, gc=False):
    """Labels to set, or to remove (None); all others stay. With `instead` no labels of users stay, except for these."""

    values: Mapping[str, str | None]
    instead: bool = False


class Settings(Struct, frozen=True, gc=False):
    """Requested settings of a node, by their names; those that are not named stay as they are.

    `objection` is what the face could not read of them. Only principals that may configure the node
    get it.
    """

    values: Mapping[str, Value] = {}
    objection: Refused | None = None
    labels: Labels | None = None


class BadValueError(ValueError):
    """A value that its setting cannot have; the message names the possible ones."""


class Setting(Struct, frozen=True, gc=False):
    """A setting: how its value is read from text, and how it is written."""

    read: Callable[[str], object]
    write: Callable[[Any], str] = str
    options: tuple[str, ...] = ()


def read_boolean(text: str) -> bool:
    """Read a boolean: 0, 1, true, false."""
    match text.strip():
        case "1" | "true":
            return True
        case "0" | "false":
            return False
        case _:
            raise BadValueError("a boolean is required: 0 or 1")


def _write_boolean(value: bool) -> str:  # noqa: FBT001  # a writer takes the value and nothing else
    return "1" if value else "0"


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers within these bounds."""

    def read(text: str) -> int:
        digits = text.strip()
        known = digits.isascii() and digits.isdigit() and len(digits) <= len(str(high))
        if not known or not low <= int(digits) <= high:
            raise BadValueError(f"a whole number from {low} to {high} is required")
        return int(digits)

    return read


def _whole_or_max(low: int, high: int) -> Callable[[str], int | None]:
    number = whole(low, high)

    def read(text: str) -> int | None:
        return None if text.strip() == "max" else number(text)

    return read


def _whole_or_nothing(low: int, high: int) -> Callable[[str], int | None]:
    number = whole(low, high)

    def read(text: str) -> int | None:
        return number(text) if text.strip() not in {"", "max"} else None

    return read


def _write_or_nothing(value: int | None) -> str:
    return "" if value is None else str(value)


def _write_or_max(value: int | None) -> str:
    return "max" if value is None else str(value)


def _decimal(text: str, low: float, high: float) -> float | None:
    """Read a decimal number within these bounds; None for anything else."""
    whole_part, _, rest = text.partition(".")
    digits = whole_part + rest
    known = whole_part and digits.isascii() and digits.isdigit() and len(text) <= MAX_RATE_LENGTH
    return float(text) if known and low <= float(text) <= high else None


def _rate(text: str) -> float | None:
    """Read a rate per second: a decimal number, or nothing for no limit."""
    given = text.strip()
    if given in {"", "max"}:
        return None
    if (found := _decimal(given, LOWEST_RATE, HIGHEST_RATE)) is None:
        bounds = f"from {LOWEST_RATE} to {HIGHEST_RATE}"
        raise BadValueError(f"a number {bounds} is needed, such as 5 or 0.5, or nothing")
    return found


def _share(text: str) -> float:
    """Read a share: a decimal number from 0 to 1."""
    if (found := _decimal(text.strip(), 0, 1)) is None:
        raise BadValueError("a number from 0 to 1 is required, such as 0.1")
    return found


def _write_rate(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    if len(text) > MAX_ID_LENGTH:
        raise BadValueError(f"at most {MAX_ID_LENGTH} characters")
    if CHANGED.search(text) is not None:
        raise BadValueError("only characters that XMPP carries")
    return text


def _labels(text: str) -> str:
    try:
        return written_labels(read(text))
    except LabelError as problem:
        raise BadValueError(str(problem)) from problem


def _weights(text: str) -> str:
    try:
        return shares.written_weights(shares.read_weights(text))
    except shares.WeightError as problem:
        raise BadValueError(str(problem)) from problem


def _filter(text: str) -> str:
    if text:
        try:
            filters.parsed(text)
        except filters.FilterError as problem:
            raise BadValueError(str(problem)) from problem
    return text


def _choice(kind: type[StrEnum]) -> Setting:
    return Setting(kind, options=tuple(one.value for one in kind))


_TEXT: Final = Setting(_text)
_BOOLEAN: Final = Setting(read_boolean, _write_boolean)

# fmt: off
SETTINGS: Final[Mapping[str, Setting]] = {
    "title":                      _TEXT,
    "description":                _TEXT,
    "type":                       _TEXT,
    "access_model":               _choice(AccessModel),
    "publish_model":              _choice(PublishModel),
    "max_items":                  Setting(_whole_or_max(1, 10**12), _write_or_max),
    "max_bytes":                  Setting(_whole_or_max(1, 10**15), _write_or_max),
    "max_payload_size":           Setting(whole(1, MAX_PAYLOAD_BYTES)),
    "item_expire":                Setting(_whole_or_max(1, 100 * YEAR), _write_or_max),
    "expired":                    _choice(AtExpiry),
    "notify_retract":             _BOOLEAN,
    "notify_delete":              _BOOLEAN,
    "queueing":                   _BOOLEAN,
    "lock_timeout":               Setting(whole(1, YEAR)),
    "keep_done":                  _BOOLEAN,
    "done_ttl":                   Setting(_whole_or_nothing(1, 100 * YEAR), _write_or_nothing),
    "done_max":                   Setting(_whole_or_nothing(1, 1_000_000_000), _write_or_nothing),
    "unused_expire":              Setting(_whole_or_nothing(1, 100 * YEAR), _write_or_nothing),
    "lock_longest":               Setting(_whole_or_nothing(1, YEAR), _write_or_nothing),
    "max_failures":               Setting(whole(1, 10**6)),
    "join_dead":                  _choice(JoinDead),
    "dead_letter_node":           _TEXT,
    "dead_ttl":                   Setting(_whole_or_nothing(1, 100 * YEAR), _write_or_nothing),
    "dead_max":                   Setting(_whole_or_nothing(1, 100_000), _write_or_nothing),
    "source":                     _TEXT,
    "filter":                     Setting(_filter),
    "backoff_min":                Setting(whole(0, DAY)),
    "backoff_max":                Setting(whole(0, DAY)),
    "backoff_jitter":             Setting(_share, _write_rate),
    "dedup_window":               Setting(whole(0, YEAR)),
    "max_queue_requests":         Setting(whole(1, 10**6)),
    "group_limit":                Setting(whole(1, 1000)),
    "group_ahead":                _BOOLEAN,
    "fair":                       _choice(Fair),
    "weights":                    Setting(_weights),
    "rate":                       Setting(_rate, _write_rate),
    "qos":                        _choice(Level),
    "unsubscribe_on_unavailable": _BOOLEAN,
    "paused":                     _BOOLEAN,
    "publish_paused":             _BOOLEAN,
    "event_log":                  _BOOLEAN,
    "persist_items":              _BOOLEAN,
    "deliver_notifications":      _BOOLEAN,
    "deliver_payloads":           _BOOLEAN,
    "publish_node_full":          _choice(NodeFull),
    "send_last_published_item":   _choice(SendLast),
    "notification_type":          _choice(NotificationType),
    "presence_based_delivery":    _BOOLEAN,
    "notify_config":              _BOOLEAN,
    "itemreply":                  _choice(ItemReply),
    "language":                   _TEXT,
    "contact":                    _TEXT,
    "subscribe":                  _BOOLEAN,
    "tempsub":                    _BOOLEAN,
    "notify_sub":                 _BOOLEAN,
    "multi_subscribe":            _BOOLEAN,
    "labels":                     Setting(_labels),
    "roster_groups_allowed":      _TEXT,
}
"""The meaning of each is in `NodeConfig`."""

OF_QUEUES: Final[Mapping[str, object]] = {
    "persist_items":              True,
    "deliver_notifications":      True,
    "deliver_payloads":           True,
    "publish_node_full":          NodeFull.REJECT,
    "send_last_published_item":   SendLast.NEVER,
    "notification_type":          NotificationType.NORMAL,
    "presence_based_delivery":    False,
    "itemreply":                  ItemReply.PUBLISHER,
    "multi_subscribe":            False,  # a worker has one window
}
"""Settings that a queue cannot choose, because no work may be lost, and their values (XEP-0254 row 10a)."""

OF_PLAIN_NODES: Final[Mapping[str, object]] = {"qos": Level.UNACKNOWLEDGED}
"""Settings that a plain node cannot choose: its notifications go to many, and no lock waits for an answer."""
# fmt: on


def written(config: NodeConfig) -> dict[str, str]:
    """Return every setting with its value as text."""
    config = effective(config)
    return {name: setting.write(getattr(config, name)) for name, setting in SETTINGS.items()}


def effective(config: NodeConfig) -> NodeConfig:
    """Return the effective settings: some of a queue's are fixed, whatever was stored before it knew them."""
    return replace(config, **OF_QUEUES) if config.queueing else config


def configure(config: NodeConfig, wanted: Settings) -> NodeConfig | Refused:
    """Return the settings with the wanted ones changed and all others kept.

    A node that becomes a queue is closed unless its access model is chosen with it: work is not for
    strangers.
    """
    changed: dict[str, object] = {}
    for name, value in ({**wanted.values} | _relabelled(config, wanted.labels)).items():
        setting = SETTINGS.get(name)
        if setting is None:
            words = f"{name} is not a setting of this service{suggestion(name, SETTINGS)}"
            return Refused(Refusal.INVALID_CONFIG, words)
        try:
            changed[name] = setting.read(_as_text(value))
        except ValueError as problem:
            return _refuse_value(name, setting, problem)
    if wanted.objection is not None:
        return wanted.objection
    if changed.get("queueing") and not config.queueing:
        changed.setdefault("access_model", AccessModel.WHITELIST)
    after = _counted_anew(config, replace(config, **changed))
    if after.backoff_min > after.backoff_max:
        return _refuse("backoff_min", " is above backoff_max")
    for name, only in (OF_QUEUES if after.queueing else OF_PLAIN_NODES).items():
        if name in changed and changed[name] != only:
            where = "in a queue" if after.queueing else "in a plain node"
            return _refuse(name, f" is always {SETTINGS[name].write(only)} {where}")
    return after if after.queueing else replace(after, **OF_PLAIN_NODES)


def _counted_anew(before: NodeConfig, after: NodeConfig) -> NodeConfig:
    """Return the settings without what was noted under settings that have changed."""
    if after.unused_expire != before.unused_expire:
        after = replace(after, used=Millis(0))
    return after if after.source == before.source else replace(after, left_out=None)


def agrees(config: NodeConfig, wanted: Settings) -> Refused | None:
    """Return which of these settings differ from the node's: each is a precondition (XEP-0060 7.1.5)."""
    there = effective(config)
    for name, value in wanted.values.items():
        setting = SETTINGS.get(name)
        if setting is None:
            return _unmet(name, " is not a setting of this service")
        try:
            same = setting.read(_as_text(value)) == getattr(there, name)
        except ValueError:
            same = False
        if not same:
            return _unmet(name, f" is {setting.write(getattr(there, name))!r} here")
    no = wanted.objection
    return None if no is None else Refused(Refusal.PRECONDITION_NOT_MET, no.reason)


def _unmet(name: str, rest: str) -> Refused:
    return Refused(Refusal.PRECONDITION_NOT_MET, name + rest, setting=name)


def _as_text(value: Value) -> str:
    """Return a value as text: typed values have the same bounds as texts."""
    if isinstance(value, bool):
        return _write_boolean(value)
    text = _write_or_max(value) if value is None else str(value)
    if "\0" in text:
        raise BadValueError("a NUL character is not allowed")  # not every store can keep it
    return text


def _refuse_value(name: str, setting: Setting, problem: ValueError) -> Refused:
    if name == "access_model":
        words = f"{name}: {', '.join(setting.options)}"
        return Refused(Refusal.UNSUPPORTED_ACCESS_MODEL, words, setting=name)
    if isinstance(problem, BadValueError):
        return _refuse(name, f": {problem}")
    return _refuse(name, f": one of {', '.join(setting.options)}")


def refit(node: Node, after: NodeConfig) -> Refused | None:
    """Return why a node in use cannot have these settings: its mode cannot change while it has items."""
    if after.queueing != node.config.queueing and (node.items or node.subscriptions):
        return _refuse(
            "queueing", " can change only while the node has no items and no subscribers"
        )
    if after.queueing and node.config.feeds:
        return _refuse(
            "queueing", f" cannot change while the node feeds {len(node.config.feeds)} queues"
        )
    if after.dead_letter_node == node.name:
        return Refused(Refusal.INVALID_CONFIG, "a node cannot be its own dead-letter node")
    return None


def _refuse(name: str, rest: str) -> Refused:
    """Refuse with a sentence that begins with the name of the setting."""
    return Refused(Refusal.INVALID_CONFIG, name + rest, setting=name)


# Labels of a node: a setting that is text, `name=value` on each line, in the order of the names.

OWN: Final = "x-pubqueue-"
"""The prefix of labels of the service's own. Users cannot have such labels."""

PUSHED: Final = f"{OWN}push"
"""The label of nodes whose items are pushed by the service; only the service itself writes it."""

MAX_LENGTH: Final = 32_768
"""Characters of all labels of a node."""

MAX_NAME_LENGTH: Final = 255
"""Characters of a name."""


class LabelError(ValueError):
    """Text that is not labels; the message says what is expected."""


def read(text: str) -> dict[str, str]:
    """Return labels by their names.

    Raises:
        LabelError: a line is not `name=value`, a name occurs twice, or there is too much.

    """
    if len(text) > MAX_LENGTH:
        raise LabelError(f"at most {MAX_LENGTH} characters")
    found: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        name, sign, value = line.partition("=")
        if not sign or not name or len(name) > MAX_NAME_LENGTH or not is_clean(line):
            raise LabelError("each line is name=value")
        if name in found:
            raise LabelError(f"{name!a} occurs twice")
        found[name] = value
    return found


def written_labels(labels: Mapping[str, str]) -> str:
    """Return labels as the text of the setting."""
    return "\n".join(f"{name}={value}" for name, value in sorted(labels.items()))


def all_of(text: str) -> dict[str, str]:
    """Return labels by their names; none if another program has written other text there."""
    try:
        return read(text)
    except LabelError:
        return {}


def _relabelled(config: NodeConfig, wanted: Labels | None) -> dict[str, Value]:
    if wanted is None:
        return {}
    stays = all_of(config.labels)
    if wanted.instead:
        stays = {name: value for name, value in stays.items() if name.startswith(OWN)}
    given = {**stays, **wanted.values}
    return {
        "labels": written_labels(
            {name: value for name, value in given.items() if value is not None}
        )
    }
