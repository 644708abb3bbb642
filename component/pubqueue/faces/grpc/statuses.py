"""The end of a call that failed: a code of gRPC and a sentence. One table has the code of each refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpc import StatusCode

from pubqueue.model.decision import Refusal, Refused, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping


class CallError(Exception):
    """The end of a call that failed. `reasons` are those of single ack ids."""

    def __init__(
        self, code: StatusCode, message: str, reasons: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.reasons = code, message, reasons or {}


_ABSENT: Final = StatusCode.NOT_FOUND
_THERE: Final = StatusCode.ALREADY_EXISTS
_WRONG: Final = StatusCode.INVALID_ARGUMENT
_BARRED: Final = StatusCode.PERMISSION_DENIED
_UNFIT: Final = StatusCode.FAILED_PRECONDITION
_FULL: Final = StatusCode.RESOURCE_EXHAUSTED
_LATER: Final = StatusCode.UNAVAILABLE
_OURS: Final = StatusCode.INTERNAL

# fmt: off
CODES: Final[Mapping[Refusal, StatusCode]] = {
    Refusal.NODE_NOT_FOUND:           _ABSENT,
    Refusal.MOVED:                    _ABSENT,
    Refusal.CLOSED_NODE:              _ABSENT,
    Refusal.NOT_A_QUEUE:              _ABSENT,  # it has no subscription of the name
    Refusal.NODE_EXISTS:              _THERE,
    Refusal.BAD_REQUEST:              _WRONG,
    Refusal.INVALID_CONFIG:           _WRONG,
    Refusal.INVALID_OPTIONS:          _WRONG,
    Refusal.UNSUPPORTED_ACCESS_MODEL: _WRONG,
    Refusal.PAYLOAD_TOO_BIG:          _WRONG,
    Refusal.HEADERS_TOO_BIG:          _WRONG,
    Refusal.TOO_MANY_ITEMS:           _WRONG,
    Refusal.WRONG_PAYLOAD:            _WRONG,
    Refusal.PAYLOAD_REQUIRED:         _WRONG,
    Refusal.ITEM_REQUIRED:            _WRONG,
    Refusal.ITEM_FORBIDDEN:           _WRONG,
    Refusal.FORBIDDEN:                _BARRED,
    Refusal.NOT_YOURS:                _BARRED,
    Refusal.FOREIGN_JID:              _BARRED,
    Refusal.PENDING_SUBSCRIPTION:     _BARRED,
    Refusal.NOT_APPROVED:             _BARRED,
    Refusal.NO_PRESENCE_SUBSCRIPTION: _BARRED,
    Refusal.NOT_IN_ROSTER_GROUP:      _BARRED,
    Refusal.PRECONDITION_NOT_MET:     _UNFIT,
    Refusal.CONFIGURATION_REQUIRED:   _UNFIT,
    Refusal.PUBLISH_PAUSED:           _UNFIT,
    Refusal.UNSUPPORTED:              _UNFIT,
    Refusal.ITEM_EXISTS:              _UNFIT,
    Refusal.ITEM_LOCKED:              _UNFIT,
    Refusal.ITEM_NOT_FOUND:           _UNFIT,  # of an ack: see `settling`
    Refusal.LOCKED_BY_ANOTHER:        _UNFIT,
    Refusal.LOCK_LOST:                _UNFIT,
    Refusal.LAST_OWNER:               _UNFIT,
    Refusal.NOT_SUBSCRIBED:           _UNFIT,
    Refusal.NOT_ALL_CHANGED:          _UNFIT,
    Refusal.NODE_FULL:                _FULL,
    Refusal.TOO_MANY_NODES:           _FULL,
    Refusal.TOO_MUCH_KEPT:            _FULL,
    Refusal.TOO_MANY_SUBSCRIPTIONS:   _FULL,
    Refusal.STILL_NOTIFYING:          _FULL,
    Refusal.TOO_MUCH_STAGED:          _FULL,
    Refusal.TOO_MANY_WAITING:         _FULL,
    Refusal.TOO_MANY_KEYS:            _FULL,
    Refusal.WINDOW_FULL:              _FULL,
    Refusal.TOO_MANY_SIGNALS:         _FULL,
    Refusal.STORE_FAILED:             _LATER,
    # no call can cause these: a request of ours was wrong
    Refusal.SUBID_REQUIRED:           _OURS,
    Refusal.INVALID_SUBID:            _OURS,
    Refusal.NOT_AS_STAGED:            _OURS,
    Refusal.KEY_REUSED:               _OURS,
    Refusal.NOT_TRUSTED:              _OURS,
    Refusal.TOO_MUCH_HELD:            _OURS,
    Refusal.UNKNOWN_MESSAGE:          _OURS,
    Refusal.INTERNAL_FAULT:           _OURS,
}
# fmt: on
"""The code of each refusal."""

NOT_AUTHORIZED: Final = "User not authorized to perform this action."
STOPPING: Final = CallError(_LATER, "The service is stopping; try again.")
UNKNOWN_CALLER: Final = CallError(
    StatusCode.UNAUTHENTICATED, "The credentials are missing or not valid."
)


def problem_of(refused: Refused, resource: str = "") -> CallError:
    """Return the end of a call whose request was refused; `resource` is the name of its subject."""
    code = CODES[refused.refusal]
    if code is _ABSENT:
        return not_found(resource)
    if code is _THERE:
        return CallError(code, f"Resource already exists in the project (resource={resource}).")
    if code is _BARRED:
        return CallError(code, NOT_AUTHORIZED)
    if code is _OURS:
        return CallError(code, "The service has met a fault of its own.")
    return CallError(code, in_words(refused))


def not_found(resource: str) -> CallError:
    """Return the end of a call about something that does not exist, or that the account may not know of."""
    return CallError(_ABSENT, f"Resource not found (resource={resource}).")


def invalid(message: str) -> CallError:
    """Return the end of a call with an invalid argument."""
    return CallError(_WRONG, message)


def unfit(message: str) -> CallError:
    """Return the end of a call that does not fit the existing state."""
    return CallError(_UNFIT, message)


def unimplemented(what: str) -> CallError:
    """Return the end of a call with a field, or of an rpc, that is not supported."""
    return CallError(StatusCode.UNIMPLEMENTED, f"{what} is not supported.")
