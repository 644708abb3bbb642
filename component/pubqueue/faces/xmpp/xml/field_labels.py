"""Labels in forms, for values and for fields with a fixed value."""

from __future__ import annotations

from typing import Final

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
    "never":       "never",
    "on_sub":      "when an account subscribes",
    "normal":      "a message that servers keep for offline subscribers",
    "headline":    "a message for online subscribers only",
    "publisher":   "its publisher",
    "none":        "nobody",
    "":               "as the queue is set",
    "unacknowledged": "as messages, which are not answered",
    "acknowledged":   "in requests that the client answers",
    "assured":        "in requests that the client answers, before it may use them",
}
"""Labels of the values of a choice; a value without a label is its own label."""

FIELDS: Final[dict[str, str]] = {
    "pubsub#node_type":                "Type of the node",
}
"""Labels of fields with a fixed value."""
# fmt: on
