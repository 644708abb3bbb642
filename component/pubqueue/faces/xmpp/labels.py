"""What values, and fields that have only one, are called in forms: in plain words, for people who fill them in."""

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
    "reject":      "refuse",
    "never":       "never",
    "on_sub":      "when somebody subscribes",
    "normal":      "a message that is kept for who is away",
    "headline":    "a message for who is there",
}
"""Of values to choose from; one that is not here is shown as it is."""

FIELDS: Final[dict[str, str]] = {
    "pubsub#node_type":                "What the node is",
    "pubsub#persist_items":            "Keep items",
    "pubsub#deliver_payloads":         "Deliver payloads",
    "pubsub#publish_node_full":        "What to do when the node is full",
    "pubsub#send_last_published_item": "Send the last item to who subscribes",
}
"""Of fields that always have the same value."""
# fmt: on
