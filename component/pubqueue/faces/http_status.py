"""The HTTP status of every refusal, for whatever answers over HTTP: the page, and faces that speak it."""

from __future__ import annotations

from typing import Final

from pubqueue.core.decision import Refusal

# fmt: off
STATUS: Final[dict[Refusal, int]] = {
    Refusal.NODE_NOT_FOUND:           404,
    Refusal.ITEM_NOT_FOUND:           404,
    Refusal.FORBIDDEN:                403,
    Refusal.NOT_YOURS:                403,
    Refusal.LOCKED_BY_ANOTHER:        412,
    Refusal.LOCK_LOST:                412,
    Refusal.ITEM_EXISTS:              409,
    Refusal.PUBLISH_PAUSED:           503,
    Refusal.NOT_A_QUEUE:              501,
    Refusal.NODE_EXISTS:              409,
    Refusal.NODE_FULL:                507,
    Refusal.TOO_MANY_ITEMS:           413,
    Refusal.PAYLOAD_TOO_BIG:          413,
    Refusal.HEADERS_TOO_BIG:          431,
    Refusal.ITEM_LOCKED:              409,
    Refusal.CLOSED_NODE:              403,
    Refusal.CONFIGURATION_REQUIRED:   400,
    Refusal.INVALID_OPTIONS:          400,
    Refusal.INVALID_CONFIG:           400,
    Refusal.UNSUPPORTED_ACCESS_MODEL: 400,
    Refusal.UNSUPPORTED:              501,
    Refusal.FOREIGN_JID:              403,
    Refusal.NOT_SUBSCRIBED:           404,
    Refusal.PENDING_SUBSCRIPTION:     403,
    Refusal.NO_PRESENCE_SUBSCRIPTION: 403,
    Refusal.NOT_IN_ROSTER_GROUP:      403,
    Refusal.NOT_APPROVED:             403,
    Refusal.NOT_ALL_CHANGED:          400,
    Refusal.TOO_MANY_SUBSCRIPTIONS:   429,
    Refusal.SUBID_REQUIRED:           400,
    Refusal.INVALID_SUBID:            400,
    Refusal.LAST_OWNER:               403,
    Refusal.BAD_REQUEST:              400,
    Refusal.TOO_MUCH_KEPT:            507,
    Refusal.TOO_MANY_NODES:           429,
    Refusal.TOO_MUCH_STAGED:          503,
    Refusal.STILL_NOTIFYING:            503,
    Refusal.NOT_AS_STAGED:            409,
    Refusal.PRECONDITION_NOT_MET:     409,
    Refusal.ITEM_REQUIRED:            400,
    Refusal.ITEM_FORBIDDEN:           400,
    Refusal.PAYLOAD_REQUIRED:         400,
    Refusal.MOVED:                    410,
    Refusal.WRONG_PAYLOAD:            400,
    Refusal.STORE_FAILED:             503,
    Refusal.INTERNAL_FAULT:           500,
}
# fmt: on
