"""Push configs as clients set them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpc import StatusCode

from pubqueue.faces.grpc.push import endpoints
from pubqueue.faces.grpc.wire.statuses import NOT_AUTHORIZED, CallError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def checked(endpoint: str, attributes: Mapping[str, str], push_to: Iterable[str]) -> str | None:
    """Return the mark of a push config, None for none.

    Raises:
        CallError: it is not an endpoint, or one that may not be called.

    """
    if endpoint:
        try:
            found = endpoints.read(endpoint)
        except endpoints.EndpointError as problem:
            raise invalid(f"push_config: {problem}") from None
        if not endpoints.is_allowed(found, push_to):
            raise CallError(StatusCode.PERMISSION_DENIED, NOT_AUTHORIZED)
    return endpoints.written(endpoint, dict(attributes))
