"""Labels of values, and of fields that have only one, in forms: in plain words, for people who fill them in."""

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
    "never":       "never",
    "on_sub":      "when an account subscribes",
    "normal":      "a message that servers keep for offline subscribers",
    "headline":    "a message for online subscribers only",
    "publisher":   "its publisher",
    "none":        "nobody",
}
"""Of values to choose from; one that is not here is shown as it is."""

FIELDS: Final[dict[str, str]] = {
    "pubsub#node_type":                "Type of the node",
}
"""Of fields that always have the same value."""
# fmt: on
