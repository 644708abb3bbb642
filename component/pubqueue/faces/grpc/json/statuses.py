"""What a request ends with when it fails: the code of HTTP, and the error as Google's clients of JSON read it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpc import StatusCode

if TYPE_CHECKING:
    from collections.abc import Mapping

# fmt: off
HTTP: Final[Mapping[StatusCode, int]] = {
    StatusCode.OK:                  200,
    StatusCode.CANCELLED:           499,
    StatusCode.UNKNOWN:             500,
    StatusCode.INVALID_ARGUMENT:    400,
    StatusCode.DEADLINE_EXCEEDED:   504,
    StatusCode.NOT_FOUND:           404,
    StatusCode.ALREADY_EXISTS:      409,
    StatusCode.PERMISSION_DENIED:   403,
    StatusCode.UNAUTHENTICATED:     401,
    StatusCode.RESOURCE_EXHAUSTED:  429,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.ABORTED:             409,
    StatusCode.OUT_OF_RANGE:        400,
    StatusCode.UNIMPLEMENTED:       501,
    StatusCode.INTERNAL:            500,
    StatusCode.UNAVAILABLE:         503,
    StatusCode.DATA_LOSS:           500,
}
# fmt: on
"""The code of HTTP for each code of gRPC (google/rpc/code.proto)."""


def error(code: StatusCode, message: str, status: int | None = None) -> dict[str, object]:
    """Return the body of an answer that says why a request has failed; `status` if HTTP has a closer one."""
    number = HTTP[code] if status is None else status
    return {"error": {"code": number, "message": message, "status": code.name}}
