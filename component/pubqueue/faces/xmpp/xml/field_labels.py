"""Labels of values, and of fields that have only one, in forms: in plain words, for people who fill them in."""

from __future__ import annotations

from typing import Final

# fmt: off
VALUES: Final[dict[str, str]] = {
    "open":        "everybody",
    "whitelist":   "members, publishers and owners",
    "authorize":   "whom an owner lets in",
    "presence":    "contacts of the owner",
    "roster":      "contacts of the owner in some groups",
    "publishers":  "publishers and owners",
    "subscribers": "subscribers, publishers and owners",
    "leaf":        "a node with items",
    "reject":         "refuse the new item",
    "retract-oldest": "drop the oldest item, and say so",
    "discard-oldest": "drop the oldest item without a word",
    "never":       "never",
    "on_sub":      "when somebody subscribes",
    "normal":      "a message that is kept for who is away",
    "headline":    "a message for who is there",
    "publisher":   "its publisher",
    "none":        "nobody",
}
"""Of values to choose from; one that is not here is shown as it is."""

FIELDS: Final[dict[str, str]] = {
    "pubsub#node_type":                "What the node is",
}
"""Of fields that always have the same value."""
# fmt: on
