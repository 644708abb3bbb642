"""The settings of a node: one table of form fields, read both ways (XEP-0060 16.4.4).

Fields of our own begin with `x-` (XEP-0068 3.4). A field that is not in the table is refused, and so
is a value that the service would not act on: nothing is accepted and then ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.decision import (
    Refusal,
    Refused,
)
from pubqueue.core.model import AccessModel, NodeConfig, PublishModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pubqueue.core.model import Node

MAX_PAYLOAD: Final = 262_144
"""Bytes. Above it servers would refuse the stanza anyway (Prosody and ejabberd: 256 KiB)."""

DAY: Final = 86_400
YEAR: Final = 366 * DAY


class BadValueError(ValueError):
    """A value that its field cannot take; the message says what it can."""


class Field(Struct, frozen=True, gc=False):
    """A field of the form: how it is shown, how its value is read, how it is written."""

    var: str
    type: str
    label: str
    attribute: str
    read: Callable[[str], object]
    write: Callable[[Any], str] = str
    options: tuple[str, ...] = ()


def read_boolean(text: str) -> bool:
    """Read an XEP-0004 boolean: 0, 1, true, false."""
    match text.strip():
        case "1" | "true":
            return True
        case "0" | "false":
            return False
        case _:
            raise BadValueError("a boolean is needed: 0 or 1")


def _write_boolean(value: bool) -> str:  # noqa: FBT001  # a writer takes the value and nothing else
    return "1" if value else "0"


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        digits = text.strip()
        known = digits.isascii() and digits.isdigit() and len(digits) <= len(str(high))
        if not known or not low <= int(digits) <= high:
            raise BadValueError(f"a whole number from {low} to {high} is needed")
        return int(digits)

    return read


def _whole_or_max(low: int, high: int) -> Callable[[str], int | None]:
    whole = _whole(low, high)

    def read(text: str) -> int | None:
        return None if text.strip() == "max" else whole(text)

    return read


def _write_or_max(value: int | None) -> str:
    return "max" if value is None else str(value)


def _text(text: str) -> str:
    if len(text) > 1023:  # noqa: PLR2004  # the bound of a NodeID too (RFC 7622 3.4)
        raise BadValueError("at most 1023 characters")
    return text


def _models(kind: type[AccessModel | PublishModel]) -> tuple[str, ...]:
    return tuple(model.value for model in kind)


# fmt: off
FIELDS: Final[tuple[Field, ...]] = (
    Field("pubsub#title", "text-single", "A short name for the node", "title", _text),
    Field("pubsub#description", "text-single", "What the node is for", "description", _text),
    Field("pubsub#type", "text-single", "The namespace of the payloads", "type", _text),
    Field("pubsub#access_model", "list-single", "Who may subscribe", "access_model", AccessModel, options=_models(AccessModel)),
    Field("pubsub#publish_model", "list-single", "Who may publish", "publish_model", PublishModel, options=_models(PublishModel)),
    Field("pubsub#max_items", "text-single", "How many items it may hold, or max", "max_items", _whole_or_max(1, 10**12), _write_or_max),
    Field("pubsub#max_payload_size", "text-single", "Bytes of a payload", "max_payload_size", _whole(1, MAX_PAYLOAD)),
    Field("pubsub#item_expire", "text-single", "Seconds until an item that nobody holds is dead, or max", "item_expire", _whole_or_max(1, 100 * YEAR), _write_or_max),
    Field("pubsub#notify_retract", "boolean", "Tell subscribers of retracted items", "notify_retract", read_boolean, _write_boolean),
    Field("pubsub#notify_delete", "boolean", "Tell subscribers when the node is deleted", "notify_delete", read_boolean, _write_boolean),
    Field("x-queueing#enabled", "boolean", "The node is a work queue", "queueing", read_boolean, _write_boolean),
    Field("x-queueing#lock_timeout", "text-single", "Seconds until a lock ends", "lock_timeout", _whole(1, YEAR)),
    Field("x-queueing#max_failures", "text-single", "Failures after which an item is dead", "max_failures", _whole(1, 10**6)),
    Field("x-queueing#dead_letter_node", "text-single", "Where dead items go; empty: they stay", "dead_letter_node", _text),
    Field("x-queueing#backoff_min", "text-single", "Seconds of the first pause after a failure", "backoff_min", _whole(0, DAY)),
    Field("x-queueing#backoff_max", "text-single", "Seconds of the longest pause", "backoff_max", _whole(0, DAY)),
    Field("x-queueing#dedup_window", "text-single", "Seconds for which the id of finished work absorbs a re-publish", "dedup_window", _whole(0, YEAR)),
    Field("x-queueing#max_queue_requests", "text-single", "Largest number of parallel requests of a subscriber", "max_queue_requests", _whole(1, 10**6)),
    Field("x-queueing#unsubscribe_on_unavailable", "boolean", "End the subscription of a worker that goes offline", "unsubscribe_on_unavailable", read_boolean, _write_boolean),
    Field("x-queueing#paused", "boolean", "Hand out nothing for now", "paused", read_boolean, _write_boolean),
    Field("x-queueing#publish_paused", "boolean", "Take in nothing for now", "publish_paused", read_boolean, _write_boolean),
    Field("x-queueing#event_log", "boolean", "Keep a log of what happens to items", "event_log", read_boolean, _write_boolean),
)

# XEP-0060 knows other values of these; work that must not be lost allows only this one (row 10a).
FIXED: Final[dict[str, tuple[str, str]]] = {
    "pubsub#node_type":                ("list-single", "leaf"),
    "pubsub#persist_items":            ("boolean",     "1"),
    "pubsub#deliver_payloads":         ("boolean",     "1"),
    "pubsub#publish_node_full":        ("list-single", "reject"),
    "pubsub#send_last_published_item": ("list-single", "never"),
}
# fmt: on

_BY_VAR: Final = {field.var: field for field in FIELDS}


def values(config: NodeConfig) -> dict[str, str]:
    """Return every field with its value, as the form shows it."""
    shown = {field.var: field.write(getattr(config, field.attribute)) for field in FIELDS}
    return shown | {var: value for var, (_, value) in FIXED.items()}


def configure(config: NodeConfig, form: Mapping[str, Sequence[str]]) -> NodeConfig | Refused:
    """Return the settings with the form's fields changed and all others kept (XEP-0004 3.5)."""
    changed: dict[str, object] = {}
    for var, given in form.items():
        if (no := _misfit(var, given)) is not None:
            return no
        if var in FIXED:
            continue
        field = _BY_VAR[var]
        try:
            changed[field.attribute] = field.read(given[0] if given else "")
        except ValueError as problem:
            return _refuse_value(field, problem)
    after = replace(config, **changed)
    if after.backoff_min > after.backoff_max:
        return Refused(Refusal.INVALID_CONFIG, "x-queueing#backoff_min is above backoff_max")
    return after


def _misfit(var: str, given: Sequence[str]) -> Refused | None:
    """Refuse what is no field of ours, or has several values, or a value we never act on."""
    if var not in _BY_VAR and var not in FIXED:
        return Refused(Refusal.INVALID_CONFIG, f"{var} is no setting of this service")
    if len(given) > 1:
        return Refused(Refusal.INVALID_CONFIG, f"{var} takes one value")
    if var == "pubsub#node_type" and list(given) == ["collection"]:
        return Refused(Refusal.COLLECTIONS_UNSUPPORTED)
    if var in FIXED:
        kind, only = FIXED[var]
        text = given[0].strip() if given else ""
        if kind == "boolean" and text in {"true", "false"}:
            text = "1" if text == "true" else "0"
        if text != only:
            return Refused(Refusal.INVALID_CONFIG, f"{var} is always {only} here")
    return None


def _refuse_value(field: Field, problem: ValueError) -> Refused:
    if field.attribute == "access_model":
        return Refused(Refusal.UNSUPPORTED_ACCESS_MODEL, f"{field.var}: {', '.join(field.options)}")
    if isinstance(problem, BadValueError):
        return Refused(Refusal.INVALID_CONFIG, f"{field.var}: {problem}")
    return Refused(Refusal.INVALID_CONFIG, f"{field.var}: one of {', '.join(field.options)}")


def refit(node: Node, after: NodeConfig) -> Refused | None:
    """Say why a node in use cannot take these settings: its mode cannot flip under its items."""
    if after.queueing != node.config.queueing and (node.items or node.subscriptions):
        return Refused(
            Refusal.INVALID_CONFIG,
            "x-queueing#enabled can change only while the node has no items and no subscribers",
        )
    if after.dead_letter_node == node.name:
        return Refused(Refusal.INVALID_CONFIG, "a node cannot be its own dead-letter node")
    return None
